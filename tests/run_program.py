"""Program of the kill campaign: runs a study until it is killed, and says the number of each trial that is finished.

``LOCATION SANDBOXED`` serves runs, see `benchmarks.forks`.
"""

import sys
import tempfile
import time

import numpy as np
from fakes import TreeOptimizer  # what it proposes depends on all results before

from benchmarks.forks import say, serve
from headstart import FunctionObjective, Limits, Outcome, Sandbox, Store, Study
from headstart.evaluation.synthetic import Synthetic
from headstart.testing.examples import live_task, small_space

inner = Synthetic(small_space(), 7)


def objective(pipeline, seed):
    time.sleep(0.0002 * (seed % 20))
    outcome = inner(pipeline, Limits(), seed)
    return Outcome.of(outcome.loss, artefacts={"predictions": np.full(200, outcome.loss)})


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


def main(location, sandboxed):
    with tempfile.TemporaryDirectory() as elsewhere:
        run(elsewhere, False, evaluations=2)  # imports all that a run needs
    serve(lambda line: run(location, sandboxed, [acknowledge], evaluations=10**6) or 1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "True")
