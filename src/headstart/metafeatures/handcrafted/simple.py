"""Sizes, shares and cardinalities: what counting tells.

In auto-sklearn's names (Feurer et al. 2015), BYU's (Metalearn) and pymfe's, which count the same in part. Where a ratio
would divide by nothing, auto-sklearn's is 0 and pymfe's cannot be computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from headstart.metafeatures.handcrafted.columns import distinct
from headstart.metafeatures.handcrafted.declare import Family, Feature, shared
from headstart.metafeatures.handcrafted.table import Array, Table

_family = Family("simple")
_one, _each = _family.one, _family.each


@shared
def class_shares(table: Table) -> Array:
    """Relative frequencies of the classes."""
    return table.sizes.class_counts / table.sizes.rows


def entropy(counts: Any) -> float:
    """Of counts, in nats."""
    shares = np.asarray(counts, dtype=np.float64)
    shares = shares[shares > 0] / shares.sum()
    return float(-(shares * np.log(shares)).sum())


def moments(values: Array) -> tuple[Array, Array]:
    """Skewness and excess kurtosis of each column, without correction for bias; NaN where it is constant."""
    skewness, kurtosis = np.full((2, values.shape[1]), np.nan)
    for i, column in enumerate(values.T):
        peak = np.abs(column).max(initial=0.0)
        centred = column / (peak or 1.0)
        centred = centred - centred.mean()
        square = centred * centred
        variance = square.mean()
        if variance > 1e-28:
            skewness[i] = (square @ centred) / len(column) / variance**1.5
            kurtosis[i] = (square @ square) / len(column) / variance**2 - 3.0
    return skewness, kurtosis


def constant_as_zero(found: tuple[Array, Array]) -> tuple[Array, Array]:
    """Moments as they were published: those of a constant are 0, so that its excess kurtosis is -3."""
    return np.nan_to_num(found[0], nan=0.0), np.nan_to_num(found[1], nan=-3.0)


def _ratio(above: float, below: float, otherwise: float = 0.0) -> float:
    return above / below if below else otherwise


def _summaries(of: str, what: str, values: Any) -> tuple[Feature, ...]:
    """BYU's nine summaries of a list; all are 0 of an empty one."""

    def summary(function: Any) -> Any:
        def of_table(table: Table) -> float:
            found = np.asarray(values(table), dtype=np.float64)
            return float(function(found)) if len(found) else 0.0

        return of_table

    def moment(which: int) -> Any:
        return lambda found: constant_as_zero(moments(found[:, None]))[which][0]

    return (
        _one(f"Mean{of}", f"mean of {what}", summary(np.mean)),
        _one(f"Stdev{of}", f"standard deviation of {what}", summary(lambda v: v.std(ddof=1) if len(v) > 1 else 0.0)),
        _one(f"Skew{of}", f"skewness of {what}", summary(moment(0))),
        _one(f"Kurtosis{of}", f"excess kurtosis of {what}", summary(moment(1))),
        _one(f"Min{of}", f"least of {what}", summary(np.min)),
        _one(f"Quartile1{of}", f"first quartile of {what}", summary(lambda v: np.quantile(v, 0.25))),
        _one(f"Quartile2{of}", f"median of {what}", summary(np.median)),
        _one(f"Quartile3{of}", f"third quartile of {what}", summary(lambda v: np.quantile(v, 0.75))),
        _one(f"Max{of}", f"largest of {what}", summary(np.max)),
    )


def _symbols(table: Table) -> Array:
    levels = distinct(table)[1].astype(np.float64)
    return levels[levels > 0]


def _binary(table: Table) -> int:
    return sum(int((counts == 2).sum()) for counts in distinct(table))


FEATURES = (
    # auto-sklearn
    _one("NumberOfInstances", "rows", lambda t: t.sizes.rows),
    _one("LogNumberOfInstances", "logarithm of rows", lambda t: np.log(t.sizes.rows)),
    _one("NumberOfFeatures", "columns", lambda t: t.sizes.columns),
    _one("LogNumberOfFeatures", "logarithm of columns", lambda t: np.log(t.sizes.columns)),
    _one("NumberOfClasses", "classes; of a regression, different values", lambda t: t.sizes.classes),
    _one("NumberOfNumericFeatures", "numeric columns", lambda t: t.sizes.numeric),
    _one("NumberOfCategoricalFeatures", "categorical columns", lambda t: t.sizes.categorical),
    _one("NumberOfMissingValues", "missing values", lambda t: t.sizes.missing_cells),
    _one("NumberOfInstancesWithMissingValues", "rows with missing values", lambda t: t.sizes.missing_rows),
    _one("NumberOfFeaturesWithMissingValues", "columns with missing values", lambda t: t.sizes.missing_columns),
    _one(
        "PercentageOfMissingValues",
        "share of values that are missing",
        lambda t: t.sizes.missing_cells / (t.sizes.rows * t.sizes.columns),
    ),
    _one(
        "PercentageOfInstancesWithMissingValues",
        "share of rows with missing values",
        lambda t: t.sizes.missing_rows / t.sizes.rows,
    ),
    _one(
        "PercentageOfFeaturesWithMissingValues",
        "share of columns with missing values",
        lambda t: t.sizes.missing_columns / t.sizes.columns,
    ),
    _one("RatioNumericalToNominal", "numeric / categorical", lambda t: _ratio(t.sizes.numeric, t.sizes.categorical)),
    _one("RatioNominalToNumerical", "categorical / numeric", lambda t: _ratio(t.sizes.categorical, t.sizes.numeric)),
    _one("DatasetRatio", "columns / rows", lambda t: t.sizes.columns / t.sizes.rows),
    _one("LogDatasetRatio", "logarithm of columns / rows", lambda t: np.log(t.sizes.columns / t.sizes.rows)),
    _one("InverseDatasetRatio", "rows / columns", lambda t: t.sizes.rows / t.sizes.columns),
    _one("LogInverseDatasetRatio", "logarithm of rows / columns", lambda t: np.log(t.sizes.rows / t.sizes.columns)),
    _one("ClassEntropy", "entropy of the classes, in bits", lambda t: entropy(t.sizes.class_counts) / np.log(2)),
    _one("ClassProbabilityMin", "share of the rarest class", lambda t: class_shares(t).min()),
    _one("ClassProbabilityMax", "share of the most frequent class", lambda t: class_shares(t).max()),
    _one("ClassProbabilityMean", "mean share of a class", lambda t: class_shares(t).mean()),
    _one("ClassProbabilitySTD", "standard deviation of the shares", lambda t: class_shares(t).std()),
    _one("SymbolsMin", "fewest levels of a column", lambda t: min(_symbols(t), default=0.0)),
    _one("SymbolsMax", "most levels of a column", lambda t: max(_symbols(t), default=0.0)),
    _one("SymbolsMean", "mean number of levels", lambda t: _symbols(t).mean() if len(_symbols(t)) else 0.0),
    _one(
        "SymbolsSTD",
        "standard deviation of the number of levels",
        lambda t: _symbols(t).std() if len(_symbols(t)) else 0.0,
    ),
    _one("SymbolsSum", "levels of all columns", lambda t: _symbols(t).sum()),
    # BYU
    _one("Dimensionality", "columns / rows", lambda t: t.sizes.columns / t.sizes.rows),
    _one("MajorityClassSize", "rows of the most frequent class", lambda t: t.sizes.class_counts.max()),
    _one("MinorityClassSize", "rows of the rarest class", lambda t: t.sizes.class_counts.min()),
    _one("RatioOfNumericFeatures", "share of numeric columns", lambda t: t.sizes.numeric / t.sizes.columns),
    _one("RatioOfCategoricalFeatures", "share of categorical columns", lambda t: t.sizes.categorical / t.sizes.columns),
    _one(
        "RatioOfMissingValues",
        "share of values that are missing",
        lambda t: t.sizes.missing_cells / (t.sizes.rows * t.sizes.columns),
    ),
    _one(
        "RatioOfInstancesWithMissingValues",
        "share of rows with missing values",
        lambda t: t.sizes.missing_rows / t.sizes.rows,
    ),
    _one(
        "RatioOfFeaturesWithMissingValues",
        "share of columns with missing values",
        lambda t: t.sizes.missing_columns / t.sizes.columns,
    ),
    *_summaries("ClassProbability", "the shares of the classes", class_shares),
    *_summaries("CardinalityOfNumericFeatures", "different values of numeric columns", lambda t: distinct(t)[0]),
    *_summaries("CardinalityOfCategoricalFeatures", "levels of categorical columns", lambda t: distinct(t)[1]),
    # pymfe
    _one("attr_to_inst", "columns / rows", lambda t: t.sizes.columns / t.sizes.rows),
    _one("inst_to_attr", "rows / columns", lambda t: t.sizes.rows / t.sizes.columns),
    _one("cat_to_num", "categorical / numeric", lambda t: _ratio(t.sizes.categorical, t.sizes.numeric, np.nan)),
    _one("num_to_cat", "numeric / categorical", lambda t: _ratio(t.sizes.numeric, t.sizes.categorical, np.nan)),
    _each("freq_class", "share of a class", class_shares),
    _one("nr_attr", "columns", lambda t: t.sizes.columns),
    _one("nr_bin", "columns with two values", _binary),
    _one("nr_cat", "categorical columns", lambda t: t.sizes.categorical),
    _one("nr_class", "classes; of a regression, different values", lambda t: t.sizes.classes),
    _one("nr_inst", "rows", lambda t: t.sizes.rows),
    _one("nr_num", "numeric columns", lambda t: t.sizes.numeric),
)
