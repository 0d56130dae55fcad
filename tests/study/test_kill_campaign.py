"""SIGKILL at random moments loses nothing that was finished, and the run ends as if it had never been killed."""

import random
import runpy
import signal
from pathlib import Path

import numpy as np
import pytest
from fakes import TreeOptimizer

from benchmarks.forks import Server
from headstart.store import Store
from headstart.study import Study
from headstart.testing.examples import live_task

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")

PROGRAM = Path(__file__).parents[1] / "run_program.py"


@pytest.fixture(scope="module")
def program():
    """The program's names, for what is run here."""
    return runpy.run_path(str(PROGRAM))


def kill_once(server, rng):
    """Have a run started, kill it at a random moment, and return what it said was finished."""
    run = server.start()
    # Mostly while trials come in, after some of them, sometimes during the start or the replay of the log.
    trials = rng.randint(1, 6) if rng.random() < 0.8 else 0
    said = [run.line() for _ in range(trials)]
    said += run.kill(rng.uniform(0, 0.01 if trials else 0.15))
    assert run.code == -signal.SIGKILL
    return map(int, said)


@pytest.mark.parametrize(("sandboxed", "kills"), [(False, 85), (True, 15)])
def test_a_hundred_kills_lose_nothing(tmp_path, program, sandboxed, kills):
    rng = random.Random(11 + sandboxed)
    location = tmp_path / "store"
    finished = set()
    with Server(PROGRAM, location, sandboxed, paths=[PROGRAM.parent]) as process:
        for kill in range(kills):
            finished |= set(kill_once(process, rng))
            if kill % 10 == 0 or kill == kills - 1:
                with Store.open(location) as store:
                    if store.studies():
                        check(store, finished)
    assert len(finished) > kills, "the kills came before anything was finished"

    target = max(finished) + 10
    program["run"](location, False, evaluations=target)
    with Store.open(location) as store:
        trials = store.read_study("study").trials()
    straight = Study(live_task(), program["objective"], TreeOptimizer()).run(evaluations=target, n_jobs=2)
    assert [t.proposal for t in trials] == [t.proposal for t in straight]
    assert [t.outcome.loss for t in trials] == [t.outcome.loss for t in straight]
    # No artefact without a trial is left behind.
    files = [f for f in (location / "artefacts").rglob("*") if f.is_file()]
    assert len(files) == len(trials)


def check(store, finished):
    """All that was said to be finished is there, with its artefacts."""
    log = store.read_study("study")
    trials = {t.number: t for t in log.trials()}
    assert finished <= trials.keys()
    for number in finished:
        stored = log.artefact(number, "predictions")
        np.testing.assert_array_equal(stored, np.full(200, trials[number].outcome.loss))
