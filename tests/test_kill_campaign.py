"""SIGKILL at random moments loses nothing that was finished, and the run ends as if it had never been killed."""

import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fakes import TreeOptimizer

from headstart.store import Store
from headstart.study import Study
from headstart.testing.examples import live_task

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")

WORK = """
import sys, time
import numpy as np
from headstart import FunctionObjective, Limits, Outcome, Sandbox, Store, Study
from headstart.evaluation.synthetic import Synthetic
from headstart.testing.examples import live_task, small_space
from fakes import TreeOptimizer  # cheap to import, and what it proposes depends on all results before

inner = Synthetic(small_space(), 7)

def objective(pipeline, seed):
    time.sleep(0.0002 * (seed % 20))
    outcome = inner(pipeline, Limits(), seed)
    return Outcome.of(outcome.loss, artefacts={"predictions": np.full(200, outcome.loss)})

def acknowledge(study, trial):
    print(trial.number, flush=True)

def run(location, sandboxed, **budget):
    function = FunctionObjective(objective)
    with Store.open(location) as store:
        study = Study(
            live_task(), Sandbox(function) if sandboxed else function, TreeOptimizer(),
            store=store, resume=True, callbacks=[acknowledge],
        )
        study.run(n_jobs=2, **budget)
"""


def kill_once(location, sandboxed, rng):
    """Start a run, kill it at a random moment, and return what it said was finished."""
    code = f"{WORK}\nrun({str(location)!r}, {sandboxed}, evaluations=10**6)"
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True, env=environment
    )
    said = b""
    # Mostly while trials come in, sometimes during the start or the replay of the log.
    if rng.random() < 0.8:
        select.select([process.stdout], [], [], 30)
    time.sleep(rng.uniform(0, 0.15))
    process.send_signal(signal.SIGKILL)
    said = process.stdout.read()
    assert process.wait() == -signal.SIGKILL
    return [int(line) for line in said.split(b"\n")[:-1]]


@pytest.mark.parametrize(("sandboxed", "kills"), [(False, 85), (True, 15)])
def test_a_hundred_kills_lose_nothing(tmp_path, sandboxed, kills):
    rng = random.Random(11 + sandboxed)
    location = tmp_path / "store"
    finished = set()
    for kill in range(kills):
        finished |= set(kill_once(location, sandboxed, rng))
        if kill % 10 == 0 or kill == kills - 1:
            with Store.open(location) as store:
                if store.studies():
                    check(store, finished)
    assert len(finished) > kills, "the kills came before anything was finished"

    target = max(finished) + 10
    namespace = {}
    exec(WORK, namespace)
    namespace["run"](location, False, evaluations=target)
    with Store.open(location) as store:
        trials = store.read_study("study").trials()
    straight = Study(live_task(), namespace["objective"], TreeOptimizer()).run(evaluations=target, n_jobs=2)
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
