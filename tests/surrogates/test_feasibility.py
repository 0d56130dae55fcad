"""The probability that constraints hold, against closed forms and simulation."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from headstart.constraints import Constraint
from headstart.history import History
from headstart.numerics.forest import Forest
from headstart.surrogates.feasibility import Feasibility
from headstart.testing.examples import failed, live_task, random_trials

TASK = live_task()
CANDIDATES = TASK.candidates.sample(np.random.default_rng(5), 30)
BOUNDS = (Constraint("seconds", 2.0), Constraint("gap", 0.1))


def measured(trials, **values):
    return [
        replace(t, outcome=replace(t.outcome, constraints={k: float(v[i]) for k, v in values.items() if v[i] == v[i]}))
        for i, t in enumerate(trials)
    ]


def history(trials, constraints=BOUNDS, pending=()):
    found = History(TASK.candidates, constraints=constraints)
    for trial in trials:
        found.add(trial)
    for proposal in pending:
        found.propose(proposal)
    return found


TRIALS = random_trials(TASK, 24, failing=0.0)
RNG = np.random.default_rng(3)
SECONDS, GAPS = np.exp(RNG.normal(0.5, 1.0, 24)), RNG.normal(0.0, 0.2, 24)  # gaps are below 0 too: no logarithms


def forest(values, trials=TRIALS):
    inputs = TASK.candidates.encode([t.pipeline for t in trials]).features(-1.0)
    return Forest(min_samples_leaf=2, std_floor=0.05).fit(inputs, values).posterior(CANDIDATES.features(-1.0))


def test_is_the_product_of_normal_probabilities_in_log_units_where_values_are_positive():
    found = Feasibility(history(measured(TRIALS, seconds=SECONDS, gap=GAPS))).log_probability(CANDIDATES)
    in_logs, plain = forest(np.log(SECONDS)), forest(GAPS)
    np.testing.assert_allclose(found, norm.logcdf(np.log(2.0), *in_logs) + norm.logcdf(0.1, *plain), rtol=1e-9)


def test_agrees_with_simulation():
    found = Feasibility(history(measured(TRIALS, seconds=SECONDS, gap=GAPS))).log_probability(CANDIDATES)
    rng = np.random.default_rng(0)
    (m1, s1), (m2, s2) = forest(np.log(SECONDS)), forest(GAPS)
    drawn = [rng.normal(m, s, (200_000, len(CANDIDATES))) for m, s in ((m1, s1), (m2, s2))]
    share = ((np.exp(drawn[0]) <= 2.0) & (drawn[1] <= 0.1)).mean(axis=0)
    np.testing.assert_allclose(np.exp(found), share, atol=5e-3)


def test_what_was_not_measured_counts_as_the_worst_that_was():
    values = SECONDS.copy()
    values[[3, 8]] = np.nan
    trials = measured(TRIALS, seconds=values)
    trials[8] = failed(trials[8].proposal)
    filled = np.where(np.isnan(values), np.nanmax(values), values)
    expected = norm.logcdf(np.log(2.0), *forest(np.log(filled)))
    found = Feasibility(history(trials, BOUNDS[:1])).log_probability(CANDIDATES)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_missing_value_is_never_feasible_even_if_all_others_are():
    values = np.full(24, 0.5)
    values[:6] = np.nan
    expected = norm.logcdf(np.log(2.0), *forest(np.log(np.where(np.isnan(values), 2.0, values))))
    found = Feasibility(history(measured(TRIALS, seconds=values), BOUNDS[:1])).log_probability(CANDIDATES)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_pending_proposals_count_as_the_median():
    trials = measured(TRIALS, seconds=SECONDS)
    under_way = history(trials[:20], BOUNDS[:1], [t.proposal for t in trials[20:]])
    filled = np.append(np.log(SECONDS[:20]), np.full(4, np.median(np.log(SECONDS[:20]))))
    found = Feasibility(under_way).log_probability(CANDIDATES)
    np.testing.assert_allclose(found, norm.logcdf(np.log(2.0), *forest(filled)), rtol=1e-9)


@pytest.mark.parametrize("bound", [-1.0, 0.0, np.inf, -np.inf, 1e-300])
@pytest.mark.parametrize("n", [0, 1, 2, 24])
def test_is_finite_whatever_was_seen(bound, n):
    for trials in (measured(TRIALS[:n], gap=GAPS), [failed(t.proposal) for t in TRIALS[:n]]):
        for pending in ([], [t.proposal for t in TRIALS[:3]]):
            found = Feasibility(history(trials, [Constraint("gap", bound)], pending)).log_probability(CANDIDATES)
            assert found.shape == (30,)
            assert np.isfinite(found).all()
            assert (found <= 0).all()
