"""``tensor_oboe``: 23,424 pipelines on 551 OpenML datasets, with runtimes.

C. Yang, J. Fan, Z. Wu, M. Udell, *AutoML pipeline selection: efficiently navigating the combinatorial space* (KDD
2020). Errors and pipelines are in the wheel of DeepPipe, runtimes and OpenML ids in that of oboe. That rows and columns
of both are in the same order is checked: wherever the first has an error, the second has the same.

The recorded columns (their order is that of DeepPipe's table 6) become pipelines of the catalog's space
``tensor_oboe``, whose text says how they are to be read. So what is learned from them can be used on a table.

Both packages name the columns of the errors wrongly. They go through the settings of each stage in the order of
``classification.json``; the errors and runtimes are in the order of the settings' texts, ``AB`` first and ``lSVM``
last, so that what is called k-nearest neighbours is AdaBoost. Here every column gets the pipeline that it is of
(`recorded_order`); ``benchmarks/labels.py`` compares with pipelines that are evaluated anew.

Tasks 121 and 307 have no errors. They keep their positions and are in no split.
"""

from __future__ import annotations

import io
import itertools
import json
import pickletools
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import MetaDataError
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.sources.deeppipe import PAPER, Progress, read_deeppipe
from headstart.metadata.sources.wheels import opened
from headstart.space.catalog.tensor_oboe import space as catalog_space
from headstart.space.encoded import Encoded
from headstart.space.parameters import Categorical, Parameter
from headstart.space.pipeline import Pipeline, Value

_Params = tuple[tuple[str, tuple[Value, ...] | None], ...]
_SHARE: _Params = (("share", None),)
_TREES: _Params = (("min_samples_split", None), ("criterion", ("entropy", "gini")))
_STAGES: list[list[tuple[str, int, _Params]]] = [
    # Of each algorithm its name, its first column, and each hyper-parameter: one column on a grid (None), or a flag for
    # each of these choices. An algorithm is chosen if one of its columns is above 0; without columns it is the rest.
    [("simple", 0, (("strategy", ("constant", "mean", "median", "most_frequent")),))],
    [("one_hot", 4, ()), ("none", -1, ())],
    [("standard", 5, ()), ("none", -1, ())],
    [("pca", 6, _SHARE), ("select_k_best", 7, _SHARE), ("variance_threshold", 8, ()), ("none", -1, ())],
    [
        ("extra_trees", 9, _TREES),
        ("gradient_boosting", 12, (("learning_rate", None), ("max_depth", None), ("max_features", (None, "log2")))),
        ("logistic_regression", 16, (("C", None), ("penalty", ("l1", "l2")), ("solver", ("liblinear", "saga")))),
        (
            "mlp",
            21,
            (
                *(("alpha", None), ("learning_rate_init", None)),
                *(("learning_rate", ("adaptive",)), ("solver", ("adam", "sgd"))),
            ),
        ),
        ("random_forest", 26, _TREES),
        ("linear_svm", 29, (("C", None),)),
        ("knn", 30, (("n_neighbors", None), ("p", None))),
        ("decision_tree", 32, (("min_samples_split", None),)),
        ("adaboost", 33, (("learning_rate", None), ("n_estimators", None))),
        ("gaussian_nb", 35, ()),
        ("perceptron", 36, ()),
    ],
]
WIDTH = 37
_LOGARITHMIC = ("min_samples_split", "n_estimators")
_SMALLEST = 1e-8
"""Added before the logarithm, and where its scale begins; other columns are divided by their largest value."""

_FOLDER = "oboe/defaults/TensorOboe/"
_RUNTIMES = _FOLDER + "runtime_tensor_f16_compressed.npz"
_ERRORS = _FOLDER + "error_tensor_imputed_20-4-2-2-8-20_f16_compressed.npz"
_IDS = _FOLDER + "training_index.pkl"
SETTINGS = _FOLDER + "classification.json"
"""In the wheel of oboe."""
_STEPS = ("imputer", "encoder", "standardizer", "dim_reducer", "estimator")


def convert(wheels: list[Path], progress: Progress) -> MetaDataset:
    """Make the meta-dataset of the wheels of DeepPipe and oboe."""
    deeppipe, oboe = wheels
    file = read_deeppipe(deeppipe, "tensor_oboe", progress)
    progress("decoding pipelines", 0.0)
    published = decode_pipelines(file.columns)
    order = _order(oboe, len(published))
    pipelines = Encoded(
        *(published.space, published.values[order], published.active[order], published.choice[order]),
        ids=np.arange(len(published)),
    )
    progress("aligning runtimes", 0.0)
    seconds, ids = _seconds(oboe, file.losses), [str(i) for i in _ids(oboe)]
    if len(ids) != len(file.losses):
        raise MetaDataError(f"{oboe.name} has ids of {len(ids)} tasks, expected {len(file.losses)}")
    empty = {t for t, row in enumerate(file.losses) if not np.isfinite(row).any()}
    validation, test, *train = [[t for t in fold if t not in empty] for fold in file.splits]
    return MetaDataset(
        pipelines,
        file.losses,
        [f"openml-{i}" for i in ids],
        seconds=seconds,
        initial=file.initial,
        splits={"train": [t for fold in train for t in fold], "validation": validation, "test": test},
        name="tensor_oboe",
        ids=ids,
        about={
            "title": "Tensor-OBOE: pipelines on OpenML datasets, with runtimes",
            "loss": "balanced error rate",
            "seconds": "in half precision; where the file says -1 there is no error either, and no runtime here",
            "ids": "OpenML datasets",
            "splits": "five folds in the file; as in appendix J of the DeepPipe paper the first is for validation, the "
            "second for tests and the others for training. Tasks without any error "
            f"({', '.join(map(str, sorted(empty))) or 'none'}) are in no split",
            "initial": "five for each task",
            "pipelines": "points of the catalog's space tensor_oboe; columns are named as they were recorded, not as "
            "published",
            "paper": "C. Yang, J. Fan, Z. Wu, M. Udell, AutoML pipeline selection: efficiently navigating the "
            f"combinatorial space (KDD 2020); {PAPER}",
        },
    )


def decode_pipelines(columns: NDArray[np.float64]) -> Encoded:
    """Recorded columns (P, 37) as pipelines of the catalog's space, with their positions as ids."""
    if columns.ndim != 2 or columns.shape[1] != WIDTH:
        raise MetaDataError(f"pipelines of tensor_oboe must have {WIDTH} columns, got an array of {columns.shape}")
    space = catalog_space()
    algorithms = [[""] * len(space.stages) for _ in columns]
    params: list[list[dict[str, Value]]] = [[{} for _ in space.stages] for _ in columns]
    for s, stage in enumerate(_STAGES):
        left = np.ones(len(columns), dtype=bool)
        for name, first, declared in stage:
            width = sum(1 if choices is None else len(choices) for _, choices in declared) or 1
            chosen = left.copy() if first < 0 else (columns[:, first : first + width] > 0).any(axis=1)
            if (chosen & ~left).any():
                raise MetaDataError(f"a pipeline of tensor_oboe has two algorithms of one stage, one is {name}")
            left &= ~chosen
            rows = np.flatnonzero(chosen)
            for i in rows:
                algorithms[i][s] = name
            column = first
            for parameter, choices in declared:
                grid = space.stages[s].algorithms[space.stages[s].position(name)].param(parameter)
                taken = 1 if choices is None else len(choices)
                values = _read(columns[rows, column : column + taken], grid, choices)
                for i, value in zip(rows, values, strict=True):
                    params[i][s][parameter] = value
                column += taken
        if left.any():
            raise MetaDataError(f"a recorded pipeline of tensor_oboe has no {space.stages[s].name}")
    encoded = space.encode([Pipeline(a, p) for a, p in zip(algorithms, params, strict=True)])
    if len(np.unique(encoded.ids)) != len(encoded):
        raise MetaDataError("two recorded pipelines of tensor_oboe read alike")
    return Encoded(space, encoded.values, encoded.active, encoded.choice, ids=np.arange(len(encoded)))


def recorded_order(settings: Mapping[str, Any]) -> NDArray[np.int64]:
    """Which of the pipelines in the published order each recorded column (P,) is of.

    The published order is that of the file, the recorded one that of the texts of what stages are set to.

    >>> stage = {"algorithms": ["KNN", "DT"], "hyperparameters": {"KNN": {"p": [1]}, "DT": {"split": [2, 256]}}}
    >>> nothing = {"algorithms": [None], "hyperparameters": {}}
    >>> recorded_order(dict.fromkeys(_STEPS, nothing) | {"estimator": stage}).tolist()
    [2, 1, 0]
    """
    texts = [[str(setting) for setting in _settings(settings[step])] for step in _STEPS]
    published = np.arange(np.prod([len(stage) for stage in texts])).reshape([len(stage) for stage in texts])
    order: NDArray[np.int64] = published[np.ix_(*(np.argsort(stage, kind="stable") for stage in texts))].ravel()
    return order


def _settings(stage: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All that a stage can be set to, in the order of the file."""
    found: list[dict[str, Any]] = []
    for algorithm in stage["algorithms"]:
        if algorithm is None:
            found.append({"algorithm": None})
            continue
        params = stage["hyperparameters"][algorithm]
        for values in itertools.product(*params.values()):
            params_set = dict(zip(params, values, strict=True))
            found.append({"algorithm": algorithm, "hyperparameters": params_set})
    return found


def _order(wheel: Path, n: int) -> NDArray[np.int64]:
    order: NDArray[np.int64] = _content(wheel, SETTINGS, lambda content: recorded_order(json.loads(content)))
    if len(order) != n:
        raise MetaDataError(f"{SETTINGS} in {wheel.name} has {len(order)} pipelines, expected {n}")
    return order


def _read(recorded: NDArray[np.float64], parameter: Parameter, choices: tuple[Value, ...] | None) -> list[Value]:
    """Values of a hyper-parameter from its columns (n, width)."""
    if choices is not None:
        if not ((recorded == 1).sum(axis=1) == 1).all() or not np.isin(recorded, (0, 1)).all():
            raise MetaDataError(f"{parameter.name} of tensor_oboe must have one flag that is 1")
        return [choices[k] for k in recorded.argmax(axis=1)]
    if not isinstance(parameter, Categorical):
        raise MetaDataError(f"{parameter.name} of tensor_oboe must be on a grid")
    numbers = np.array(parameter.choices, dtype=np.float64)
    if parameter.name in _LOGARITHMIC:
        numbers = np.log((numbers + _SMALLEST) / _SMALLEST)
    scaled = numbers / numbers.max()
    nearest = np.abs(recorded - scaled).argmin(axis=1)
    if not np.allclose(recorded[:, 0], scaled[nearest], rtol=0, atol=1e-6):
        raise MetaDataError(f"{parameter.name} of tensor_oboe has values that are not on its grid")
    return [parameter.choices[k] for k in nearest]


def _seconds(wheel: Path, losses: NDArray[np.float32]) -> NDArray[np.float32]:
    """Runtimes (T, P), after a check that this wheel's rows and columns are in the order of the losses."""
    errors = _tensor(wheel, _ERRORS, losses.shape)
    observed = np.isfinite(losses)
    if not np.array_equal(errors[observed], losses[observed]):
        raise MetaDataError(f"the errors in {wheel.name} are not those of the other wheel: runtimes cannot be aligned")
    seconds = _tensor(wheel, _RUNTIMES, losses.shape)
    return np.where(seconds > 0, seconds, np.float32(np.nan))


def _tensor(wheel: Path, member: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    tensor = _content(wheel, member, lambda content: np.load(io.BytesIO(content), allow_pickle=False)["a"])
    if tensor.size != shape[0] * shape[1] or len(tensor) != shape[0]:
        raise MetaDataError(f"{member} in {wheel.name} has the shape {tensor.shape}, expected {shape} or a finer one")
    matrix: NDArray[np.float32] = tensor.reshape(shape).astype(np.float32)
    return matrix


def _content(wheel: Path, member: str, read: Callable[[bytes], Any]) -> Any:
    with opened(wheel, member) as (stream, _):
        content = stream.read()
    try:
        return read(content)
    except (ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        raise MetaDataError(f"{member} in {wheel.name} is not of the expected form: {error!r}") from error


def _ids(wheel: Path) -> list[int]:
    """The list of whole numbers in a pickle, read word by word: nothing in it is run."""
    with opened(wheel, _IDS) as (stream, _):
        content = stream.read()
    found: list[int] = []
    try:
        for opcode, argument, _ in pickletools.genops(content):
            if opcode.name in ("BININT", "BININT1", "BININT2") and isinstance(argument, int):
                found.append(argument)
            elif opcode.name not in ("PROTO", "FRAME", "EMPTY_LIST", "MARK", "BINPUT", "MEMOIZE", "APPENDS", "STOP"):
                raise ValueError(f"it holds {opcode.name}")
    except ValueError as error:
        raise MetaDataError(f"{_IDS} in {wheel.name} must be a pickled list of whole numbers: {error}") from error
    return found
