"""Saving and loading of fitted estimators: one file, from which loading runs no code.

==================  ==============================================================================================
``header.json``     versions, parameters, schema, classes, members and their pipelines, decisions, notes, tables,
                    reference values
``models.skops``    the fitted pipelines and residuals of validation as data, see `headstart.fitting.trusted`
``estimator.pkl``   instead of that, and only with ``safe=False``: a pickle, which `load` reads only if told to
==================  ==============================================================================================

A loaded estimator predicts, reports and exports code. It cannot be resumed and has no `history_`; to fit again it needs
the table, as any other. The rows of the training table are not in the file, but for those that an algorithm keeps
(nearest neighbours, support vectors, kernels), the categories and words that an encoding knows, and single values of
each column that explanations compare with (`headstart.fitting.explain`).

The format is documented in ``docs/deploy.md``, with what is promised of it.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd

from headstart.constraints import parse_constraints
from headstart.data.columns import Kind
from headstart.data.schema import Schema
from headstart.errors import InvalidInput, ModelFileError, UntrustedModel, warn_user
from headstart.evaluation.constraints import pickled_size
from headstart.fitting.conformal import BYTES_PER_SCORE, MOST_SCORES, Conformity
from headstart.fitting.container import damaged, read_container, write_container
from headstart.fitting.decisions import Decisions
from headstart.fitting.model import Member, Model
from headstart.fitting.notebook import Leaderboard
from headstart.fitting.settings import PLACE, Parameters
from headstart.fitting.summary import Summary
from headstart.fitting.trusted import dump_models, load_models
from headstart.space.pipeline import Pipeline
from headstart.store.codec import encode
from headstart.store.location import shown_location

_ESTIMATORS = ("HeadstartClassifier", "HeadstartRegressor")
_LIBRARIES = ("headstart", "scikit-learn", "numpy", "pandas", "scipy", "lightgbm", "catboost", "xgboost", "skops")
_TABLES = ("leaderboard_", "failures_")
HEADER_BYTES = 3_000
"""At most what versions, parameters, notes and the archive itself take in a file."""
UNSATISFIED = "no pipeline satisfied the constraints"
"""How the note of a fit begins whose model does not satisfy them."""
_MODELS, _PICKLE = "models.skops", "estimator.pkl"


def save(estimator: Any, path: str | PathLike[str], *, safe: bool = True) -> None:
    """Write a fitted estimator to a file.

    Parameters
    ----------
    path
        An existing file is replaced if it is a model, and left alone otherwise.
    safe
        Write data only. ``False`` writes a pickle, which holds anything, and which only those can load who trust the
        writer.

    Raises
    ------
    ModelFileError
        The file cannot be written, or the model has parts that are not of Headstart's own search spaces.
    """
    header: dict[str, Any] = {"safe": safe, "estimator": _kind(estimator), "libraries": versions()}
    if not safe:
        import cloudpickle

        write_container(path, header, {_PICKLE: cloudpickle.dumps(estimator)})
        return
    model: Model = estimator.model_
    params, notes = _params(estimator)
    models = {
        "members": [list(m.models) for m in model.members],
        "best": estimator.__dict__.get("_best"),
        "conformity": None if model.conformity is None else vars(model.conformity),
    }
    header |= {
        "params": params,
        "columns": {"count": int(estimator.n_features_in_), "named": hasattr(estimator, "feature_names_in_")},
        "model": _described(model),
        "notes": [*estimator.notes_, *(note for note in notes if note not in estimator.notes_)],
        "tables": {name: table_content(getattr(estimator, name)) for name in _TABLES},
    }
    write_container(path, header, {_MODELS: dump_models(models)})
    _check_size(estimator, path)


def _check_size(estimator: Any, path: str | PathLike[str]) -> None:
    """Warn if a constraint on the size does not hold for the file, unless the fit has said so."""
    if any(note.startswith(UNSATISFIED) for note in estimator.notes_):
        return
    size = os.path.getsize(path)
    for bound in parse_constraints(estimator.get_params(deep=False)["constraints"]):
        if bound.name == "size" and size > bound.upper:
            warn_user(f"{path} does not satisfy {bound}: it has {bound.shown(size)}")


def saved_size(models: Sequence[Any], header: Mapping[str, Any] | None = None, validated: int = 0) -> float:
    """Bytes of a file with these fitted pipelines as its model, to compare with a bound before there is one.

    Parameters
    ----------
    header
        What else will be in it and may be large, as JSON types: schema and tables.
    validated
        Validation rows, of which scores will be in it.
    """
    try:
        content = dump_models({"members": [list(models)], "best": None})
    except ModelFileError:  # it has parts of the user's own, so the file will be a pickle
        return pickled_size(models) + HEADER_BYTES
    scores = BYTES_PER_SCORE * min(validated, MOST_SCORES)
    return float(len(content) + len(zlib.compress(encode(header or {}, "header").encode())) + scores + HEADER_BYTES)


def saved_size_of_fold(model: Any, X: Any, y: Any, predictions: Any) -> float:  # noqa: ARG001
    """`saved_size` in the form of a function that measures a constraint; see `headstart.evaluation.constraints`."""
    return saved_size([model])


def table_content(table: pd.DataFrame) -> dict[str, Any]:
    """A table as JSON types."""
    return {
        "columns": list(table.columns),
        "dtypes": [str(dtype) for dtype in table.dtypes],
        "rows": table.astype(object).to_numpy().tolist(),
    }


def load(path: str | PathLike[str], kinds: Sequence[type], *, trusted: bool = False) -> Any:
    """Read a fitted estimator that `save` wrote.

    Parameters
    ----------
    kinds
        Classes that it may be of: `HeadstartClassifier`, `HeadstartRegressor` or subclasses.
    trusted
        Also read a pickle, which runs code that its writer chose, and load boosters without trying them in another
        process first.

    Raises
    ------
    UntrustedModel
        The file is a pickle and `trusted` is not set, or it contains types that no model of ours has.
    InvalidInput
        The estimator is of another class.
    ModelFileError
        The file is missing, damaged, something else, or of a later version.
    """
    header, parts = read_container(path)
    _compare_versions(header, path)
    name = header.get("estimator")
    if name not in _ESTIMATORS:
        raise damaged(path, ValueError(f"it contains a {name!r}"))
    maker = next((kind for kind in kinds if name in [base.__name__ for base in kind.__mro__]), None)
    if maker is None:
        wanted = " or a ".join(kind.__name__ for kind in kinds)
        raise InvalidInput(f"{path} contains a {name}, not a {wanted}; use {name}.load")
    if not header.get("safe", False):
        return _ready(_unpickled(parts, path, trusted))
    try:
        return _ready(_restored(maker, header, load_models(parts[_MODELS], trusted)))
    except ModelFileError as error:
        raise type(error)(f"{path}: {error}") from error
    except Exception as error:  # whatever a file of the right outer form can make go wrong inside
        raise damaged(path, error) from error


def _ready(estimator: Any) -> Any:
    """A loaded estimator whose first prediction keeps a bound on its latency as the others do."""
    if any(constraint.name == "latency" for constraint in parse_constraints(estimator.constraints)):
        estimator.model_.warm_up()
    return estimator


def _unpickled(parts: Mapping[str, bytes], path: str | PathLike[str], trusted: bool) -> Any:
    if not trusted:
        raise UntrustedModel(
            f"{path} was saved with safe=False: it is a pickle, and loading a pickle runs whatever code its author put "
            "into it, with all your permissions. If you trust its author and how it reached you, load it with "
            "trusted=True; otherwise ask for a file saved without safe=False"
        )
    try:
        found = pickle.loads(parts[_PICKLE])
    except Exception as error:
        raise ModelFileError(
            f"{path} cannot be unpickled, {type(error).__name__}: {error}; the modules of your own classes must be "
            "importable, in the versions that they were saved with"
        ) from error
    _kind(found)
    return found


def _kind(estimator: Any) -> str:
    name = next((base.__name__ for base in type(estimator).__mro__ if base.__name__ in _ESTIMATORS), None)
    if name is None:
        raise InvalidInput(f"a model must be one of {', '.join(_ESTIMATORS)}, got {type(estimator).__name__}")
    return name


def versions() -> dict[str, str]:
    """Of Headstart and the libraries that predictions depend on."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _compare_versions(header: Mapping[str, Any], path: str | PathLike[str]) -> None:
    """Warn where a library that predicts has another version now; later patches count as the same."""
    ours, theirs = versions(), header.get("libraries")
    if not isinstance(theirs, dict):
        raise damaged(path, ValueError("its header has no versions"))
    differ = [
        f"{name} {theirs[name]} (now {ours.get(name, 'not installed')})"
        for name in _LIBRARIES
        if name in theirs and str(theirs[name]).split(".")[:2] != ours.get(name, "").split(".")[:2]
    ]
    if differ:
        warn_user(f"{path} was saved with {', '.join(differ)}; predictions may differ or fail: refit to be sure")


# -- what is in the header --------------------------------------------------------------------------------------------


def _params(estimator: Any) -> tuple[dict[str, Any], list[str]]:
    """Parameters that are plain, but for those that say where a fit runs, and notes about the others."""
    params: dict[str, Any] = {}
    notes = []
    places = {f.name for f in fields(Parameters) if f.metadata == PLACE}
    for name, value in estimator.get_params(deep=False).items():
        if name in places:
            continue
        if isinstance(value, PathLike):
            value = str(value)
        if name == "store" and isinstance(value, str):
            value = shown_location(value)
        try:
            encode(value, name)
            params[name] = {"tuple": list(value)} if isinstance(value, tuple) else {"value": value}
        except InvalidInput:
            hint = f"; use set_params({name}=...) to score test rows with it" if name == "metric" else ""
            notes.append(f"{name} was an object, {_short(value)}, which a saved model cannot contain{hint}")
    return params, notes


def _short(value: Any) -> str:
    name = getattr(value, "__name__", None)
    text = str(name) if name else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _described(model: Model) -> dict[str, Any]:
    return {
        **{name: value for name, value in model.__getstate__().items() if name != "conformity"},
        "reference": reference_content(model.reference),
        "schema": model.schema.to_dict(),
        "classes": None if model.classes is None else _labels_content(model.classes),
        "members": [
            {"number": m.number, "pipeline": m.pipeline.to_dict(), "loss": m.loss, "weight": m.weight, "rows": m.rows}
            for m in model.members
        ],
        "decisions": vars(model.decisions),
        "summary": None if model.summary is None else model.summary.to_dict(),
    }


def reference_content(reference: pd.DataFrame | None) -> dict[str, list[Any]] | None:
    """The columns of a reference as JSON types: numbers, texts, moments in microseconds; without empty ones."""
    if reference is None:
        return None
    found = {}
    for name, column in reference.items():
        if column.notna().any():
            values = column.astype("int64") if column.dtype.kind == "M" else column
            plain = values.astype(object).where(column.notna(), None)
            found[str(name)] = plain.tolist()
    return found


def _reference(content: Mapping[str, Any] | None, schema: Schema) -> pd.DataFrame | None:
    if content is None:
        return None
    rows = max(map(len, content.values()), default=1)
    columns: dict[str, Any] = {}
    for name, spec in schema.columns.items():
        held = content.get(name, [None] * rows)
        if spec.kind is Kind.DATE:
            columns[name] = pd.to_datetime(pd.Series(held, dtype="Int64"), unit="us")
        elif spec.kind not in (Kind.ID, Kind.CONSTANT):
            columns[name] = pd.Series(held, dtype=object)
    return schema.convert(pd.DataFrame(columns))


def _labels_content(classes: Any) -> dict[str, Any]:
    labels = classes.tolist()
    odd = [label for label in labels if not isinstance(label, str | int | float | bool)]
    if odd:
        raise ModelFileError(
            f"labels must be strings, numbers or booleans to be saved as data, found {odd[0]!r}; use "
            "save(path, safe=False), or convert the labels before fitting"
        )
    return {"dtype": "object" if classes.dtype.kind in "OUT" else str(classes.dtype), "labels": labels}


# -- and back ---------------------------------------------------------------------------------------------------------


def _restored(maker: Any, header: Mapping[str, Any], models: Mapping[str, Any]) -> Any:
    known = inspect.signature(maker).parameters
    estimator = maker(
        **{
            name: tuple(held["tuple"]) if "tuple" in held else held["value"]
            for name, held in header["params"].items()
            if name in known
        }
    )
    model = _model(header["model"], models)
    estimator.model_ = model
    estimator.n_features_in_ = int(header["columns"]["count"])
    if header["columns"]["named"]:
        estimator.feature_names_in_ = np.asarray(model.schema.names, dtype=object)
    if model.classes is not None:
        estimator.classes_ = model.classes
    estimator.notes_ = [str(note) for note in header["notes"]]
    estimator.leaderboard_, estimator.failures_ = (_table(header["tables"][name]) for name in _TABLES)
    estimator.leaderboard_ = Leaderboard(estimator.leaderboard_)
    if models["best"] is not None:
        _check_pipelines([models["best"]])
        estimator._best = models["best"]
    return estimator


def _model(content: Mapping[str, Any], held: Mapping[str, Any]) -> Model:
    described, models = content["members"], held["members"]
    if len(described) != len(models) or not described:
        raise ValueError(f"it describes {len(described)} members and contains {len(models)}")
    for found in models:
        _check_pipelines(found)
    labels, decisions = content["classes"], content["decisions"]
    factors, folds = decisions["factors"], int(decisions.get("folds", 1))
    if not 1 <= folds <= max(map(len, models)):
        raise ValueError(f"it has the models of {max(map(len, models))} folds, not of {folds}")
    schema = Schema.from_dict(content["schema"])
    return Model(
        schema,
        content["task"],
        None if labels is None else _labels(labels),
        tuple(
            Member(
                m["number"],
                Pipeline.from_dict(m["pipeline"]),
                float(m["loss"]),
                float(m["weight"]),
                found,
                m.get("rows"),
            )
            for m, found in zip(described, models, strict=True)
        ),
        content["metric"],
        content["target"],
        Decisions(float(decisions["temperature"]), None if factors is None else tuple(factors), folds),
        tuple(content["notes"]),
        content["origin"],
        content.get("validation_score"),
        content.get("refit"),
        Summary.from_dict(summary) if (summary := content.get("summary")) else None,
        None if (conformity := held.get("conformity")) is None else _conformity(conformity),
        _reference(content.get("reference"), schema),
    )


def _conformity(content: Mapping[str, Any]) -> Conformity:
    scores, groups, held_out = (content[name] for name in ("scores", "groups", "held_out"))
    if [a.dtype for a in (scores, groups, held_out)] != [np.float32, np.int32, np.bool_] or held_out.ndim != 2:
        raise ValueError("scores of validation rows have other types")
    return Conformity(scores, groups, held_out)


def _check_pipelines(models: Any) -> None:
    pipeline = importlib.import_module("sklearn.pipeline").Pipeline
    if not models or not all(isinstance(model, pipeline) for model in models):
        raise ValueError("a member is not a fitted pipeline")


def _labels(content: Mapping[str, Any]) -> Any:
    if content["dtype"] not in ("object", "bool", "int64", "int32", "float64"):
        raise ValueError(f"its labels have type {content['dtype']!r}")
    labels = np.empty(len(content["labels"]), dtype=object)
    labels[:] = content["labels"]
    return labels.astype(content["dtype"])


def _table(content: Mapping[str, Any]) -> pd.DataFrame:
    table = pd.DataFrame(content["rows"], columns=content["columns"])
    wanted = {
        name: dtype
        for name, dtype in zip(content["columns"], content["dtypes"], strict=True)
        if dtype in ("int64", "float64", "bool", "object", "str")
    }
    return table.astype(wanted)
