"""How hard a classification is (Ho and Basu 2002; Lorena et al. 2019): overlap, linearity, neighbourhood, graph, size.

On `Table.part`. What compares two classes does so for all pairs of classes, of more than 45 pairs for 45 that are drawn
at random. Neighbourhoods and graphs use Gower's distance. A regression has the fifths of its target as classes.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from headstart.metafeatures.handcrafted.columns import (
    attributes,
    between,
    class_means,
    eigenvalues,
    gower_distances,
    unit,
)
from headstart.metafeatures.handcrafted.declare import Family, shared
from headstart.metafeatures.handcrafted.simple import entropy
from headstart.metafeatures.handcrafted.statistical import n_components
from headstart.metafeatures.handcrafted.table import Array, Table, Whole

_family = Family("complexity")
_one, _each = _family.one, _family.each
_PAIRS = 45
_NEAR = 0.15
"""Share of the rows that are neighbours in the graph."""
_STEPS = 2_000
"""Of the solver of linear classifiers."""
_POWERS = 1_000
"""Of the graph, at most, in search of its principal eigenvector."""


@shared
def pairs(table: Table) -> list[tuple[int, int]]:
    """Pairs of labels that are compared."""
    found = list(combinations(range(len(table.label_counts)), 2))
    if len(found) > _PAIRS:
        chosen = np.random.default_rng([table.seed, 5]).choice(len(found), _PAIRS, replace=False)
        found = [found[i] for i in np.sort(chosen)]
    return found


def _rows(table: Table, pair: tuple[int, int]) -> tuple[Whole, Whole]:
    return np.flatnonzero(table.labels == pair[0]), np.flatnonzero(table.labels == pair[1])


def _fisher_ratios(table: Table) -> Array:
    """1 / (1 + spread of the class means / spread within classes) of each attribute."""
    means = class_means(table)
    above = (table.label_counts[:, None] * (means - attributes(table).mean(axis=0)) ** 2).sum(axis=0)
    below = ((attributes(table) - means[table.labels]) ** 2).sum(axis=0)
    total = above + below
    flat = total <= 1e-24 * np.maximum((attributes(table) ** 2).sum(axis=0), 1e-300)
    return np.where(flat | (len(table.label_counts) < 2), np.nan, below / np.where(total > 0, total, 1.0))


def _directional_ratios(table: Table) -> Array:
    """1 / (1 + Fisher's criterion along its best direction) of each pair of classes."""
    means, counts = class_means(table), table.label_counts
    covariances = [
        np.atleast_2d(np.cov(attributes(table)[table.labels == c], rowvar=False)) if count > 1 else 0.0
        for c, count in enumerate(counts)
    ]
    found = []
    for a, b in pairs(table):
        within = (counts[a] * covariances[a] + counts[b] * covariances[b]) / (counts[a] + counts[b])
        apart = means[a] - means[b]
        if not np.ndim(within):
            continue
        direction = np.linalg.pinv(within, hermitian=True) @ apart
        below = direction @ within @ direction
        found.append(1.0 / (1.0 + (direction @ apart) ** 2 / below) if below > 0 else np.nan)
    return np.array(found)


def _edges(rows: Whole, others: Whole, columns: Array) -> tuple[Array, Array]:
    """Lower and upper end of where two sets of rows overlap, of each column; the wrong way round if they do not."""
    if not len(rows) or not len(others):
        nothing = np.full(columns.shape[1], np.inf)
        return nothing, -nothing
    low = np.maximum(columns[rows].min(axis=0), columns[others].min(axis=0))
    high = np.minimum(columns[rows].max(axis=0), columns[others].max(axis=0))
    return low, high


def _overlap_volumes(table: Table) -> Array:
    """Product over attributes of the share of the range in which two classes overlap; constants are left out."""
    found = []
    for pair in pairs(table):
        rows, others = _rows(table, pair)
        low, high = _edges(rows, others, attributes(table))
        both = attributes(table)[np.r_[rows, others]]
        span = np.ptp(both, axis=0)
        found.append(np.prod(np.maximum(high - low, 0.0)[span > 0] / span[span > 0]))
    return np.array(found)


def _inside(columns: Array, low: Array, high: Array) -> NDArray[np.bool_]:
    return (columns >= low) & (columns <= high)


def _single_overlaps(table: Table) -> Array:
    """Share of the rows of two classes that lie where they overlap, in the attribute where they are fewest."""
    found = []
    for pair in pairs(table):
        rows, others = _rows(table, pair)
        low, high = _edges(rows, others, attributes(table))
        found.append(_inside(attributes(table)[np.r_[rows, others]], low, high).mean(axis=0).min())
    return np.array(found)


def _collective_overlaps(table: Table) -> Array:
    """Share of the rows of two classes that no attribute tells apart, if the best one is used after the other."""
    found = []
    for pair in pairs(table):
        rows, others = _rows(table, pair)
        left = [True] * attributes(table).shape[1]
        total = len(rows) + len(others)
        while any(left) and len(rows) + len(others):
            columns = attributes(table)[:, left]
            low, high = _edges(rows, others, columns)
            inside = [_inside(columns[r], low, high) for r in (rows, others)]
            best = int((inside[0].sum(axis=0) + inside[1].sum(axis=0)).argmin())
            rows, others = rows[inside[0][:, best]], others[inside[1][:, best]]
            left[int(np.flatnonzero(left)[best])] = False
        found.append((len(rows) + len(others)) / total)
    return np.array(found)


@shared
def linear_errors(table: Table) -> tuple[Array, Array, Array]:
    """Of each pair of classes: distances of errors, share of errors, share of errors between rows of a class.

    A linear support vector machine on standardised attributes.
    """
    rng = np.random.default_rng([table.seed, 6])
    found = []
    for pair in pairs(table):
        rows, others = _rows(table, pair)
        columns = attributes(table)[np.r_[rows, others]]
        deviation = columns.std(axis=0)
        columns = (columns - columns.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        first = np.arange(len(columns)) < len(rows)
        machine = LinearSVC(loss="hinge", C=2.0, tol=0.01, max_iter=_STEPS, random_state=table.seed)
        machine.fit(columns, first)
        margins = machine.decision_function(columns)
        wrong = (margins > 0) != first
        blended, of_first = _blended(columns, np.where(first, 0, 1), rng)
        mistaken = (machine.decision_function(blended) > 0) != (of_first == 0)
        found.append((np.abs(margins[wrong]).sum() / len(columns), wrong.mean(), mistaken.mean()))
    distance, errors, between_rows = np.array(found).reshape(-1, 3).T
    return 1.0 - 1.0 / (1.0 + distance), errors, between_rows


def _blended(columns: Array, labels: Whole, rng: np.random.Generator) -> tuple[Array, Whole]:
    """As many new rows of each class, each value between those of two random rows of it."""
    made, owners = [], []
    for label in np.unique(labels):
        rows = columns[labels == label]
        one, other = (rows[rng.integers(len(rows), size=len(rows))] for _ in range(2))
        made.append(one + (other - one) * rng.random(rows.shape))
        owners.append(np.full(len(rows), label))
    return np.concatenate(made), np.concatenate(owners)


@shared
def _apart(table: Table) -> NDArray[np.bool_]:
    """(n, n) whether two rows are of different classes."""
    return np.asarray(table.labels[:, None] != table.labels)


@shared
def nearest_enemies(table: Table) -> tuple[Whole, Array]:
    """Of each row, the nearest one of another class, and how far it is; infinitely far if there is no other class."""
    to_others = np.where(_apart(table), gower_distances(table), np.inf)
    nearest = to_others.argmin(axis=1)
    return nearest, to_others[np.arange(table.n), nearest]


def _borderline(table: Table) -> float:
    """Share of the rows that an edge of the minimum spanning tree joins with another class (Prim's algorithm)."""
    if len(table.label_counts) < 2:
        return np.nan
    apart = gower_distances(table)
    outside = np.ones(table.n, dtype=bool)
    outside[0] = False
    near, parent = apart[0].copy(), np.zeros(table.n, dtype=np.int64)
    border = np.zeros(table.n, dtype=bool)
    for _ in range(table.n - 1):
        new = int(np.where(outside, near, np.inf).argmin())
        if table.labels[new] != table.labels[parent[new]]:
            border[[new, parent[new]]] = True
        outside[new] = False
        closer = apart[new] < near
        near = np.where(closer, apart[new], near)
        parent[closer] = new
    return float(border.mean())


def _intra_extra(table: Table) -> Array:
    """Of each row: a / (a + b), distances of the nearest row of its class and of another one."""
    if len(table.label_counts) < 2:
        return np.zeros(0)
    same = np.where(_apart(table), np.inf, gower_distances(table))
    np.fill_diagonal(same, np.inf)
    within, other = same.min(axis=1), nearest_enemies(table)[1]
    lonely = np.isinf(within)
    total = np.where(lonely, 1.0, within) + other
    return np.where(lonely, 1.0, within / np.where(total > 0, total, np.nan))


def _neighbour_errors(table: Table) -> Array:
    """Of each row, 1 if the nearest other row is of another class."""
    if len(table.label_counts) < 2:
        return np.zeros(0)
    others = gower_distances(table).copy()
    np.fill_diagonal(others, np.inf)
    return np.asarray((table.labels[others.argmin(axis=1)] != table.labels).astype(np.float64))


def _blended_errors(table: Table) -> Array:
    """Of rows between those of a class, 1 if the nearest row is of another class."""
    if len(table.label_counts) < 2:
        return np.zeros(0)
    made, owners = _blended(unit(table), table.labels, np.random.default_rng([table.seed, 7]))
    return np.asarray((table.labels[between(made, unit(table)).argmin(axis=1)] != owners).astype(np.float64))


def _spheres(table: Table) -> float:
    """Spheres around rows that hold no other class, after those inside larger ones are dropped, over rows.

    Two rows that are each other's nearest enemies have spheres that touch halfway; the sphere of another row touches
    that of its nearest enemy.
    """
    if len(table.label_counts) < 2:
        return np.nan
    enemy, far = nearest_enemies(table)
    radius = np.full(table.n, -1.0)
    mutual = enemy[enemy] == np.arange(table.n)
    radius[mutual] = 0.5 * far[mutual]
    for row in range(table.n):
        path: list[int] = []
        at = row
        while radius[at] < 0:
            radius[at] = 0.0  # ends a ring of equal distances
            path.append(at)
            at = int(enemy[at])
        for at in reversed(path):
            radius[at] = abs(far[at] - radius[enemy[at]])
    covered = gower_distances(table) <= radius  # column: the sphere
    kept = np.ones(table.n, dtype=bool)
    for sphere in np.argsort(-covered.sum(axis=0), kind="stable"):
        if kept[sphere]:
            kept[covered[:, sphere]] = False
            kept[sphere] = True
    return float(kept.mean())


def _local_sets(table: Table) -> float:
    """1 - mean share of the rows that are nearer to a row than its nearest enemy."""
    if len(table.label_counts) < 2:
        return np.nan
    return float(1.0 - (gower_distances(table) < nearest_enemies(table)[1]).mean())


@shared
def neighbour_graph(table: Table) -> NDArray[np.float32]:
    """(n, n) 1 where one of two rows of a class is among the 15 % that are nearest to the other one."""
    others = gower_distances(table).copy()
    np.fill_diagonal(others, np.inf)
    k = min(max(round(_NEAR * table.n), 1), table.n - 1)
    near = np.zeros((table.n, table.n), dtype=bool)
    near[np.arange(table.n)[:, None], np.argsort(others, axis=1, kind="stable")[:, :k]] = True
    return ((near | near.T) & ~_apart(table)).astype(np.float32)


def _transitivity(table: Table) -> float:
    graph = neighbour_graph(table)
    degrees = graph.sum(axis=0, dtype=np.float64)
    triples = (degrees * (degrees - 1)).sum()
    return float(((graph @ graph) * graph).sum(dtype=np.float64) / triples) if triples else 0.0


def _hub_scores(table: Table) -> Array:
    """Principal eigenvector of the graph, its largest entry 1.

    By power iteration from equal entries: of several such vectors, as a graph in pieces has, always the same.
    """
    graph = neighbour_graph(table).astype(np.float64)
    found = np.ones(table.n)
    if not graph.any():
        return np.zeros(0)
    for _ in range(_POWERS):
        before, found = found, graph @ (graph @ found)
        found /= found.max()
        if np.abs(found - before).max() < 1e-10:
            break
    return found


def _imbalance(table: Table) -> float:
    """1 - 1 / ((k - 1)/k Σ n_c / (n - n_c))."""
    counts = table.sizes.class_counts
    k = len(counts)
    if k < 2:
        return np.nan
    return float(1.0 - 1.0 / ((k - 1) / k * (counts / (table.sizes.rows - counts)).sum()))


def _class_entropy(table: Table) -> float:
    k = len(table.sizes.class_counts)
    return entropy(table.sizes.class_counts) / np.log(k) if k > 1 else np.nan


def _components(table: Table) -> float:
    return n_components(eigenvalues(table)[::-1].clip(0.0)) or np.nan


FEATURES = (
    _one("c1", "entropy of the classes over its largest value", _class_entropy),
    _one("c2", "imbalance of the classes", _imbalance),
    _one("cls_coef", "1 - clustering coefficient of the graph", lambda t: 1.0 - _transitivity(t.part)),
    _one(
        "density",
        "1 - share of pairs of rows that the graph joins",
        lambda t: 1.0 - neighbour_graph(t.part).sum(dtype=np.float64) / (t.part.n * (t.part.n - 1.0)),
    ),
    _each("f1", "overlap of classes in an attribute, by Fisher's ratio", lambda t: _fisher_ratios(t.part)),
    _each("f1v", "overlap of two classes in the best direction", lambda t: _directional_ratios(t.part)),
    _each("f2", "volume where two classes overlap", lambda t: _overlap_volumes(t.part)),
    _each("f3", "rows of two classes that overlap in the best attribute", lambda t: _single_overlaps(t.part)),
    _each("f4", "rows of two classes that overlap in all attributes", lambda t: _collective_overlaps(t.part)),
    _each("hubs", "1 - hub score of a row in the graph", lambda t: 1.0 - _hub_scores(t.part)),
    _each("l1", "distance of errors of a linear classifier of two classes", lambda t: linear_errors(t.part)[0]),
    _each("l2", "errors of a linear classifier of two classes", lambda t: linear_errors(t.part)[1]),
    _each("l3", "its errors on rows between those of a class", lambda t: linear_errors(t.part)[2]),
    _one("lsc", "1 - share of the rows that are nearer than the nearest enemy", lambda t: _local_sets(t.part)),
    _one("n1", "rows that the minimum spanning tree joins with another class", lambda t: _borderline(t.part)),
    _each("n2", "distance within the class over that within and to another", lambda t: _intra_extra(t.part)),
    _each("n3", "errors of the nearest neighbour", lambda t: _neighbour_errors(t.part)),
    _each("n4", "its errors on rows between those of a class", lambda t: _blended_errors(t.part)),
    _one("t1", "spheres that cover the classes, over rows", lambda t: _spheres(t.part)),
    _one("t2", "attributes over rows", lambda t: attributes(t).shape[1] / t.sizes.rows),
    _one("t3", "components for 95 % of the variance, over rows", lambda t: _components(t) / t.sizes.rows),
    _one(
        "t4", "components for 95 % of the variance, over attributes", lambda t: _components(t) / attributes(t).shape[1]
    ),
)
