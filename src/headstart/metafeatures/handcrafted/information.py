"""Information theory and itemsets: of columns in levels, numbers in bins of equal frequency.

====================  ===========================================================
H(x), H(y), H(x, y)   entropies in bits of a column, the classes, both
I(x; y)               H(x) + H(y) - H(x, y)
τ(x | z)              concentration (Goodman and Kruskal): by how much z makes
                      guessing x easier, (Σ_xz p_xz² / p_z - Σ p_x²) / (1 - Σ p_x²)
====================  ===========================================================
"""

from __future__ import annotations

import numpy as np

from headstart.metafeatures.handcrafted.columns import discrete
from headstart.metafeatures.handcrafted.declare import Family, shared
from headstart.metafeatures.handcrafted.simple import entropy
from headstart.metafeatures.handcrafted.table import Array, Table, Whole

_family = Family("information")
_one, _each = _family.one, _family.each
_PAIRED_COLUMNS = 32
"""At most so many columns, drawn at random, are compared with each other."""


def contingency(first: Whole, second: Whole) -> Array:
    """Relative frequencies of pairs of levels."""
    width = int(second.max()) + 1
    counts = np.bincount(first * width + second, minlength=(int(first.max()) + 1) * width)
    return counts.reshape(-1, width) / len(first)


def concentration(shares: Array) -> float:
    """Of the level in the row given that in the column; NaN if there is but one row."""
    rows = (shares.sum(axis=1) ** 2).sum()
    if shares.shape[0] < 2:
        return np.nan
    return float(((shares**2 / shares.sum(axis=0)).sum() - rows) / (1.0 - rows))


@shared
def with_class(table: Table) -> list[Array]:
    """Of each column, relative frequencies of its levels with the classes."""
    return [contingency(codes, table.labels) for codes in discrete(table)]


@shared
def column_entropies(table: Table) -> Array:
    """H(x) of each column."""
    return np.asarray(np.array([entropy(shares.sum(axis=1)) for shares in with_class(table)]) / np.log(2))


@shared
def joint_entropies(table: Table) -> Array:
    """H(x, y) of each column with the classes."""
    return np.asarray(np.array([entropy(shares) for shares in with_class(table)]) / np.log(2))


def label_entropy(table: Table) -> float:
    """H(y) of the labels; of a regression they are fifths."""
    return float(entropy(table.label_counts) / np.log(2))


@shared
def mutual_information(table: Table) -> Array:
    """I(x; y) of each column with the classes."""
    return np.maximum(column_entropies(table) + label_entropy(table) - joint_entropies(table), 0.0)


@shared
def compared(table: Table) -> list[Whole]:
    """The columns that are compared with each other."""
    columns = discrete(table)
    if len(columns) <= _PAIRED_COLUMNS:
        return columns
    chosen = np.random.default_rng([table.seed, 3]).choice(len(columns), _PAIRED_COLUMNS, replace=False)
    return [columns[i] for i in np.sort(chosen)]


@shared
def joint_levels(table: Table) -> tuple[Array, Whole]:
    """Relative frequencies (l, l) of pairs of levels of the compared columns, and the column of each level."""
    columns = compared(table)
    owner = np.repeat(np.arange(len(columns)), [int(codes.max()) + 1 for codes in columns])
    starts = np.searchsorted(owner, np.arange(len(columns)))
    present = np.zeros((table.n, len(owner)), dtype=np.float32)  # counts below 2^24 are exact
    for start, codes in zip(starts, columns, strict=True):
        present[np.arange(table.n), start + codes] = 1.0
    return np.asarray(present.T @ present, dtype=np.float64) / table.n, owner


def _concentrations(table: Table) -> Array:
    """τ(x | z) of all pairs of compared columns."""
    shares, owner = joint_levels(table.part)
    found = []
    for x in range(int(owner.max(initial=-1)) + 1):
        for z in range(int(owner.max()) + 1):
            if x != z:
                found.append(concentration(shares[np.ix_(owner == x, owner == z)]))
    return np.array(found)


def _two_items(table: Table) -> Array:
    """For two levels of different columns, the share of rows that have one of them and not the other."""
    shares, owner = joint_levels(table.part)
    single = np.diag(shares)
    first, second = np.triu_indices(len(owner), k=1)
    apart = owner[first] != owner[second]
    first, second = first[apart], second[apart]
    return np.asarray(single[first] + single[second] - 2.0 * shares[first, second])


def _ratio(above: float, below: float) -> float:
    return above / below if below > 1e-12 else np.nan


FEATURES = (
    _each("attr_conc", "concentration of a column given another one", _concentrations),
    _each("attr_ent", "entropy of a column, in bits", column_entropies),
    _each(
        "class_conc",
        "concentration of a column given the class",
        lambda t: [concentration(shares) for shares in with_class(t)],
    ),
    _one("class_ent", "entropy of the classes, in bits", lambda t: entropy(t.sizes.class_counts) / np.log(2)),
    _one(
        "eq_num_attr",
        "columns that it would take to tell the class, if all were as the average",
        lambda t: _ratio(len(mutual_information(t)) * label_entropy(t), mutual_information(t).sum()),
    ),
    _each("joint_ent", "joint entropy of a column and the class, in bits", joint_entropies),
    _each("mut_inf", "mutual information of a column and the class, in bits", mutual_information),
    _one(
        "ns_ratio",
        "what columns tell of other things than the class, over what they tell of it",
        lambda t: _ratio(column_entropies(t).sum() - mutual_information(t).sum(), mutual_information(t).sum()),
    ),
    _each(
        "one_itemset",
        "share of rows that have a level",
        lambda t: np.concatenate([shares.sum(axis=1) for shares in with_class(t)]),
    ),
    _each("two_itemset", "share of rows that have one of two levels and not the other", _two_items),
)
