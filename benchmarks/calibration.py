"""What calibration does to the log loss of test rows. Run: python benchmarks/calibration.py --data DIR

DIR holds ``index.csv`` and ``classification/NAME.parquet`` with a column ``target``. On each table, with three classes
or more, a model is fitted to two thirds of the rows and judged on the others: with its probabilities as they are, with
one temperature for the mean of the models of its folds, and as it is delivered, with the folds pooled as logarithms.
The search is the same, so only the probabilities differ. The last column has the temperature that is best for the test
rows themselves: no other could do better.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from headstart import HeadstartClassifier
from headstart.fitting.decisions import Decisions, fit_temperature

console = Console(width=120)
TABLES = (
    "glass", "ecoli", "diggle_table_a2", "collins", "balance.scale", "vehicle", "vowel", "yeast", "wine_quality_red",
    "mfeat_morphological", "led7", "column3C",
)  # fmt: skip
NAMES = ("as they are", "temperature", "delivered", "best")


def losses(path: Path, evaluations: int, seed: int, jobs: int) -> tuple[HeadstartClassifier, list[float]]:
    """The fitted model, and its log losses on test rows in the order of `NAMES`."""
    table = pd.read_parquet(path)
    y = pd.Series(pd.factorize(table["target"], sort=True)[0])
    X, X_test, y, y_test = train_test_split(
        table.drop(columns="target"), y, test_size=1 / 3, random_state=seed, stratify=y
    )
    model = HeadstartClassifier(
        evaluations=evaluations,
        metric="neg_log_loss",
        exclude=["catboost"],  # which takes longer than all others together
        splitter=5,
        n_jobs=jobs,
        random_state=seed,
    )
    model.fit(X, y)
    made, labels = model.model_, list(range(len(model.classes_)))

    def loss(predicted: Any) -> float:
        return float(log_loss(y_test, predicted, labels=labels))

    ready = made.schema.apply(X_test)
    mean = replace(made, decisions=Decisions()).predict_ready(ready)
    one = Decisions(made.decisions.temperature)
    best = Decisions(fit_temperature(mean, loss))
    return model, [
        loss(mean),
        loss(one.calibrated(mean)),
        loss(made.predict_ready(ready)),
        loss(best.calibrated(mean)),
    ]


def _geometric(values: Any) -> float:
    return float(np.exp(np.log(values).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with index.csv and classification/")
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--evaluations", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    report = Table(title=f"log loss of test rows, {given.evaluations} pipelines each")
    for name in ("table", "temperature", *NAMES, "delivered / as they are"):
        report.add_column(name, justify="left" if name == "table" else "right")
    ratios = []
    for name in given.tables:
        for seed in range(given.seeds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                path = given.data / "classification" / f"{name}.parquet"
                model, found = losses(path, given.evaluations, seed, given.jobs)
            ratios.append(np.array(found) / found[0])
            temperature = f"{model.model_.decisions.temperature:.3f}"
            report.add_row(name, temperature, *(f"{value:.4f}" for value in found), f"{ratios[-1][2]:.3f}")
            console.print(f"{name}: {', '.join(f'{n} {v:.4f}' for n, v in zip(NAMES, found, strict=True))}")
    for words, summary in (("median of ratios", np.median), ("geometric mean of ratios", _geometric)):
        found = [float(summary(column)) for column in np.array(ratios).T]
        report.add_row(words, "", *(f"{value:.3f}" for value in found), f"{found[2]:.3f}")
    console.print(report)


if __name__ == "__main__":
    main()
