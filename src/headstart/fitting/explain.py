"""Why a model predicts what it predicts: the contribution of each raw column to each prediction, with shap.

Contributions are Shapley values (Lundberg and Lee, 2017). The players are the columns of the user's table, before any
encoding. A column that does not take part has the values of the *reference* rows instead of its own, one after the
other, and the prediction is the mean over them. Contributions and the mean prediction of the reference, the base, sum
to the prediction.

==========================================  =========================================================================
`Explanation.method` begins with            when
==========================================  =========================================================================
``exact: trees``                            the model is a weighted mean of trees, and each column is one of their
                                            inputs: shap's ``TreeExplainer``
``exact: all subsets``                      there are at most `FEW_COLUMNS` columns: shap's ``ExactExplainer``
``sampled``                                 otherwise: shap's ``PermutationExplainer``, in both directions
==========================================  =========================================================================

Boosters of classes add up logits, not probabilities, so they are not explained as trees; nor are columns that become
several inputs, such as dates, texts and one-hot encodings, for sums over inputs are not the Shapley value of a column.

A model keeps its reference: of each column at most `REFERENCE_ROWS` values that divide the training rows into equal
parts, each column in an order of its own. No row of the training table is among them, and no text.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headstart.data.columns import Kind
from headstart.errors import InvalidInput, MissingDependency

if TYPE_CHECKING:
    from headstart.data.schema import Schema
    from headstart.fitting.model import Model

Array = NDArray[np.float64]

REFERENCE_ROWS = 20
REFERENCE_CELLS = 20_000
"""Most cells of the reference; wide tables have fewer rows of it, `_LEAST_ROWS` at least."""
_LEAST_ROWS = 5
_SORTED_ROWS = 1_000
"""Most training rows that are looked at for the reference."""
FEW_COLUMNS = 8
ROWS_PER_PREDICTION = 3_000
"""About how many rows are predicted to explain one; a default ensemble on 20 columns takes half a second for them."""
_MOST_PERMUTATIONS = 20
_TOLERANCE = 1e-5


@dataclass(frozen=True, eq=False)
class Explanation:
    """Contributions of the columns to predictions.

    Parameters
    ----------
    values
        (rows, columns), or (rows, columns, classes) contributions to the probabilities.
    base
        (), or (classes,): the mean prediction of the reference.
    predictions
        (rows,), or (rows, classes); the sum of base and contributions.
    columns
        Names, in the order of `values`.
    classes
        The labels, in the order of `values`; None for a regression.
    data
        The explained rows, as the model sees them.
    method
        How it was computed: ``"exact: ..."`` or ``"sampled: ..."``.
    """

    values: Array
    base: Array
    predictions: Array
    columns: tuple[str, ...]
    classes: tuple[Any, ...] | None
    data: pd.DataFrame
    method: str

    def frame(self, label: Any = None) -> pd.DataFrame:
        """A row for each prediction: the base, a column of contributions for each column, and the prediction.

        Parameters
        ----------
        label
            The class whose probability is explained; by default the second of two, and the most probable of more.
        """
        if self.classes is None:
            if label is not None:
                raise InvalidInput("a regression has no classes; leave label (--class) out")
            values, base, predictions = self.values, np.broadcast_to(self.base, len(self.values)), self.predictions
        else:
            places = self._places(label)
            rows = np.arange(len(self.values))
            values, base, predictions = self.values[rows, :, places], self.base[places], self.predictions[rows, places]
        found = pd.DataFrame(values, columns=pd.Index(self.columns, dtype=object))
        found.insert(0, "(base)", base)
        if self.classes is not None:
            found.insert(0, "(class)", [self.classes[place] for place in places.tolist()])
        return found.assign(**{"(prediction)": predictions})

    def _places(self, label: Any) -> NDArray[np.int64]:
        assert self.classes is not None
        if label is None:
            chosen = self.predictions.argmax(axis=1) if len(self.classes) > 2 else np.ones(len(self.values))
            return chosen.astype(np.int64)
        known = [str(c) for c in self.classes]
        if str(label) not in known:
            raise InvalidInput(f"label (--class) must be one of {', '.join(known[:20])}, got {label!r}")
        return np.full(len(self.values), known.index(str(label)), dtype=np.int64)

    def to_shap(self) -> Any:
        """A ``shap.Explanation``, for the plots of shap."""
        shap = _shap()
        return shap.Explanation(
            self.values,
            np.broadcast_to(self.base, (len(self.values), *self.base.shape)),
            self.data[list(self.columns)].astype(object).to_numpy(),
            feature_names=list(self.columns),
            output_names=None if self.classes is None else [str(c) for c in self.classes],
        )

    def __str__(self) -> str:
        return f"{len(self.values)} predictions, {len(self.columns)} columns, {self.method}"


def make_reference(X: Any, schema: Schema, seed: int = 0) -> pd.DataFrame | None:
    """The reference of a training table in the form of `Dataset.X`; None for a sparse matrix."""
    if schema.n_sparse is not None:
        return None
    rng = np.random.default_rng(seed)
    n = min(REFERENCE_ROWS, max(_LEAST_ROWS, REFERENCE_CELLS // max(1, X.shape[1])), len(X))
    if len(X) > _SORTED_ROWS:
        X = X.iloc[np.sort(rng.choice(len(X), _SORTED_ROWS, replace=False))]
    places = ((np.arange(n) + 0.5) / n * len(X)).astype(np.int64)
    found = {}
    for name, kind in schema.kinds.items():
        if kind in (Kind.ID, Kind.CONSTANT):
            continue
        values = X[name].array
        chosen = np.full(n, -1) if kind is Kind.TEXT else rng.permutation(values.argsort(kind="stable")[places])
        found[name] = values.take(chosen, allow_fill=True)
    return completed(pd.DataFrame(found, index=pd.RangeIndex(n)), schema)


def completed(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The frame with all columns of the schema, those that it lacks missing."""
    return pd.DataFrame({n: frame[n] if n in frame.columns else np.nan for n in schema.names}, index=frame.index)


def explain(model: Model, ready: Any, reference: Any = None, seed: int = 0) -> Explanation:
    """The contributions of the columns to the predictions for a table in the form of `Dataset.X`.

    Parameters
    ----------
    reference
        Rows in the same form that stand for "without this column"; those that the model keeps by default.
    """
    if model.schema.n_sparse is not None:
        raise InvalidInput("explanations need a table with columns, but this model was fitted to a sparse matrix")
    reference = model.reference if reference is None else reference
    if reference is None:
        raise InvalidInput("this model is of an older file, without a reference; give background, or refit")
    names = [n for n, kind in model.schema.kinds.items() if kind not in (Kind.ID, Kind.CONSTANT)]
    predictions, base = model.predict_ready(ready), model.predict_ready(reference).mean(axis=0)
    shap = _shap()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = None if not names else _of_trees(shap, model, ready, reference, names, predictions - base)
        if not names:
            values, method = np.zeros((len(ready), 0, *model.shape)), "exact: the model uses no column"
        elif found is not None:
            values, method = found, f"exact: trees, against {len(reference)} reference rows"
        else:
            values, method = _of_any(shap, model, ready, reference, names, seed)
    classes = None if model.classes is None else tuple(model.classes.tolist())
    return Explanation(values, np.asarray(base), predictions, tuple(names), classes, ready, method)


def _shap() -> Any:
    try:
        import shap
    except ImportError as error:
        raise MissingDependency("explanations need shap; pip install 'headstart[explain]'") from error
    return shap


def _of_any(shap: Any, model: Model, ready: Any, reference: Any, names: Sequence[str], seed: int) -> tuple[Array, str]:
    """By predictions alone.

    shap sees a matrix of numbers: in place of a value, the first row that has it. So equal values are equal, and rows
    that a column does not change are not predicted again.
    """
    everything = pd.concat([ready, reference], ignore_index=True)
    places = np.empty((len(everything), len(names)), dtype=np.int64)
    for j, name in enumerate(names):
        codes = pd.factorize(everything[name], use_na_sentinel=False)[0]
        _, first = np.unique(codes, return_index=True)
        places[:, j] = first[codes]

    def predict(rows: Any) -> Array:
        chosen = np.asarray(rows).astype(np.int64)
        parts = {name: everything[name].array.take(chosen[:, j]) for j, name in enumerate(names)}
        return model.predict_ready(completed(pd.DataFrame(parts, index=pd.RangeIndex(len(chosen))), model.schema))

    masker = shap.maskers.Independent(places[len(ready) :], max_samples=len(reference))
    rows = f"against {len(reference)} reference rows"
    if len(names) <= FEW_COLUMNS:
        found = shap.explainers.Exact(predict, masker)(places[: len(ready)], silent=True)
        method = f"exact: all subsets of {len(names)} columns, {rows}"
    else:
        size = 2 * len(names) * len(reference)
        permutations = min(_MOST_PERMUTATIONS, max(1, ROWS_PER_PREDICTION // size))
        sampler = shap.explainers.Permutation(predict, masker, seed=seed)
        found = sampler(places[: len(ready)], max_evals=permutations * (2 * len(names) + 1), silent=True)
        times = "1 permutation" if permutations == 1 else f"{permutations} permutations"
        method = f"sampled: {times} of {len(names)} columns in both directions, {rows}"
    return np.asarray(found.values, dtype=np.float64), method


# -- trees ------------------------------------------------------------------------------------------------------------


def _of_trees(shap: Any, model: Model, ready: Any, reference: Any, names: Sequence[str], sums: Array) -> Array | None:
    """Contributions (rows, columns, ...) if the model is a mean of trees on the columns one by one, else None."""
    if model.classes is not None and (model.decisions.temperature != 1.0 or model.decisions.folds > 1):
        return None
    total = np.zeros((len(ready), len(names), *model.shape))
    for member in model.members:
        for fitted in member.models:
            try:
                found = _of_model(shap, fitted, ready, reference, names, model.shape)
            except Exception:  # shap raises many kinds for what it does not know, such as splits by category
                return None
            if found is None:
                return None
            total += member.weight / len(member.models) * found
    close = np.allclose(total.sum(axis=1), sums, rtol=_TOLERANCE, atol=_TOLERANCE * float(np.abs(sums).max() or 1))
    return total if close else None


def _of_model(
    shap: Any, fitted: Any, ready: Any, reference: Any, names: Sequence[str], shape: tuple[int, ...]
) -> Array | None:
    from headstart.evaluation.prediction import pipeline_steps

    *before, last = pipeline_steps(fitted)
    inputs = _inputs(before, ready, reference, names)
    trees = _trees(last, shape)
    if inputs is None or trees is None:
        return None
    order, X, background = inputs
    made_of, prepare = trees
    explainer = shap.TreeExplainer(made_of, prepare(background), feature_perturbation="interventional")
    found = np.asarray(explainer.shap_values(prepare(X), check_additivity=False))
    if shape:
        found = found.reshape(len(ready), len(names), -1)
        places = np.asarray(last.classes_, dtype=np.int64)
        spread = np.zeros((len(ready), len(names), *shape))
        spread[:, :, places] = found
        found = spread
    return np.asarray(found[:, [order.index(name) for name in names]])


def _inputs(
    before: Sequence[Any], ready: Any, reference: Any, names: Sequence[str]
) -> tuple[list[str], Any, Any] | None:
    """Names of the inputs of the last step, and both tables as it gets them; None if an input is not one column."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

    from headstart.components.encoders import TargetEncoder
    from headstart.components.prepare import PrepareTable

    one_by_one = (SimpleImputer, OrdinalEncoder, TargetEncoder, FunctionTransformer)  # the last passes columns on
    X, background, order = ready, reference, list(names)
    for step in before:
        if isinstance(step, ColumnTransformer):
            sides = [(side, columns) for _, side, columns in step.transformers_ if side != "drop" and len(columns)]
            if not all(isinstance(side, one_by_one) for side, _ in sides):
                return None
            order = [str(name) for _, columns in sides for name in columns]
        elif not isinstance(step, PrepareTable):
            return None
        X, background = step.transform(X), step.transform(background)
        if isinstance(step, PrepareTable):
            order = [str(name) for name in X.columns]
        if sorted(order) != sorted(names) or X.shape[1] != len(names):
            return None
    return order, X, background


def _trees(last: Any, shape: tuple[int, ...]) -> tuple[Any, Callable[[Any], Any]] | None:
    """Trees whose sum or mean an estimator predicts, for shap, and what makes their matrix; None for others."""
    from sklearn import ensemble, tree

    from headstart.components._booster import Booster

    def matrix(X: Any) -> Any:
        return np.asarray(X, dtype=np.float64)

    if isinstance(last, Booster):
        if shape or last.categories_ or last.model_ is None:
            return None
        library = type(last).__name__
        made_of = last.model_[: last.best_iteration_] if library.startswith("XGBoost") else last.model_
        return made_of, last._matrix
    inner = getattr(last, "model_", last)
    forests = (
        *(ensemble.RandomForestClassifier, ensemble.ExtraTreesClassifier, tree.DecisionTreeClassifier),
        *(ensemble.RandomForestRegressor, ensemble.ExtraTreesRegressor, tree.DecisionTreeRegressor),
    )
    return (inner, matrix) if isinstance(inner, forests) else None
