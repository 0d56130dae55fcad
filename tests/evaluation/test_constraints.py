"""Each measured value against its definition."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, mean_absolute_error, recall_score, roc_auc_score

from headstart.constraints import Measured
from headstart.data import Dataset
from headstart.errors import InvalidInput, UnknownName
from headstart.evaluation import constraints
from headstart.evaluation.constraints import groups_of, measures, pickled_size, timed
from headstart.evaluation.scoring import Metric

RNG = np.random.default_rng(0)
N = 300
AGE = RNG.uniform(18, 90, N).round()
AGE[::10] = np.nan
SEX = RNG.choice(["f", "m"], N)
FLAG = RNG.integers(0, 2, N).astype(float)
LEVEL = RNG.choice(["a", "b", "c, d", 'e "f"'], N, p=[0.5, 0.3, 0.18, 0.02]).astype(object)  # the last is too small
LEVEL[5:30] = None
TABLE = pd.DataFrame({"age": AGE, "sex": SEX, "flag": FLAG, "my level": LEVEL, "x": RNG.normal(size=N)})
BINARY, CLASSES, NUMBERS = RNG.integers(0, 2, N), RNG.integers(0, 3, N), RNG.normal(size=N)
ROWS = np.arange(0, N, 2)


def data(kind="binary", table=TABLE):
    y = {"binary": BINARY, "multiclass": CLASSES, "regression": NUMBERS}[kind]
    return Dataset.from_table(table, y, task=kind)


def predictions(kind="binary"):
    rng = np.random.default_rng(1)
    if kind == "regression":
        return NUMBERS + rng.normal(size=N)
    found = rng.random((N, 2 if kind == "binary" else 3))
    return found / found.sum(axis=1, keepdims=True)


def value(name, kind="binary", metric=None, rows=ROWS, found=None, table=TABLE):
    default = {"binary": "roc_auc", "multiclass": "accuracy", "regression": "neg_mean_absolute_error"}[kind]
    made = measures([name], data(kind, table), Metric(metric or default, kind), rows)
    found = predictions(kind) if found is None else found
    return made.values([], rows, found[rows]).get(name)


def gap(parts, score):
    scores = [score(part) for part in parts if len(part) >= 10]
    return max(scores) - min(scores)


def parts(labels):
    """Rows of each group among `ROWS`; missing values are one."""
    text = pd.Series(labels).astype(object).where(pd.notna(pd.Series(labels)), "missing").to_numpy()
    return [ROWS[text[ROWS] == group] for group in np.unique(text[ROWS].astype(str))]


def test_disparity_is_the_largest_difference_in_the_metric_of_the_fit():
    found = predictions()
    expected = gap(parts(SEX), lambda rows: roc_auc_score(BINARY[rows], found[rows, 1]))
    assert value("disparity(sex)") == pytest.approx(expected)
    by_recall = gap(parts(SEX), lambda rows: recall_score(BINARY[rows], found[rows].argmax(axis=1)))
    assert value("disparity(sex, recall)") == pytest.approx(by_recall)
    assert by_recall != pytest.approx(expected)


def test_missing_values_are_a_group_and_small_groups_are_none():
    assert min(len(part) for part in parts(LEVEL)) < 10
    expected = gap(parts(LEVEL), lambda rows: (predictions()[rows].argmax(axis=1) == BINARY[rows]).mean())
    assert value("disparity(my level, accuracy)") == pytest.approx(expected)
    unknown = ROWS[pd.isna(LEVEL[ROWS])]
    perfect = np.eye(2)[np.where(np.isin(np.arange(N), unknown), 1 - BINARY, BINARY)]
    assert value("disparity(my level, accuracy)", found=perfect) == 1.0


def test_numbers_and_several_classes():
    found = predictions("regression")
    expected = gap(parts(SEX), lambda rows: mean_absolute_error(NUMBERS[rows], found[rows]))
    assert value("disparity(sex)", "regression") == pytest.approx(expected)
    found = predictions("multiclass").argmax(axis=1)
    expected = gap(parts(SEX), lambda rows: (found[rows] == CLASSES[rows]).mean())
    assert value("disparity(sex)", "multiclass") == pytest.approx(expected)


def test_parity_is_the_largest_difference_in_shares_of_a_class():
    found = predictions().argmax(axis=1)
    assert value("parity(sex)") == pytest.approx(gap(parts(SEX), lambda rows: found[rows].mean()))
    found = predictions("multiclass").argmax(axis=1)
    expected = max(gap(parts(SEX), lambda rows, c=c: (found[rows] == c).mean()) for c in range(3))
    assert value("parity(sex)", "multiclass") == pytest.approx(expected)


def test_a_group_in_which_the_metric_is_not_defined_is_left_out():
    group = np.where(np.arange(N) % 3 == 0, "one class", SEX)
    y = np.where(group == "one class", 0, BINARY)
    frame = Dataset.from_table(TABLE.assign(group=group), y, task="binary")
    found = predictions()
    for metric, score in (
        ("roc_auc", lambda rows: roc_auc_score(y[rows], found[rows, 1])),
        ("f1", lambda rows: f1_score(y[rows], found[rows].argmax(axis=1))),
    ):
        made = measures(["disparity(group)"], frame, Metric(metric, "binary"), ROWS)
        expected = gap([ROWS[group[ROWS] == name] for name in "fm"], score)
        assert made.values([], ROWS, found[ROWS])["disparity(group)"] == pytest.approx(expected)
    few = ROWS[group[ROWS] == "f"]
    assert made.values([], few, found[few]) == {}  # one group cannot be compared


def test_a_disparity_is_weighted_as_the_metric_is():
    weights = np.linspace(0.1, 3.0, N)
    made = measures(
        ["disparity(sex)"],
        Dataset.from_table(TABLE, BINARY, task="binary", weights=weights),
        Metric("accuracy", "binary"),
        ROWS,
    )
    found = predictions()
    right = found.argmax(axis=1) == BINARY
    expected = gap(parts(SEX), lambda rows: np.average(right[rows], weights=weights[rows]))
    assert made.values([], ROWS, found[ROWS])["disparity(sex)"] == pytest.approx(expected)


class TestGroups:
    def groups(self, name, table=TABLE):
        found = groups_of(data(table=table), Measured.parse(name))
        return [set(np.flatnonzero(found == group)) for group in np.unique(found)]

    def same(self, found, *masks):
        assert sorted(map(sorted, found)) == sorted(np.flatnonzero(mask).tolist() for mask in masks)

    def test_edges(self):
        masks = (np.isnan(AGE), AGE < 25, (AGE >= 25) & (AGE < 60), AGE >= 60)
        self.same(self.groups("disparity(age: 25, 60)"), *masks)

    def test_quintiles_of_all_rows(self):
        edges = np.nanquantile(AGE, [0.2, 0.4, 0.6, 0.8])
        bins = pd.cut(AGE, [-np.inf, *edges, np.inf], labels=False)
        self.same(self.groups("disparity(age)"), np.isnan(AGE), *(bins == i for i in range(5)))

    def test_a_few_numbers_are_groups_of_their_own(self):
        rare = np.where(np.arange(N) % 20 == 0, 1.0, 0.0)
        self.same(self.groups("disparity(rare)", TABLE.assign(rare=rare)), rare == 0, rare == 1)

    def test_mostly_one_number(self):
        gains = np.where(np.arange(N) % 6 == 0, np.arange(N), 0.0)
        self.same(self.groups("disparity(gains)", TABLE.assign(gains=gains)), gains == 0, gains > 0)


@pytest.mark.parametrize(
    ("name", "kind", "error", "message"),
    [
        ("latncy", "binary", UnknownName, "did you mean 'latency'"),
        ("disparity:sex", "binary", UnknownName, r"did you mean 'disparity\(COLUMN\)'"),
        ("latency(sex)", "binary", UnknownName, "no constraint is named"),
        ("disparity", "binary", InvalidInput, r"needs a column of the table, as in disparity\(sex\)"),
        ("disparity(sx)", "binary", InvalidInput, "did you mean 'sex'"),
        ("disparity(sex, recal)", "binary", UnknownName, "did you mean 'recall'"),
        ("disparity(sex, r2)", "binary", InvalidInput, "is for regression"),
        ("disparity(sex: 3)", "binary", InvalidInput, "edges are for numeric columns, and 'sex' is categorical"),
        ("disparity(age: 200)", "binary", InvalidInput, "needs two groups of at least 10"),
        ("parity(sex, recall)", "binary", InvalidInput, "got the metric recall"),
        ("parity(sex)", "regression", InvalidInput, "got a regression"),
        ("false_positive_rate", "multiclass", InvalidInput, "needs two classes"),
    ],
)
def test_mistakes(name, kind, error, message):
    table = TABLE.assign(age=np.nan_to_num(AGE, nan=50.0)) if "200" in name else TABLE
    with pytest.raises(error, match=message):
        value(name, kind, table=table)


def test_size_is_that_of_all_models():
    models = [np.arange(1000), {"a": 1}]
    assert pickled_size(models) == sum(len(pickle.dumps(m, protocol=pickle.HIGHEST_PROTOCOL)) for m in models)


def test_waiting_for_a_core_does_not_count(monkeypatch):
    """A call of 3 s by a clock of our own, of which it waited 2 s."""
    clock = iter([10.0, 13.0])
    queue = iter([5.0, 7.0])
    monkeypatch.setattr(constraints.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(constraints, "_seconds_in_queue", lambda: next(queue))
    assert timed(lambda: np.zeros(1), repeat=False)[1] == pytest.approx(1.0)


def test_a_call_takes_no_less_than_the_processor_worked_for_it(monkeypatch):
    """Of a call of 3 s it waited 9 s, most of them between the looks at both clocks; it worked for 1 s."""
    clock, queue, processor = iter([10.0, 13.0]), iter([5.0, 14.0]), iter([2.0, 3.0])
    monkeypatch.setattr(constraints.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(constraints.time, "thread_time", lambda: next(processor))
    monkeypatch.setattr(constraints, "_seconds_in_queue", lambda: next(queue))
    assert timed(lambda: np.zeros(1), repeat=False)[1] == pytest.approx(1.0)


def test_short_calls_are_timed_several_times():
    calls = []

    def call():
        calls.append(0)
        return np.zeros(1)

    for repeat in (False, True):
        _, seconds = timed(call, repeat)
        assert 0 <= seconds < 0.1
    assert len(calls) == 1 + 3
