"""SIGKILL at random moments loses nothing that was finished, and the run ends as if it had never been killed."""

import os
import random
import runpy
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from fakes import TreeOptimizer

from headstart.store import Store
from headstart.study import Study
from headstart.testing.examples import live_task

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")

PROGRAM = Path(__file__).parents[1] / "run_program.py"


@pytest.fixture(scope="module")
def program():
    """The program's names, for what is run here."""
    return runpy.run_path(str(PROGRAM))


@contextmanager
def server(location, sandboxed):
    """A process that has imported all there is to import and forks a run when it is told to."""
    paths = os.pathsep.join([str(PROGRAM.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(location), str(sandboxed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
        env={**os.environ, "PYTHONPATH": paths},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def kill_once(server, rng):
    """Have a run started, kill it at a random moment, and return what it said was finished."""
    server.stdin.write("go\n")
    _, pid = server.stdout.readline().split()
    said = []
    # Mostly while trials come in, after some of them, sometimes during the start or the replay of the log.
    trials = rng.randint(1, 6) if rng.random() < 0.8 else 0
    for _ in range(trials):
        said.append(int(server.stdout.readline()))
    time.sleep(rng.uniform(0, 0.01 if trials else 0.15))
    os.kill(int(pid), signal.SIGKILL)
    while not (line := server.stdout.readline().strip()).startswith("ended"):
        said.append(int(line))
    assert line == f"ended {-signal.SIGKILL}"
    return said


@pytest.mark.parametrize(("sandboxed", "kills"), [(False, 85), (True, 15)])
def test_a_hundred_kills_lose_nothing(tmp_path, program, sandboxed, kills):
    rng = random.Random(11 + sandboxed)
    location = tmp_path / "store"
    finished = set()
    with server(location, sandboxed) as process:
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
