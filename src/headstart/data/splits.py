"""`Splits`: which rows train and which validate, fixed once per run and the same for every pipeline.

By default:

======================  ============================================================================
fewer than 500 rows     5 folds, three times with other folds
up to 20,000 rows       5 folds
more                    one hold-out: a fifth of the rows, at most 10,000
======================  ============================================================================

They are stratified by class. With groups, a group is on one side only. With times, training is always before
validation: expanding windows, or a hold-out of the latest rows. A class with one row (with groups: in one group) cannot
be on both sides; it is always trained on and never validated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.data.errors import TableError
from headstart.data.folds import (
    Pair,
    Rows,
    grouped_folds,
    nested_subset,
    stratified_folds,
    stratified_share,
    time_pairs,
)
from headstart.data.hashing import ContentHash

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset

SMALL_ROWS = 500
LARGE_ROWS = 20_000
FOLDS = 5
REPEATS = 3
HOLDOUT_SHARE = 0.2
HOLDOUT_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class Splits:
    """Pairs of training and validation rows.

    Parameters
    ----------
    pairs
        Sorted positions of the training rows and of the validation rows.
    n_rows
        Rows of the table.
    kind
        In words, such as ``"5 stratified folds, 3 times"``.
    repeats
        How many times the whole table is gone through; ``len(pairs) / repeats`` pairs each.
    notes
        Rows and classes that had to be treated otherwise.
    strata
        Class of each row, 0 for a regression; what `subsample` stratifies by.
    """

    pairs: tuple[Pair, ...]
    n_rows: int
    kind: str
    repeats: int = 1
    notes: tuple[str, ...] = ()
    strata: Rows | None = None

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Any:
        return iter(self.pairs)

    def __getitem__(self, i: int) -> Pair:
        return self.pairs[i]

    @cached_property
    def key(self) -> str:
        """A hash of the pairs; the same in every process."""
        content = ContentHash()
        content.plain([self.n_rows, len(self.pairs)])
        for train, valid in self.pairs:
            content.array(train)
            content.array(valid)
        return content.key()

    def subsample(self, rows_share: float, seed: int = 0) -> Splits:
        """The same validation parts with a share of each training part, for cheaper evaluations.

        The same share and seed always give the same rows, and a smaller share a subset of a larger one, so results at
        rising shares are about a growing table. Classes keep their proportions, and two rows of each class stay in any
        case. Validation is left as it is: losses at all shares are measured on the same rows.

        Parameters
        ----------
        rows_share
            Above 0, at most 1.
        seed
            Which rows come first.
        """
        if not 0 < rows_share <= 1:
            raise TableError(f"rows_share must be above 0 and at most 1, got {rows_share!r}")
        if rows_share == 1:
            return self
        priority = np.random.default_rng(np.random.SeedSequence(seed)).permutation(self.n_rows).astype(np.int64)
        strata = np.zeros(self.n_rows, dtype=np.int64) if self.strata is None else self.strata
        pairs = tuple((nested_subset(train, strata, rows_share, priority), valid) for train, valid in self.pairs)
        return replace(self, pairs=pairs, kind=f"{self.kind}, {rows_share:.4g} of the training rows")

    def __repr__(self) -> str:
        return f"Splits of {self.n_rows} rows: {self.kind}"


def make_splits(
    dataset: Dataset,
    *,
    folds: int | None = None,
    repeats: int | None = None,
    holdout: float | None = None,
    splitter: Any = None,
    validation: ArrayLike | None = None,
    seed: int = 0,
) -> Splits:
    """Splits of a dataset; at most one of `folds`, `holdout`, `splitter` and `validation` may be given.

    Parameters
    ----------
    dataset
        Its classes, groups and times are respected, see the module's documentation.
    folds, repeats
        Number of folds, and how many times to go through the table with other folds.
    holdout
        Share of the rows to validate on.
    splitter
        A scikit-learn splitter, or pairs of training and validation rows.
    validation
        Positions of the rows to validate on, or a boolean per row; all others are trained on.
    seed
        Decides all that is random.

    Raises
    ------
    TableError
        A training or validation part is empty, they overlap, are out of range, or a training part has one class only.
    """
    given = {"folds": folds, "holdout": holdout, "splitter": splitter, "validation": validation}
    ways = [name for name, value in given.items() if value is not None]
    if len(ways) > 1:
        raise TableError(f"splits must be given in one way, got {' and '.join(ways)}; choose one")
    if repeats is not None and (repeats < 1 or ways not in ([], ["folds"])):
        raise TableError(f"repeats must be at least 1 and requires folds, got {repeats!r}")
    if splitter is not None:
        return _checked(dataset, _pairs_of_splitter(splitter, dataset), "given splits")
    if validation is not None:
        return _checked(dataset, [_pair_of_validation(validation, dataset.n_rows)], "a given validation set")
    if dataset.groups is not None and dataset.times is not None:
        raise TableError("splits can respect either groups or times, not both; give a splitter, or leave one out")
    if holdout is None and folds is None and repeats is None and dataset.n_rows > LARGE_ROWS:
        holdout = min(HOLDOUT_SHARE, HOLDOUT_ROWS / dataset.n_rows)
    if holdout is not None and not 0 < holdout < 1:
        raise TableError(f"holdout must be a share between 0 and 1, got {holdout!r}")
    if folds is not None and not 2 <= folds <= dataset.n_rows:
        raise TableError(f"folds must be between 2 and the number of rows, {dataset.n_rows}, got {folds!r}")
    if dataset.times is not None:
        return _by_time(dataset, dataset.times, folds or FOLDS, holdout, repeats)
    if repeats is None:
        repeats = REPEATS if dataset.n_rows < SMALL_ROWS and folds is None and holdout is None else 1
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    if dataset.groups is not None:
        return _grouped(dataset, dataset.groups, folds or FOLDS, repeats, holdout, rng)
    strata = strata_of(dataset)
    stratified = "stratified " if dataset.classes is not None else ""
    if holdout is not None:
        fold_of = stratified_share(strata, holdout, rng)
        return _checked(dataset, _pairs_of_folds(fold_of), f"a {stratified}hold-out of {(fold_of == 0).mean():.3g}")
    n_folds = min(folds or FOLDS, dataset.n_rows)
    pairs = [p for _ in range(repeats) for p in _pairs_of_folds(stratified_folds(strata, n_folds, rng))]
    return _checked(dataset, pairs, f"{n_folds} {stratified}folds{_times(repeats)}", repeats)


def strata_of(dataset: Dataset) -> Rows:
    """The class of each row; 0 for a regression."""
    if dataset.classes is None or dataset.y is None:
        return np.zeros(dataset.n_rows, dtype=np.int64)
    return dataset.y.astype(np.int64)


def _times(repeats: int) -> str:
    return f", {repeats} times" if repeats > 1 else ""


def _pairs_of_folds(fold_of: Rows) -> list[Pair]:
    return [(np.flatnonzero(fold_of != k), np.flatnonzero(fold_of == k)) for k in range(int(fold_of.max()) + 1)]


def _grouped(
    dataset: Dataset, groups: NDArray[Any], folds: int, repeats: int, holdout: float | None, rng: np.random.Generator
) -> Splits:
    labels, group_of = np.unique(groups, return_inverse=True)
    if len(labels) < 2:
        raise TableError("there must be at least two groups to split, found one; leave groups out")
    strata, notes = strata_of(dataset), []
    if len(labels) < folds and holdout is None:
        notes.append(f"{len(labels)} folds, as many as there are groups")
        folds = len(labels)
    # A group with the only rows of a class cannot be validated: nothing else could teach that class.
    kept = np.zeros(len(strata), dtype=bool)
    if dataset.classes is not None:
        class_groups = np.unique(np.stack([strata, group_of]), axis=1)
        lonely = np.bincount(class_groups[0]) == 1
        kept = np.isin(group_of, class_groups[1][lonely[class_groups[0]]])
    movable = np.flatnonzero(~kept)
    _, group_of_movable = np.unique(group_of[movable], return_inverse=True)
    if len(movable) == 0 or (holdout is None and group_of_movable.max() + 1 < 2):
        raise TableError(
            "no class occurs in two groups, so none can be both trained on and validated; leave groups out"
        )
    if holdout is None:
        folds = min(folds, int(group_of_movable.max()) + 1)
    sizes = np.ones(folds) if holdout is None else np.array([holdout, 1 - holdout])
    pairs = []
    for _ in range(repeats):
        fold_of = np.full(dataset.n_rows, -1, dtype=np.int64)
        fold_of[movable] = grouped_folds(strata[movable], group_of_movable, sizes, rng)
        pairs += _pairs_of_folds(fold_of) if holdout is None else _pairs_of_folds(np.where(fold_of == 0, 0, -1))
    kind = f"{folds} folds of whole groups{_times(repeats)}" if holdout is None else "a hold-out of whole groups"
    if kept.any():
        notes.append("classes that occur in only one group are trained on but never validated")
    return _checked(dataset, pairs, kind, repeats, notes)


def _by_time(dataset: Dataset, times: NDArray[Any], folds: int, holdout: float | None, repeats: int | None) -> Splits:
    if repeats not in (None, 1):
        raise TableError(f"repeats must be 1 when rows are split by time, got {repeats}: there is only one past")
    cuts = [k / (folds + 1) for k in range(1, folds + 2)] if holdout is None else [1 - holdout, 1.0]
    pairs = time_pairs(times, cuts)
    notes = []
    if dataset.classes is not None:
        strata = strata_of(dataset)
        learnable = [pair for pair in pairs if len(np.unique(strata[pair[0]])) > 1]
        if len(learnable) < len(pairs):
            notes.append(f"{len(pairs) - len(learnable)} windows with one class in their past are left out")
        pairs = learnable
    if not pairs:
        raise TableError("times must differ enough to split the table into earlier and later rows; leave times out")
    kind = "a hold-out of the latest rows" if holdout is not None else f"{len(pairs)} expanding windows by time"
    return _checked(dataset, pairs, kind, 1, notes)


def _pairs_of_splitter(splitter: Any, dataset: Dataset) -> list[Any]:
    if hasattr(splitter, "split"):
        try:
            return list(splitter.split(dataset.X, dataset.y, dataset.groups))
        except (ValueError, TypeError) as error:
            raise TableError(f"{type(splitter).__name__} cannot split this dataset: {error}") from error
    if not isinstance(splitter, Iterable) or isinstance(splitter, str):
        raise TableError(
            f"splitter must have a method split, or be a list of (training rows, validation rows), got {splitter!r}"
        )
    pairs = list(splitter)
    for pair in pairs:
        if not isinstance(pair, list | tuple | np.ndarray) or len(pair) != 2:
            raise TableError(f"each split must be a pair (training rows, validation rows), got {pair!r:.60}")
    return pairs


def _pair_of_validation(validation: ArrayLike, n_rows: int) -> tuple[Rows, Rows]:
    valid = _positions(validation, n_rows, "validation")
    return np.setdiff1d(np.arange(n_rows), valid), valid


def _positions(rows: ArrayLike, n_rows: int, what: str) -> Rows:
    array = np.asarray(rows)
    if array.dtype == bool:
        if array.shape != (n_rows,):
            raise TableError(f"{what}: a mask must have one value per row, {n_rows}, got shape {array.shape}")
        return np.flatnonzero(array)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise TableError(f"{what} must be a list of row positions, got {array.dtype} of shape {array.shape}")
    if not array.size:
        raise TableError(f"{what} must have at least one row, got none")
    if array.min() < 0 or array.max() >= n_rows:
        raise TableError(f"{what} must have rows between 0 and {n_rows - 1}, got {array.min()} to {array.max()}")
    unique = np.unique(array)
    if len(unique) < len(array):
        raise TableError(f"{what} must have each row only once, {len(array) - len(unique)} are repeated")
    return unique.astype(np.int64)


def _checked(dataset: Dataset, pairs: list[Any], kind: str, repeats: int = 1, notes: Iterable[str] = ()) -> Splits:
    """Splits whose parts are non-empty, in range and disjoint, with two classes or more to train on."""
    if not pairs:
        raise TableError("there must be at least one split, got none")
    said = list(notes)
    strata, n_classes = strata_of(dataset), 0 if dataset.classes is None else len(dataset.classes)
    checked, unseen, one_class = [], 0, 0
    for number, (train_rows, valid_rows) in enumerate(pairs):
        train = _positions(train_rows, dataset.n_rows, f"training part {number}")
        valid = _positions(valid_rows, dataset.n_rows, f"validation part {number}")
        if len(shared := np.intersect1d(train, valid)):
            raise TableError(f"split {number} must not train and validate on the same rows, {len(shared)} are in both")
        if n_classes:
            trained = np.bincount(strata[train], minlength=n_classes) > 0
            if trained.sum() < 2:
                raise TableError(f"training part {number} must have at least two classes, found one; use other splits")
            known = trained[strata[valid]]
            unseen += int((~known).sum())
            valid = valid[known]
            if not len(valid):
                raise TableError(f"validation part {number} has only classes that its training part lacks")
            one_class += len(np.unique(strata[valid])) < 2
        checked.append((train, valid))
    if n_classes:
        single = int((np.bincount(strata, minlength=n_classes) == 1).sum())
        if single:
            said.append(f"{single} classes have a single row: trained on where possible, never validated")
        if unseen:
            said.append(f"{unseen} validation rows of classes that their training part lacks are left out")
        if one_class:
            said.append(
                f"{one_class} validation parts have only one class: metrics such as roc_auc are undefined there"
            )
    return Splits(tuple(checked), dataset.n_rows, kind, repeats, tuple(said), strata if n_classes else None)
