"""``dmfbs_layout`` and ``dmfbs_regularization``: neural networks on 120 datasets of UCI, with the tables of most.

They were released with H. Jomaa, L. Schmidt-Thieme and J. Grabocka, *Hyperparameter optimization with differentiable
metafeatures* (2021); of a third one, on optimizers, nothing is left. Each is read from a folder:

=======================================  ===============================================================================
``meta/dmfbs_<name>.npz``                configurations, accuracies between 0 and 1 on every dataset, and vectors of
                                         Dataset2Vec, one for each of the five splits: ``metafeatures["dataset2vec"]``
``meta/dmfbs_splits.csv``                five splits by name of the dataset
``meta/dmfbs_mf1.csv``, ``_mf2.csv``     hand-crafted meta-features, 41 and 22, scaled: ``metafeatures["mf1"]``, …
``uci_tables/<dataset>.npz``             arrays ``X`` and ``y``; `MetaDataset.tables` reads those that are there
=======================================  ===============================================================================

Of the 320 configurations in the layout file 64 have one layer and a layout that makes no difference then; the paper's
256 leave them out, and so does this. The first of the splits is the meta-dataset's own. Every search begins with one
configuration, as in the paper; it is drawn at random, the same one for all methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headstart.errors import InvalidInput, MetaDataError
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.tables import ArraysFile
from headstart.space.encoded import Encoded
from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage

SPLITS, TABLES = "meta/dmfbs_splits.csv", "uci_tables"
_LAYOUTS = {"square": "SQU", "ascending": "ASC", "descending": "EXDES", "diamond": "SYM", "hourglass": "ENC"}
_ACTIVATIONS = {"relu": "ReLU", "selu": "SeLU", "leaky_relu": "LeakyReLU"}
_STEPS = {"layers": 6, "neurons": 28, "dropout": 10}
"""Of the ranges in table 2: values are given as shares of them."""


def space(name: str) -> PipelineSpace:
    """Table 2 of the paper, encoded as in its table 3: numbers as they are, choices one-hot."""
    known = list(_ACTIVATIONS)[: 2 if name == "layout" else 3]
    params: list[Parameter] = [
        Categorical("activation", known),
        Integer("neurons", 4, 32),
        Integer("layers", 1, 7),
        Float("dropout", 0.0, 0.5),
    ]
    if name == "layout":
        params.append(Categorical("layout", tuple(_LAYOUTS)))
    else:
        params.append(Categorical("normalization", (False, True), ordered=True))
    return PipelineSpace(f"dmfbs_{name}", [Stage("estimator", [Algorithm("neural_network", params=params)])])


def layout(folder: Path, split: int = 0) -> MetaDataset:
    """``dmfbs_layout`` with one of the five splits as its own."""
    return _read("layout", folder, split)


def regularization(folder: Path, split: int = 0) -> MetaDataset:
    """``dmfbs_regularization`` with one of the five splits as its own."""
    return _read("regularization", folder, split)


def _read(name: str, folder: Path, split: int) -> MetaDataset:
    files = {part: folder / f"meta/dmfbs_{part}.csv" for part in ("splits", "mf1", "mf2")}
    recorded = folder / f"meta/dmfbs_{name}.npz"
    for path in (recorded, *files.values()):
        if not path.is_file():
            raise InvalidInput(f"dmfbs_{name} is read from the files of DMFBS in a folder, and {path} is not there")
    try:
        with np.load(recorded, allow_pickle=False) as content:
            columns = [str(column) for column in content["columns"]]
            configurations = dict(zip(columns, content["configs"].T.astype(np.float64), strict=True))
            tasks = [str(dataset) for dataset in content["datasets"]]
            accuracy, vectors = content["accuracy"], content["d2v"][:, split].astype(np.float64)
        distinct = _distinct(configurations)
        pipelines = _pipelines(name, {column: values[distinct] for column, values in configurations.items()})
        metafeatures = {mf: pd.read_csv(files[mf], index_col=0).loc[tasks].to_numpy(float) for mf in ("mf1", "mf2")}
        names = pd.read_csv(files["splits"])
        splits = {
            full: [tasks.index(task) for task in names[f"{short}-{split}"].dropna()]
            for full, short in {"train": "train", "validation": "valid", "test": "test"}.items()
        }
    except (KeyError, ValueError, IndexError) as error:
        raise MetaDataError(f"the files of DMFBS in {folder} are not of the expected form: {error}") from error
    tables = [ArraysFile(folder / TABLES / f"{task}.npz", "classification") for task in tasks]
    there = [table if table.path.is_file() else None for table in tables]
    return MetaDataset(
        pipelines,
        (1.0 - accuracy[:, distinct]).astype(np.float64),
        tasks,
        {**metafeatures, "dataset2vec": vectors},
        initial=np.random.default_rng(0).integers(len(pipelines), size=(len(tasks), 1)).tolist(),
        splits={part: np.sort(positions).tolist() for part, positions in splits.items()},
        name=f"dmfbs_{name}",
        tables=there,
        about={
            "title": f"DMFBS: neural networks on UCI, {name}",
            "loss": "1 - validation accuracy, scaled to [0, 1] on each dataset",
            "pipelines": "replayed, not rebuilt",
            "tables": f"known for {sum(table is not None for table in there)} of {len(tasks)} tasks",
            "paper": "H. Jomaa, L. Schmidt-Thieme and J. Grabocka, Hyperparameter optimization with differentiable "
            "metafeatures (2021)",
        },
    )


def _distinct(configurations: Mapping[str, NDArray[np.float64]]) -> NDArray[np.int64]:
    """Rows without those of one layer whose layout makes no difference."""
    square = configurations.get("ARCHITECTURE_SQU")
    if square is None:
        return np.arange(len(configurations["LAYERS"]))
    return np.flatnonzero((configurations["LAYERS"] > 0) | (square == 1))


def _pipelines(name: str, configurations: Mapping[str, NDArray[np.float64]]) -> Encoded:
    made = space(name)
    n = len(configurations["LAYERS"])
    values = np.zeros((n, made.width))

    def place(parameter: str) -> NDArray[np.int64]:
        return np.arange(made.width)[made.columns("estimator", "neural_network", parameter)]

    for parameter, steps in _STEPS.items():  # as exact as single precision allows; now on the grid
        values[:, place(parameter)] = np.round(configurations[parameter.upper()] * steps)[:, None] / steps
    known = list(_ACTIVATIONS.values())[: len(place("activation"))]
    values[:, place("activation")] = np.stack([configurations[f"ACTIVATION_{a}"] for a in known], axis=1)
    if name == "layout":
        shapes = [configurations[f"ARCHITECTURE_{shape}"] for shape in _LAYOUTS.values()]
        values[:, place("layout")] = np.stack(shapes, axis=1)
    else:
        values[:, place("normalization")] = configurations["NORMALIZATION"][:, None]
    choice = np.zeros((n, 1), dtype=np.int64)
    return Encoded(made, values, np.ones(values.shape, dtype=bool), choice, ids=np.arange(n))
