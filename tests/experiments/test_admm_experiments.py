"""ADMM's experiments: what a race counts, and constraints beside filtering."""

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from experiments.admm import BUDGETS, RACE, SENSITIVITY, SOLVERS, TABLES
from experiments.bounds import CONSTRAINED, FILTERED, Bounded, LiveBounds, RecordedBounds
from experiments.catalogue import run_experiment
from experiments.plots import draw
from experiments.race import (
    ArtificialRound,
    LiveRace,
    Race,
    Raced,
    improvement,
    live_space,
    run_once,
    searched_space,
    speed_up,
)
from headstart.errors import InvalidInput
from headstart.metadata import MetaDataset
from headstart.registry import create
from headstart.testing.examples import small_meta
from headstart.trials import Outcome

SLOW = {"evaluations": [1, 40], "seconds": [0.1, 8.0], "losses": [3.0, 1.0], "total": {"evaluations": 50, "seconds": 9}}
FAST = {"evaluations": [2, 10], "seconds": [0.2, 0.4], "losses": [2.0, 0.5], "total": {"evaluations": 80, "seconds": 4}}


def timed_meta():
    meta = small_meta(n_tasks=6)
    seconds = np.random.default_rng(0).uniform(0.1, 9.0, meta.losses.shape)
    splits = {"train": [0, 1, 2], "validation": [3], "test": [4, 5]}
    return MetaDataset(
        meta.pipelines, meta.losses, meta.tasks, seconds=seconds, initial=[()] * 6, splits=splits, name="tensor_oboe"
    )


def test_speed_up_is_to_the_final_value_of_the_reference():
    assert speed_up(SLOW, FAST, "seconds") == (20.0, True)
    assert speed_up(SLOW, FAST, "evaluations") == (4.0, True)
    assert speed_up(SLOW, FAST, "seconds", whole=True) == (9 / 0.4, True)
    assert speed_up(FAST, SLOW, "seconds") == (0.4 / 9, False)
    assert improvement(SLOW, FAST) == 0.5


def test_table_of_a_race_has_geometric_means():
    raced = Raced("space", 9.0, None, {"joint": "gp", "ours": "admm", "not run": "optuna"})
    raced.add_runs("gp", [SLOW, SLOW])
    raced.add_runs("admm", [FAST, {**FAST, "seconds": [0.2, 1.6], "evaluations": [2, 10]}])
    rows = {row[0]: dict(zip(raced.table().columns, row, strict=True)) for row in raced.table().rows}
    assert list(rows) == ["joint", "ours"]
    assert rows["ours"]["speed-up in time"].startswith("10× (")  # of 20 and 5
    assert rows["ours"]["in evaluations"] == "4.0× (4.0× to 4.0×)"
    assert rows["ours"]["reached"] == "2 of 2"
    assert rows["ours"]["improvement"] == "50 %"


def test_each_admm_is_compared_with_each_search_of_all_variables():
    raced = Raced("space", 9.0, None, {"joint": "gp", "other": "optuna", "ours": "admm(most=256)"})
    raced.add_runs("gp", [SLOW, SLOW])
    raced.add_runs("optuna", [FAST, FAST])
    raced.add_runs("admm(most=256)", [FAST, FAST])
    rows = {row[0]: dict(zip(raced.table().columns, row, strict=True)) for row in raced.table().rows}
    assert list(rows) == ["joint", "other", "ours", "ours, against other"]
    assert rows["ours"]["improvement"] == "50 %"
    assert rows["ours, against other"]["improvement"] == "0 %"
    assert rows["ours, against other"]["speed-up in time"] == "1.0× (1.0× to 1.0×)"


def test_a_race_is_run_once_and_drawn(tmp_path, put):
    put("admm_solvers", Race({"random": "random", "ours": "admm(theta=random, z=random, budget=4)"}, seeds=2))
    found, path = run_experiment("admm_solvers", timed_meta(), tmp_path, evaluations=12)
    again, _ = run_experiment("admm_solvers", timed_meta(), tmp_path, evaluations=12)
    assert found == again == Raced.load(path)
    for runs in found.ran().values():
        assert [run["total"]["evaluations"] for run in runs] == [12, 12]
        assert all(run["losses"] == sorted(run["losses"], reverse=True) for run in runs)
    assert all(place.stat().st_size > 1000 for place in draw(found, tmp_path / "race"))


@pytest.mark.filterwarnings("ignore:none of the first")  # on a slow machine every evaluation may be too long
def test_a_race_on_raw_tables_is_by_the_clock(tmp_path, put):
    folder = tmp_path / "tables"
    (folder / "classification").mkdir(parents=True)
    x = np.random.default_rng(0).normal(size=(60, 2))
    frame = pd.DataFrame(x, columns=["x", "y"]).assign(target=np.where(x[:, 0] + x[:, 1] ** 2 > 0.5, "p", "n"))
    frame.to_parquet(folder / "classification" / "a.parquet")
    header = "name,group,task,rows,features,source,classes"
    (folder / "index.csv").write_text(f"{header}\na,one,classification,60,2,arff-datasets,2")
    put("admm_tables", LiveRace({"random": "random"}, seeds=1, tables=1))
    with pytest.raises(InvalidInput, match="give --data DIR"):
        run_experiment("admm_tables", timed_meta(), tmp_path / "out")
    found, path = run_experiment("admm_tables", timed_meta(), tmp_path / "out", data=tmp_path, seconds=1)
    assert found == Raced.load(path)
    assert found.space == live_space().name
    (runs,) = found.ran().values()
    assert len(runs) == 1
    assert all(0 <= run["losses"][-1] <= 1 and run["total"]["seconds"] >= 1 for run in runs)


def test_a_race_without_any_result_ends_with_a_constant():
    class Failing(ArtificialRound):
        @contextmanager
        def objective(self):
            yield lambda *_: Outcome.failed("crashed", "no")

    run = run_once(create("optimizer", "random"), None, 2, Failing(0))
    assert (run["losses"], run["evaluations"]) == ([0.5], [2])


@pytest.mark.parametrize("race", [RACE, BUDGETS, SOLVERS, SENSITIVITY, TABLES])
def test_optimizers_of_races_can_be_made(race):
    for text in race.methods.values():
        if text != "optuna":
            create("optimizer", text)


def test_the_space_of_a_race_keeps_its_order_and_has_choices_only():
    space = searched_space()
    assert not space.free_order
    assert [len(stage.algorithms) for stage in space.stages] == [8, 11, 6, 11]


def test_recorded_bounds_are_kept_more_often_with_constraints(tmp_path, put):
    put("admm_bounds", RecordedBounds("admm(theta=random, budget=4)", (0.2, 0.5)))
    found, path = run_experiment("admm_bounds", timed_meta(), tmp_path, evaluations=20)
    assert found == Bounded.load(path)
    one, two = (found.values(way, "shares") for way in (CONSTRAINED, FILTERED))
    assert one.shape == two.shape == (2, 2)
    assert one.mean() > two.mean()
    assert (found.values(FILTERED, "shortfalls") >= 0).all()
    assert [row[0] for row in found.table().rows] == [*found.labels, "all together"]
    assert all(place.stat().st_size > 1000 for place in draw(found, tmp_path / "bounds"))


def test_live_bounds_are_quantiles_of_random_pipelines(tmp_path, put):
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 70, 160), "x": rng.normal(size=160)})
    folder = tmp_path / "data" / "tables" / "classification"
    folder.mkdir(parents=True)
    frame.assign(target=np.where(frame["x"] + rng.normal(size=160) > 0, "p", "n")).to_parquet(folder / "t.parquet")
    live = LiveBounds("t", "disparity(age: 45)", "random", "admm_small", (0.5,), seeds=1, trials=6, sandbox=False)
    put("admm_credit", live)
    found, _ = run_experiment("admm_credit", timed_meta(), tmp_path, evaluations=6, data=tmp_path / "data")
    assert [sorted(bound) for bound in found.bounds] == [["disparity(age: 45)", "latency"]] * 2
    assert found.labels[0].startswith("latency ≤ ")
    assert len(found.points()) == 3  # a search without bounds, and one for each bound
    again, _ = run_experiment("admm_credit", timed_meta(), tmp_path, evaluations=6, data=tmp_path / "data")
    assert again.bounds == found.bounds
    assert all(place.stat().st_size > 1000 for place in draw(found, tmp_path / "live"))
