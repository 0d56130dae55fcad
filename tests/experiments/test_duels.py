"""Searches on raw tables with several seeds, and SMAC3 as a program of its own."""

import sys

import numpy as np
import pandas as pd
import pytest

from experiments import live_smac, smac_program
from experiments.catalogue import EXPERIMENTS, run_experiment
from experiments.ensembles import FitDuels, Fitted
from experiments.live_duels import DuelResults, LiveDuels, best_of
from experiments.live_smac import PYTHON, Smac
from experiments.live_tpot import Budget, Step
from headstart.errors import InvalidInput, MissingDependency
from headstart.space import catalog
from headstart.space.pipeline import Pipeline
from headstart.testing.examples import small_meta
from headstart.trials import Limits, Outcome


@pytest.fixture
def data(tmp_path):
    """A folder with an index of tables, two of them small enough and of different groups."""
    folder = tmp_path / "data" / "tables"
    (folder / "classification").mkdir(parents=True)
    rng = np.random.default_rng(0)
    listed = [("b", "one", 60, "UCI"), ("a", "one", 60, "UCI"), ("c", "two", 90, "UCI"), ("d", "three", 999, "UCI")]
    listed += [("e", "four", 80, "made")]
    for name, _, rows, _ in listed:
        frame = pd.DataFrame({"x": rng.normal(size=rows), "y": rng.normal(size=rows)})
        frame.assign(target=np.where(frame["x"] > 0, "p", "n")).to_parquet(
            folder / "classification" / f"{name}.parquet"
        )
    lines = [f"{n},{g},classification,{r},2,{s}" for n, g, r, s in listed]
    (folder / "index.csv").write_text("name,group,task,rows,features,source\n" + "\n".join(lines))
    return tmp_path / "data"


DUELS = LiveDuels(("random",), "admm_small", 2, 500, "UCI", seeds=2, evaluations=(1, 2), seconds=4.0, sandbox=False)


def test_tables_are_the_largest_below_a_size_one_of_each_group(data):
    assert [table.name for table in DUELS.choose(data / "tables")] == ["c", "a"]
    with pytest.raises(InvalidInput, match="must have 9 tables below 500 rows, it has 2"):
        LiveDuels((), tables=9, rows=500, source="UCI").choose(data / "tables")


def test_wins_are_counted_by_the_median_and_mann_whitney():
    results = DuelResults("s", "accuracy", 60.0, [25], 5, "ours", [{"name": "t"}, {"name": "u"}, {"name": "v"}])

    def runs(values):
        return [{"scores": [0.5, value], "observed": [25, 40]} for row in values for value in row]

    clear, near = [0.9, 0.91, 0.92, 0.93, 0.94], [0.5, 0.6, 0.7, 0.8, 0.9]
    results.add_runs("ours", runs([clear, near, [0.4] * 5]))
    results.add_runs("other", runs([[*near[:4], 0.8], [0.5, 0.55, 0.65, 0.8, 0.9], [0.4] * 5]))
    table = results.table()
    row = dict(zip(table.columns, table.rows[1], strict=True))
    assert (row["better"], row["worse"], row["significant"]) == ("2", "0", "1–0")
    assert table.rows[0][-3:] == ["", "", ""]
    assert row["rank, 25 pipelines"].startswith("1.50")
    assert row["rank, 60 s"].startswith("1.83")  # of 2, 2 and 1.5
    assert row["pipelines"] == "40"


def test_the_best_of_the_first_ones():
    a, b = Pipeline(["a"]), Pipeline(["b"])
    steps = [Step(1.0, None, a, 0), Step(2.0, 0.3, a, 1), Step(3.0, 0.1, b, 2)]
    assert best_of(steps[:1]) is None
    assert best_of(steps[:2]).pipeline == a
    assert best_of(steps).pipeline == b


def test_every_method_searches_every_table_with_every_seed(data, put, tmp_path, monkeypatch):
    monkeypatch.delenv(PYTHON, raising=False)
    put("mosaic_live", LiveDuels(("random", "smac"), "admm_small", 2, 500, "UCI", 2, (1, 2), 3.0, sandbox=False))
    meta = small_meta(n_tasks=8).changed(splits={"train": [0, 1], "validation": [2], "test": [3]}, name="tensor_oboe")
    found, path = run_experiment("mosaic_live", meta, tmp_path / "out", data=data)
    assert DuelResults.load(path) == found
    assert "must name its Python" in found.methods["smac"]["left_out"]
    assert found.values("random").shape == (2, 2, 3)
    assert found.values("random", "observed")[..., :2].tolist() == [[[1, 2]] * 2] * 2
    assert found.values("random").min() >= 0
    assert [row[0] for row in found.table().rows] == ["random"]
    assert "with" in found.line("random")
    assert EXPERIMENTS["mosaic_live"].seconds == 60


def test_ensembles_stand_beside_the_best_pipelines_of_the_same_fits():
    results = Fitted("s", 60.0, 2, [{"name": "t"}, {"name": "u"}])

    def runs(*pairs):
        return [{"best pipeline": single, "ensemble": joint, "observed": 10} for single, joint in pairs]

    results.add_runs("a", runs((0.8, 0.9), (0.6, 0.7), (0.5, 0.4), (0.5, 0.4)))
    results.add_runs("b", runs((0.1, 0.1), (0.1, 0.1), (0.1, 0.3), (0.1, 0.1)))
    (single, joint, _, other) = results.table().rows
    assert single[:3] == ["`a`, best pipeline", "1.50 ± 0.98", "0.6000"]  # second of four, then first
    assert joint[2:5] == ["0.6000", "+0.0000 ± 0.1960", "1–1"]
    assert other[2:] == ["0.1500", "+0.0500 ± 0.0980", "1–0", "10"]


@pytest.mark.filterwarnings("ignore")  # on a slow machine no pipeline may be done in time
def test_a_fit_is_scored_on_rows_that_it_has_not_seen(data, put, tmp_path):
    put("mosaic_ensembles", FitDuels(("random",), LiveDuels((), "admm_small", 1, 500, "UCI", seconds=4.0), seeds=1))
    meta = small_meta(n_tasks=8).changed(splits={"train": [0, 1], "validation": [2], "test": [3]}, name="tensor_oboe")
    found, path = run_experiment("mosaic_ensembles", meta, tmp_path / "out", data=data)
    assert Fitted.load(path) == found
    (run,) = found.methods["random"]["runs"]
    assert all(0.5 <= run[part] <= 1 for part in found.parts)
    with pytest.raises(InvalidInput, match="give --data DIR"):
        run_experiment("mosaic_ensembles", meta, tmp_path / "out")


class TestSmac:
    def test_it_is_asked_and_told_line_by_line(self, monkeypatch, tmp_path):
        """With a stand-in in the program's place: random configurations, and what it is told is written down."""
        program = tmp_path / "stand_in.py"
        program.write_text(
            "import json, sys\n"
            "from ConfigSpace import ConfigurationSpace\n"
            "space = ConfigurationSpace.from_json(sys.argv[1])\n"
            "space.seed(int(sys.argv[2]))\n"
            "while True:\n"
            "    found = dict(space.sample_configuration())\n"
            "    plain = {k: v.item() if hasattr(v, 'item') else v for k, v in found.items()}\n"
            "    print(json.dumps(plain), flush=True)\n"
            "    told = sys.stdin.readline()\n"
            f"    open({str(tmp_path / 'told')!r}, 'a').write(told)\n"
        )
        monkeypatch.setenv(PYTHON, sys.executable)
        monkeypatch.setattr(smac_program, "__file__", str(program))
        space, seen = catalog.load("auto_sklearn"), []

        def objective(pipeline, limits, seed):
            assert limits.deadline is not None
            seen.append(pipeline)
            return Outcome.failed("crashed", "x") if len(seen) == 2 else Outcome.of(0.1 * len(seen))

        steps = Smac().search(space, objective, 3, Budget(300.0, Limits(seconds=5.0), 4), ())
        assert [step.pipeline for step in steps] == seen
        assert [step.loss for step in steps] == pytest.approx([0.1, None, 0.3, 0.4])
        space.encode(seen)  # all of them belong to it
        assert (tmp_path / "told").read_text().split()[:3] == ["0.1", "null", "0.30000000000000004"]
        with pytest.raises(InvalidInput, match="takes no initial"):
            Smac().search(space, objective, 3, Budget(1.0, Limits(), 1), seen)

    def test_without_it(self, monkeypatch):
        monkeypatch.setenv(PYTHON, "/no/python")
        with pytest.raises(MissingDependency, match="pip install smac"):
            live_smac.python()
