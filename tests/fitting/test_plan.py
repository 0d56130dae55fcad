"""What follows from a table's size and the budget."""

from __future__ import annotations

import numpy as np
import pandas as pd
import psutil
import pytest

from headstart.data import Dataset
from headstart.errors import InvalidInput
from headstart.fitting.plan import BOOSTER_CELLS, available_cores, make_plan, possible_splits
from headstart.fitting.settings import Settings, choose_space


def dataset(rows: int, columns: int = 5) -> Dataset:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, columns)), columns=[f"x{i}" for i in range(columns)])
    return Dataset.from_table(frame.assign(y=frame["x0"] > 0), "y")


@pytest.mark.parametrize(
    ("rows", "columns", "seconds", "folds"),
    [
        (300, 5, None, 15),
        (300, 5, 600.0, 15),
        (300, 5, 60.0, 5),
        (5000, 5, None, 5),
        (5000, 5, 60.0, 5),
        (5000, 5, 10.0, 3),
        (5000, 100, 10.0, 1),
        (4000, 100, 10.0, 3),
        (10_000, 20, 60.0, 3),
        (10_001, 20, 60.0, 1),
        (10_001, 5, 60.0, 5),
        (25_000, 5, None, 1),
    ],
)
def test_folds(rows: int, columns: int, seconds: float | None, folds: int) -> None:
    settings = Settings(seconds, evaluations=1, n_jobs=1)
    assert len(make_plan(dataset(rows, columns), settings).splits) == folds


def test_tables_that_are_too_large_for_an_evaluation_are_screened_first() -> None:
    table = dataset(50_000, 40)
    assert make_plan(table, Settings()).screen is None
    assert make_plan(table, Settings(60.0)).screen is None
    plan = make_plan(table, Settings(evaluation_seconds=1.0))  # for 40,000 of 50,000 rows a booster takes 3.2 s
    assert plan.screen is not None
    train, _ = plan.splits.subsample(plan.screen.rows)[0]
    assert len(train) * 40 / BOOSTER_CELLS == pytest.approx(0.25, rel=0.01)
    assert any("first look" in line for line in plan.describe())


def test_any_budget_finds_the_splits_of_any_other() -> None:
    whole = dataset(600, 40)
    for rows, budgets in ((600, (1000.0, 10.0, 3.0, 0.1)), (400, (1000.0, 0.1))):
        part = whole.take(range(rows))
        for seed in (0, 1):
            keys = {make_plan(part, Settings(seconds, random_state=seed)).splits.key for seconds in budgets}
            for seconds in budgets:
                assert keys <= {splits.key for splits in possible_splits(part, Settings(seconds, random_state=seed))}


def test_jobs() -> None:
    table = dataset(100)
    assert make_plan(table, Settings(n_jobs=3)).n_jobs == 3
    assert make_plan(table, Settings(n_jobs=-1)).n_jobs == available_cores()
    assert 1 <= make_plan(table, Settings()).n_jobs <= available_cores()
    free = make_plan(table, Settings(memory_limit=64 * 10**9)).n_jobs
    assert free == available_cores()
    least = psutil.Process().memory_info().rss + 600 * 10**6  # room for one
    assert make_plan(table, Settings(memory_limit=least)).n_jobs == 1


def test_limits() -> None:
    table = dataset(100)
    assert make_plan(table, Settings(time_budget=120)).limits.seconds == 20
    assert make_plan(table, Settings(time_budget=2)).limits.seconds == 3
    large = dataset(25_000, 50)  # a booster takes 2.5 s
    assert [make_plan(large, Settings(time_budget=t)).limits.seconds for t in (60, 18, 9)] == [10, 3.75, 3]
    classes = Dataset.from_table(large.X.assign(y=np.arange(25_000) % 10), "y")  # 12.5 s
    assert [make_plan(classes, Settings(time_budget=t)).limits.seconds for t in (60, 30)] == [18.75, 10]
    assert make_plan(table, Settings(evaluation_seconds=7)).limits.seconds == 7
    one, two = (make_plan(table, Settings(memory_limit=8 * 10**9, n_jobs=n)).limits.bytes for n in (1, 2))
    assert one is not None
    assert two is not None
    assert 2 * two < one < 8 * 10**9


@pytest.mark.parametrize(
    ("space", "task", "message"),
    [("tensor_oboe", "regression", "has classifiers"), ("regression", "binary", "has regressors")],
)
def test_a_space_of_the_catalog_must_be_of_the_task(space, task, message):
    with pytest.raises(InvalidInput, match=message):
        choose_space(Settings(space=space), task)
    assert choose_space(Settings(), task).name == ("regression" if task == "regression" else "classification")
    assert choose_space(Settings(space="tensor_oboe"), "multiclass").name == "tensor_oboe"
