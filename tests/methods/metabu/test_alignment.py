"""The fused Gromov-Wasserstein loss, its derivative, its plan, and the map."""

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

from headstart.methods.metabu.alignment import align, fused_loss, transport_plan


def cloud(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def some_plan(p, n):
    return ot.sinkhorn(np.full(p, 1 / p), np.full(n, 1 / n), np.random.default_rng(5).random((p, n)), 0.3)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_loss_is_the_sum_over_all_pairs_of_pairs(alpha):
    points, targets, plan = cloud(4, 2), cloud(3, 2, 1), some_plan(4, 3)
    total = 0.0
    for i in range(4):
        for j in range(3):
            total += (1 - alpha) * plan[i, j] * np.linalg.norm(points[i] - targets[j])
            for k in range(4):
                for m in range(3):
                    gap = np.linalg.norm(points[i] - points[k]) - np.linalg.norm(targets[j] - targets[m])
                    total += alpha * plan[i, j] * plan[k, m] * gap**2
    assert fused_loss(points, targets, plan, alpha)[0] == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_derivative_by_finite_differences(alpha):
    points, targets, plan = cloud(5, 3), cloud(4, 3, 1), some_plan(5, 4)
    _, slope = fused_loss(points, targets, plan, alpha)
    step = 1e-6
    for i in range(5):
        for j in range(3):
            moved = np.zeros_like(points)
            moved[i, j] = step
            up, down = (fused_loss(points + sign * moved, targets, plan, alpha)[0] for sign in (1, -1))
            assert slope[i, j] == pytest.approx((up - down) / (2 * step), abs=1e-6)


def test_derivative_is_finite_where_points_coincide():
    points = np.zeros((4, 2))
    loss, slope = fused_loss(points, points.copy(), np.eye(4) / 4, 0.5)
    assert loss == 0.0
    np.testing.assert_array_equal(slope, 0.0)


@pytest.mark.parametrize("alpha", [0.2, 0.5])
def test_plan_and_loss_are_those_of_pot(alpha):
    """Both take proximal steps of the same weight; POT has its own Sinkhorn iterations."""
    points, targets = cloud(6, 2), cloud(5, 2, 1)
    p, q = np.full(6, 1 / 6), np.full(5, 1 / 5)
    own, other, across = cdist(points, points), cdist(targets, targets), cdist(points, targets)
    plan = transport_plan(points, targets, p, alpha, steps=300, iterations=300)
    theirs = ot.gromov.entropic_fused_gromov_wasserstein(
        across, own, other, p, q, "square_loss", 0.1, alpha=alpha, solver="PPA", max_iter=300, tol=1e-12
    )
    np.testing.assert_allclose(plan, theirs, atol=1e-4)
    exact, log = ot.gromov.fused_gromov_wasserstein(across, own, other, p, q, alpha=alpha, G0=plan, log=True)
    assert fused_loss(points, targets, exact, alpha)[0] == pytest.approx(log["fgw_dist"], rel=1e-9)
    assert fused_loss(points, targets, plan, alpha)[0] == pytest.approx(log["fgw_dist"], rel=1e-3)


def test_plan_has_its_marginals_after_the_usual_number_of_steps():
    plan = transport_plan(cloud(12, 3), cloud(6, 3, 1), np.full(12, 1 / 12), 0.5)
    np.testing.assert_allclose(plan.sum(axis=1), 1 / 12, rtol=1e-6)
    np.testing.assert_allclose(plan.sum(axis=0), 1 / 6, rtol=0.2)


def test_plan_finds_which_point_is_which():
    targets = cloud(8, 3)
    order = np.random.default_rng(1).permutation(8)
    plan = transport_plan(targets[order], targets, np.full(8, 1 / 8), 0.5)
    np.testing.assert_array_equal(plan.argmax(axis=1), order)


def test_fgw_moves_mass_off_the_known_pairs_and_matched_does_not():
    features, targets, owner = cloud(20, 5), cloud(20, 3, 1), np.arange(20)
    matched = align(features, targets, owner, coupling="matched")
    np.testing.assert_array_equal(matched.plan, np.eye(20) / 20)
    moved = align(features, targets, owner, coupling="fgw")
    assert np.trace(moved.plan) < 0.6
    assert moved.plan.sum() == pytest.approx(1.0)
    points = features @ moved.weights + moved.bias
    assert fused_loss(points, targets, moved.plan, 0.5)[0] < fused_loss(points, targets, matched.plan, 0.5)[0]


def test_a_linear_relation_is_found():
    """More points than features: new ones are mapped to where they belong; a blurred plan makes distances shorter."""
    truth = cloud(4, 2, 3)
    features, new = cloud(60, 4, 4), cloud(10, 4, 5)
    matched, moved = (
        align(features, features @ truth, np.arange(60), coupling=coupling, penalty=0.0, steps=400)
        for coupling in ("matched", "fgw")
    )
    np.testing.assert_allclose(new @ matched.weights + matched.bias, new @ truth, atol=0.1)
    distances = [cdist(points, points).ravel() for points in (new @ moved.weights, new @ truth)]
    assert np.corrcoef(distances)[0, 1] > 0.9


def test_penalty_makes_weights_small():
    features, targets = cloud(30, 20), cloud(30, 2, 1)
    light, heavy = (align(features, targets, np.arange(30), penalty=penalty) for penalty in (1e-3, 0.1))
    assert np.abs(heavy.weights).sum() < 0.5 * np.abs(light.weights).sum()


def test_a_task_counts_the_same_however_many_rows_it_has():
    features, targets = cloud(10, 3), cloud(10, 2, 1)
    once = align(features, targets, np.arange(10))
    again = np.concatenate([np.arange(10), [4, 4, 7]])
    more = align(features[again], targets, again)
    np.testing.assert_allclose(more.weights, once.weights, atol=1e-8)
    np.testing.assert_allclose(more.bias, once.bias, atol=1e-8)


def test_wide_and_tall_ridge_starts_agree():
    from headstart.methods.metabu.alignment import _ridge

    features, targets, rows = cloud(6, 6), cloud(6, 2, 1), np.full(6, 1 / 6)
    weights, bias = _ridge(features, targets, rows)
    padded, _ = _ridge(np.column_stack([features, np.zeros((6, 5))]), targets, rows)
    np.testing.assert_allclose(padded[:6], weights, atol=1e-9)
    np.testing.assert_allclose((features @ weights + bias).mean(axis=0), targets.mean(axis=0), atol=1e-9)
