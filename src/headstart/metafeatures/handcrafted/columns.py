"""Columns as the families of features need them: filled, encoded, sorted, discretised, with distances between rows.

Two encodings are in use, and both are kept as they are published. That of auto-sklearn: numbers standardised, a column
of 0 and 1 for each level. That of pymfe: numbers as they are, levels with a column each in the first categorical column
and all but the first level in the others (so that they do not sum to one again). Missing numbers are at their mean in
both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from headstart.metafeatures.handcrafted.declare import shared
from headstart.metafeatures.handcrafted.table import LEVELS, Array, Table, Whole


@shared
def filled(table: Table) -> Array:
    """(n, a) numeric columns with their means where they are missing; 0 where nothing is known."""
    missing = np.isnan(table.numeric)
    if not missing.any():
        return table.numeric
    found = table.numeric.copy(order="K")
    for column, gaps in zip(found.T, missing.T, strict=True):
        known = column[~gaps]
        column[gaps] = (known / len(known)).sum() if len(known) else 0.0
    return found


@shared
def level_columns(table: Table) -> tuple[Array, NDArray[np.bool_]]:
    """(n, l) a column for each level that occurs, and which of them stay if levels must not sum to one again."""
    columns: list[Array] = []
    stay: list[bool] = []
    for i, codes in enumerate(table.codes.T):
        levels, inverse, counts = np.unique(
            np.where(codes < 0, np.iinfo(np.int64).max, codes), return_inverse=True, return_counts=True
        )
        chosen = np.arange(len(levels))
        if len(levels) > LEVELS:
            chosen = np.sort(np.argsort(-counts, kind="stable")[:LEVELS])
        columns += [(inverse == level).astype(np.float64) for level in chosen]
        stay += [i == 0 or bool(level > 0) for level in chosen]
    return np.array(columns).reshape(len(columns), table.n).T, np.array(stay, dtype=bool)


@shared
def attributes(table: Table) -> Array:
    """(n, p) pymfe's encoding: numbers, and levels without the first of all but one column."""
    levels, stay = level_columns(table)
    return np.asfortranarray(np.hstack([filled(table), levels[:, stay]]))


@shared
def standardised(table: Table) -> Array:
    """(n, q) auto-sklearn's encoding: numbers standardised, 0 where they are constant, and a column for each level."""
    columns = filled(table)
    peak = np.maximum(np.abs(columns).max(axis=0, initial=0.0), 1e-300)  # so that squares do not overflow
    columns = columns / peak
    columns -= columns.mean(axis=0)
    deviation = np.sqrt((columns**2).mean(axis=0))
    columns *= np.where(deviation > 1e-14, 1.0 / np.maximum(deviation, 1e-300), 0.0)
    return np.hstack([columns, level_columns(table)[0]])


@shared
def unit(table: Table) -> Array:
    """(n, p) `attributes` between 0 and 1; 0 where a column is constant."""
    low, span = in_order(table)[0], in_order(table)[-1] - in_order(table)[0]
    return np.asarray((attributes(table) - low) / np.where(span > 0, span, 1.0))


@shared
def in_order(table: Table) -> Array:
    """(n, p) each of the `attributes` sorted."""
    return np.sort(attributes(table), axis=0)


def quantile(ordered: Array, q: float) -> Array:
    """Of columns that are sorted, with linear interpolation."""
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return np.asarray(ordered[low] + (position - low) * (ordered[high] - ordered[low]))


@shared
def distinct(table: Table) -> tuple[Whole, Whole]:
    """Different values of the numeric columns, and of the categorical ones; missing is none."""
    ordered = np.sort(table.numeric, axis=0)  # NaN comes last
    known = ~np.isnan(ordered)
    numeric = known[:1].sum(axis=0) + ((ordered[1:] != ordered[:-1]) & known[1:]).sum(axis=0)
    levels = [int((np.bincount(codes + 1)[1:] > 0).sum()) for codes in table.codes.T]
    return numeric.astype(np.int64), np.array(levels, dtype=np.int64)


@shared
def discrete(table: Table) -> list[Whole]:
    """Every column in levels from 0 that all occur: numbers in ⌊n^(1/3)⌋ bins of equal frequency."""
    bins = max(int(table.n ** (1 / 3) + 1e-9), 1)
    found = []
    ordered = np.sort(filled(table), axis=0)
    shares = np.linspace(0, 1, bins + 1)[1:]
    for column, values in zip(filled(table).T, ordered.T, strict=True):
        edges = np.array([quantile(values[:, None], q)[0] for q in shares])
        edges = edges[np.r_[True, np.diff(edges) > 1e-8]]
        found.append(np.searchsorted(edges, column, side="left"))
    return [np.unique(codes, return_inverse=True)[1].ravel() for codes in [*table.codes.T, *found]]


@shared
def covariance(table: Table) -> Array:
    """(p, p) of the `attributes`, divided by n - 1."""
    centred = attributes(table) - attributes(table).mean(axis=0)
    return np.asarray(centred.T @ centred) / max(table.n - 1, 1)


@shared
def eigenvalues(table: Table) -> Array:
    """(p,) of the covariance, ascending."""
    return np.asarray(np.linalg.eigvalsh(covariance(table)))


@shared
def distances(table: Table) -> Array:
    """(n, n) Euclidean distances between rows of the `attributes`."""
    return np.asarray(cdist(attributes(table), attributes(table)))


@shared
def unit_distances(table: Table) -> Array:
    """(n, n) Euclidean distances between rows of columns between 0 and 1."""
    return np.asarray(cdist(unit(table), unit(table)))


@shared
def gower_distances(table: Table) -> Array:
    """(n, n) Gower's: mean over columns of differences between 0 and 1.

    In single precision, for what is made of them asks which distances are equal.
    """
    return between(unit(table), unit(table))


def between(rows: Array, others: Array) -> Array:
    """Gower's distances of rows of columns between 0 and 1."""
    return np.asarray((cdist(rows, others, "cityblock") / max(rows.shape[1], 1)).astype(np.float32).astype(np.float64))


def class_means(table: Table) -> Array:
    """(k, p) of the `attributes` of each label."""
    of_class = np.eye(len(table.label_counts))[table.labels]
    return np.asarray(of_class.T @ attributes(table)) / table.label_counts[:, None]
