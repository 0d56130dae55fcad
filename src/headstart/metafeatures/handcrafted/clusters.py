"""Classes as clusters, and how labels vary between rows that are near (concept variation).

Distances are Euclidean between rows of `Table.part`: of attributes as they are for the validity indices of clusters, of
attributes between 0 and 1 for concept variation. There d is the distance, and the weights of a row's neighbours are
2^(-2 d / (√p - d)) or 2^-⌈d⌉.
"""

from __future__ import annotations

import numpy as np

from headstart.metafeatures.handcrafted.columns import attributes, class_means, distances, unit, unit_distances
from headstart.metafeatures.handcrafted.declare import Family, shared
from headstart.metafeatures.handcrafted.simple import entropy
from headstart.metafeatures.handcrafted.table import Array, Table

_family = Family("clusters")
_one, _each = _family.one, _family.each
_SMALL = 15


@shared
def class_distances(table: Table) -> Array:
    """(k, k) sums of the distances between rows of two classes."""
    of_class = np.eye(len(table.label_counts))[table.labels]
    return np.asarray(of_class.T @ distances(table) @ of_class)


@shared
def same_class(table: Table) -> Array:
    """(n, n) 1 where two rows have the same label."""
    return np.asarray((table.labels[:, None] == table.labels).astype(np.float64))


def _calinski_harabasz(table: Table) -> float:
    """Spread between classes over spread within, by degrees of freedom."""
    k, n = len(table.label_counts), table.n
    if not 1 < k < n:
        return np.nan
    means = class_means(table)
    within = ((attributes(table) - means[table.labels]) ** 2).sum()
    between = (table.label_counts[:, None] * (means - attributes(table).mean(axis=0)) ** 2).sum()
    return float(between * (n - k) / (within * (k - 1))) if within > 0 else np.nan


def _davies_bouldin(table: Table) -> float:
    """Mean over classes of the largest (spread of both) / (distance of the centres)."""
    k = len(table.label_counts)
    if k < 2:
        return np.nan
    means = class_means(table)
    apart = np.sqrt(np.maximum(_squares(means), 0.0))
    to_centre = np.sqrt(((attributes(table) - means[table.labels]) ** 2).sum(axis=1))
    spread = np.bincount(table.labels, weights=to_centre) / table.label_counts
    if np.allclose(apart, 0.0) or np.allclose(spread, 0.0):
        return 0.0
    ratio = (spread[:, None] + spread) / np.where(apart > 0, apart, np.inf)
    return float(ratio.max(axis=1).mean())


def _squares(points: Array) -> Array:
    norms = (points**2).sum(axis=1)
    found = norms[:, None] + norms - 2.0 * points @ points.T
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)


def _between_classes(table: Table) -> float:
    """Mean over pairs of classes of the mean distance of their rows."""
    counts = table.label_counts
    if len(counts) < 2:
        return np.nan
    means = class_distances(table) / counts[:, None] / counts
    return float(means[np.triu_indices(len(counts), k=1)].mean())


def _silhouette(table: Table) -> float:
    counts = table.label_counts
    if not 1 < len(counts) < table.n:
        return np.nan
    sums = distances(table) @ np.eye(len(counts))[table.labels]
    own = counts[table.labels]
    rows = np.arange(table.n)
    within = sums[rows, table.labels] / np.maximum(own - 1, 1)
    means = sums / counts
    means[rows, table.labels] = np.inf
    other = means.min(axis=1)
    larger = np.maximum(within, other)
    found = np.where((own > 1) & (larger > 0), (other - within) / np.where(larger > 0, larger, 1.0), 0.0)
    return float(found.mean())


def _correlation_with_class(table: Table) -> float:
    upper = np.triu_indices(table.n, k=1)
    same, apart = same_class(table)[upper], distances(table)[upper]
    if len(same) < 2 or same.min() == same.max() or apart.min() == apart.max():
        return np.nan
    return float(np.corrcoef(same, apart)[0, 1])


def _dunn(table: Table) -> float:
    """Least distance of rows of two classes over the number of such pairs, over the largest distance within a class."""
    counts, apart = table.label_counts, distances(table)
    if len(counts) < 2:
        return np.nan
    own = counts[table.labels]
    other = same_class(table) == 0
    least = (apart / own[:, None] / own)[other].min()
    largest = apart[~other].max()
    return float(least / largest) if largest > 0 else np.nan


@shared
def smooth_weights(table: Table) -> Array:
    """(n, n) 2^(-2 d / (√p - d)), 0 of a row with itself."""
    rest = np.sqrt(unit(table).shape[1]) - unit_distances(table)
    found = 2.0 ** (-2.0 * unit_distances(table) / np.where(rest > 0, rest, 1e-9))
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)


@shared
def stepped_weights(table: Table) -> Array:
    """(n, n) 2^-⌈d⌉, at most a half; 0 of a row with itself."""
    found = 2.0 ** -np.maximum(np.ceil(unit_distances(table)), 1.0)
    np.fill_diagonal(found, 0.0)
    return np.asarray(found)


def _weighted(table: Table, values: Array) -> Array:
    """Of each row, the mean of values by `smooth_weights`; NaN where all weights are 0."""
    total = smooth_weights(table).sum(axis=0)
    return np.asarray((smooth_weights(table) * values).sum(axis=0) / np.where(total > 0, total, np.nan))


FEATURES = (
    _one("ch", "Calinski-Harabasz index", _calinski_harabasz),
    _one("int", "mean distance of rows of two classes", lambda t: _between_classes(t.part)),
    _one("nre", "entropy of the classes, in nats", lambda t: entropy(t.sizes.class_counts)),
    _one("pb", "correlation of being of one class with the distance", lambda t: _correlation_with_class(t.part)),
    _one("sc", "classes with fewer than 15 rows", lambda t: (t.sizes.class_counts < _SMALL).sum()),
    _one("sil", "mean silhouette", lambda t: _silhouette(t.part)),
    _one("vdb", "Davies-Bouldin index", _davies_bouldin),
    _one("vdu", "Dunn index", lambda t: _dunn(t.part)),
    _each("cohesiveness", "sum of the stepped weights of a row", lambda t: stepped_weights(t.part).sum(axis=0)),
    _each(
        "conceptvar",
        "weighted share of other labels around a row",
        lambda t: _weighted(t.part, 1.0 - same_class(t.part)),
    ),
    _each(
        "impconceptvar",
        "sum of the stepped weights of other labels",
        lambda t: (stepped_weights(t.part) * (1.0 - same_class(t.part))).sum(axis=0),
    ),
    _each("wg_dist", "weighted distance of a row to the others", lambda t: _weighted(t.part, unit_distances(t.part))),
)
