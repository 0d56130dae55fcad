"""Searches on raw tables: small tables, clocks of our own, and numbers of pipelines instead of seconds."""

import itertools
import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from experiments import live, live_tpot
from experiments.catalogue import EXPERIMENTS, run_experiment
from experiments.live import ByOptimizer, LiveComparison, LiveResults, Refit, prepared, read_off, run_table
from experiments.live_tables import TableRule, check_unknown, read_index, read_table
from experiments.live_tpot import Budget, Step
from headstart.errors import HeadstartError, InvalidInput, MissingDependency, SpaceError
from headstart.evaluation.live import LiveObjective
from headstart.metadata import MetaDataset
from headstart.methods.deeppipe import DeepPipe
from headstart.optimizers.base import evaluation_seed
from headstart.optimizers.random import RandomSearch, draw_untried
from headstart.space import Algorithm, Categorical, Encoded, Float, Integer, PipelineSpace, Stage, catalog
from headstart.space.pipeline import Pipeline
from headstart.testing.examples import small_space
from headstart.trials import Fidelity, Limits, Outcome, Proposal

SPACE = PipelineSpace(
    "tiny",
    [
        Stage("scaler", [Algorithm("standard", "sklearn.preprocessing:StandardScaler"), Algorithm("none")]),
        Stage(
            "estimator",
            [
                Algorithm(
                    "knn",
                    "sklearn.neighbors:KNeighborsClassifier",
                    [Categorical("n_neighbors", (1, 3, 5, 9), ordered=True), Categorical("weights", ("uniform",))],
                ),
                Algorithm(
                    "tree",
                    "sklearn.tree:DecisionTreeClassifier",
                    [Categorical("max_depth", (1, 2, 4), ordered=True), Categorical("criterion", ("gini", "entropy"))],
                ),
                Algorithm("naive_bayes", "sklearn.naive_bayes:GaussianNB"),
            ],
        ),
    ],
)
QUICK = "deeppipe_network(steps=2)"
RULE = TableRule(3, (50, 1000), {"9": "left out"})
COMPARISON = LiveComparison(
    ("oboe(max_rank=2)", "random"),
    warm=("random",),
    space=SPACE,
    rule=RULE,
    about_rule="All of them.",
    evaluations=4,
    sandbox=False,
)


def everything():
    """All pipelines of the space."""
    found = []
    for scaler, stage in itertools.product(("standard", "none"), SPACE.stages[1].algorithms):
        for values in itertools.product(*(p.choices for p in stage.params)):
            params = dict(zip([p.name for p in stage.params], values, strict=True))
            found.append(Pipeline([scaler, stage.name], [{}, params]))
    return found


@pytest.fixture
def meta():
    encoded = SPACE.encode(everything())
    recorded = Encoded(SPACE, encoded.values, encoded.active, encoded.choice, ids=np.arange(len(encoded)))
    losses = np.random.default_rng(0).random((8, len(encoded)))
    splits = {"train": [0, 1, 2, 3], "validation": [4, 5], "test": [6, 7]}
    tasks = [f"openml-{i}" for i in range(101, 109)]
    ids = [t.removeprefix("openml-") for t in tasks]
    return MetaDataset(recorded, losses, tasks, splits=splits, name="tensor_oboe", ids=ids, about={"ids": "OpenML"})


@pytest.fixture
def data(tmp_path):
    """A folder with tables; the ids of 101 and 102 are tasks, 20 is as large as 101, 9 is left out, 10 too small."""
    folder = tmp_path / "data" / "pmf_tables"
    folder.mkdir(parents=True)
    sizes = {"30": (90, 3), "7": (60, 2), "101": (80, 3), "20": (80, 3), "9": (70, 3), "10": (20, 3), "12": (75, 2)}
    rows = []
    for number, (n, p) in sizes.items():
        rng = np.random.default_rng(int(number))
        y = np.arange(n) % 3
        frame = pd.DataFrame(rng.normal(size=(n, p)) + y[:, None], columns=[f"x{i}" for i in range(p)])
        frame["colour"] = rng.choice(["red", "green"], n)
        frame["__target__"] = np.array(["a", "b", "c"])[y]
        frame.to_csv(folder / f"{number}.csv.gz", index=False)
        rows.append(f"{number},table{number},{n},{p}")
    rows.append("11,missing,500,3")
    (folder / "index.csv").write_text("openml_id,name,n,p\n" + "\n".join(rows) + "\n")
    return folder.parent


@pytest.fixture
def table(data):
    file = next(t for t in read_index(data / "pmf_tables") if t.id == "12")
    return read_table(file, max_rows=1000, test=1 / 3, folds=3, seed=0)


@pytest.fixture
def run(meta, data, tmp_path, put):
    def run(comparison=COMPARISON, **others):
        put("deeppipe_live", comparison)
        return run_experiment("deeppipe_live", meta, tmp_path / "out", data=data, **others)

    return run


class Ticking:
    """A clock that goes on by what evaluations take; one that would end after the deadline is cut off."""

    def __init__(self, monkeypatch, durations):
        self.now, self.durations, self.limits = 100.0, iter(durations), []
        monkeypatch.setattr(time, "time", lambda: self.now)

    def evaluate(self, pipeline, limits, seed, fidelity):
        allowed, takes = limits.now().seconds, next(self.durations)
        self.limits.append(allowed)
        self.now += takes if allowed is None else min(takes, allowed)
        if allowed is not None and takes > allowed:
            return Outcome.failed("timeout", "too long")
        return Outcome.of(1 / len(self.limits)) if len(self.limits) != 2 else Outcome.failed("crashed", "no")


class Halving(RandomSearch):
    """Every other proposal is of half the rows; waits while a result is to come."""

    def suggest(self, number, rng):
        if self.history.pending:
            return None
        fidelity = Fidelity(rows=0.5) if number % 2 == 0 else Fidelity()
        return Proposal(number, draw_untried(self.history, rng, fidelity)[0], fidelity=fidelity)


class TestTables:
    def test_the_rule_takes_the_first_unknown_ones_of_fitting_size(self, data, meta):
        assert [t.id for t in RULE.choose(data / "pmf_tables", meta)] == ["7", "12", "30"]
        assert [t.id for t in RULE.choose(data / "pmf_tables", meta, 2)] == ["7", "12"]
        assert [t.id for t in replace(RULE, number=1).choose(data / "pmf_tables", meta, 5)] == ["7"]
        with pytest.raises(InvalidInput, match="no table of 5000 to 6000 rows"):
            replace(RULE, rows=(5000, 6000)).choose(data / "pmf_tables", meta)

    def test_tables_that_were_learned_from_are_refused(self, data, meta):
        tables = read_index(data / "pmf_tables")
        check_unknown([t for t in tables if t.id != "101"], meta.learning([0, 1], [2]))
        for learning in (meta.learning([1], [0]), meta.learning([0], [1])):
            with pytest.raises(InvalidInput, match="table 101"):
                check_unknown(tables, learning)

    def test_parts_are_apart_stratified_and_the_same_each_time(self, data, table):
        rows = np.sort(np.concatenate([table.train, table.test]))
        np.testing.assert_array_equal(rows, np.arange(75))
        assert np.bincount(table.dataset.y[table.test]).tolist() == [8, 8, 8]
        validated = np.sort(np.concatenate([valid for _, valid in table.splits]))
        np.testing.assert_array_equal(validated, table.train)
        for train, valid in table.splits:
            assert not set(train) & set(valid)
            assert set(train) | set(valid) == set(table.train)
        file = next(t for t in read_index(data / "pmf_tables") if t.id == "12")
        again = read_table(file, max_rows=1000, test=1 / 3, folds=3, seed=0)
        assert again.splits.key == table.splits.key
        assert read_table(file, max_rows=1000, test=1 / 3, folds=3, seed=1).splits.key != table.splits.key
        assert read_table(file, max_rows=30, test=1 / 3, folds=3, seed=0).dataset.n_rows == 30

    def test_a_folder_without_an_index(self, tmp_path):
        with pytest.raises(InvalidInput, match=r"index\.csv"):
            read_index(tmp_path)
        (tmp_path / "index.csv").write_text("id,name\n1,a\n")
        with pytest.raises(InvalidInput, match="openml_id"):
            read_index(tmp_path)


class TestSearch:
    def test_what_comes_too_late_does_not_count(self, monkeypatch):
        clock = Ticking(monkeypatch, [10, 20, 25, 30, 30])
        budget = Budget(100.0, Limits(seconds=40))
        steps = ByOptimizer(RandomSearch()).search(SPACE, clock.evaluate, 3, budget, ())
        assert [s.seconds for s in steps] == [10, 30, 55, 85]  # the fifth would end after 115
        assert [s.loss for s in steps] == [1.0, None, 1 / 3, 1 / 4]
        assert clock.limits == [40, 40, 40, 40, 15]
        early = read_off(steps, 60)
        assert (early.observed, early.failed, early.best) == (2, 1, steps[2])
        assert read_off(steps, 5) == (0, 0, None)

    def test_initial_pipelines_come_first_and_pipelines_can_be_counted(self, monkeypatch):
        clock, initial = Ticking(monkeypatch, [1] * 9), everything()[3:5]
        budget = Budget(1e6, Limits(), evaluations=4)
        steps = ByOptimizer(RandomSearch()).search(SPACE, clock.evaluate, 3, budget, initial)
        assert [s.pipeline for s in steps][:2] == initial
        assert len(steps) == 4
        all_ok = ByOptimizer(RandomSearch()).search(SPACE, lambda *_: Outcome.of(0.5), 3, Budget(1e6, Limits()), ())
        assert len({s.pipeline for s in all_ok}) == len(everything())  # then nothing is left

    def test_fidelities_reach_the_objective_and_only_full_ones_count(self, monkeypatch):
        seen, clock = [], Ticking(monkeypatch, [1] * 9)

        def evaluate(pipeline, limits, seed, fidelity):
            seen.append((seed, fidelity.rows))
            return clock.evaluate(pipeline, limits, seed, fidelity)

        steps = ByOptimizer(Halving()).search(SPACE, evaluate, 3, Budget(1e6, Limits(), evaluations=6), ())
        assert [rows for _, rows in seen] == [0.5, 1.0] * 3
        assert [(step.seconds, step.seed) for step in steps] == [(n, seen[n - 1][0]) for n in (2, 4, 6)]

    def test_the_first_of_equals_is_the_best(self):
        one, two = everything()[:2]
        steps = [Step(1.0, 0.5, one, 0), Step(2.0, 0.5, two, 1)]
        assert read_off(steps, 9).best.pipeline == one

    def test_refit_uses_the_rows_of_the_search_and_scores_the_others(self, table):
        from sklearn.metrics import balanced_accuracy_score
        from sklearn.tree import DecisionTreeClassifier

        refit = Refit(SPACE, table, "balanced_accuracy")
        pipeline = Pipeline(["none", "tree"], [{}, {"max_depth": 2, "criterion": "gini"}])
        found = 1 - refit(pipeline, Limits(), 5).loss
        X = pd.get_dummies(table.dataset.X, columns=["colour"]).to_numpy(dtype=float)
        model = DecisionTreeClassifier(max_depth=2, random_state=5).fit(X[table.train], table.dataset.y[table.train])
        expected = balanced_accuracy_score(table.dataset.y[table.test], model.predict(X[table.test]))
        assert found == pytest.approx(expected)
        assert refit.without() == pytest.approx(1 / 3)


class TestComparison:
    def test_a_file_of_results(self, run, data, meta):
        found, path = run()
        assert path.name == "deeppipe_live.json"
        results = LiveResults.load(path)
        assert results == found
        assert [t["id"] for t in results.tables] == ["7", "12", "30"]
        assert results.budgets == [60, 300]
        for entry in results.methods.values():
            for of_table in entry["runs"]:
                assert of_table["observed"] == [4, 4]
                assert 0.4 < of_table["scores"][0] == of_table["scores"][1] <= 1
        means = [results.methods[m]["rank_mean"][0] for m in COMPARISON.methods]
        assert sum(means) == pytest.approx(3)
        table = found.table()
        assert len(table.rows) == 2
        assert len(table.columns) == len(table.rows[0]) == 7
        assert list(path.parent.glob("d*")) == [path]

    def test_methods_begin_as_they_should(self, run, data, meta):
        from headstart.optimizers.portfolio import greedy_portfolio

        seen = {}

        class Watched(ByOptimizer):
            def search(self, space, objective, seed, budget, initial):
                seen[type(self.optimizer).__name__] = list(initial)
                return super().search(space, objective, seed, budget, initial)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(live, "ByOptimizer", Watched)
            run(tasks=1)
        expected = greedy_portfolio(meta.select([0, 1, 2, 3]), 5)
        assert [everything()[i] for i in expected] == seen["RandomSearch"]
        assert seen["Oboe"] == []

    def test_what_was_killed_goes_on_table_by_table_and_learns_once(self, run, monkeypatch):
        comparison = replace(COMPARISON, methods=(QUICK,), warm=(), evaluations=2)
        trained, tables = [], []
        original, search = DeepPipe.meta_fit, live.run_table

        def killed(searcher, comparison, initial, table):
            tables.append(table.id)
            if len(tables) == 2:
                raise KeyboardInterrupt
            return search(searcher, comparison, initial, table)

        monkeypatch.setattr(DeepPipe, "meta_fit", lambda self, meta: trained.append(meta) or original(self, meta))
        monkeypatch.setattr(live, "run_table", killed)
        with pytest.raises(KeyboardInterrupt):
            run(comparison)
        found, path = run(comparison)
        assert tables == ["7", "12", "12", "30"]
        assert len(trained) == 1
        assert set(trained[0].ids) == {"101", "102", "103", "104"}
        assert set(trained[0].validation.ids) == {"105", "106"}
        assert list(path.parent.glob("d*")) == [path]
        again, _ = run(comparison)
        assert again == found
        assert len(tables) == 4
        with pytest.raises(InvalidInput, match="results with other about"):
            run(replace(comparison, max_rows=10))

    def test_other_settings_are_run_anew(self, run):
        run(tasks=1)
        found, path = run(replace(COMPARISON, methods=("oboe(max_rank=1)",), evaluations=2), tasks=1)
        assert path.name == "deeppipe_live_first1.json"
        assert set(found.methods) == {*COMPARISON.methods, "oboe(max_rank=1)"}
        again, _ = run(replace(COMPARISON, methods=("oboe(max_rank=2)",), evaluations=3), tasks=1)
        assert again.methods["oboe(max_rank=2)"]["runs"][0]["observed"] == [3, 3]

    def test_a_shorter_search_has_its_own_file_and_budgets(self, run):
        found, path = run(replace(COMPARISON, methods=("random",)), tasks=1, seconds=200.0)
        assert path.name == "deeppipe_live_first1_200seconds.json"
        assert found.budgets == [60, 200]
        found, _ = run(replace(COMPARISON, methods=("random",)), tasks=1, seconds=30.0)
        assert found.budgets == [30]

    def test_what_is_asked_wrongly(self, run, meta, tmp_path):
        with pytest.raises(InvalidInput, match="no evaluations to choose"):
            run(evaluations=3)
        with pytest.raises(InvalidInput, match="give --data"):
            run_experiment("deeppipe_live", meta, tmp_path)
        with pytest.raises(InvalidInput, match="no seconds to choose"):
            run_experiment("pmf_regret", meta, tmp_path, seconds=3.0)
        with pytest.raises(InvalidInput, match="must be those of space"):
            run(replace(COMPARISON, space=small_space()))
        with pytest.raises(HeadstartError, match="nobody"):
            run(replace(COMPARISON, methods=("nobody",)))
        with pytest.raises(InvalidInput, match="cannot be made"):
            run(replace(COMPARISON, methods=("tpot(people=3)",)))

    @pytest.mark.slow
    def test_in_a_sandbox_it_comes_to_the_same(self, data, meta, tmp_path):
        file = RULE.choose(data / "pmf_tables", meta)[0]
        initial = tuple(everything()[:2])
        found = [
            run_table(
                ByOptimizer(RandomSearch()),
                replace(COMPARISON, sandbox=sandbox, evaluations=3, budgets=(300.0,)),
                initial,
                file,
            )
            for sandbox in (True, False)
        ]
        assert found[0] == found[1]

    def test_the_experiment_itself(self, data):
        comparison = EXPERIMENTS["deeppipe_live"].kind
        assert comparison.budgets == (60, EXPERIMENTS["deeppipe_live"].seconds)
        assert set(comparison.warm) <= set(comparison.methods)
        for method in comparison.methods:
            comparison.make(method)
        assert not catalog.load(comparison.space).free_order  # TPOT takes no other


class TestTpot:
    def test_without_it_the_others_are_compared_and_it_comes_in_later(self, run, monkeypatch):
        comparison = replace(COMPARISON, methods=("random", "tpot"))

        def missing():
            raise MissingDependency("TPOT is not installed")

        monkeypatch.setattr(live, "load_tpot", missing)
        found, _ = run(comparison, tasks=1)
        assert found.methods["tpot"]["left_out"] == "TPOT is not installed"
        assert [row[0] for row in found.table().rows] == ["random"]
        monkeypatch.setattr(live, "load_tpot", lambda: None)
        monkeypatch.setattr(
            live_tpot.Tpot, "search", lambda self, space, objective, *_: [Step(1.0, 0.5, everything()[0], 0)]
        )
        found, _ = run(comparison, tasks=1)
        assert found.methods["tpot"]["runs"][0]["observed"] == [1, 1]
        assert "left_out" not in found.methods["tpot"]

    def test_individuals_are_pipelines(self):
        from sklearn.pipeline import make_pipeline

        parts = [
            live_tpot.Part(**live_tpot.as_part({"algorithm": "none"})),
            live_tpot.Part(**live_tpot.as_part({"algorithm": "tree", "max_depth": np.int64(2), "criterion": 1})),
        ]
        found = live_tpot.read_individual(SPACE, make_pipeline(*parts))
        assert found == Pipeline(["none", "tree"], [{}, {"max_depth": 4, "criterion": "entropy"}])

    def test_individuals_of_a_space_with_numbers_and_conditions(self):
        """Everything is given a value; those that do not count are left out, and forbidden combinations refused."""
        from sklearn.pipeline import make_pipeline

        kernel = Categorical("kernel", ["rbf", "poly"])
        svm = Algorithm(
            "svm", params=[kernel, Float("C", 1e-3, 1e3, log=True), Integer("degree", 2, 5, when={"kernel": ["poly"]})]
        )
        space = PipelineSpace(
            "numbers",
            [Stage("scaler", [Algorithm("none"), Algorithm("standard")]), Stage("estimator", [svm])],
            forbidden=[{"scaler": ["standard"], "estimator.kernel": ["poly"]}],
        )

        def read(scaler, kernel):
            values = {"algorithm": "svm", "kernel": np.int64(kernel), "C": np.float64(0.1), "degree": np.int64(3)}
            parts = [{"algorithm": scaler}, values]
            return live_tpot.read_individual(
                space, make_pipeline(*(live_tpot.Part(**live_tpot.as_part(p)) for p in parts))
            )

        assert read("standard", 0).params[1] == {"kernel": "rbf", "C": 0.1}
        assert read("none", 1).params[1] == {"kernel": "poly", "C": 0.1, "degree": 3}
        with pytest.raises(SpaceError):
            read("standard", 1)

    def test_its_evaluations_have_the_limits_and_the_deadline_of_the_others(self, monkeypatch):
        """With a stand-in for TPOT, which evaluates nine times what it is told to."""
        from sklearn.pipeline import make_pipeline

        individual = make_pipeline(*(live_tpot.Part(name, {}) for name in ("none", "naive_bayes")))
        scores = []

        class Evolution:
            def __init__(self, other_objective_functions, **_):
                (self.score,) = other_objective_functions

            def fit(self, X, y):
                scores.extend(self.score(individual) for _ in range(9))

        dask = SimpleNamespace(LocalCluster=lambda **_: nullcontext(), Client=lambda _: nullcontext())
        monkeypatch.setattr(live_tpot, "load_tpot", lambda: Evolution)
        monkeypatch.setattr(live_tpot, "_quiet_dask", lambda: dask)
        monkeypatch.setattr(live_tpot, "tpot_space", lambda space: space)

        def search(clock, budget):
            return live_tpot.Tpot().search(SPACE, lambda *given: clock.evaluate(*given, None), 3, budget, ())

        for evaluations, n in ((None, 4), (3, 3)):
            clock = Ticking(monkeypatch, [10, 20, 25, 30, 30])
            steps = search(clock, Budget(100.0, Limits(seconds=40), evaluations))
            assert [s.seconds for s in steps] == [10, 30, 55, 85][:n]
            assert [s.loss for s in steps] == [1.0, None, 1 / 3, 1 / 4][:n]
            assert [s.seed for s in steps] == [evaluation_seed(3, i) for i in range(n)]
            assert clock.limits == [40, 40, 40, 40, 15][: n + (evaluations is None)]
            assert np.isfinite(scores).tolist() == [True, False, True, n == 4] + [False] * 5
            scores.clear()

    def test_it_searches(self, table):
        pytest.importorskip("tpot")
        objective = LiveObjective(SPACE, table.dataset, table.splits, "balanced_accuracy")
        budget = Budget(300.0, Limits(), evaluations=6)
        steps = live_tpot.Tpot(population_size=3).search(SPACE, objective, 1, budget, ())
        assert len({step.pipeline for step in steps}) == len(steps) == 6
        assert all(step.loss is not None for step in steps)


class TestResults:
    @pytest.fixture
    def results(self):
        about = {"rule": "All.", "max_rows": 9, "test": 0.25, "folds": 3, "evaluation_seconds": 2.0}
        about |= {"warm": ["deeppipe"], "n_initial": 5, "acquisition": "log_ei_per_second"}
        tables = [{"id": str(i), "name": f"t{i}", "rows": 9, "columns": 2} for i in range(3)]
        found = LiveResults("m", "s", "accuracy", [60.0, 300.0], tables, about)

        def runs(early, late):
            return [
                {"scores": [a, b], "observed": [i, 2 * i + 1], "failed": [0, 1]}
                for i, (a, b) in enumerate(zip(early, late, strict=True))
            ]

        found.add_runs("deeppipe", runs([0.5, 0.6, 0.7], [0.9, 0.9, 0.8]), settings={}, given="x")
        found.add_runs("random", runs([0.6, 0.6, 0.8], [0.7, 0.9, 0.7]), settings={}, given="x")
        found.add_runs("tpot", [None] * 3, settings={}, given="x", left_out="not installed")
        return found

    def test_ranks_and_intervals(self, results):
        entry = results.methods["deeppipe"]
        assert entry["rank_mean"] == pytest.approx([(2 + 1.5 + 2) / 3, (1 + 1.5 + 1) / 3], rel=1e-5)
        assert entry["observed_mean"] == [1, 3]
        spread = np.std([1, 3, 5], ddof=1)
        assert entry["observed_ci"][1] == pytest.approx(1.959964 * spread / np.sqrt(3), rel=1e-5)
        assert entry["score_mean"] == pytest.approx([0.6, 0.866667])
        assert results.by_rank() == ["deeppipe", "random"]

    def test_a_file(self, results, tmp_path):
        path = tmp_path / "file.json"
        results.save(path)
        assert LiveResults.load(path) == results
        assert [row[0] for row in results.table().rows] == ["deeppipe", "random"]
        path.write_text("{}")
        with pytest.raises(InvalidInput, match="live comparison"):
            LiveResults.load(path)


@pytest.mark.parametrize(("method", "kept"), [("oboe(max_rank=2)", True), ("random", False)])
def test_what_was_learned_is_kept(meta, tmp_path, method, kept):
    made, file = COMPARISON.make(method), tmp_path / "learned.npz"
    found = prepared(made, meta.learning([0, 1, 2], [3]), file)
    assert file.exists() == kept
    again = prepared(COMPARISON.make(method), meta.learning([4], [5]), file)
    assert again.optimizer.describe() == found.optimizer.describe()
    assert [p for p in tmp_path.iterdir() if p != file] == []


def test_bayesian_optimisation_minds_the_seconds_unless_told_otherwise():
    assert COMPARISON.make("forest").acquisition == "log_ei_per_second"
    assert COMPARISON.make("bayes(surrogate=gp, acquisition=log_ei)").acquisition == "log_ei"
    assert replace(COMPARISON, acquisition="log_ei").make("forest").acquisition == "log_ei"
