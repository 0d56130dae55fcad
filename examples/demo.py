"""What Headstart does today, on a table that comes with scikit-learn. Run: make demo

A CSV file is fitted within a time budget; evaluations that misbehave are held to their limits; a fit that is killed
goes on where it was.
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

from headstart import HeadstartClassifier, Limits, Pipeline, Sandbox, Store
from headstart.fitting.progress import Progress
from headstart.fitting.run import Run
from headstart.trials import Trial

console = Console()


def write_tables(folder: Path) -> tuple[Path, Path]:
    """The breast cancer table as two CSV files: one to learn from, one to be judged by."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    table = X.assign(diagnosis=y.map({0: "malignant", 1: "benign"})).sample(frac=1, random_state=0)
    train, test = folder / "train.csv", folder / "test.csv"
    table[:400].to_csv(train, index=False)
    table[400:].to_csv(test, index=False)
    return train, test


def fit(folder: Path, seconds: float) -> None:
    """A model for a CSV file, and how good it is on rows that it has not seen."""
    train, test = write_tables(folder)
    console.rule(f"HeadstartClassifier(time_budget={seconds:g}).fit('train.csv', target='diagnosis')")
    started = time.monotonic()
    model = HeadstartClassifier(time_budget=seconds, verbose=True).fit(train, target="diagnosis")
    console.print(f"It took {time.monotonic() - started:.1f} s. {model.notes_[-1]}.", highlight=False)
    table = Table(title="leaderboard('test.csv')")
    for column in ("pipeline", "validation", "test", "weight"):
        table.add_column(column, justify="left" if column == "pipeline" else "right")
    for row in model.leaderboard(test).itertuples():
        score = "" if row.estimator == "model" else f"{row.score:.4f}"
        table.add_row(row.estimator, score, f"{row.test_score:.4f}", f"{row.weight:.2f}")
    console.print(table)
    best = model.feature_importance(test)["feature"][:3].tolist()
    console.print(f"The columns that count most: {', '.join(best)}.", highlight=False)


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
    """Evaluations that misbehave, and what came of them."""
    table = Table(title="Whatever an evaluation does, it gives an outcome in time (limits: 1 s, 300 MB)")
    for column in ("an evaluation that", "status", "seconds", "error"):
        table.add_column(column)
    with Sandbox(misbehave) as sandbox:
        for what in ("loops for ever", "takes all memory", "dies", "raises", "behaves"):
            outcome = sandbox(Pipeline([what]), Limits(seconds=1, bytes=300_000_000), seed=0)
            error = (outcome.error or "").splitlines()[0] if outcome.error else ""
            table.add_row(what, outcome.status.value, f"{outcome.seconds:.2f}", error)
    console.print(table)


class KillAfter(Progress):
    """Kills the process after so many evaluations."""

    def __init__(self, evaluations: int) -> None:
        self.evaluations = evaluations

    def trial(self, run: Run, trial: Trial) -> None:  # noqa: ARG002
        if len(run.history) == self.evaluations:
            os.kill(os.getpid(), signal.SIGKILL)


def stored_fit(folder: Path, progress: Progress, resume: bool) -> HeadstartClassifier:
    model = HeadstartClassifier(evaluations=12, include=["logistic_regression", "lightgbm"], store=folder / "store")
    return model.fit(folder / "train.csv", target="diagnosis", progress=progress, resume=resume)


def resume(folder: Path) -> None:
    """Kill a fit for real, then go on."""
    console.rule("A fit of 12 pipelines is killed after 7")
    killed = subprocess.run([sys.executable, __file__, "--killed", str(folder)], check=False)
    with Store.open(folder / "store") as store:
        found = store.studies()[0].n_trials
    console.print(f"Exit code {killed.returncode}; the store has {found} trials.", highlight=False)
    model = stored_fit(folder, Progress(), resume=True)
    numbers = [trial.number for trial in model.history_]
    console.print(f"fit(..., resume=True): trials {numbers[0]} to {numbers[-1]}, none lost.", highlight=False)


def main() -> None:
    if sys.argv[1:2] == ["--killed"]:
        stored_fit(Path(sys.argv[2]), KillAfter(7), resume=False)
        return
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        fit(folder, seconds=20)
        limits()
        resume(folder)


if __name__ == "__main__":
    main()
