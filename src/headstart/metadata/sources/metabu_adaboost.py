"""``metabu_adaboost``: 37,289 runs of AdaBoost on 64 tasks of OpenML-CC18, with meta-features of the tables.

The runs are those of J. van Rijn and F. Hutter, *Hyperparameter importance across datasets* (KDD 2018), as released
with Metabu (H. Rakotoarison and others, ICLR 2022). It is read from a folder:

=========================================  =============================================================================
``meta/metabu_adaboost_runs.csv``          a row for each run; hyper-parameters are standardised
``meta/metabu_basic_representations.csv``  166 columns for 72 tasks; those of the 64 become ``metafeatures["pymfe"]``
=========================================  =============================================================================

The released file of target representations is not read: of each task it has the configurations from about the 11th
best to the 30th, not the 20 best.

Hyper-parameters are brought back to their ranges: the smallest and largest value on record are taken for the ends of
the range that was drawn from. No configuration was run on two tasks. SAMME.R is gone from scikit-learn, so these
pipelines are replayed and not rebuilt. There are no splits; the thesis leaves one task out at a time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from headstart.errors import InvalidInput, MetaDataError
from headstart.metadata.metadataset import MetaDataset
from headstart.space.encoded import Encoded
from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage

RUNS = "meta/metabu_adaboost_runs.csv"
FEATURES = "meta/metabu_basic_representations.csv"
_PREFIX = "num__classifier__"
_NUMBERS: dict[str, tuple[str, Parameter]] = {
    "max_depth": ("base_estimator__max_depth", Integer("max_depth", 1, 10)),
    "learning_rate": ("learning_rate", Float("learning_rate", 0.01, 2.0)),
    "n_estimators": ("n_estimators", Integer("n_estimators", 50, 500)),
}
_STRATEGIES = {"mean": "cat__x1_mean", "median": "cat__x1_median", "most_frequent": "cat__x1_most_frequent"}
_VERSIONS = {"SAMME": "cat__x0_SAMME", "SAMME.R": "cat__x0_SAMME.R"}


def space() -> PipelineSpace:
    """What was drawn from: table C.1 of the thesis, and the learning rate, which the runs have too."""
    imputer = Algorithm("simple", params=[Categorical("strategy", tuple(_STRATEGIES))])
    boosting = Algorithm(
        "adaboost", params=[Categorical("algorithm", tuple(_VERSIONS)), *(number for _, number in _NUMBERS.values())]
    )
    return PipelineSpace("metabu_adaboost", [Stage("imputer", [imputer]), Stage("estimator", [boosting])])


def read(folder: Path) -> MetaDataset:
    """Make the meta-dataset of the files in a folder."""
    runs, features = (_table(folder, name) for name in (RUNS, FEATURES))
    try:
        ids = sorted(int(task) for task in set(runs["task_id"]))
        vectors = features.set_index("task_id").loc[ids].to_numpy(dtype=np.float64)
        pipelines = _pipelines(runs)
        accuracy = runs["num__predictive_accuracy"].to_numpy(dtype=np.float64)
        row = np.searchsorted(ids, runs["task_id"].to_numpy())
    except (KeyError, ValueError) as error:
        raise MetaDataError(f"the files of Metabu in {folder} are not of the expected form: {error}") from error
    losses = np.full((len(ids), len(runs)), np.nan, dtype=np.float32)
    losses[row, np.arange(len(runs))] = 1.0 - accuracy
    return MetaDataset(
        pipelines,
        losses,
        [f"openml-task-{task}" for task in ids],
        {"pymfe": vectors},
        name="metabu_adaboost",
        ids=[str(task) for task in ids],
        about={
            "title": "Metabu: runs of AdaBoost on OpenML-CC18",
            "loss": "1 - accuracy",
            "ids": "tasks of OpenML (not datasets)",
            "pipelines": "each was run on one task; replayed, not rebuilt",
            "paper": "H. Rakotoarison and others, Learning meta-features for AutoML (ICLR 2022)",
        },
    )


def feature_names(folder: Path) -> list[str]:
    """Names of the columns of ``metafeatures["pymfe"]``."""
    return [str(name) for name in _table(folder, FEATURES).columns if name != "task_id"]


def _table(folder: Path, name: str) -> pd.DataFrame:
    if not (folder / name).is_file():
        raise InvalidInput(
            f"metabu_adaboost is read from {RUNS} and {FEATURES} in a folder, and {folder} has no {name}"
        )
    return pd.read_csv(folder / name)


def _pipelines(runs: pd.DataFrame) -> Encoded:
    made = space()
    values = np.zeros((len(runs), made.width))
    for name, (column, _) in _NUMBERS.items():
        given = runs[_PREFIX + column].to_numpy(dtype=np.float64)
        low, high = given.min(), given.max()
        values[:, made.columns("estimator", "adaboost", name)] = ((given - low) / (high - low))[:, None]
    values[:, made.columns("estimator", "adaboost", "algorithm")] = runs[list(_VERSIONS.values())]
    values[:, made.columns("imputer", "simple", "strategy")] = runs[list(_STRATEGIES.values())]
    choice = np.zeros((len(runs), 2), dtype=np.int64)
    return Encoded(made, values, np.ones(values.shape, dtype=bool), choice, ids=np.arange(len(runs)))
