"""Splits: what always holds, and what is refused."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold, TimeSeriesSplit

from headstart.data import Dataset, TableError, make_splits

pytestmark = pytest.mark.filterwarnings("ignore::headstart.data.errors.DataWarning")


def dataset_of(y, **options):
    y = np.asarray(y)
    X = np.random.default_rng(0).normal(size=(len(y), 1))
    return Dataset.from_arrays(X, y, **options)


@st.composite
def labels(draw, least=8):
    """Class labels with at least two classes of several rows, some rare."""
    rare = draw(st.lists(st.integers(1, 4), max_size=4))
    common = draw(st.lists(st.integers(6, 40), min_size=2, max_size=3))
    y = np.repeat(np.arange(len(rare) + len(common)), rare + common)
    return np.random.default_rng(draw(st.integers(0, 1000))).permutation(y)


@given(y=labels(), folds=st.integers(2, 7), repeats=st.integers(1, 3), seed=st.integers(0, 10))
@settings(max_examples=80, deadline=None)
def test_folds_partition_and_stratify(y, folds, repeats, seed):
    dataset = dataset_of(y, task="classification")
    splits = make_splits(dataset, folds=folds, repeats=repeats, seed=seed)
    assert (len(splits), splits.repeats) == (folds * repeats, repeats)
    counts = np.bincount(dataset.y)
    for r in range(repeats):
        validated = np.concatenate([valid for _, valid in splits.pairs[r * folds : (r + 1) * folds]])
        assert sorted(validated) == np.flatnonzero((counts > 1)[dataset.y]).tolist()  # all but single-row classes, once
    for train, valid in splits:
        assert not set(train) & set(valid)
        assert len(train) + len(valid) == len(y)
        assert set(dataset.y) == set(dataset.y[train])
        of_class = np.bincount(dataset.y[valid], minlength=len(counts))
        even = np.where(counts > 1, counts / folds, 0)
        assert (np.abs(of_class - even) < 1 + 1e-9).all()
    sizes = [len(valid) for _, valid in splits]
    assert max(sizes) - min(sizes) <= 1
    assert make_splits(dataset, folds=folds, repeats=repeats, seed=seed).key == splits.key


@given(y=labels(), share=st.floats(0.1, 0.6), seed=st.integers(0, 10))
@settings(max_examples=50, deadline=None)
def test_a_hold_out_is_stratified(y, share, seed):
    dataset = dataset_of(y, task="classification")
    ((train, valid),) = make_splits(dataset, holdout=share, seed=seed)
    assert sorted([*train, *valid]) == list(range(len(y)))
    counts, held = np.bincount(dataset.y), np.bincount(dataset.y[valid], minlength=len(np.bincount(dataset.y)))
    assert (held[counts == 1] == 0).all()
    assert (np.abs(held - share * counts)[counts > 1] <= 1).all()


@given(
    n=st.integers(20, 120),
    n_groups=st.integers(2, 15),
    folds=st.integers(2, 6),
    regression=st.booleans(),
    seed=st.integers(0, 10),
)
@settings(max_examples=80, deadline=None)
def test_groups_stay_on_one_side(n, n_groups, folds, regression, seed):
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)])[:n]
    y = rng.normal(size=n) if regression else np.where(np.arange(n) % 2, "u", "v")
    dataset = dataset_of(y, groups=np.array([f"g{g}" for g in groups]))
    try:
        splits = make_splits(dataset, folds=min(folds, n), seed=seed)
    except TableError:
        assert not regression  # groups of one class each may leave nothing to learn or validate
        return
    for train, valid in splits:
        assert len(train)
        assert len(valid)
        assert not set(dataset.groups[train]) & set(dataset.groups[valid])
    if regression:
        assert sorted(np.concatenate([valid for _, valid in splits])) == list(range(n))
    assert len(splits) <= min(folds, n_groups)


def test_grouped_folds_are_balanced():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 200, 2000)
    y = (rng.random(2000) < 0.2).astype(int)
    splits = make_splits(dataset_of(y, groups=groups))
    assert len(splits) == 5
    for _, valid in splits:
        assert abs(len(valid) - 400) < 20
        assert abs(y[valid].mean() - y.mean()) < 0.02
    ((_, held),) = make_splits(dataset_of(y, groups=groups), holdout=0.25)
    assert abs(len(held) - 500) < 40


def test_a_class_in_one_group_is_always_trained_on():
    groups = np.repeat(np.arange(8), 10)
    y = np.where(groups == 3, "rare", np.where(np.arange(80) % 2, "u", "v"))
    splits = make_splits(dataset_of(y, groups=groups))
    assert all(3 in groups[train] for train, _ in splits)
    assert any("in only one group" in note for note in splits.notes)
    with pytest.raises(TableError, match="no class occurs in two groups"):
        make_splits(dataset_of(np.repeat(["u", "v"], 10), groups=np.repeat([0, 1], 10)))
    with pytest.raises(TableError, match="there must be at least two groups"):
        make_splits(dataset_of(["u", "v"] * 10, groups=np.zeros(20, dtype=int)))


@given(
    n=st.integers(30, 150),
    moments=st.integers(7, 60),
    folds=st.integers(2, 6),
    holdout=st.one_of(st.none(), st.floats(0.1, 0.5)),
    dates=st.booleans(),
    seed=st.integers(0, 10),
)
@settings(max_examples=80, deadline=None)
def test_training_is_before_validation(n, moments, folds, holdout, dates, seed):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, moments, n)
    times = np.datetime64("2020-01-01") + numbers.astype("timedelta64[D]") if dates else numbers
    dataset = dataset_of(rng.normal(size=n), times=times)
    splits = make_splits(dataset, folds=None if holdout else folds, holdout=holdout)
    assert len(splits) <= (1 if holdout else folds)
    for train, valid in splits:
        assert dataset.times[train].max() < dataset.times[valid].min()
    assert dataset.times[splits[-1][1]].max() == dataset.times.max()
    for (earlier, _), (later, _) in zip(splits, splits.pairs[1:], strict=False):
        assert set(earlier) < set(later)


def test_a_latest_moment_with_many_rows():
    times = np.array([0, 1, 2] + [3] * 17)
    ((train, valid),) = make_splits(dataset_of(np.linspace(0, 1, 20), times=times), holdout=0.1)
    assert (train.tolist(), valid.tolist()) == ([0, 1, 2], list(range(3, 20)))


def test_windows_without_two_classes_are_left_out():
    y = np.array(["u"] * 50 + ["v", "u"] * 25)
    splits = make_splits(dataset_of(y, times=np.arange(100)))
    assert len(splits) < 5
    assert "windows with one class" in splits.notes[0]


@pytest.mark.parametrize(
    ("rows", "n_splits", "repeats"), [(100, 15, 3), (499, 15, 3), (500, 5, 1), (20_000, 5, 1), (20_001, 1, 1)]
)
def test_defaults_by_size(rows, n_splits, repeats):
    splits = make_splits(dataset_of(np.arange(rows) % 2))
    assert (len(splits), splits.repeats) == (n_splits, repeats)
    assert "stratified" in splits.kind


def test_a_large_hold_out_is_capped():
    ((_, valid),) = make_splits(dataset_of(np.arange(300_000) % 2))
    assert len(valid) == 10_000


def test_regression_and_no_target():
    splits = make_splits(dataset_of(np.linspace(0, 1, 50)))
    assert splits.kind == "5 folds, 3 times"
    unlabelled = Dataset.from_arrays(np.random.default_rng(0).normal(size=(30, 2)), None)
    assert len(make_splits(unlabelled, folds=3)) == 3


def test_the_seed_decides():
    dataset = dataset_of(np.arange(100) % 2)
    assert make_splits(dataset, seed=1).key == make_splits(dataset, seed=1).key
    assert make_splits(dataset, seed=1).key != make_splits(dataset, seed=2).key


def test_a_user_s_splits():
    dataset = dataset_of(np.arange(40) % 2)
    assert len(make_splits(dataset, splitter=KFold(4))) == 4
    assert len(make_splits(dataset, splitter=TimeSeriesSplit(3))) == 3
    ((train, valid),) = make_splits(dataset, splitter=[(range(10), [30, 20])])
    assert (train.tolist(), valid.tolist()) == (list(range(10)), [20, 30])
    ((train, valid),) = make_splits(dataset, validation=np.arange(40) >= 30)
    assert (len(train), valid.tolist()) == (30, list(range(30, 40)))
    assert (
        make_splits(dataset, validation=range(30, 40)).key == make_splits(dataset, validation=np.arange(40) >= 30).key
    )


def test_validation_rows_of_unknown_classes_are_left_out():
    y = np.array(["u", "v"] * 10 + ["w"] * 5)
    splits = make_splits(dataset_of(y), validation=range(16, 25))
    assert splits[0][1].tolist() == [16, 17, 18, 19]
    assert splits.notes[0].startswith("5 validation rows of classes")


def test_one_class_in_validation_is_noted():
    splits = make_splits(dataset_of(["u", "v"] * 10), validation=[0, 2])
    assert "only one class" in splits.notes[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 3, "holdout": 0.2}, "in one way, got folds and holdout"),
        ({"folds": 1}, "folds must be between 2 and the number of rows, 20, got 1"),
        ({"folds": 21}, "folds must be between 2"),
        ({"holdout": 1.0}, "holdout must be a share between 0 and 1"),
        ({"repeats": 0}, "repeats must be at least 1"),
        ({"holdout": 0.2, "repeats": 2}, "repeats must be at least 1 and requires folds"),
        ({"splitter": [([0, 1], [1, 2])]}, "must not train and validate on the same rows, 1 are in both"),
        ({"splitter": [([0, 1], [20])]}, "validation part 0 must have rows between 0 and 19, got 20 to 20"),
        ({"splitter": [([0, 1], [-1])]}, "between 0 and 19, got -1"),
        ({"splitter": [([0, 1], [])]}, "validation part 0 must have at least one row"),
        ({"splitter": [([], [1])]}, "training part 0 must have at least one row"),
        ({"splitter": [([0, 0, 1], [2])]}, "each row only once, 1 are repeated"),
        ({"splitter": [([0, 2], [1])]}, "training part 0 must have at least two classes"),
        ({"splitter": [([0.5, 1], [2])]}, "must be a list of row positions"),
        ({"splitter": [[1, 2, 3]]}, "each split must be a pair"),
        ({"splitter": []}, "at least one split, got none"),
        ({"splitter": 5}, "splitter must have a method split"),
        ({"splitter": KFold(30)}, "KFold cannot split this dataset"),
        ({"validation": range(20)}, "training part 0 must have at least one row"),
        ({"validation": [True]}, "a mask must have one value per row"),
    ],
)
def test_splits_that_are_refused(options, message):
    with pytest.raises(TableError, match=message):
        make_splits(dataset_of(["u", "v"] * 10), **options)


def test_times_and_groups_that_are_refused():
    y = ["u", "v"] * 10
    with pytest.raises(TableError, match="groups or times, not both"):
        make_splits(dataset_of(y, groups=np.arange(20), times=np.arange(20)))
    with pytest.raises(TableError, match="times must differ enough"):
        make_splits(dataset_of(y, times=np.zeros(20)))
    with pytest.raises(TableError, match="repeats must be 1 when rows are split by time"):
        make_splits(dataset_of(y, times=np.arange(20)), folds=3, repeats=2)


@given(
    y=labels(),
    shares=st.lists(st.floats(0.01, 1.0), min_size=2, max_size=5, unique=True).map(sorted),
    seed=st.integers(0, 10),
)
@settings(max_examples=60, deadline=None)
def test_subsamples_are_nested_and_stratified(y, shares, seed):
    dataset = dataset_of(y, task="classification")
    splits = make_splits(dataset, folds=3, repeats=1)
    parts = [splits.subsample(share, seed) for share in shares]
    for share, part in zip(shares, parts, strict=True):
        assert part.key == splits.subsample(share, seed).key
        for (train, valid), (all_train, all_valid) in zip(part, splits, strict=True):
            assert valid is all_valid
            assert set(train) <= set(all_train)
            taken = np.bincount(dataset.y[train], minlength=len(dataset.classes))
            whole = np.bincount(dataset.y[all_train], minlength=len(dataset.classes))
            expected = np.maximum(np.ceil(share * whole - 1e-9), np.minimum(whole, 2))
            assert taken.tolist() == expected.tolist()
    for smaller, larger in pairwise(parts):
        for (a, _), (b, _) in zip(smaller, larger, strict=True):
            assert set(a) <= set(b)


def test_subsample_of_a_regression():
    splits = make_splits(dataset_of(np.linspace(0, 1, 1000)))
    assert [len(train) for train, _ in splits.subsample(0.25)] == [200] * 5
    assert splits.subsample(1.0) is splits
    assert splits.subsample(0.5, seed=1).key != splits.subsample(0.5, seed=2).key
    for share in (0, -1, 1.5, float("nan")):
        with pytest.raises(TableError, match="rows_share must be above 0 and at most 1"):
            splits.subsample(share)
