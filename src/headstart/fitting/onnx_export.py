"""A model as one ONNX file, from raw columns to probabilities.

========================  ==========================  ==========================================================
kind of column            input, each (n, 1)          missing
========================  ==========================  ==========================================================
numeric, boolean          double                      NaN
categorical               string, as it was read      ``""``
date                      double, seconds since 1970  NaN
text                      cannot be converted         leave the column out of the fit
========================  ==========================  ==========================================================

Outputs are ``probabilities`` (n, classes) and ``label`` (n,), or ``prediction`` (n, 1). The class labels are in the
metadata of the file.

Preparation and encoding of columns, boosters and the ensemble are written by hand here: encoders become tables that are
looked up, which have what the fitted encoder gives for each category. Parts that compute with numbers are in
`onnx_numbers`, in double precision. All others are converted by skl2onnx, in single precision. What is written is
tried: the file must predict the reference rows of the model as the model does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headstart.data.columns import Kind
from headstart.errors import InvalidInput, MissingDependency, printable
from headstart.evaluation.prediction import fingerprint, pipeline_steps
from headstart.files import replace_file, writable_file
from headstart.fitting import onnx_numbers
from headstart.fitting.onnx_trees import NotConvertible, Trees, forest, trees_of

if TYPE_CHECKING:
    from headstart.data.schema import Schema
    from headstart.fitting.model import Member, Model

OPSETS = {"": 18, "ai.onnx.ml": 3}
TOLERANCE = 1e-4
_CLOSE_ENOUGH = 0.9
"""Share of the few reference rows that must be equal; one that lies on a threshold may differ."""
_DESCRIPTION = (
    "Predicts {target}. Inputs are columns of shape (n, 1). Numbers: double, NaN where missing. Booleans: double, true "
    "is 1, NaN where missing. Categories: string, empty where missing. Dates: double, seconds since 1970-01-01 UTC, "
    "NaN where missing."
)
_DATE_PARTS = ("since", "year", "month", "day", "weekday", "hour")


def export_onnx(model: Model, path: str | PathLike[str], best: bool = False) -> None:
    """Write the model, or its best pipeline alone, as an ONNX file.

    Raises
    ------
    InvalidInput
        A part cannot be converted; the message says which, and what to leave out.
    """
    runtime = _runtime()
    target = writable_file(path)
    wanted = _alone(model, model.best) if best else model
    content = to_onnx(wanted).SerializeToString()
    if model.reference is not None:
        _try(runtime, content, wanted)
    replace_file(Path(target), lambda new: new.write_bytes(content))


def feed(schema: Schema, source: Any) -> dict[str, NDArray[Any]]:
    """The inputs of an exported file for a table, by name."""
    ready = schema.apply(source)
    found: dict[str, NDArray[Any]] = {}
    for name, kind in schema.kinds.items():
        if kind in (Kind.ID, Kind.CONSTANT):
            continue
        column = ready[name]
        values: NDArray[Any]
        if kind is Kind.CATEGORICAL:
            values = column.astype(object).where(column.notna(), "").to_numpy(dtype=object)
        elif kind is Kind.DATE:
            seconds = (column - pd.Timestamp("1970-01-01")).dt.total_seconds()
            values = seconds.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        found[name] = values.reshape(-1, 1)
    return found


def _runtime() -> Any:
    try:
        import onnx  # noqa: F401
        import onnxruntime
        import skl2onnx  # noqa: F401
    except ImportError as error:
        raise MissingDependency("export to ONNX needs more packages; pip install 'headstart[onnx]'") from error
    return onnxruntime


def _alone(model: Model, member: Member) -> Model:
    return replace(model, members=(replace(member, weight=1.0),))


def _try(runtime: Any, content: bytes, model: Model) -> None:
    """Raise `InvalidInput` if the file does not predict the reference as the model does."""
    off = _off(runtime, content, model)
    if _is_close(off):
        return
    members = [_alone(model, member) for member in model.members]
    apart = [
        one.best
        for one in members
        if len(members) == 1 or not _is_close(_off(runtime, to_onnx(one).SerializeToString(), one))
    ]
    said = f"the ONNX file would predict otherwise than the model, by up to {off.max():.2g}"
    if not apart:
        raise InvalidInput(f"{said}; export the best pipeline alone")
    names = sorted({member.pipeline.algorithms[-1] for member in apart})
    pipelines = [" > ".join(member.pipeline.algorithms) for member in apart]
    raise InvalidInput(f"{said}, because of {', '.join(pipelines)}. {_advice(names, model)}")


def _advice(names: Sequence[str], model: Model) -> str:
    """What to do about algorithms that cannot be converted."""
    again = f"Fit again with exclude (--exclude {' --exclude '.join(names)})"
    usable = len(model.members) > 1 and not set(names) & set(model.best.pipeline.algorithms)
    return again + (", or export the best pipeline alone (--best)" if usable else "")


def _is_close(off: NDArray[np.float64]) -> bool:
    return bool((off <= TOLERANCE).mean() >= _CLOSE_ENOUGH)


def _off(runtime: Any, content: bytes, model: Model) -> NDArray[np.float64]:
    """How far the file is from the model on each reference row; of numbers, relative to the largest."""
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    inputs = {known.name for known in session.get_inputs()}
    given = {name: values for name, values in feed(model.schema, model.reference).items() if name in inputs}
    found = session.run(None, given)[0].reshape(-1, *model.shape)
    wanted = model.predict_ready(model.reference)
    scale = 1.0 if model.classes is not None else float(np.abs(wanted).max()) or 1.0
    off: NDArray[np.float64] = np.abs(found - wanted).reshape(len(wanted), -1).max(axis=1) / scale
    return off


def to_onnx(model: Model) -> Any:
    """The ``onnx.ModelProto``."""
    if model.schema.n_sparse is not None:
        raise InvalidInput("only models of tables with columns can be exported, this one is of a sparse matrix")
    texts = [name for name, kind in model.schema.kinds.items() if kind is Kind.TEXT]
    if texts:
        raise InvalidInput(
            f"text columns cannot be converted to ONNX: {', '.join(texts[:5])}; fit again without them, with drop "
            f"(--drop {texts[0]})"
        )
    graph = Graph(model.schema)
    parts = model.decisions.folds
    sums: list[list[str]] = [[] for _ in range(parts)]
    failures: dict[str, str] = {}
    for member in model.members:
        for fitted, shares in zip(member.models, member.shares(parts), strict=True):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = graph.model(fitted, model.shape)
            except NotConvertible as error:
                failures[str(error)] = _algorithm(error.step, member.pipeline.algorithms)
                break
            for part, share in enumerate(shares.tolist()):
                if share:
                    sums[part].append(graph.add("Mul", found, graph.constant(np.float32(member.weight * share))))
    if failures:
        names = sorted(set(failures.values()))
        raise InvalidInput(f"cannot be converted to ONNX: {'; '.join(failures)}. {_advice(names, model)}")
    totals = [graph.add("Sum", *names) for names in sums]
    return graph.finished(model, totals)


def _algorithm(step: str, among: Sequence[str]) -> str:
    """The name by which search spaces know a class, of those in a pipeline; its estimator if there is none."""
    from headstart.space import catalog

    for space in ("classification", "regression"):
        for stage in catalog.load(space).stages:
            for algorithm in stage.algorithms:
                if algorithm.name in among and (algorithm.path or "").endswith(f":{step}"):
                    return algorithm.name
    return among[-1]


@dataclass
class _Column:
    """A column on its way through a pipeline: numbers (n, 1), or codes of categories, the last for missing."""

    name: str
    values: str
    labels: list[str] | None = None


class Graph:
    """Nodes of ONNX, written one after the other."""

    def __init__(self, schema: Schema) -> None:
        import onnx

        self.onnx: Any = onnx
        self.schema = schema
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.inputs: dict[str, Any] = {}
        self._constants: dict[tuple[Any, ...], str] = {}
        self._done: dict[tuple[str, ...], Any] = {}

    # -- pieces ---------------------------------------------------------------------------------------------------

    def name(self) -> str:
        """A new name of a value."""
        self._count = getattr(self, "_count", 0) + 1
        return f"v{self._count}"

    def add(self, kind: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any) -> str:
        """A node; returns the name of its first output."""
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names[0]

    def constant(self, value: Any) -> str:
        """A constant array."""
        array = np.asarray(value)
        key = (array.dtype.str, array.shape, array.tobytes() if array.dtype != object else tuple(array.ravel()))
        if key not in self._constants:
            name = self.name()
            self.initializers.append(self.onnx.numpy_helper.from_array(array, name))
            self._constants[key] = name
        return self._constants[key]

    def cast(self, value: str, dtype: Any) -> str:
        return self.add("Cast", value, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def joined(self, values: Sequence[str]) -> str:
        return values[0] if len(values) == 1 else self.add("Concat", *values, axis=1)

    def columns(self, matrix: str, places: Any) -> str:
        return self.add("Gather", matrix, self.constant(np.asarray(places, dtype=np.int64)), axis=1)

    def doubles(self, value: Any) -> str:
        return self.constant(np.asarray(value, dtype=np.float64))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def input(self, name: str) -> str:
        """A raw column."""
        if name not in self.inputs:
            types = self.onnx.TensorProto
            kind = types.STRING if self.schema.kinds[name] is Kind.CATEGORICAL else types.DOUBLE
            self.inputs[name] = self.onnx.helper.make_tensor_value_info(name, kind, [None, 1])
        return name

    def inlined(self, proto: Any, matrix: str, output: int) -> str:
        """The nodes of another model with one input; returns the name of one of its outputs."""
        names = {proto.graph.input[0].name: matrix, "": ""}
        for tensor in proto.graph.initializer:
            names[tensor.name] = self.name()
            copied = self.onnx.TensorProto()
            copied.CopyFrom(tensor)
            copied.name = names[tensor.name]
            self.initializers.append(copied)
        for node in proto.graph.node:
            copied = self.onnx.NodeProto()
            copied.CopyFrom(node)
            copied.name = ""
            copied.input[:] = [names[name] for name in node.input]
            copied.output[:] = [names.setdefault(name, self.name()) if name else "" for name in node.output]
            self.nodes.append(copied)
        return names[proto.graph.output[output].name]

    # -- a fitted pipeline ----------------------------------------------------------------------------------------

    def model(self, fitted: Any, shape: tuple[int, ...]) -> str:
        """What a fitted pipeline predicts: probabilities (n, classes) or numbers (n, 1), in single precision."""
        *before, last = pipeline_steps(fitted)
        state: Any = None
        key: tuple[str, ...] = ()
        step = last
        try:
            for step in before:
                key = (*key, fingerprint(step))
                if key not in self._done:
                    self._done[key] = self.step(step, state)
                state = self._done[key]
            step = last
            return self.estimator(last, state, shape)
        except NotConvertible as error:
            error.step = type(getattr(step, "estimator_", step)).__name__
            raise

    def step(self, step: Any, state: Any) -> Any:
        """What a transformer makes of columns, or of a matrix."""
        from sklearn.compose import ColumnTransformer

        from headstart.components.prepare import PrepareTable

        if isinstance(step, PrepareTable):
            return self.prepared(step)
        if isinstance(step, ColumnTransformer):
            return self.sides(step, state)
        return self.transformed(step, self.matrix(state))

    def prepared(self, step: Any) -> list[_Column]:
        columns: list[_Column] = []
        for name, kind in step.kinds.items():
            if kind in ("id", "constant"):
                continue
            raw = self.input(name)
            if kind == "categorical":
                columns.append(self.category(name, raw, step.categories_[name]))
            elif kind.startswith("date"):
                columns += self.date(name, raw, step.first_dates_[name])
            else:
                infinite = self.add("IsInf", raw)
                columns.append(_Column(name, self.add("Where", infinite, self.constant(np.array([np.nan])), raw)))
        if not columns:
            raise NotConvertible("a model that uses no column")
        return columns

    def category(self, name: str, raw: str, known: list[str]) -> _Column:
        """Codes of categories, (n, 1) integers."""
        other = known.index("(other)") if "(other)" in known else len(known)
        codes = self.add(
            "LabelEncoder",
            raw,
            domain="ai.onnx.ml",
            keys_strings=[*known, ""],
            values_int64s=[*range(len(known)), len(known)],
            default_int64=other,
        )
        return _Column(name, codes, known)

    def date(self, name: str, raw: str, first: float) -> list[_Column]:
        """Parts of a date; the calendar is that of Howard Hinnant's days_from_civil, backwards."""

        def number(value: float) -> str:
            return self.constant(np.array([value], dtype=np.float64))

        def whole(value: str, divisor: float) -> str:
            return self.add("Floor", self.add("Div", value, number(divisor)))

        def rest(value: str, divisor: float) -> str:
            return self.add("Sub", value, self.add("Mul", whole(value, divisor), number(divisor)))

        def plus(*values: str) -> str:
            return self.add("Sum", *values)

        def times(value: str, factor: float) -> str:
            return self.add("Mul", value, number(factor))

        days = self.add("Div", raw, number(86400.0))
        raw = times(days, 86400.0)  # rounded as the preparation of a table does it
        day = whole(raw, 86400.0)
        shifted = plus(day, number(719468.0))
        era = whole(shifted, 146097.0)
        of_era = rest(shifted, 146097.0)
        leap = plus(times(whole(of_era, 1460.0), -1.0), whole(of_era, 36524.0), times(whole(of_era, 146096.0), -1.0))
        year = whole(plus(of_era, leap), 365.0)
        passed = plus(times(year, 365.0), whole(year, 4.0), times(whole(year, 100.0), -1.0))
        of_year = self.add("Sub", of_era, passed)
        march = whole(plus(times(of_year, 5.0), number(2.0)), 153.0)  # months since March
        of_month = self.add("Sub", of_year, whole(plus(times(march, 153.0), number(2.0)), 5.0))
        late = self.add("GreaterOrEqual", march, number(10.0))
        month = plus(march, self.add("Where", late, number(-9.0), number(3.0)))
        years = plus(year, times(era, 400.0), self.add("Where", late, number(1.0), number(0.0)))
        minutes = whole(rest(raw, 86400.0), 60.0)
        parts = {
            "since": self.add("Sub", days, number(first)),
            "year": years,
            "month": month,
            "day": plus(of_month, number(1.0)),
            "weekday": rest(plus(day, number(3.0)), 7.0),
            "hour": self.add("Div", minutes, number(60.0)),
        }
        return [_Column(f"{name} {part}", parts[part]) for part in _DATE_PARTS]

    def sides(self, step: Any, columns: list[_Column]) -> Any:
        """A `ColumnTransformer`: numbers and categories side by side."""
        by_name = {column.name: column for column in columns}
        found: list[Any] = []
        for _, side, names in step.transformers_:
            if (isinstance(side, str) and side == "drop") or not len(names):
                continue
            chosen = [by_name[str(name)] for name in names]
            if (isinstance(side, str) and side == "passthrough") or type(side).__name__ == "FunctionTransformer":
                found += chosen
            elif chosen[0].labels is not None:
                found.append(_Column("", self.encoded(side, chosen)))
            else:
                matrix = self.joined([column.values for column in chosen])
                for inner in _chain(side):
                    matrix = self.transformed(inner, matrix)
                found.append(_Column("", matrix))
        if any(column.labels is not None for column in found):
            return self.single(found, step)
        return self.joined([column.values for column in found])

    def single(self, found: list[_Column], step: Any) -> list[_Column]:
        """Columns one by one, where matrices stand beside categories."""
        singles: list[_Column] = []
        for column in found:
            if column.labels is not None or column.name:
                singles.append(column)
                continue
            width = len(step.get_feature_names_out()) - sum(1 for c in found if c.name)
            singles += [_Column(f"{i}", self.columns(column.values, [i])) for i in range(width)]
        return singles

    def encoded(self, encoder: Any, columns: Sequence[_Column]) -> str:
        """What encoders make of categories: the sum of tables that are looked up, one for each column.

        Each output of an encoder depends on one column, so it is what it gives for some row, plus what changes with
        each column.
        """
        values = [[*(column.labels or []), None] for column in columns]

        def frame(rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
            return pd.DataFrame(
                {c.name: pd.Categorical([row[j] for row in rows], categories=c.labels) for j, c in enumerate(columns)}
            )

        def codes(rows: Sequence[Sequence[Any]]) -> Any:
            table = frame(rows)
            for inner in _chain(encoder):
                table = inner.transform(table)
            return np.asarray(table.toarray() if hasattr(table, "toarray") else table, dtype=np.float64)

        first = [own[0] for own in values]
        base = codes([first])
        changed = np.zeros(base.shape[1], dtype=np.int64)
        total = self.constant(base)
        for j, (own, column) in enumerate(zip(values, columns, strict=True)):
            rows = [[*first[:j], value, *first[j + 1 :]] for value in own]
            table = codes(rows) - base
            changed += np.abs(table).max(axis=0) > 0
            flat = self.add("Reshape", column.values, self.constant(np.array([-1], dtype=np.int64)))
            total = self.add("Add", total, self.add("Gather", self.constant(table), flat, axis=0))
        if (changed > 1).any() or not np.isfinite(base).all():
            raise NotConvertible(f"{type(encoder).__name__}")
        return total

    def matrix(self, state: Any) -> str:
        """Columns as a matrix of numbers; categories as their codes, NaN where missing."""
        if isinstance(state, str):
            return state
        parts = []
        for column in state:
            if column.labels is None:
                parts.append(column.values)
                continue
            codes = self.cast(column.values, np.float64)
            missing = self.add("Equal", column.values, self.constant(np.array([len(column.labels)], dtype=np.int64)))
            parts.append(self.add("Where", missing, self.constant(np.array([np.nan])), codes))
        return self.joined(parts)

    def transformed(self, step: Any, matrix: str) -> str:
        """What a transformer of numbers makes of a matrix."""
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.preprocessing import MinMaxScaler, StandardScaler

        if hasattr(step, "support_") and type(step).__module__.startswith("headstart."):
            return self.columns(matrix, np.flatnonzero(step.support_))
        if isinstance(step, str):
            return matrix
        if type(step) is ColumnTransformer:
            parts = [(side, places) for _, side, places in step.transformers_ if side != "drop" and len(places)]
            return self.joined([self.transformed(side, self.columns(matrix, places)) for side, places in parts])
        if hasattr(step, "step_"):
            for inner in _chain(step.step_):
                matrix = self.transformed(inner, matrix) if inner is not None else matrix
            return matrix
        if type(step) is SimpleImputer:
            values = np.asarray(step.statistics_, dtype=np.float64)
            if np.isnan(values).any():
                if not step.keep_empty_features:
                    raise NotConvertible("an imputer of columns without a value")
                values = np.where(np.isnan(values), 0.0, values)
            missing = self.add("IsNaN", matrix)
            filled = self.add("Where", missing, self.constant(values[None]), matrix)
            if step.indicator_ is None:
                return filled
            places = self.constant(step.indicator_.features_.astype(np.int64))
            return self.joined([filled, self.cast(self.add("Gather", missing, places, axis=1), np.float64)])
        if type(step) is StandardScaler:
            if step.mean_ is not None:
                matrix = self.add("Sub", matrix, self.constant(step.mean_[None]))
            return matrix if step.scale_ is None else self.add("Div", matrix, self.constant(step.scale_[None]))
        if type(step) is MinMaxScaler and not step.clip:
            return self.add(
                "Add", self.add("Mul", matrix, self.constant(step.scale_[None])), self.constant(step.min_[None])
            )
        known = onnx_numbers.transformed(self, step, matrix)
        return self.cast(self.converted(step, matrix, 0), np.float64) if known is None else known

    def converted(self, part: Any, matrix: str, output: int) -> str:
        """What skl2onnx makes of an estimator or transformer, in single precision."""
        from skl2onnx import convert_sklearn
        from skl2onnx.common.data_types import FloatTensorType

        options = {id(part): {"zipmap": False}} if hasattr(part, "predict_proba") else None
        types = [("X", FloatTensorType([None, int(part.n_features_in_)]))]
        try:
            proto = convert_sklearn(part, initial_types=types, options=options, target_opset=OPSETS)
        except Exception as error:  # of many kinds
            said = printable(str(error).split("\n")[0])[:120]
            raise NotConvertible(f"{type(part).__name__} ({said})") from error
        foreign = sorted({node.domain for node in proto.graph.node} - set(OPSETS))
        if foreign:
            raise NotConvertible(f"{type(part).__name__} (it needs operators of {foreign[0]})")
        return self.inlined(proto, self.cast(matrix, np.float32), output)

    # -- estimators -----------------------------------------------------------------------------------------------

    def estimator(self, last: Any, state: Any, shape: tuple[int, ...]) -> str:
        from headstart.components._booster import Booster
        from headstart.components._shared import ScaledTarget
        from headstart.components.balance import BalancedWeights

        last = last.estimator_ if type(last) is BalancedWeights else last
        if isinstance(last, Booster):
            found = self.booster(last, state)
        else:
            inner = getattr(last, "model_", last)
            grown = _grown(inner)
            if grown is not None:
                found = self.trees(forest(grown, len(inner.classes_) if shape else 1), state)
            else:
                found = self.numbers(last, inner, state, shape)
            if not shape:
                found = self.add("Reshape", found, self.constant(np.array([-1, 1], dtype=np.int64)))
            if isinstance(last, ScaledTarget):
                scale, mean = self.constant(np.float32(last.scale_)), self.constant(np.float32(last.mean_))
                found = self.add("Add", self.add("Mul", found, scale), mean)
        if not shape:
            return found
        places = np.asarray(last.classes_, dtype=np.int64)
        if np.array_equal(places, np.arange(*shape)):
            return found
        spread = np.zeros((len(places), *shape), dtype=np.float32)
        spread[np.arange(len(places)), places] = 1.0
        return self.add("MatMul", found, self.constant(spread))

    def numbers(self, last: Any, inner: Any, state: Any, shape: tuple[int, ...]) -> str:
        """What an estimator that is not of trees predicts; `inner` is the one of scikit-learn that it delegates to."""
        matrix = self.matrix(state)
        if hasattr(last, "low_"):  # multinomial naive Bayes, on columns shifted to start at 0
            matrix = self.add("Max", self.add("Sub", matrix, self.doubles(last.low_[None])), self.doubles(0.0))
        known = onnx_numbers.estimated(self, inner, matrix)
        if known is None:
            if shape and not hasattr(inner, "predict_proba"):
                raise NotConvertible(f"{type(last).__name__}, which has no probabilities of its own")
            return self.cast(self.converted(inner, matrix, 1 if shape else 0), np.float32)
        if hasattr(last, "shares_"):  # where all densities vanish
            known = self.add("Where", self.add("IsNaN", known), self.doubles(last.shares_[None]), known)
        return self.cast(known, np.float32)

    def booster(self, booster: Any, state: Any) -> str:
        """Probabilities, or numbers, of a booster."""
        if booster.model_ is None:
            values = np.asarray(booster.constant_, dtype=np.float32).reshape(1, -1)
            rows = self.cast(self.add("IsNaN", self.columns(self.matrix(state), [0])), np.float32)
            return self.add("Add", self.add("Mul", rows, self.constant(np.float32(0))), self.constant(values))
        trees = trees_of(booster)
        found = self.trees(trees, state)
        if not booster._n_classes:
            return found
        if trees.outputs > 1:
            return self.add("Softmax", found, axis=1)
        second = self.add("Sigmoid", found)
        return self.joined([self.add("Sub", self.constant(np.float32(1)), second), second])

    def trees(self, trees: Trees, state: Any) -> str:
        """Sums of trees, (n, outputs) in single precision."""
        matrix = self.matrix(state)
        if trees.single:
            matrix = self.cast(self.cast(matrix, np.float32), np.float64)
        parts, places = [matrix], {}
        if trees.sets:
            if isinstance(state, str) or any(state[column].labels is None for column in trees.sets):
                raise NotConvertible("splits by category on a column of numbers")
            width = len(state)
            for column, sets in trees.sets.items():
                count = len(state[column].labels or ())
                table = np.zeros((count + 1, len(sets)))
                for values, place in sets.items():
                    table[[count if v < 0 else v for v in values if v < count], place] = 1.0
                    places[column, place] = width + place
                flat = self.add("Reshape", state[column].values, self.constant(np.array([-1], dtype=np.int64)))
                parts.append(self.add("Gather", self.constant(table), flat, axis=0))
                width += len(sets)
        return self.ensemble(trees, self.joined(parts), lambda column, place: places[column, place])

    def ensemble(self, trees: Trees, matrix: str, place_of: Callable[[int, int], int] | None = None) -> str:
        make = self.onnx.helper.make_tensor
        double = self.onnx.TensorProto.DOUBLE
        rows: list[tuple[int, int, int, str, float, int, int, int]] = []
        mode = "BRANCH_LT" if trees.strict else "BRANCH_LEQ"
        for tree, node, (kind, column, place), threshold, yes, no, missing in trees.nodes:
            where = column if kind == "number" or place_of is None else place_of(column, place)
            rows.append((tree, node, where, mode, threshold, yes, no, int(missing)))
        ends = dict.fromkeys((tree, node) for tree, node, _, _ in trees.leaves)
        rows += [(tree, node, 0, "LEAF", 0.0, 0, 0, 0) for tree, node in ends]
        rows.sort(key=lambda row: row[:2])
        ids, numbers, features, modes, values, yes_ids, no_ids, missing_ids = (
            list(part) for part in zip(*rows, strict=True)
        )
        leaves = sorted(trees.leaves)
        weights = [value for *_, value in leaves]
        found = self.add(
            "TreeEnsembleRegressor",
            matrix,
            domain="ai.onnx.ml",
            n_targets=trees.outputs,
            nodes_treeids=ids,
            nodes_nodeids=numbers,
            nodes_featureids=features,
            nodes_modes=modes,
            nodes_values_as_tensor=make("values", double, [len(values)], values),
            nodes_truenodeids=yes_ids,
            nodes_falsenodeids=no_ids,
            nodes_missing_value_tracks_true=missing_ids,
            target_treeids=[leaf[0] for leaf in leaves],
            target_nodeids=[leaf[1] for leaf in leaves],
            target_ids=[leaf[2] for leaf in leaves],
            target_weights_as_tensor=make("weights", double, [len(weights)], weights),
            base_values_as_tensor=make("base", double, [trees.outputs], trees.bias.tolist()),
            post_transform="NONE",
        )
        return self.cast(found, np.float32)

    # -- the end --------------------------------------------------------------------------------------------------

    def finished(self, model: Model, totals: Sequence[str]) -> Any:
        helper, types = self.onnx.helper, self.onnx.TensorProto
        if model.classes is None:
            found = self.add("Identity", totals[0])
            outputs = {found: ("prediction", types.FLOAT, [None, 1])}
            labels: Mapping[str, str] = {}
        else:
            found = self.probabilities(model, totals)
            label, kind = self.label(model, found)
            outputs = {
                found: ("probabilities", types.FLOAT, [None, len(model.classes)]),
                label: ("label", kind, [None]),
            }
            labels = {"classes": "\n".join(str(c) for c in model.classes.tolist())}
        made = [helper.make_tensor_value_info(*described) for described in outputs.values()]
        for value, described in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [described[0]]))
        graph = helper.make_graph(self.nodes, "headstart", [*self.inputs.values()], made, self.initializers)
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        proto = helper.make_model(graph, opset_imports=opsets, producer_name="headstart", ir_version=8)
        kinds = "\n".join(f"{name}: {self.schema.kinds[name]}" for name in self.inputs)
        proto.doc_string = _DESCRIPTION.format(target=model.target)
        helper.set_model_props(proto, {"target": model.target, "columns": kinds, **labels})
        self.onnx.checker.check_model(proto)
        return proto

    def probabilities(self, model: Model, totals: Sequence[str]) -> str:
        """Calibrated as `Decisions.calibrated` does it."""
        temperature = model.decisions.temperature
        if temperature == 1.0 and len(totals) == 1:
            return totals[0]
        low, high = self.constant(np.float32(1e-15)), self.constant(np.float32(1.0))
        logs = [self.add("Log", self.add("Clip", part, low, high)) for part in totals]
        mean = self.add("Mean", *logs)
        return self.add("Softmax", self.add("Div", mean, self.constant(np.float32(temperature))), axis=1)

    def label(self, model: Model, probabilities: str) -> tuple[str, int]:
        """The chosen class, and the type of labels."""
        assert model.classes is not None
        if model.decisions.factors is not None:
            factors = self.constant(np.asarray(model.decisions.factors, dtype=np.float32)[None])
            probabilities = self.add("Mul", probabilities, factors)
        places = self.add("ArgMax", probabilities, axis=1, keepdims=0)
        plain = model.classes.dtype.kind in "iu"
        labels = model.classes.astype(np.int64) if plain else np.array([str(c) for c in model.classes.tolist()], object)
        kinds = self.onnx.TensorProto
        return self.add("Gather", self.constant(labels), places), kinds.INT64 if plain else kinds.STRING


def _grown(estimator: Any) -> list[Any] | None:
    """The trees whose mean an estimator of scikit-learn predicts; None for others."""
    from sklearn import ensemble, tree

    forests = ensemble.RandomForestClassifier | ensemble.ExtraTreesClassifier
    if isinstance(estimator, forests | ensemble.RandomForestRegressor | ensemble.ExtraTreesRegressor):
        return [member.tree_ for member in estimator.estimators_] if estimator.n_outputs_ == 1 else None
    single = isinstance(estimator, tree.DecisionTreeClassifier | tree.DecisionTreeRegressor)
    return [estimator.tree_] if single and estimator.n_outputs_ == 1 else None


def _chain(step: Any) -> list[Any]:
    """The steps of a pipeline, or the step itself."""
    return [inner for _, inner in step.steps] if type(step).__name__ == "Pipeline" else [step]
