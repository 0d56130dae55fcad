"""Saved models: what comes back, and what a file cannot do."""

import io
import json
import os
import subprocess
import sys
import threading
import types
import zipfile
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from headstart import Algorithm, HeadstartClassifier, HeadstartError, HeadstartRegressor
from headstart.errors import InvalidInput, ModelFileError, UntrustedModel
from headstart.estimators import load
from headstart.fitting import container, trusted
from headstart.fitting.compiled import check_compiled
from headstart.space import catalog


def table(rows=100):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=rows), "b": rng.normal(size=rows), "k": rng.choice(["x", "y", None], rows)})
    X["d"] = pd.date_range("2020-01-01", periods=rows).strftime("%d.%m.%Y")
    X["t"] = [f"a {w} day {i} of rest and work" for i, w in enumerate(rng.choice(["red", "blue"], rows))]
    X.loc[::5, "b"] = np.nan
    return X, X["a"] + (X["k"] == "x")


@pytest.fixture(scope="module")
def fitted():
    X, signal = table()
    model = HeadstartClassifier(
        evaluations=3,
        include=["lightgbm", "decision_tree", "logistic_regression"],
        sandbox=False,
        splitter=3,
        calibrate=True,
        tune_threshold=True,
        metric="accuracy",
        store=None,
    )
    return model.fit(X, np.where(signal > 0.3, "good", "bad"))


@pytest.fixture(scope="module")
def saved(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.hs"
    fitted.save(path)
    return path


class Own(LogisticRegression):
    """An algorithm of the user's own."""


def own_score(estimator, X, y):
    return float((estimator.predict(X) == y).mean())


def rewritten(source, target, header=None, parts=None):
    """A copy of a model file with some of its content changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "header.json" and header is not None:
                content = json.dumps({**json.loads(content), **header}).encode()
            new.writestr(name, (parts or {}).get(name, content))
    return target


def skops_file(node, **files):
    """A file in the format of skops that says to make `node`."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("schema.json", json.dumps({**node, "protocol": 2, "_skops_version": "0.16.0"}))
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def node(module, name, loader, **content):
    return {"__module__": module, "__class__": name, "__loader__": loader, "__id__": 1, **content}


def test_everything_comes_back(fitted, saved):
    X, signal = table()
    y = np.where(signal > 0.3, "good", "bad")
    again = HeadstartClassifier.load(saved)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.predict(X).tolist() == fitted.predict(X).tolist()
    assert again.get_params() == fitted.get_params()
    assert again.classes_.tolist() == ["bad", "good"]
    assert again.feature_names_in_.tolist() == list(X.columns)
    assert again.n_features_in_ == 5
    assert again.notes_ == fitted.notes_
    assert again.model_.decisions == fitted.model_.decisions
    assert [m.pipeline for m in again.model_.members] == [m.pipeline for m in fitted.model_.members]
    pd.testing.assert_frame_equal(again.leaderboard_, fitted.leaderboard_)
    pd.testing.assert_frame_equal(again.failures_, fitted.failures_)
    pd.testing.assert_frame_equal(again.leaderboard(X, y), fitted.leaderboard(X, y))
    pd.testing.assert_frame_equal(again.feature_importance(X, y, repeats=1), fitted.feature_importance(X, y, repeats=1))
    with pytest.raises(InvalidInput, match="access best_pipeline_ before saving"):
        again.best_pipeline_
    with pytest.raises(InvalidInput, match="not a HeadstartRegressor"):
        HeadstartRegressor.load(saved)


def test_the_best_pipeline_is_kept_once_it_was_asked_for_and_saving_again_is_the_same(tmp_path):
    X, signal = table()
    model = HeadstartRegressor(
        evaluations=2, include=["catboost", "hist_gradient_boosting"], sandbox=False, splitter=0.3
    )
    model.fit(X, signal)
    expected = model.best_pipeline_.predict(X)
    for _ in range(2):
        model.save(tmp_path / "model.hs")
        again = HeadstartRegressor.load(tmp_path / "model.hs")
        np.testing.assert_array_equal(again.best_pipeline_.predict(X), expected)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        model = again
    assert [path.name for path in tmp_path.iterdir()] == ["model.hs"]


@pytest.mark.parametrize(
    "include",
    [["xgboost", "native"], ["kernel_svm", "target"], ["knn", "one_hot"], ["mlp"], ["gaussian_process"], ["sgd"]],
    ids=lambda names: names[0],
)
def test_algorithms_come_back_bit_by_bit(include, tmp_path):
    if include[0] == "xgboost":
        pytest.importorskip("xgboost")
    X, signal = table()
    model = HeadstartClassifier(evaluations=1, include=include, sandbox=False, splitter=0.3)
    model.fit(X, np.digitize(signal, [0.0, 1.0])).save(tmp_path / "m")
    np.testing.assert_array_equal(HeadstartClassifier.load(tmp_path / "m").predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("labels", [[False, True], [1, 2], [1.0, 2.0], [1, "one"]], ids=str)
def test_labels_keep_their_type(labels, tmp_path):
    X, signal = table(60)
    y = pd.Series([labels[int(s > 0.3)] for s in signal], dtype=object).infer_objects()
    model = HeadstartClassifier(evaluations=1, include=["lda"], sandbox=False, splitter=0.3).fit(X, y)
    model.save(tmp_path / "m")
    again = HeadstartClassifier.load(tmp_path / "m")
    assert again.classes_.dtype == model.classes_.dtype
    assert list(map(type, again.predict(X))) == list(map(type, model.predict(X)))


def test_objects_among_the_parameters_are_noted(tmp_path):
    X, signal = table(60)
    space = catalog.load("classification").select(["lda"])
    model = HeadstartClassifier(evaluations=1, space=space, metric=own_score, sandbox=False, splitter=0.3)
    y = signal > 0.3
    model.fit(X, y).save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.space is None
    assert any("metric was an object, own_score" in note for note in again.notes_)
    assert any(note.startswith("space was an object") for note in again.notes_)
    again.set_params(metric=own_score)
    assert again.leaderboard(X, y).equals(model.leaderboard(X, y))


def test_algorithms_of_ones_own_need_a_pickle_and_trust(tmp_path):
    X, signal = table(60)
    space = catalog.load("classification").extend("estimator", Algorithm("own", f"{__name__}:Own"))
    space = space.select(["own", "one_hot", "median"])
    X, y = X[["a", "b"]], signal > 0.3
    model = HeadstartClassifier(evaluations=1, space=space, sandbox=False, splitter=0.3).fit(X, y)
    with pytest.raises(ModelFileError, match=r"Own.*safe=False"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())
    model.save(tmp_path / "m", safe=False)
    with pytest.raises(UntrustedModel, match=r"runs whatever code.*trusted=True"):
        HeadstartClassifier.load(tmp_path / "m")
    again = HeadstartClassifier.load(tmp_path / "m", trusted=True)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.space == space


def test_only_models_are_overwritten(fitted, saved, tmp_path):
    other = tmp_path / "thesis.zip"
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("thesis.txt", "years of work")
    for path, content in ((other, other.read_bytes()), (tmp_path / "note.txt", b"hello")):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match="not a Headstart model, so it was left alone"):
            fitted.save(path)
        assert path.read_bytes() == content
    with pytest.raises(ModelFileError, match="is a directory"):
        fitted.save(tmp_path)
    with pytest.raises(ModelFileError, match="must exist"):
        fitted.save(tmp_path / "no" / "model")
    os.symlink(saved, tmp_path / "link")
    fitted.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()


def test_a_write_that_fails_leaves_the_old_file(fitted, saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(container.os, "fsync", full)
    with pytest.raises(ModelFileError, match="no space left"):
        fitted.save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_damaged_files_are_said_to_be(saved, tmp_path):
    content = saved.read_bytes()
    rng = np.random.default_rng(0)
    path = tmp_path / "m"
    for length in [0, 1, 2, 10, 100, len(content) // 2, len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError, match=r"damaged|must be a model"):
            load(path)
    refused = 0
    for place in [*rng.integers(0, len(content), 12), *rng.integers(len(content) - 250, len(content), 12)]:
        broken = bytearray(content)
        broken[place] ^= int(rng.integers(1, 256))
        path.write_bytes(broken)
        try:
            load(path)  # a few bits say nothing, such as times
        except HeadstartError:
            refused += 1
    assert refused > 12
    for wrong in (b"PK\x05\x06" + bytes(18), b"\x80\x04K\x01.", b"a,b\n1,2\n"):
        path.write_bytes(wrong)
        with pytest.raises(ModelFileError, match="must be a model that save wrote"):
            load(path)
    with pytest.raises(ModelFileError, match="not found"):
        load(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match="directory"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"version": 99}, "update Headstart"),
        ({"format": "other"}, "another kind of zip"),
        ({"libraries": None}, "damaged"),
        ({"estimator": "os.system"}, "damaged"),
        ({"model": {}}, "damaged"),
        ({"params": {"refit": {}}}, "damaged"),
    ],
)
def test_headers_that_are_wrong(saved, tmp_path, header, said):
    with pytest.raises(ModelFileError, match=said):
        load(rewritten(saved, tmp_path / "m", header))


def test_other_versions_are_warned_of(saved, tmp_path):
    from headstart.errors import HeadstartWarning

    with pytest.warns(HeadstartWarning, match=r"scikit-learn 0\.1"):
        load(rewritten(saved, tmp_path / "m", {"libraries": {"scikit-learn": "0.1.0"}}))


TUPLE = node("builtins", "tuple", "TupleNode", content=[])


@pytest.mark.parametrize(
    ("evil", "named"),
    [
        (node("os", "system", "FunctionNode"), "os.system"),
        (node("builtins", "eval", "TypeNode"), "builtins.eval"),
        (node("numpy", "load", "FunctionNode"), "numpy.load"),
        (node("subprocess", "Popen", "ConstructorFromReduceNode", content=TUPLE), "subprocess.Popen"),
        (node("builtins", "dict", "FunctionNode"), "builtins.dict (FunctionNode)"),
        (node("builtins", "list", "ListNode", content=[node("os", "popen", "TypeNode")]), "os.popen"),
        (node("sklearn.cluster._kmeans", "KMeans", "ObjectNode"), "KMeans"),
        (node("operator", "methodcaller", "OperatorFuncNode", attrs=TUPLE), "operator.methodcaller"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_foreign_is_made(saved, tmp_path, evil, named, monkeypatch):
    def never(*_):
        raise AssertionError("skops was asked to make it")

    monkeypatch.setattr("skops.io.loads", never)
    with pytest.raises(UntrustedModel, match="do not load it") as caught:
        load(rewritten(saved, tmp_path / "m", parts={"models.skops": skops_file(evil)}))
    assert named in str(caught.value)


def test_a_pickle_is_not_read_for_its_name(saved, tmp_path):
    path = rewritten(saved, tmp_path / "m", {"safe": False})
    with pytest.raises(UntrustedModel):
        load(path)
    with pytest.raises(ModelFileError, match="cannot be unpickled"):
        load(path, trusted=True)


def test_bombs_are_not_unpacked(saved, tmp_path):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", bytes(80 * 2**20))
    inner = rewritten(saved, tmp_path / "inner", parts={"models.skops": stream.getvalue()})
    outer = tmp_path / "outer"
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(outer, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr("header.json", old.read("header.json"))
        new.writestr("models.skops", bytes(80 * 2**20))
    for path in (inner, outer):
        with pytest.raises(ModelFileError, match="far more than a model would"):
            load(path)


def test_trees_that_point_elsewhere_are_refused():
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor

    X = np.random.default_rng(0).normal(size=(60, 3))
    forest = RandomForestRegressor(2).fit(X, X[:, 0])
    boosted = HistGradientBoostingRegressor(max_iter=2).fit(X, X[:, 0])
    check_compiled([forest, boosted])
    forest.estimators_[0].tree_.children_left[0] = 10**6
    with pytest.raises(ModelFileError, match="damaged"):
        check_compiled([forest])
    boosted._predictors[0][0].nodes["feature_idx"][0] = 7
    with pytest.raises(ModelFileError, match="damaged"):
        check_compiled({"members": [boosted]})


def test_equal_models_are_equal_files():
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = np.random.default_rng(0).normal(size=(60, 3))
    models = [[make_pipeline(StandardScaler(), Ridge(k)).fit(X, X[:, 0]) for k in (1, 2)] for _ in range(2)]
    one, other = (trusted.dump_models([[model] for model in some]) for some in models)
    assert one == other
    first, second = trusted.load_models(one)
    assert first[0].steps[0][1] is second[0].steps[0][1]  # fitted alike, so it is there once
    assert first[0].steps[1][1].alpha == 1
    assert np.array_equal(second[0].predict(X), models[0][1].predict(X))


def test_the_trusted_types_are_data():
    types = trusted.trusted_types()
    assert "headstart.components.prepare.PrepareTable" in types
    for name in types:
        module, _, attribute = name.rpartition(".")
        assert module.split(".")[0] in ("builtins", "numpy", "scipy", "sklearn", "headstart")
        found = getattr(__import__(module, fromlist=[attribute]), attribute, None)
        assert found is None or isinstance(found, type), name


def test_skops_is_loaded_once_whichever_thread_asks_first(monkeypatch):
    for name in [n for n in sys.modules if n.partition(".")[0] == "skops"]:
        monkeypatch.delitem(sys.modules, name)
    loads, got = [], []

    def load(name):
        loads.append(name)
        if len(loads) == 1:
            other.start()
            other.join(0.2)  # as long as that one waits for us
        return types.SimpleNamespace()

    other = threading.Thread(target=lambda: got.append(trusted._skops()), daemon=True)
    fresh = cache(trusted._loaded_skops.__wrapped__)
    monkeypatch.setattr(trusted, "_loaded_skops", fresh)
    monkeypatch.setattr(trusted, "importlib", types.SimpleNamespace(import_module=load))
    got.append(trusted._skops())
    other.join()
    assert loads == ["skops.io"]
    assert got[0] is got[1]


USED = """
import sys, pandas as pd
from headstart.estimators import load
model, table = load(sys.argv[1]), pd.read_json(sys.argv[2])
known = set(sys.modules)
model.predict_proba(table)
print(len([name for name in sys.modules if name not in known]))
"""


@pytest.mark.parametrize("constraints", [None, ["latency <= 1s"]])
def test_under_a_bound_on_latency_the_first_prediction_imports_nothing(constraints, tmp_path):
    X, signal = table()
    include = ["quantile", "logistic_regression"]
    fit = HeadstartClassifier(evaluations=1, include=include, sandbox=False, constraints=constraints, store=None)
    fit.fit(X, signal > 0.3).save(tmp_path / "model.hs")
    X.to_json(tmp_path / "table.json")
    command = [sys.executable, "-c", USED, str(tmp_path / "model.hs"), str(tmp_path / "table.json")]
    imported = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert imported == 0 if constraints else imported > 0
