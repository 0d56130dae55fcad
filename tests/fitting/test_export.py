"""The exported script predicts what the best pipeline predicts, where Headstart cannot be imported."""

import ast
import importlib.util
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest

from headstart import HeadstartClassifier, HeadstartRegressor
from headstart.data.errors import DataWarning

RUNNER = """
import pathlib, runpy, sys, warnings

class Blocked:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "headstart":
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
warnings.simplefilter("ignore")
for script in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    folder = script.with_suffix("")
    new = next(folder.glob("new.*"))
    train = next(folder.glob("train.*"))
    sys.argv[1:] = [str(train), str(new), str(folder / "out.csv")]
    runpy.run_path(str(script), run_name="__main__")
assert "headstart" not in sys.modules
"""

CLASSIFIERS = {
    "lightgbm": ["lightgbm", "native"],
    "catboost": ["catboost", "native"],
    "xgboost": ["xgboost", "native"],
    "hist": ["hist_gradient_boosting", "native"],
    "balanced_booster": ["lightgbm", "target", "balancing.balanced"],
    "linear": ["logistic_regression", "standard", "one_hot", "balancing.balanced"],
    "forest": ["random_forest", "ordinal", "imputation.median"],
    "mlp": ["mlp", "quantile", "one_hot"],
    "svm": ["kernel_svm", "standard", "target", "pca"],
    "weighted_bayes": ["gaussian_nb", "robust", "balancing.balanced", "select_percentile"],
}
REGRESSORS = {
    "lightgbm": ["lightgbm", "native"],
    "catboost": ["catboost", "native"],
    "xgboost": ["xgboost", "one_hot"],
    "ridge": ["ridge", "standard", "target", "polynomial"],
    "svm": ["kernel_svm", "minmax", "one_hot"],
}


def table(rows=130, seed=0):
    """Numbers, missing values, categories, dates, text, booleans, an id and a constant."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"size": rng.normal(size=rows), "age": rng.integers(18, 90, rows).astype(float)})
    X["pay"] = [f"${value:,}" for value in rng.integers(1000, 90000, rows)]
    X["town"] = rng.choice(["Köln", "New York", "Oslo, north"], rows)
    X["code"] = rng.choice([1, 2, 3], rows)
    X["born"] = pd.date_range("1950-02-03", periods=rows, freq="37D").strftime("%d.%m.%Y")
    X["said"] = [f"a {w} day with much work, the {i}th" for i, w in enumerate(rng.choice(["red", "wet"], rows))]
    X["smokes"] = rng.choice(["yes", "no"], rows)
    X["row id"] = np.arange(1, rows + 1) * 7 + 1000
    X["planet"] = "earth"
    X.loc[rng.random(rows) < 0.2, "age"] = np.nan
    X.loc[rng.random(rows) < 0.1, "town"] = None
    return X, X["size"] + (X["town"] == "Köln") + 0.3 * rng.normal(size=rows)


def run(folder):
    done = subprocess.run(
        [sys.executable, "-I", "-c", RUNNER, str(folder)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def put(model, folder, name, train, new, write=lambda frame, path: frame.to_csv(path, index=False), suffix=".csv"):
    """The script and its tables in `folder`."""
    place = folder / name
    place.mkdir()
    write(train, place / f"train{suffix}")
    write(new, place / f"new{suffix}")
    (folder / f"{name}.py").write_text(model.export_code(str(place / f"train{suffix}")), encoding="utf-8")
    return place


def compare(model, place, new):
    out = pd.read_csv(place / "out.csv", keep_default_na=False)
    ready = model.model_.schema.apply(new)
    best = model.best_pipeline_
    if hasattr(model, "classes_"):
        np.testing.assert_allclose(out.iloc[:, 1:].to_numpy(float), best.predict_proba(ready), rtol=0, atol=1e-9)
        assert out["prediction"].astype(str).tolist() == [str(label) for label in best.predict(ready)]
    else:
        expected = best.predict(ready)
        np.testing.assert_allclose(out["prediction"], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_scripts_predict_the_same_without_headstart(tmp_path):
    X, signal = table()
    y = np.where(signal > 0.3, "good", "bad")
    y3 = np.digitize(signal, [0.0, 0.8]) * 10
    new = X[::3].assign(town=["Ulm", *X["town"][::3][1:]])
    cases = []
    there = importlib.util.find_spec("xgboost") is not None
    for name, include in CLASSIFIERS.items():
        if name == "xgboost" and not there:
            continue
        target = y3 if name in ("hist", "forest", "svm", "catboost") else y
        model = HeadstartClassifier(evaluations=1, include=include, sandbox=False, splitter=0.3)
        cases.append((f"c_{name}", model, target))
    for name, include in REGRESSORS.items():
        if name == "xgboost" and not there:
            continue
        model = HeadstartRegressor(evaluations=1, include=include, sandbox=False, splitter=0.3)
        cases.append((f"r_{name}", model, 100 * signal.to_numpy()))
    places = {}
    for name, model, target in cases:
        train = X.assign(outcome=target)
        model.fit(train, target="outcome")
        assert len(model.leaderboard_) == 1, name
        places[name] = put(model, tmp_path, name, train, new)
    assert run(tmp_path).count("predictions to") == len(cases)
    for name, model, _ in cases:
        compare(model, places[name], new)


def test_files_are_read_as_they_were(tmp_path):
    X, signal = table()
    X = X.drop(columns=["said"])
    data = X.assign(y=np.where(signal > 0.3, "ja", "nein"), w=np.linspace(1, 2, len(X)))
    data.loc[3, "y"], data.loc[4, "size"] = None, np.inf
    data = data.rename(columns={"size": "größe"})
    new = data.drop(columns=["y", "w"])[:20]

    def german(frame, path):
        frame.to_csv(path, index=False, sep=";", decimal=",", encoding="latin-1", na_rep="NULL")

    def parquet(frame, path):
        frame.to_parquet(path)

    made = {}
    for name, write, suffix in (("german", german, ".csv"), ("parquet", parquet, ".parquet")):
        write(data, tmp_path / f"given{suffix}")
        model = HeadstartClassifier(evaluations=1, include=["lightgbm"], sandbox=False, splitter=0.3)
        with pytest.warns(DataWarning, match=r"infinite values|left out"):
            model.fit(tmp_path / f"given{suffix}", target="y", sample_weight="w")
        made[name] = model, put(model, tmp_path, name, data, new, write, suffix)
    code = made["german"][0].export_code()
    assert 'sep=";"' in code
    assert 'decimal=","' in code
    assert 'WEIGHTS = "w"' in code
    run(tmp_path)
    for model, place in made.values():
        compare(model, place, new)


def test_arrays_sparse_matrices_and_a_loaded_model(tmp_path):
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)) * (rng.random((80, 3)) < 0.5)
    y = X[:, 0] > 0
    frame = pd.DataFrame(X, columns=["p", "q", "r"]).assign(target=y)
    made = {}
    for name, given in (("dense", X), ("sparse", sparse.csr_matrix(X))):
        model = HeadstartClassifier(evaluations=1, include=["lda"], sandbox=False, splitter=0.3).fit(given, y)
        code = model.export_code()
        model.save(tmp_path / "model.hs")
        assert HeadstartClassifier.load(tmp_path / "model.hs").export_code() == code
        made[name] = model, put(model, tmp_path, name, frame, frame.drop(columns="target"))
    run(tmp_path)
    for model, place in made.values():
        compare(model, place, X if "dense" in str(place) else sparse.csr_matrix(X))


def test_a_script_has_what_it_needs_and_no_more():
    X, signal = table()
    model = HeadstartRegressor(evaluations=1, include=["ridge", "one_hot", "scaling.standard"], sandbox=False)
    code = model.fit(X[["size", "age"]], signal).export_code("some/place.csv")
    tree = ast.parse(code)
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert "PrepareTable" in classes
    assert not any("LightGBM" in name or "SVM" in name for name in classes)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"load_table", "build_pipeline", "fit"} <= functions
    assert "to_truths" not in functions
    assert "headstart." not in code
    assert 'TABLE = "some/place.csv"' in code
    assert "type: ignore" not in code
    names = [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    assert "Ridge" in names
    assert all(len(line) <= 130 for line in code.splitlines())


def test_names_that_clash_are_told_apart():
    from headstart.fitting.sources import Sources

    sources = Sources()
    assert sources.add("headstart.components.prepare", "PrepareTable") == "PrepareTable"
    assert sources.add("headstart.components.reducers", "TruncatedSVD") == "TruncatedSVD_2"
    assert sources.add("headstart.components.selection", "SelectKBest") == "SelectKBest"
    text = f"from __future__ import annotations\n{sources.imports()}\n\n{sources.definitions()}"
    program = textwrap.dedent("""
        import numpy as np
        X = np.random.default_rng(0).normal(size=(20, 4))
        assert TruncatedSVD_2(n_components=2).fit(X).transform(X).shape == (20, 2)
        assert SelectKBest(0.5).fit(X, X[:, 0] > 0).transform(X).shape == (20, 2)
        assert TruncatedSVD.__module__.startswith("sklearn")
    """)
    assert text.count("def dense(") == 1
    exec(compile(f"{text}\n{program}", "script", "exec"), {"__name__": "__main__"})
