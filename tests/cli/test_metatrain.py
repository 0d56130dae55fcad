"""``headstart metatrain``, and ``headstart fit`` with what it wrote."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from headstart import HeadstartClassifier
from headstart.cli.metatrain import _learned_nothing
from headstart.data import Dataset
from headstart.errors import InvalidInput, SpaceError
from headstart.knowledge import Knowledge
from headstart.knowledge.files import learner
from headstart.learning.monitor import Check
from headstart.metadata import MetaDataset
from headstart.metadata.files import save_meta
from headstart.methods.deeppipe.surrogate import DeepPipe
from headstart.space import Encoded, Pipeline, catalog
from headstart.space.distinct import distinct
from headstart.store import Store
from headstart.task import Task
from headstart.testing.tables import small_tables

pytest.importorskip("torch")
CHEAP = ["knn", "gaussian_nb", "decision_tree"]
"""Estimators that are fast to fit; the folds of a small table are many."""
INCLUDED = [word for name in CHEAP for word in ("--include", name)]
SMALL = "deeppipe_network(factor=1, outputs=4, training={{'n_tasks': 3, 'n_pipelines': 20}}, steps={})"


def made_meta(seed=0):
    """Related tasks over pipelines of a space that can be searched live."""
    space = catalog.load("tensor_oboe")
    rng = np.random.default_rng(seed)
    drawn = space.sample(rng, 60).unique()
    pipelines = Encoded(space, drawn.values, drawn.active, drawn.choice, ids=np.arange(len(drawn)))
    features = pipelines.features()
    losses = 0.3 + 0.02 * (features @ rng.standard_normal((features.shape[1], 6))).T
    losses[rng.random(losses.shape) < 0.2] = np.nan
    splits = {"train": [0, 1, 2, 3], "validation": [4], "test": [5]}
    return MetaDataset(pipelines, losses, [f"t{i}" for i in range(6)], splits=splits, name="made")


@pytest.fixture(scope="module")
def meta(tmp_path_factory):
    path = tmp_path_factory.mktemp("meta") / "made"
    save_meta(made_meta(), path)
    return path


@pytest.fixture
def headstart(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    return command


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """What ``headstart metatrain`` writes."""
    path = tmp_path_factory.mktemp("learned") / "known.npz"
    Knowledge.learn(learner(SMALL.format(20)), made_meta(), [0, 1, 2, 3], [4]).save(path)
    return path


@pytest.fixture
def knowledge(learned, headstart):
    return shutil.copy(learned, "known.npz")


def table(rows=60):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=rows), "b": rng.normal(size=rows)})
    frame["label"] = np.where(frame["a"] + 0.3 * rng.normal(size=rows) > 0, "yes", "no")
    return frame


def test_it_learns_from_training_tasks_and_says_how_it_went(meta, headstart, tmp_path):
    done = headstart("metatrain", meta, "-m", SMALL.format(30), "-o", "known.npz")
    assert done.code == 0, done.err
    assert "learned from 4 tasks, 1 for early stopping" in done.out
    assert "validation loss" in done.out
    assert "written: known.npz" in done.out
    assert "step 30 of 30" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["known.npz"]
    whole = made_meta()
    learned = DeepPipe.load("known.npz")
    assert learned.meta_key == whole.learning([0, 1, 2, 3], [4]).key
    (tmp_path / "split.json").write_text(json.dumps({"train": [0, 5], "test": [1]}))
    done = headstart("metatrain", meta, "-m", SMALL.format(10), "-o", "b.npz", "--split-file", "split.json")
    assert "learned from 2 tasks in" in done.out
    assert DeepPipe.load("b.npz").meta_key == whole.learning([0, 5]).key


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "gp", "-o", "new.npz"], "'gp' is no method that learns from other tasks; these are: ablr, average_"),
        (["-m", "skl", "-o", "new.npz"], "'skl' is no method that learns"),
        (["-m", "forest", "-o", "new.npz"], "'forest' is no method that learns"),
        (["-m", "random", "-o", "new.npz"], "'random' is no method that learns"),
        (["-m", "default", "-o", "new.npz"], "'default' is no method that learns"),
        (["-m", "nothing", "-o", "new.npz"], "no method is named 'nothing'; these learn"),
        (["-m", "deeppipe(size=3)", "-o", "new.npz"], "has no setting 'size'"),
        (["-m", "deeppipe(mean=two)", "-o", "new.npz"], "mean has no 'two'"),
        (["-m", "deeppipe", "-o", "there.npz"], "there.npz already exists"),
        (["-m", "deeppipe", "-o", "no/such.npz"], "directory of no/such.npz must exist"),
    ],
)
def test_mistakes_are_named_before_anything_is_trained(meta, headstart, tmp_path, arguments, message):
    (tmp_path / "there.npz").write_bytes(b"")
    done = headstart("metatrain", meta, *arguments)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_one_that_was_killed_goes_on(meta, headstart, tmp_path):
    settings = SMALL.format(100_000).replace("{", "{'patience': 1000, ")
    arguments = ["metatrain", str(meta), "-m", settings, "-o", "killed.npz"]
    process = subprocess.Popen([sys.executable, "-m", "headstart", *arguments], cwd=tmp_path, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not (tmp_path / "killed.npz.part.0").exists() and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    other = headstart("metatrain", meta, "-m", SMALL.format(10), "-o", "killed.npz", "--resume")
    assert other.code == 2
    assert "other settings" in other.err
    anew = headstart("metatrain", meta, "-m", SMALL.format(10), "-o", "killed.npz")
    assert anew.code == 0
    assert "with other settings or tasks is discarded" in anew.err
    assert not (tmp_path / "killed.npz.part.0").exists()


def test_one_whose_time_is_over_is_written_and_the_same_command_continues_it(meta, headstart, tmp_path):
    arguments = ["metatrain", meta, "-m", SMALL.format(10)]
    assert headstart(*arguments, "-o", "whole.npz").code == 0
    cut = headstart(*arguments, "-o", "cut.npz", "--time", "0.0000001")
    assert cut.code == 0, cut.err
    assert "the time is over; the same command continues the training" in cut.err
    assert DeepPipe.load("cut.npz").trained_steps["DeepPipe"] == (0, 10)
    other = headstart("metatrain", meta, "-m", SMALL.format(20), "-o", "cut.npz")
    assert other.code == 2
    assert "cut.npz already exists" in other.err
    assert headstart(*arguments, "-o", "cut.npz").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.npz", "whole.npz"]
    whole, found = (DeepPipe.load(path).learned for path in ("whole.npz", "cut.npz"))
    for name in whole.keys() - {"training.checks"}:
        np.testing.assert_array_equal(found[name], whole[name])


@pytest.mark.parametrize("told", [["--resume"], []])
def test_one_that_was_interrupted_goes_on_to_the_same_file(meta, headstart, monkeypatch, told):
    arguments = ["metatrain", meta, "-m", SMALL.format(20)]
    whole = headstart(*arguments, "-o", "whole.npz", *told)
    assert whole.code == 0
    assert ("there is no unfinished training of whole.npz" in whole.err) == bool(told)

    def interrupted(_, path):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Knowledge, "save", interrupted)
        stopped = headstart(*arguments, "-o", "again.npz")
    assert stopped.code == 130
    assert "continue with --resume" in stopped.err
    again = headstart(*arguments, "-o", "again.npz", *told)
    assert again.code == 0
    assert ("unfinished training is continued" in again.err) == (not told)
    assert again.out.partition(";")[2].replace("again", "whole") == whole.out.partition(";")[2]
    one, other = (DeepPipe.load(name).learned for name in ("whole.npz", "again.npz"))
    for name in one.keys() - {"training.checks"}:  # which has seconds in it
        np.testing.assert_array_equal(other[name], one[name])


def test_fit_begins_with_what_was_learned(headstart, knowledge, in_process):
    table().to_csv("train.csv", index=False)
    frugal = ["--space", "tensor_oboe", *INCLUDED, "--jobs", 1, "--refit", "single", "--no-ensemble"]
    done = headstart(
        "fit",
        "train.csv",
        "-t",
        "label",
        *frugal,
        "--evaluations",
        3,
        "--optimizer",
        "deeppipe_network",
        "--knowledge",
        knowledge,
        "--json",
    )
    assert done.code == 0, done.err
    report = json.loads(done.out)
    assert report["settings"]["knowledge"].endswith("known.npz")
    assert report["pipelines"] == 3
    again = headstart("fit", "train.csv", "--out", "train.headstart", "--resume", "--evaluations", 4)
    assert again.code == 0, again.err
    other = headstart("fit", "train.csv", "--out", "train.headstart", "--resume", "--knowledge", "other.npz")
    assert other.code == 2
    assert "same --knowledge" in other.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--space", "tensor_oboe", "--optimizer", "gp"], "what was trained is DeepPipe, not GPSurrogate"),
        (["--space", "tensor_oboe", "--optimizer", "fsbo"], "what was trained is DeepPipe, not FSBO"),
        (
            ["--optimizer", "deeppipe_network"],
            "search the space that it was trained on, 'tensor_oboe' (--space tensor_oboe)",
        ),
        (["--space", "tensor_oboe", "-t", "a"], "leave the space and knowledge of classifiers out"),
        (
            ["--space", "tensor_oboe", "--optimizer", "deeppipe_network", "--knowledge", "none.npz"],
            "no file of trained",
        ),
        (
            ["--space", "tensor_oboe", "--optimizer", "deeppipe_network", "--knowledge", "train.csv"],
            "knowledge is a file that",
        ),
        (["--space", "tensor_oboe", "--knowledge", "train.csv"], "knowledge is a file that"),
    ],
)
def test_knowledge_that_does_not_fit_is_refused_with_what_to_do(headstart, knowledge, arguments, message):
    table().to_csv("train.csv", index=False)
    done = headstart("fit", "train.csv", "-t", "label", "--knowledge", knowledge, "--evaluations", 2, *arguments)
    assert done.code == 2, done.err
    assert message in done.err


def test_python_takes_it_too(headstart, knowledge):
    frame = table()
    model = HeadstartClassifier(
        evaluations=2,
        optimizer="deeppipe_network",
        knowledge=knowledge,
        space="tensor_oboe",
        include=CHEAP,
        sandbox=False,
        ensemble=False,
    )
    model.fit(frame[["a", "b"]], frame["label"])
    assert len(model.history_) == 2
    # Trusted from the first suggestion on.
    assert {trial.proposal.origin["by"] for trial in model.history_} == {"bayes"}
    with pytest.raises(SpaceError, match="tensor_oboe"):
        HeadstartClassifier(evaluations=2, optimizer="deeppipe_network", knowledge=knowledge, sandbox=False).fit(
            frame[["a", "b"]], frame["label"]
        )


def test_with_a_budget_of_time_improvement_is_weighed_by_seconds(knowledge, tmp_path):
    frame = table()
    about = {"optimizer": "deeppipe_network", "knowledge": knowledge, "space": "tensor_oboe", "sandbox": False}
    about |= {"include": CHEAP, "ensemble": False, "store": tmp_path / "store"}

    def acquisition(time, evaluations):
        model = HeadstartClassifier(time, evaluations=evaluations, **about)
        model.fit(frame[["a", "b"]], frame["label"], resume=True)
        (study,) = Store.open(about["store"]).studies()
        return study.settings["optimizer"]["acquisition"]

    assert acquisition(1000, 1) == "log_ei_per_second"
    assert acquisition(None, 2) == "log_ei_per_second"  # goes on as it began
    about["store"] = tmp_path / "other"
    assert acquisition(None, 1) == "log_ei"


def test_an_optimizer_that_is_an_object_brings_its_own(knowledge):
    with pytest.raises(InvalidInput, match=r"Bayes\(DeepPipe\.load"):
        Knowledge.load(knowledge).optimizer(object())
    found = Knowledge.load(knowledge).optimizer().surrogate
    assert found.describe() == DeepPipe.load(knowledge).describe()
    assert learner("deeppipe_paper").training.learning_rate == 1e-4


def test_settings_of_the_search_may_be_changed_those_of_training_not(knowledge):
    known, held = Knowledge.load(knowledge), DeepPipe.load(knowledge)
    tuned = known.optimizer("deeppipe_network(fine_tune=kernel, failures=ignored, steps=7)").surrogate
    assert (tuned.fine_tune, tuned.failures, tuned.steps) == ("kernel", "ignored", held.steps)
    assert tuned.learned.keys() == held.learned.keys()
    tuned.save("tuned.npz")
    back = Knowledge.load("tuned.npz").optimizer("deeppipe_network(fine_tune=none, failures=worst)").surrogate
    assert (back.fine_tune, back.failures) == ("none", "worst")
    for asked, message in (
        ("deeppipe_network(outputs=20)", "outputs=20 is decided by training"),  # though it is the default
        ("deeppipe_paper", "encoder_layers=None is decided by training"),
        ("deeppipe_network(nosuch=1)", "has no setting 'nosuch'"),
        ("deeppipe_network(fine_tune=some)", "fine_tune has no 'some'"),
        ("deeppipe_network(outputs=11)", "outputs=11 is decided by training, and the file was trained with"),
        ("oboe", "oboe with this knowledge: what was trained is DeepPipe, not Oboe"),
    ):
        with pytest.raises(InvalidInput, match=message):
            known.optimizer(asked)


def test_a_training_that_never_got_better_is_told():
    def check(name, step, loss):
        return Check(name, step, 20, loss, loss, 0.0)

    better = [check("good", 0, 2.0), check("good", 10, 1.0), check("good", 20, 3.0)]
    worse = [check("bad", 0, 2.0), check("bad", 10, 2.0), check("bad", 20, 900.0)]
    single = [check("short", 0, 1.0)]
    assert list(_learned_nothing([*better, *worse, *single])) == ["bad"]


FRUGAL = ["--space", "tensor_oboe", *INCLUDED, "--evaluations", 2, "--jobs", 1, "--refit", "single"]
FRUGAL += ["--no-ensemble", "--json"]


def test_an_optimizer_is_kept_and_used_as_it_is(meta, headstart):
    done = headstart("metatrain", meta, "-m", "oboe(max_rank=3)", "-o", "oboe.npz")
    assert done.code == 0, done.err
    assert "oboe(max_rank=3): learned from 4 tasks, 1 for early stopping in" in done.out
    table().to_csv("train.csv", index=False)
    done = headstart("fit", "train.csv", "-t", "label", *FRUGAL, "--knowledge", "oboe.npz")
    assert done.code == 0, done.err
    # The table makes some of them equal.
    searched = distinct(catalog.load("tensor_oboe"), Dataset.from_table("train.csv", "label"))
    known = list(searched.encode(Pipeline(p.algorithms, p.params) for p in made_meta().pipelines))
    (study,) = (store := Store.open("train.headstart/store")).studies()
    trials = store.read_study(study.name).trials()
    assert [trial.proposal.origin["by"] for trial in trials] == ["design", "prediction"]
    assert all(trial.pipeline in known for trial in trials)
    other = headstart("fit", "train.csv", "-t", "label", "--out", "new", "--evaluations", 1, "--knowledge", "oboe.npz")
    assert other.code == 2
    assert "none of them belongs to space" in other.err


@pytest.fixture
def described(headstart, tmp_path):
    """A meta-dataset of OpenML's datasets, and a folder with tables of most of them."""
    save_meta(made_meta().changed(ids=list("123456"), about={"ids": "OpenML datasets"}), tmp_path / "openml")
    (tmp_path / "data" / "pmf_tables").mkdir(parents=True)
    for number, dataset in enumerate(small_tables(5)):
        frame = dataset.X.assign(__target__=dataset.y if dataset.task != "regression" else dataset.y > 0)
        frame.to_csv(tmp_path / "data" / "pmf_tables" / f"{number + 1}.csv.gz", index=False)
    return tmp_path / "openml"


@pytest.mark.parametrize(
    "method", ["tst_d2v({}, bandwidth=2.0)", "nearest({})", "portfolio(size=1, then='nearest({})')"]
)
def test_meta_features_are_learned_kept_and_computed_in_a_fit(
    described, headstart, in_process, tmp_path, monkeypatch, method
):
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    extractor = "dataset2vec(outputs=3, units=4, blocks=1, depth=1, steps=5)"
    method = method.format(f'metafeatures="{extractor}"')
    done = headstart("metatrain", described, "-m", method, "-o", "known.npz", "--data", tmp_path / "data")
    assert done.code == 0, done.err
    assert f"meta-features {extractor} come first; tables are known for 5 tasks" in done.err
    assert "Dataset2Vec: step 5 of 5" in done.err
    table().to_csv("train.csv", index=False)
    done = headstart("fit", "train.csv", "-t", "label", *FRUGAL, "--knowledge", "known.npz")
    assert done.code == 0, done.err
    (kept,) = (tmp_path / "cache" / "metafeatures").iterdir()
    frame, about = (
        table(),
        {"evaluations": 1, "space": "tensor_oboe", "include": CHEAP, "sandbox": False, "store": "runs"},
    )
    for asked in ({"optimizer": "random"}, {"knowledge": "known.npz"}):
        HeadstartClassifier(**asked, **about).fit(frame[["a", "b"]], frame["label"])
    assert len(Store.open("runs").tasks()) == 1  # whether or not a method asks for meta-features
    knowledge = Knowledge.load("known.npz")
    dataset = Dataset.from_table("train.csv", "label")
    np.testing.assert_array_equal(np.load(kept), knowledge.extractors[extractor].transform(dataset))


def origins(store="train.headstart/store"):
    """Why the pipelines of the only study in a store were tried, and the pipelines."""
    (study,) = (opened := Store.open(store)).studies()
    trials = opened.read_study(study.name).trials()
    return [trial.proposal.origin["by"] for trial in trials], [trial.pipeline for trial in trials]


def test_a_fit_begins_with_the_pipelines_of_the_nearest_tables(
    described, headstart, in_process, tmp_path, monkeypatch, learned
):
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    method = "nearest(metafeatures=mf2)"
    done = headstart("metatrain", described, "-m", method, "-o", "nearest.npz", "--data", tmp_path / "data")
    assert done.code == 0, done.err
    table().to_csv("train.csv", index=False)
    fit = ["fit", "train.csv", "-t", "label", *FRUGAL, "--evaluations", 3, "--initial", 2]
    warm = ["--warm-start", "nearest(neighbours=3, distance=l2)", "--knowledge", "nearest.npz"]
    done = headstart(*fit, *warm, "--optimizer", "random")
    assert done.code == 0, done.err
    knowledge = Knowledge.load("nearest.npz")
    space = catalog.load("tensor_oboe").select(CHEAP)
    dataset = Dataset.from_table("train.csv", "label")
    vector = knowledge.extractors["mf2"].transform(dataset)
    optimizer = knowledge.optimizer("nearest(neighbours=3, distance=l2)")
    task = Task(distinct(space, dataset), metafeatures={"mf2": vector})
    expected = [p.pipeline for p in optimizer.start(task).ask(2)]
    reasons, pipelines = origins()
    assert reasons == ["initial", "initial", "random"]
    assert pipelines[:2] == expected
    # What the optimizer learned is another file; which is which, the name of the warm start tells.
    both = headstart(*fit, *warm, "--knowledge", learned, "--out", "both")
    assert both.code == 0, both.err
    assert origins("both/store")[0] == ["initial", "initial", "bayes"]
    assert origins("both/store")[1][:2] == expected
    again = headstart(*fit, *warm, "--knowledge", learned, "--out", "both", "--resume", "--evaluations", 4)
    assert again.code == 0, again.err
    other = headstart(*fit, "--warm-start", "nearest", "--knowledge", "nearest.npz", "--out", "both", "--resume")
    assert "same --warm-start" in other.err


@pytest.mark.parametrize(
    "extractor",
    [
        "dida(outputs=3, pair_units=4, units=6, neighbours=3, steps=2, n_tables=3)",
        "dataset2vec(outputs=3, units=4, blocks=1, depth=1, steps=3)",
    ],
)
def test_a_warm_start_by_the_name_of_meta_features(described, headstart, in_process, tmp_path, monkeypatch, extractor):
    pytest.importorskip("torch")
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    done = headstart("metatrain", described, "-m", extractor, "-o", "known.npz", "--data", tmp_path / "data")
    assert done.code == 0, done.err
    table().to_csv("train.csv", index=False)
    fit = ["fit", "train.csv", "-t", "label", *FRUGAL, "--evaluations", 3, "--initial", 2, "--knowledge", "known.npz"]
    name = extractor.partition("(")[0]
    done = headstart(*fit, "--warm-start", name, "--optimizer", "random")
    assert done.code == 0, done.err
    assert origins()[0] == ["initial", "initial", "random"]
    knowledge, dataset = Knowledge.load("known.npz"), Dataset.from_table("train.csv", "label")
    (held,) = knowledge.extractors
    near = knowledge.optimizer("nearest")
    vectors = {held: knowledge.extractors[held].transform(dataset)}
    task = Task(distinct(catalog.load("tensor_oboe").select(CHEAP), dataset), metafeatures=vectors)
    assert origins()[1][:2] == [proposal.pipeline for proposal in near.start(task).ask(2)]
    other = headstart(*fit, "--out", "other", "--warm-start", f"{name}(outputs=5)")
    assert other.code == 2
    assert "is decided by training" in other.err


def test_dmfbs_reads_the_table_of_a_fit(described, headstart, in_process, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    extractor = "dataset2vec(outputs=3, units=4, blocks=1, depth=1)"
    method = f"dmfbs(extractor='{extractor}', steps=1, inner_steps=1, training={{'n_tasks': 2}})"
    done = headstart("metatrain", described, "-m", method, "-o", "known.npz", "--data", tmp_path / "data")
    assert done.code == 0, done.err
    table().to_csv("train.csv", index=False)
    fit = ["fit", "train.csv", "-t", "label", *FRUGAL, "--evaluations", 2, "--knowledge", "known.npz"]
    done = headstart(*fit, "--optimizer", "dmfbs")
    assert done.code == 0, done.err
    assert origins()[0] == ["bayes", "bayes"]
    optimizer, dataset = Knowledge.load("known.npz").optimizer("dmfbs"), Dataset.from_table("train.csv", "label")
    space = catalog.load("tensor_oboe").select(CHEAP)
    (first,) = optimizer.start(Task(distinct(space, dataset), dataset=dataset)).ask(1)
    assert origins()[1][0] == first.pipeline
    done = headstart(*fit, "--warm-start", "dmfbs", "--initial", 1, "--optimizer", "random", "--out", "warm")
    assert done.code == 0, done.err
    reasons, pipelines = origins("warm/store")
    assert (reasons, pipelines[0]) == (["initial", "random"], first.pipeline)


def test_a_warm_start_without_knowledge(headstart, knowledge, in_process):
    table().to_csv("train.csv", index=False)
    fit = ["fit", "train.csv", "-t", "label", *FRUGAL]
    done = headstart(*fit, "--warm-start", "random", "--initial", 1, "--knowledge", knowledge)
    assert done.code == 0, done.err
    assert origins()[0] == ["initial", "bayes"]
    for arguments, message in (
        (
            ["--warm-start", "nearest"],
            "give what it learned as knowledge (--knowledge FILE), which 'headstart metatrain",
        ),
        (["--warm-start", "nearest", "--knowledge", knowledge], "what was trained is DeepPipe, not Nearest"),
        (["--warm-start", "nearst"], "did you mean 'nearest'"),
        (["--initial", "3"], "name one with warm_start (--warm-start)"),
        (["--knowledge", knowledge, "--knowledge", knowledge], "got 2 files for the optimizer"),
    ):
        done = headstart(*fit, "--out", "other", *arguments)
        assert done.code == 2, done.err
        assert message in done.err
        assert len(done.err.strip().splitlines()) == 1


def test_meta_features_that_nothing_can_make_for_a_table_are_named(headstart, tmp_path):
    whole = made_meta()
    vectors = np.random.default_rng(0).random((len(whole), 3))
    save_meta(whole.changed(metafeatures={"given": vectors}), tmp_path / "given.meta")
    done = headstart("metatrain", "given.meta", "-m", "nearest", "-o", "known.npz")
    assert "It reads meta-features given that are recorded with the meta-dataset" in done.out
    table().to_csv("train.csv", index=False)
    done = headstart("fit", "train.csv", "-t", "label", *FRUGAL, "--knowledge", "known.npz")
    assert done.code == 2, done.err
    assert "no meta-features 'given' are recorded, and no extractor of that name can make them" in done.err


def test_a_method_that_needs_tables_says_so_where_there_are_none(meta, headstart):
    done = headstart("metatrain", meta, "-m", "tst_d2v", "-o", "known.npz")
    assert done.code != 0
    assert "'dataset2vec' are made of raw tables, and meta-dataset 'made' has none" in done.err


def test_splits_without_one_to_learn_from_are_refused(headstart, tmp_path):
    save_meta(made_meta().changed(splits={"test": [0, 1]}), tmp_path / "tests.meta")
    done = headstart("metatrain", "tests.meta", "-m", SMALL.format(5), "-o", "known.npz")
    assert done.code == 2
    assert "no training tasks; give them with --split-file" in done.err
