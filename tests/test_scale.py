"""`benchmarks/scale.py` and its simulation: what is counted, against cases that can be worked out; the page."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from benchmarks import scale
from benchmarks.simulation import simulate
from headstart.testing.examples import small_meta


@pytest.fixture(scope="module")
def meta():
    return small_meta(n_tasks=3, n_pipelines=200, missing=0.0)


@pytest.mark.parametrize("workers", [1, 4, 20])
def test_workers_with_free_suggestions_are_always_busy(meta, workers):
    """With 1 s for each of 40 evaluations: 40 / workers rounds."""
    found = simulate(meta, 0, "random", workers, 40, lambda _: 1.0, timed=False)
    assert found.busy == pytest.approx(1.0)
    np.testing.assert_allclose(found.times, np.repeat(np.arange(1, 40 // workers + 1), workers))
    rounds = 40 // workers
    began = 40 - workers  # before the last round
    assert found.suggestions == pytest.approx(began / (rounds - 1))
    assert found.transactions == pytest.approx((began + (rounds - 1) * workers) / (rounds - 1))
    assert (np.diff(found.regrets) <= 0).all()
    assert found.regrets[-1] >= 0
    assert found.time_to(found.regrets[0]) == 1.0
    assert found.time_to(-1.0) == np.inf


def test_one_worker_finds_what_a_study_finds(meta):
    """Virtual time changes nothing of the search."""
    from headstart.evaluation.recorded import Replay, recorded_task
    from headstart.study import Study

    history = Study(recorded_task(meta, 1), Replay(meta, 1), "forest", seed=3).run(evaluations=15)
    losses = np.minimum.accumulate([trial.outcome.loss for trial in history])
    found = simulate(meta, 1, "forest", 1, 15, lambda _: 1.0, seed=3, timed=False)
    np.testing.assert_array_equal(found.regrets, losses - meta.loss_row(1).min())


def test_suggestions_take_time(meta):
    """With evaluations of a microsecond the suggestions are what is waited for."""
    found = simulate(meta, 0, "random", 10, 40, lambda _: 1e-6)
    assert found.busy < 0.5
    assert found.suggestions <= 10 * found.possible


@pytest.mark.skipif(not scale.DATA.exists(), reason="nothing was measured")
def test_the_page_has_what_was_measured():
    text = scale.PAGE.read_text(encoding="utf-8")
    assert scale.page(text, json.loads(scale.DATA.read_text())) == text
    assert set(re.findall(r"<!-- (\w+) -->", text)) == {"fits", "store", "simulation", "end"}


def test_cells():
    assert [scale.shown(value) for value in (3, "x", 1234.5, 0.123, float("inf"))] == [
        "3",
        "x",
        "1234",
        "0.12",
        "never",
    ]
