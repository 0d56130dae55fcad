"""What Headstart does today, on a table that comes with scikit-learn. Run: make demo

A search space in a few lines, a search under a time budget in a sandbox that keeps its limits, and a run that is killed
and goes on where it was.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import cross_val_score

from headstart import (
    Algorithm,
    Categorical,
    Float,
    Integer,
    Limits,
    Pipeline,
    PipelineSpace,
    Sandbox,
    Stage,
    Store,
    Study,
    Task,
    Trial,
)
from headstart.optimizers.bayes import Bayes

console = Console()

LIMITS = Limits(seconds=5, bytes=10**9)

SPACE = PipelineSpace(
    "demo",
    [
        Stage(
            "scaler",
            [
                Algorithm("none"),
                Algorithm("standard", "sklearn.preprocessing:StandardScaler"),
                Algorithm("quantile", "sklearn.preprocessing:QuantileTransformer", [Integer("n_quantiles", 10, 200)]),
            ],
        ),
        Stage(
            "reducer",
            [
                Algorithm("none"),
                Algorithm("pca", "sklearn.decomposition:PCA", [Float("n_components", 0.5, 0.999)]),
            ],
        ),
        Stage(
            "estimator",
            [
                Algorithm("logistic", "sklearn.linear_model:LogisticRegression", [Float("C", 1e-3, 1e3, log=True)]),
                Algorithm(
                    "svm",
                    "sklearn.svm:SVC",
                    [
                        Categorical("kernel", ("rbf", "poly")),
                        Float("C", 1e-2, 1e3, log=True),
                        Float("gamma", 1e-4, 1.0, log=True),
                        Integer("degree", 2, 4, when={"kernel": ("poly",)}),
                    ],
                ),
                Algorithm(
                    "knn",
                    "sklearn.neighbors:KNeighborsClassifier",
                    [Integer("n_neighbors", 1, 50, log=True), Categorical("weights", ("uniform", "distance"))],
                ),
                Algorithm("tree", "sklearn.tree:DecisionTreeClassifier", [Integer("max_depth", 1, 20)]),
            ],
        ),
    ],
)


class CrossValidation:
    """Mean log loss of a pipeline over five folds."""

    def __init__(self) -> None:
        self.table, self.target = load_breast_cancer(return_X_y=True)

    def __call__(self, pipeline: Pipeline, seed: int) -> float:
        model = SPACE.build(pipeline, seed)
        if pipeline.algorithms[-1] == "svm":
            from sklearn.calibration import CalibratedClassifierCV

            model = CalibratedClassifierCV(model, ensemble=False, cv=3)
        scores = cross_val_score(model, self.table, self.target, cv=5, scoring="neg_log_loss")
        return -float(scores.mean())


def search(sandbox: Sandbox, seconds: float) -> None:
    """Bayesian optimisation under a time budget, with each improvement as it comes."""
    console.print(f"Searching a pipeline for breast_cancer for {seconds:g} s, two evaluations at a time:")
    started = time.monotonic()

    def show(study: Study, trial: Trial) -> None:
        if study.history.best is trial:
            elapsed = time.monotonic() - started
            console.print(f"  {elapsed:5.1f} s  log loss {trial.outcome.loss:.4f}  {trial.pipeline!r}", highlight=False)

    study = Study(Task(SPACE, key="breast_cancer"), sandbox, Bayes("gp"), limits=LIMITS, callbacks=[show])
    history = study.run(seconds=seconds, n_jobs=2)
    failed = sum(not t.outcome.ok for t in history)
    seconds = time.monotonic() - started
    console.print(f"{len(history)} pipelines were evaluated, {failed} failed; it took {seconds:.1f} s.")


def misbehave(pipeline: Pipeline) -> float:
    """What evaluations do that must not take the run down."""
    match pipeline.algorithms[0]:
        case "loops for ever":
            while True:
                pass
        case "takes all memory":
            hoard = []
            while True:
                hoard.append(bytearray(50_000_000))
        case "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "raises":
            raise ValueError("n_components must be at most 30")
    return 0.1


def limits() -> None:
    table = Table(title="Whatever an evaluation does, it gives an outcome in time (limits: 1 s, 300 MB)")
    for column in ("an evaluation that", "status", "seconds", "error"):
        table.add_column(column)
    with Sandbox(misbehave) as sandbox:
        for what in ("loops for ever", "takes all memory", "dies", "raises", "behaves"):
            outcome = sandbox(Pipeline([what]), Limits(seconds=1, bytes=300_000_000), seed=0)
            error = (outcome.error or "").splitlines()[0] if outcome.error else ""
            table.add_row(what, outcome.status.value, f"{outcome.seconds:.2f}", error)
    console.print(table)


def stored_run(directory: Path, evaluations: int, kill_at: int | None = None) -> Study:
    def die(study: Study, trial: Trial) -> None:  # noqa: ARG001
        if trial.number == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with Store.open(directory) as store, Sandbox(CrossValidation()) as sandbox:
        study = Study(
            Task(SPACE, key="breast_cancer"), sandbox, limits=LIMITS, store=store, resume=True, callbacks=[die]
        )
        study.run(evaluations=evaluations)
    return study


def resume() -> None:
    """Kill a run for real, then go on."""
    with tempfile.TemporaryDirectory() as directory:
        store = Path(directory) / "store"
        killed = subprocess.run([sys.executable, __file__, "--killed", str(store)], check=False)
        console.print(f"A run of 15 evaluations was killed after 8 (exit code {killed.returncode}).")
        with Store.open(store) as opened:
            console.print(f"The store has {opened.studies()[0].n_trials} of them.")
        study = stored_run(store, 15)
        numbers = [trial.number for trial in study.history]
        console.print(f"Resumed: trials {numbers[0]} to {numbers[-1]}, none lost, none run twice.")


def main() -> None:
    if sys.argv[1:2] == ["--killed"]:
        stored_run(Path(sys.argv[2]), 15, kill_at=7)
        return
    with Sandbox(CrossValidation(), preload=("sklearn.calibration",)) as sandbox:
        sandbox.warm(2)
        search(sandbox, seconds=20)
    limits()
    resume()


if __name__ == "__main__":
    main()
