"""Statistics of columns, and of columns with the target.

Canonical correlations r_1 ≥ r_2 ≥ … between the attributes and the classes (all but one, as 0 and 1; of a regression
the number to predict) are computed from the covariance matrices. What multivariate analysis of variance makes of them:

=====================  ==================
Wilks' lambda          Π (1 - r²)
Pillai's trace         Σ r²
Lawley-Hotelling       Σ r² / (1 - r²)
Roy's largest root     max r² / (1 - r²)
=====================  ==================
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from headstart.metafeatures.handcrafted.columns import (
    attributes,
    class_means,
    covariance,
    distinct,
    eigenvalues,
    filled,
    in_order,
    quantile,
    standardised,
)
from headstart.metafeatures.handcrafted.declare import Family, shared
from headstart.metafeatures.handcrafted.simple import constant_as_zero, moments
from headstart.metafeatures.handcrafted.table import Array, Table

_family = Family("statistical")
_one, _each = _family.one, _family.each
_NORMAL_ROWS, _NORMAL_COLUMNS = 5_000, 200
"""Of the test for normality, which takes long; the number of normal columns is scaled up to all."""
_RANK = 1e-10
"""Relative to the largest; smaller eigenvalues count as 0."""


@shared
def column_moments(table: Table) -> tuple[Array, Array]:
    """Skewness and kurtosis of the numeric columns, 0 and -3 of a constant."""
    return constant_as_zero(moments(filled(table)))


@shared
def attribute_moments(table: Table) -> tuple[Array, Array]:
    """Of the attributes, as pymfe corrects them: with moments divided by n and a variance divided by n - 1."""
    skewness, kurtosis = moments(attributes(table))
    shrunk = 1.0 - 1.0 / table.n
    return skewness * shrunk**1.5, (kurtosis + 3.0) * shrunk**2 - 3.0


@shared
def correlations(table: Table) -> Array:
    """Absolute ones of all pairs of attributes; NaN with a constant."""
    deviation = np.sqrt(np.diag(covariance(table)))
    apart = np.where(deviation > 1e-14 * np.abs(attributes(table)).max(axis=0, initial=1e-300), deviation, np.nan)
    lower = np.tril_indices(len(apart), k=-1)
    return np.minimum(np.abs((covariance(table) / apart[:, None] / apart)[lower]), 1.0)


@shared
def canonical_correlations(table: Table) -> Array:
    """Those that are not 0, the largest first."""
    if table.regression:
        response = table.target[:, None]
    else:
        response = np.eye(len(table.label_counts))[table.labels][:, 1:]
    if not response.shape[1] or not attributes(table).shape[1]:
        return np.zeros(0)
    scale = np.sqrt(np.diag(covariance(table)))
    varies = scale > 1e-12 * np.maximum(np.abs(attributes(table)).max(axis=0), 1e-300)
    columns = (attributes(table)[:, varies] - attributes(table)[:, varies].mean(axis=0)) / scale[varies]
    response = response - response.mean(axis=0)
    left, right = _whitening(columns), _whitening(response)
    found = np.linalg.svd(left.T @ (columns.T @ response) @ right, compute_uv=False)
    return np.clip(found[found > 1e-8], 0.0, 1.0)


def _whitening(columns: Array) -> Array:
    """A matrix that makes columns uncorrelated, of unit length and linearly independent."""
    values, vectors = np.linalg.eigh(columns.T @ columns)
    kept = values > _RANK * max(values.max(initial=0.0), 1e-300)
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def _roots(table: Table) -> Array:
    """Eigenvalues r² / (1 - r²) of the canonical correlations."""
    squares = canonical_correlations(table) ** 2
    return squares / np.where(squares < 1.0, 1.0 - squares, np.nan)


def _geometric_means(table: Table) -> Array:
    low, columns = in_order(table)[0], attributes(table)
    positive = low >= 1e-10
    found = np.where(low < 0.0, np.nan, 0.0)
    found[positive] = np.exp(np.log(columns[:, positive]).mean(axis=0))
    return found


def _harmonic_means(table: Table) -> Array:
    low, columns = in_order(table)[0], attributes(table)
    positive = low > 0.0
    found = np.where(low < 0.0, np.nan, 0.0)
    found[positive] = 1.0 / (1.0 / columns[:, positive]).mean(axis=0)
    return found


def _deviations_from_median(table: Table) -> Array:
    apart = np.abs(attributes(table) - quantile(in_order(table), 0.5))
    return 1.4826 * np.median(apart, axis=0)


def _trimmed_means(table: Table) -> Array:
    cut = int(0.2 * table.n)
    return np.asarray(in_order(table)[cut : table.n - cut].mean(axis=0))


def _gravity(table: Table) -> float:
    """Between centres of the most frequent and the rarest class; of a regression, of the highest and lowest fifth."""
    counts = table.label_counts
    if len(counts) < 2:
        return np.nan
    most = len(counts) - 1 if table.regression else int(counts.argmax())
    others = np.delete(np.arange(len(counts)), most)
    least = 0 if table.regression else int(others[counts[others].argmin()])
    centres = class_means(table)
    return float(np.linalg.norm(centres[most] - centres[least]))


def _share_correlated(table: Table) -> float:
    found = correlations(table)
    return float((found >= 0.5).sum() / len(found)) if len(found) else np.nan


def _n_normal(table: Table) -> float:
    columns = attributes(table)
    p = columns.shape[1]
    chosen = np.arange(p)
    if p > _NORMAL_COLUMNS:
        chosen = np.sort(np.random.default_rng([table.seed, 2]).choice(p, _NORMAL_COLUMNS, replace=False))
    if table.n < 3:
        return np.nan
    normal = [stats.shapiro(columns[:_NORMAL_ROWS, i]).pvalue > 0.05 for i in chosen]
    return float(np.mean(normal)) * p if len(normal) else np.nan


def _n_with_outliers(table: Table) -> int:
    ordered = in_order(table)
    first, third = quantile(ordered, 0.25), quantile(ordered, 0.75)
    fence = 1.5 * (third - first)
    return int(((first - fence > ordered[0]) | (third + fence < ordered[-1])).sum())


def _sd_ratio(table: Table) -> float:
    """Box's M: how unlike the covariances of the classes are; 1 if they are the same."""
    counts, p = table.label_counts, attributes(table).shape[1]
    k, n = len(counts), table.n
    if k < 2 or counts.min() <= p or not p:
        return np.nan
    weights = counts - 1.0
    of_class = [np.atleast_2d(np.cov(attributes(table)[table.labels == c], rowvar=False)) for c in range(k)]
    pooled = sum(w * c for w, c in zip(weights, of_class, strict=True)) / (n - k)
    signs, logs = zip(*(np.linalg.slogdet(c) for c in (*of_class, pooled)), strict=True)
    if min(signs) <= 0 or min(np.linalg.matrix_rank(c) for c in of_class) < p:
        return np.nan
    correction = (2.0 * p**2 + 3.0 * p - 1.0) / (6.0 * (p + 1.0) * (k - 1.0))
    gamma = 1.0 - correction * ((1.0 / weights).sum() - 1.0 / (n - k))
    statistic = gamma * ((n - k) * logs[-1] - weights @ np.array(logs[:-1]))
    return float(np.exp(statistic / (p * (n - k))))


def _sparsities(table: Table) -> Array:
    counts = np.concatenate(distinct(table))
    return (table.n / np.maximum(counts, 1) - 1.0) / max(table.n - 1.0, 1.0)


@shared
def principal_components(table: Table) -> tuple[Array, Array]:
    """Variances of auto-sklearn's encoding along its principal components, the largest first, and scores on the first.

    Of the two directions that the first one can have, that in which the score farthest from 0 is positive.
    """
    columns = standardised(table) - standardised(table).mean(axis=0)
    gram = columns @ columns.T if table.n < columns.shape[1] else columns.T @ columns
    values, vectors = np.linalg.eigh(gram)
    first = vectors[:, -1]
    scores = first * np.sqrt(max(values[-1], 0.0)) if table.n < columns.shape[1] else columns @ first
    return np.maximum(values[::-1], 0.0), scores * np.sign(scores[np.abs(scores).argmax()])


def n_components(variances: Array, share: float = 0.95) -> int:
    """How many of the largest variances sum up to a share of all."""
    total = variances.sum()
    if not total > 0:
        return 0
    return min(int(np.searchsorted(np.cumsum(variances) / total, share, side="right")) + 1, len(variances))


def _component_share(table: Table) -> float:
    q = standardised(table).shape[1]
    return n_components(principal_components(table)[0]) / q if q else np.nan


def _component_moment(table: Table, which: int) -> float:
    return float(moments(principal_components(table)[1][:, None])[which][0])


def _summary(which: int, function: str) -> object:
    """Of the skewness (0) or kurtosis (1) of numeric columns; 0 if there are none."""

    def of_table(table: Table) -> float:
        found = column_moments(table)[which]
        return float(getattr(found, function)()) if len(found) else 0.0

    return of_table


FEATURES = (
    # auto-sklearn: of numeric columns
    *(
        _one(f"{name}{suffix}", f"{text} {what} of numeric columns", _summary(which, function))  # type: ignore[arg-type]
        for which, name, what in ((0, "Skewness", "skewness"), (1, "Kurtosis", "excess kurtosis"))
        for suffix, text, function in (
            ("Min", "least", "min"),
            ("Max", "largest", "max"),
            ("Mean", "mean", "mean"),
            ("STD", "standard deviation of the", "std"),
        )
    ),
    _one(
        "PCAFractionOfComponentsFor95PercentVariance",
        "share of the components that explain 95 % of the variance",
        _component_share,
    ),
    _one("PCASkewnessFirstPC", "skewness of the first component", lambda t: _component_moment(t, 0)),
    _one("PCAKurtosisFirstPC", "excess kurtosis of the first component", lambda t: _component_moment(t, 1)),
    # pymfe: of attributes
    _each("can_cor", "canonical correlations with the classes", canonical_correlations),
    _each("cor", "absolute correlation of two attributes", correlations),
    _each(
        "cov",
        "absolute covariance of two attributes",
        lambda t: np.abs(covariance(t)[np.tril_indices(len(covariance(t)), k=-1)]),
    ),
    _each("eigenvalues", "eigenvalue of the covariance", eigenvalues),
    _each("g_mean", "geometric mean of an attribute without negative values", _geometric_means),
    _one("gravity", "distance between the centres of the largest and the smallest class", _gravity),
    _each("h_mean", "harmonic mean of an attribute without negative values", _harmonic_means),
    _each("iq_range", "interquartile range", lambda t: quantile(in_order(t), 0.75) - quantile(in_order(t), 0.25)),
    _each("kurtosis", "excess kurtosis of an attribute", lambda t: attribute_moments(t)[1]),
    _one("lh_trace", "Lawley-Hotelling trace", lambda t: _roots(t).sum() if len(_roots(t)) else np.nan),
    _each("mad", "median absolute deviation, times 1.4826", _deviations_from_median),
    _each("max", "largest value", lambda t: in_order(t)[-1]),
    _each("mean", "mean", lambda t: attributes(t).mean(axis=0)),
    _each("median", "median", lambda t: quantile(in_order(t), 0.5)),
    _each("min", "least value", lambda t: in_order(t)[0]),
    _one("nr_cor_attr", "share of pairs of attributes with a correlation of at least 0.5", _share_correlated),
    _one(
        "nr_disc",
        "canonical correlations that are not 0",
        lambda t: len(canonical_correlations(t)) or np.nan,
    ),
    _one("nr_norm", "attributes that pass for normal (Shapiro-Wilk, 5 %)", _n_normal),
    _one("nr_outliers", "attributes with values beyond 1.5 interquartile ranges", _n_with_outliers),
    _one(
        "p_trace",
        "Pillai's trace",
        lambda t: (canonical_correlations(t) ** 2).sum() if len(canonical_correlations(t)) else np.nan,
    ),
    _each("range", "range of an attribute", lambda t: in_order(t)[-1] - in_order(t)[0]),
    _one("roy_root", "Roy's largest root", lambda t: _roots(t).max() if len(_roots(t)) else np.nan),
    _each("sd", "standard deviation of an attribute", lambda t: np.sqrt(np.diag(covariance(t)))),
    _one("sd_ratio", "Box's test of the covariances of the classes being the same", _sd_ratio),
    _each("skewness", "skewness of an attribute", lambda t: attribute_moments(t)[0]),
    _each("sparsity", "how often values of a column repeat, between 0 and 1", _sparsities),
    _each("t_mean", "mean without a fifth at either end", _trimmed_means),
    _each("var", "variance of an attribute", lambda t: np.diag(covariance(t))),
    _one(
        "w_lambda",
        "Wilks' lambda",
        lambda t: (1.0 - canonical_correlations(t) ** 2).prod() if len(canonical_correlations(t)) else np.nan,
    ),
)
