"""Transformers and estimators of numbers as nodes of ONNX, in double precision.

The converters of skl2onnx compute in single precision, in which a date in days or a product of columns keeps too few
digits for a linear model, and have no way for some parts. Here are those that a default search space has and that are
a few products of matrices; `transformed` and `estimated` return None for all others.

==================================  ===========================================================================
part                                 how
==================================  ===========================================================================
projections, clusters, scalers       affine: the matrix is what the part gives for the unit vectors
kernels                              of the rows that were kept
quantiles                            a tree finds the place of a value, tables have the line there; the normal
                                     distribution backwards by Wichura (1988), algorithm AS 241
discriminants, naive Bayes           log densities of classes, then a softmax
neighbours                           distances to all rows, then the nearest ones
==================================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.fitting.onnx_trees import NotConvertible, Trees

if TYPE_CHECKING:
    from headstart.fitting.onnx_export import Graph

Array = NDArray[np.float64]

_NEAR = 1e-14
"""Squared distances below this share of the squared lengths are 0."""
_EDGE = 1e-7 - np.spacing(1)
"""Shares are kept so far from 0 and 1 by scikit-learn before they become normal."""
_CENTRE = (
    (
        3.3871328727963665,
        133.14166789178438,
        1971.5909503065513,
        13731.69376550946,
        45921.95393154987,
        67265.7709270087,
        33430.57558358813,
        2509.0809287301227,
    ),
    (
        1.0,
        42.31333070160091,
        687.1870074920579,
        5394.196021424751,
        21213.794301586597,
        39307.89580009271,
        28729.085735721943,
        5226.495278852854,
    ),
)
_TAIL = (
    (
        1.4234371107496835,
        4.630337846156546,
        5.769497221460691,
        3.6478483247632045,
        1.2704582524523684,
        0.2417807251774506,
        0.022723844989269184,
        0.0007745450142783414,
    ),
    (
        1.0,
        2.053191626637759,
        1.6763848301838038,
        0.6897673349851,
        0.14810397642748008,
        0.015198666563616457,
        0.0005475938084995345,
        1.0507500716444169e-09,
    ),
)


def transformed(graph: Graph, step: Any, matrix: str) -> str | None:
    """What a transformer makes of a matrix of doubles."""
    make = _TRANSFORMERS.get(type(step).__name__)
    return None if make is None else make(graph, step, matrix)


def estimated(graph: Graph, model: Any, matrix: str) -> str | None:
    """Probabilities (n, classes) or numbers (n, 1) of an estimator, as doubles."""
    make = _ESTIMATORS.get(type(model).__name__)
    return None if make is None else make(graph, model, matrix)


# -- transformers -------------------------------------------------------------------------------------------------


def _affine(graph: Graph, step: Any, matrix: str) -> str:
    columns = int(step.n_features_in_)
    bias = np.asarray(step.transform(np.zeros((1, columns))), dtype=np.float64)
    weights = np.asarray(step.transform(np.eye(columns)), dtype=np.float64) - bias
    return _line(graph, matrix, weights, bias)


def _agglomeration(graph: Graph, step: Any, matrix: str) -> str:
    if step.labels_ is None:
        return matrix
    if step.pooling_func == "mean":
        return _affine(graph, step, matrix)
    pooled = []
    for cluster in range(step.labels_.max() + 1):
        members = np.flatnonzero(step.labels_ == cluster)
        own = graph.columns(matrix, members)
        if step.pooling_func == "max":
            pooled.append(graph.add("ReduceMax", own, graph.integers(1)))
            continue
        ranked = graph.add("TopK", own, graph.integers(len(members)), outputs=2, axis=1)
        middle = graph.columns(ranked, sorted({(len(members) - 1) // 2, len(members) // 2}))
        pooled.append(graph.add("ReduceMean", middle, graph.integers(1)))
    return graph.joined(pooled)


def _nystroem(graph: Graph, step: Any, matrix: str) -> str:
    names = {"gamma", "coef0", "degree"}
    given = {name: value for name in names if (value := getattr(step, name)) is not None}
    return _line(graph, _kernel(graph, matrix, step.components_, step.kernel, **given), step.normalization_.T)


def _kernel_pca(graph: Graph, step: Any, matrix: str) -> str:
    kernel = _kernel(graph, matrix, step.X_fit_, step.kernel, gamma=step.gamma_, coef0=step.coef0, degree=step.degree)
    known = step.eigenvalues_ > 0
    scaled = np.zeros_like(step.eigenvectors_)
    scaled[:, known] = step.eigenvectors_[:, known] / np.sqrt(step.eigenvalues_[known])
    rows, all_rows = step._centerer.K_fit_rows_, step._centerer.K_fit_all_
    own = graph.add("ReduceMean", kernel, graph.integers(1))
    centred = graph.add("Sub", graph.add("Sub", kernel, graph.doubles(rows[None] - all_rows)), own)
    return _line(graph, centred, scaled)


def _random_fourier(graph: Graph, step: Any, matrix: str) -> str:
    angles = _line(graph, matrix, step.random_weights_, step.random_offset_[None])
    return graph.add("Mul", graph.add("Cos", angles), graph.doubles(np.sqrt(2 / step.n_components)))


def _polynomial(graph: Graph, step: Any, matrix: str) -> str:
    """Each output is a product of `degree` columns; column d is 1."""
    powers = step.powers_
    degree = max(1, int(powers.sum(axis=1).max()))
    factors = np.full((degree, len(powers)), powers.shape[1])
    for i, own in enumerate(powers):
        chosen = np.repeat(np.arange(powers.shape[1]), own)
        factors[: len(chosen), i] = chosen
    one = graph.add("Pow", graph.columns(matrix, [0]), graph.doubles(0.0))
    wide = graph.joined([matrix, one])
    product = graph.columns(wide, factors[0])
    for own in factors[1:]:
        product = graph.add("Mul", product, graph.columns(wide, own))
    return product


def _quantiles(graph: Graph, step: Any, matrix: str) -> str:
    """Between two quantiles runs a line; equal quantiles are a jump, and the value itself is in its middle."""
    columns = step.quantiles_.shape[1]
    trees = Trees(columns, strict=True, bias=np.zeros(columns))
    tables: list[Array] = []
    offsets: list[int] = []
    for j, known in enumerate(step.quantiles_.T):
        places, first = np.unique(known, return_index=True)
        last = len(known) - 1 - np.unique(known[::-1], return_index=True)[1]
        low, high = step.references_[first], step.references_[last]
        at = (low + high) / 2
        at[-1], at[0] = 1.0, 0.0
        slopes = np.append((low[1:] - high[:-1]) / np.diff(places), 0.0)
        high = np.append(high[:-1], 1.0)
        offsets.append(sum(table.shape[1] for table in tables))
        before = [[places[0]], [0.0], [0.0], [0.0]]
        tables.append(np.hstack([before, np.stack([places, at, high, slopes])]))
        _search_tree(trees, j, places)
    found = graph.add("Round", graph.cast(graph.ensemble(trees, matrix), np.float64))
    rows = graph.cast(graph.add("Add", found, graph.doubles(np.array(offsets)[None])), np.int64)
    value, equal, start, slope = (graph.add("Gather", graph.doubles(table), rows) for table in np.hstack(tables))
    moved = graph.add("Mul", slope, graph.add("Sub", matrix, value))
    share = graph.add("Where", graph.add("Equal", matrix, value), equal, graph.add("Add", start, moved))
    share = graph.add("Where", graph.add("IsNaN", matrix), matrix, share)
    if step.output_distribution == "uniform":
        return share
    ends = ((step.quantiles_[-1] - 1e-7, "Greater", 1.0), (step.quantiles_[0] + 1e-7, "Less", 0.0))
    for bound, beyond, end in ends:
        outside = graph.add(beyond, matrix, graph.doubles(bound[None]))
        share = graph.add("Where", outside, graph.doubles(end), share)
    return _normal_quantile(graph, graph.add("Clip", share, graph.doubles(_EDGE), graph.doubles(1 - _EDGE)))


def _search_tree(trees: Trees, column: int, places: Array) -> None:
    """A tree whose leaf says how many places a number has reached."""
    trees.trees += 1
    left = [(0, 0, len(places))]
    count = 1
    while left:
        node, low, high = left.pop()
        if low == high:
            trees.leaf(node, column, low)
            continue
        middle = (low + high) // 2
        trees.split(node, column, float(places[middle]), count, count + 1, True)
        left += [(count, low, middle), (count + 1, middle + 1, high)]
        count += 2


def _normal_quantile(graph: Graph, share: str) -> str:
    """The normal quantile of shares between 1e-7 and 1 - 1e-7."""

    def ratio(of: str, coefficients: Sequence[Sequence[float]]) -> str:
        found = []
        for own in coefficients:
            total = graph.doubles(own[-1])
            for value in own[-2::-1]:
                total = graph.add("Add", graph.add("Mul", total, of), graph.doubles(value))
            found.append(total)
        return graph.add("Div", *found)

    off = graph.add("Sub", share, graph.doubles(0.5))
    inner = graph.add("Sub", graph.doubles(0.180625), graph.add("Mul", off, off))
    centre = graph.add("Mul", off, ratio(inner, _CENTRE))
    rest = graph.add("Sub", graph.doubles(0.5), graph.add("Abs", off))
    depth = graph.add("Sqrt", graph.add("Neg", graph.add("Log", rest)))
    tail = graph.add("Mul", graph.add("Sign", off), ratio(graph.add("Sub", depth, graph.doubles(1.6)), _TAIL))
    near = graph.add("LessOrEqual", graph.add("Abs", off), graph.doubles(0.425))
    return graph.add("Where", near, centre, tail)


# -- estimators ---------------------------------------------------------------------------------------------------


def _linear(graph: Graph, model: Any, matrix: str) -> str:
    """Numbers (n, 1), or decision values (n, classes); one column for two classes."""
    coefficients = np.atleast_2d(model.coef_)
    bias = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64).reshape(1, -1), (1, len(coefficients)))
    return _line(graph, matrix, coefficients.T, bias)


def _logistic(graph: Graph, model: Any, matrix: str) -> str:
    values = _linear(graph, model, matrix)
    return _two(graph, graph.add("Sigmoid", values)) if len(model.classes_) == 2 else _softmax(graph, values)


def _sgd(graph: Graph, model: Any, matrix: str) -> str | None:
    if model.loss == "modified_huber":
        return None
    if model.loss != "log_loss" or len(model.classes_) == 2:
        return _logistic(graph, model, matrix)  # without probabilities of its own, as `_MarginClassifier` does it
    return _shares(graph, graph.add("Sigmoid", _linear(graph, model, matrix)))


def _one_versus_rest(graph: Graph, model: Any, matrix: str) -> str | None:
    found = [estimated(graph, own, matrix) for own in model.estimators_]
    if len(found) == 1 or any(own is None for own in found):
        return None
    return _shares(graph, graph.joined([graph.columns(str(own), [1]) for own in found]))


def _calibrated(graph: Graph, model: Any, matrix: str) -> str | None:
    """A sigmoid of decision values."""
    (own,) = model.calibrated_classifiers_ if len(model.calibrated_classifiers_) == 1 else (None,)
    if own is None or own.method != "sigmoid" or not hasattr(own.estimator, "coef_") or _is_kernel(own.estimator):
        return None
    values = _linear(graph, own.estimator, matrix)
    slopes = np.array([[calibrator.a_ for calibrator in own.calibrators]])
    offsets = np.array([[calibrator.b_ for calibrator in own.calibrators]])
    logits = graph.add("Add", graph.add("Mul", values, graph.doubles(-slopes)), graph.doubles(-offsets))
    found = graph.add("Sigmoid", logits)
    return _two(graph, found) if len(model.classes_) == 2 else _shares(graph, found)


def _is_kernel(model: Any) -> bool:
    return hasattr(model, "support_vectors_")


def _perceptron(graph: Graph, model: Any, matrix: str) -> str:
    functions = {"logistic": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
    for i, (weights, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        matrix = _line(graph, matrix, weights, bias[None])
        name = model.activation if i + 1 < len(model.coefs_) else model.out_activation_
        if name == "softmax":
            return _softmax(graph, matrix)
        matrix = graph.add(functions[name], matrix) if name != "identity" else matrix
    return _two(graph, matrix) if model.out_activation_ == "logistic" else matrix


def _gaussian_bayes(graph: Graph, model: Any, matrix: str) -> str:
    unit = np.eye(model.n_features_in_)
    priors = np.log(model.class_prior_)
    return _densities(graph, matrix, model.theta_, [unit] * len(priors), model.var_, priors, 2 * np.pi)


def _quadratic(graph: Graph, model: Any, matrix: str) -> str:
    return _densities(graph, matrix, model.means_, model.directions_, model.variances_, model.log_priors_, 1.0)


def _densities(
    graph: Graph, matrix: str, means: Any, directions: Any, variances: Any, log_priors: Any, factor: float
) -> str:
    """Probabilities of normal distributions, one for each class."""
    scores = []
    for mean, turned, variance, prior in zip(means, directions, variances, log_priors, strict=True):
        off = _line(graph, graph.add("Sub", matrix, graph.doubles(mean[None])), turned)
        distance = graph.add("MatMul", graph.add("Mul", off, off), graph.doubles(-0.5 / variance[:, None]))
        bias = prior - 0.5 * np.log(factor * variance).sum()
        scores.append(graph.add("Add", distance, graph.doubles(bias)))
    return _softmax(graph, graph.joined(scores))


def _multinomial_bayes(graph: Graph, model: Any, matrix: str) -> str:
    return _softmax(graph, _line(graph, matrix, model.feature_log_prob_.T, model.class_log_prior_[None]))


def _neighbours(graph: Graph, model: Any, matrix: str) -> str | None:
    if model.effective_metric_ not in ("euclidean", "manhattan") or model.weights not in ("uniform", "distance"):
        return None
    rows = np.asarray(model._fit_X, dtype=np.float64)
    square = model.effective_metric_ == "euclidean"
    if square and model._fit_method == "brute":
        distances = _squared_distances(graph, matrix, rows)
    else:
        parts = []
        for j in range(rows.shape[1]):
            off = graph.add("Sub", graph.columns(matrix, [j]), graph.doubles(rows[:, j][None]))
            parts.append(graph.add("Mul", off, off) if square else graph.add("Abs", off))
        distances = graph.add("Sum", *parts)
    nearest = graph.add("TopK", distances, graph.integers(model.n_neighbors), outputs=2, axis=1, largest=0)
    near = graph.nodes[-1].output[1]
    truth = np.asarray(model._y)
    classes = getattr(model, "classes_", None)
    table = truth.reshape(-1, 1).astype(np.float64) if classes is None else np.eye(len(classes))[truth.reshape(-1)]
    chosen = graph.add("Gather", graph.doubles(table), near, axis=0)  # (n, neighbours, outputs)
    if model.weights == "uniform":
        return graph.add("ReduceMean", chosen, graph.integers(1), keepdims=0)
    away = graph.add("Sqrt", nearest) if square else nearest
    same = graph.cast(graph.add("Equal", away, graph.doubles(0.0)), np.float64)
    any_same = graph.add("ReduceMax", same, graph.integers(1))
    safe = graph.add("Add", away, same)
    by_distance = graph.add("Div", graph.doubles(1.0), safe)
    weights = graph.add("Where", graph.add("Greater", any_same, graph.doubles(0.5)), same, by_distance)
    weights = graph.add("Div", weights, graph.add("ReduceSum", weights, graph.integers(1)))
    weighted = graph.add("Mul", chosen, graph.add("Unsqueeze", weights, graph.integers(2)))
    return graph.add("ReduceSum", weighted, graph.integers(1), keepdims=0)


def _support_vectors(graph: Graph, model: Any, matrix: str) -> str:
    kernel = _kernel(
        graph, matrix, model.support_vectors_, model.kernel, gamma=model._gamma, coef0=model.coef0, degree=model.degree
    )
    return _line(graph, kernel, model.dual_coef_.T, model.intercept_[None])


def _process(graph: Graph, model: Any, matrix: str) -> str:
    kernel = _covariance(graph, model.kernel_, matrix, model.X_train_)
    scale, mean = float(model._y_train_std), float(model._y_train_mean)
    return _line(graph, kernel, scale * model.alpha_.reshape(-1, 1), np.array([[mean]]))


def _process_classifier(graph: Graph, model: Any, matrix: str) -> str:  # noqa: ARG001
    raise NotConvertible("GaussianProcessClassifier")


# -- pieces -------------------------------------------------------------------------------------------------------


def _line(graph: Graph, matrix: str, weights: Any, bias: Any = None) -> str:
    product = graph.add("MatMul", matrix, graph.doubles(weights))
    return product if bias is None else graph.add("Add", product, graph.doubles(bias))


def _softmax(graph: Graph, scores: str) -> str:
    return graph.add("Softmax", scores, axis=1)


def _shares(graph: Graph, values: str) -> str:
    """Rows that sum to 1; where all are 0, equal shares."""
    total = graph.add("ReduceSum", values, graph.integers(1))
    none = graph.cast(graph.add("Equal", total, graph.doubles(0.0)), np.float64)
    filled = graph.add("Add", values, none)
    return graph.add("Div", filled, graph.add("ReduceSum", filled, graph.integers(1)))


def _two(graph: Graph, second: str) -> str:
    return graph.joined([graph.add("Sub", graph.doubles(1.0), second), second])


def _squared_distances(graph: Graph, matrix: str, rows: Array) -> str:
    own = graph.add("ReduceSum", graph.add("Mul", matrix, matrix), graph.integers(1))
    lengths = graph.add("Add", own, graph.doubles((rows**2).sum(axis=1)[None]))
    found = graph.add("Sub", lengths, graph.add("MatMul", matrix, graph.doubles(2 * rows.T)))
    near = graph.add("LessOrEqual", found, graph.add("Mul", lengths, graph.doubles(_NEAR)))
    return graph.add("Where", near, graph.doubles(0.0), found)


def _kernel(graph: Graph, matrix: str, rows: Any, name: str, **settings: Any) -> str:
    """A kernel of scikit-learn between new rows and `rows`."""
    rows = np.asarray(rows, dtype=np.float64)
    gamma = graph.doubles(settings.get("gamma") or 1.0 / rows.shape[1])
    if name == "rbf":
        return graph.add("Exp", graph.add("Neg", graph.add("Mul", _squared_distances(graph, matrix, rows), gamma)))
    if name == "cosine":
        length = graph.add("Sqrt", graph.add("ReduceSum", graph.add("Mul", matrix, matrix), graph.integers(1)))
        empty = graph.cast(graph.add("Equal", length, graph.doubles(0.0)), np.float64)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit = rows / np.where(lengths == 0, 1.0, lengths)
        return graph.add("MatMul", graph.add("Div", matrix, graph.add("Add", length, empty)), graph.doubles(unit.T))
    product = graph.add("MatMul", matrix, graph.doubles(rows.T))
    if name == "linear":
        return product
    moved = graph.add("Add", graph.add("Mul", product, gamma), graph.doubles(settings.get("coef0", 1.0)))
    if name in ("poly", "polynomial"):
        return graph.add("Pow", moved, graph.doubles(settings.get("degree", 3)))
    if name == "sigmoid":
        return graph.add("Tanh", moved)
    raise NotConvertible(f"the kernel {name!r}")


def _covariance(graph: Graph, kernel: Any, matrix: str, rows: Array) -> str:
    """A kernel of a Gaussian process between new rows and `rows`."""
    name = type(kernel).__name__
    if name == "Sum" and type(kernel.k2).__name__ == "WhiteKernel":
        return _covariance(graph, kernel.k1, matrix, rows)
    if name == "Product" and type(kernel.k1).__name__ == "ConstantKernel":
        inner = _covariance(graph, kernel.k2, matrix, rows)
        return graph.add("Mul", inner, graph.doubles(kernel.k1.constant_value))
    square = _squared_distances(graph, matrix, rows)
    if name == "RBF":
        return graph.add("Exp", graph.add("Mul", square, graph.doubles(-0.5 / kernel.length_scale**2)))
    if name == "RationalQuadratic":
        inner = graph.add("Mul", square, graph.doubles(0.5 / (kernel.alpha * kernel.length_scale**2)))
        return graph.add("Pow", graph.add("Add", inner, graph.doubles(1.0)), graph.doubles(-kernel.alpha))
    if name == "Matern" and kernel.nu in (1.5, 2.5):
        away = graph.add("Mul", graph.add("Sqrt", square), graph.doubles(np.sqrt(2 * kernel.nu) / kernel.length_scale))
        factor = graph.add("Add", away, graph.doubles(1.0))
        if kernel.nu == 2.5:
            factor = graph.add("Add", factor, graph.add("Div", graph.add("Mul", away, away), graph.doubles(3.0)))
        return graph.add("Mul", factor, graph.add("Exp", graph.add("Neg", away)))
    raise NotConvertible(f"a Gaussian process with the kernel {name}")


_AFFINE = (
    "PCA",
    "TruncatedSVD",
    "FastICA",
    "FactorAnalysis",
    "RobustScaler",
    "GaussianRandomProjection",
    "SparseRandomProjection",
)
_TRANSFORMERS: dict[str, Callable[[Graph, Any, str], str]] = {
    **dict.fromkeys(_AFFINE, _affine),
    "Agglomeration": _agglomeration,
    "Nystroem": _nystroem,
    "KernelPCA": _kernel_pca,
    "RBFSampler": _random_fourier,
    "PolynomialFeatures": _polynomial,
    "QuantileTransformer": _quantiles,
}
_ESTIMATORS: dict[str, Callable[[Graph, Any, str], str | None]] = {
    **dict.fromkeys(("Ridge", "ElasticNet", "SGDRegressor", "LinearSVR"), _linear),
    **dict.fromkeys(("LogisticRegression", "LinearDiscriminantAnalysis", "LinearSVC", "Perceptron"), _logistic),
    "SGDClassifier": _sgd,
    "_OneVersusRest": _one_versus_rest,
    "CalibratedClassifierCV": _calibrated,
    **dict.fromkeys(("MLPClassifier", "MLPRegressor"), _perceptron),
    "GaussianNB": _gaussian_bayes,
    "QDA": _quadratic,
    "MultinomialNB": _multinomial_bayes,
    **dict.fromkeys(("KNeighborsClassifier", "KNeighborsRegressor"), _neighbours),
    "SVR": _support_vectors,
    "GaussianProcessRegressor": _process,
    "GaussianProcessClassifier": _process_classifier,
}
