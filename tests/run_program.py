"""Program of the kill campaign: runs a study until it is killed.

``LOCATION SANDBOXED`` forks a run at each line of its input, so that a test can kill many of them without waiting for
imports. Each line of output is the number of a trial that is finished, ``pid ...`` at a start or ``ended ...`` with the
exit code.
"""

import os
import sys
import tempfile
import time
import traceback

import numpy as np
from fakes import TreeOptimizer  # what it proposes depends on all results before

from headstart import FunctionObjective, Limits, Outcome, Sandbox, Store, Study
from headstart.evaluation.synthetic import Synthetic
from headstart.testing.examples import live_task, small_space

inner = Synthetic(small_space(), 7)


def objective(pipeline, seed):
    time.sleep(0.0002 * (seed % 20))
    outcome = inner(pipeline, Limits(), seed)
    return Outcome.of(outcome.loss, artefacts={"predictions": np.full(200, outcome.loss)})


def say(text):
    os.write(1, f"{text}\n".encode())  # one write, whole or not at all


def acknowledge(study, trial):
    say(trial.number)


def run(location, sandboxed, callbacks=(), **budget):
    function = FunctionObjective(objective)
    with Store.open(location) as store:
        study = Study(
            live_task(),
            Sandbox(function) if sandboxed else function,
            TreeOptimizer(),
            store=store,
            resume=True,
            callbacks=callbacks,
        )
        study.run(n_jobs=2, **budget)


def serve(location, sandboxed):
    with tempfile.TemporaryDirectory() as elsewhere:
        run(elsewhere, False, evaluations=2)  # imports all that a run needs
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                say(f"pid {os.getpid()}")
                run(location, sandboxed, [acknowledge], evaluations=10**6)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        say(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2] == "True")
