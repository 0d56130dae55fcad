"""What README and docs show is run."""

import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from headstart import HeadstartClassifier, registry
from headstart.replay.protocol import Method
from headstart.testing import MetaFeaturesContract, OptimizerContract, SurrogateContract

ROOT = Path(__file__).parents[1]


def blocks(file, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(encoding="utf-8"), flags=re.DOTALL)


def run(folder, *args):
    ran = subprocess.run(
        [sys.executable, *map(str, args)], cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_script_of_the_readme(tmp_path):
    (script,) = blocks("README.md", "python")
    quick = script.replace("time_budget=60", "evaluations=2, include=['lda', 'knn'], splitter=2, sandbox=False")
    assert quick != script
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    table = X.assign(diagnosis=y.map({0: "malignant", 1: "benign"}))[::3]
    table[:120].to_csv(tmp_path / "train.csv", index=False)
    table[120:].to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "script.py").write_text(quick, encoding="utf-8")
    run(tmp_path, "script.py")
    assert (tmp_path / "model.headstart").exists()


@pytest.mark.parametrize(
    ("name", "budget", "shown"),
    [
        ("csv_table", 2, "Probability to come back"),
        ("regression", 2, "R² on test rows"),
        ("own_metric_and_splitter", 2, "share predicted positive"),
        ("own_search_space", 3, "neighbours"),
        ("resume", 1, "from the store"),
        ("under_constraints", 2, "false positive rate on test rows"),
        ("knowledge", 2, "chosen by: ['portfolio'"),
        ("plugin", 7, "'bayes'"),
        ("replay", 6, "linear_factors"),
    ],
)
def test_examples(name, budget, shown, tmp_path, monkeypatch, capsys):
    script = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8").replace("time_budget=10", "evaluations=3")
    if name != "own_search_space":  # one of them in the sandbox
        script = re.sub(r"= (Headstart(?:Classifier|Regressor))\(", r"= \1(sandbox=False, ", script)
        assert name == "replay" or "sandbox=False" in script
    (tmp_path / f"{name}.py").write_text(script, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry._added, "surrogate", {})  # what an example registers goes with it
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(budget)])
    runpy.run_path(f"{name}.py", run_name="__main__")
    assert shown in capsys.readouterr().out


def test_the_script_of_a_study(tmp_path, monkeypatch, capsys):
    (script,) = blocks("docs/studies.md", "python")
    quick = script.replace("seconds=20", "evaluations=6")
    assert quick != script
    (tmp_path / "script.py").write_text(quick, encoding="utf-8")
    assert run(tmp_path, "script.py").startswith("6 pipelines, evaluations")
    monkeypatch.chdir(tmp_path)
    runpy.run_path("script.py", run_name="__main__")  # resumes
    assert capsys.readouterr().out.startswith("6 pipelines, evaluations")


namespace = {"__name__": "docs"}
for block in (*blocks("docs/plugins.md", "python")[:4], blocks("CONTRIBUTING.md", "python")[0]):
    exec(block, namespace)


class TestTheOptimizerOfTheDocs(OptimizerContract):
    def make(self, task):
        return namespace["Careful"]()


class TestTheSurrogateOfTheDocs(SurrogateContract):
    def make(self):
        return namespace["Neighbours"]()


class TestTheLearnerOfTheDocs(SurrogateContract):
    def make(self):
        return namespace["Recalling"]()


class TestTheMethodToContribute(SurrogateContract):
    def make(self):
        return namespace["Linear"]()


def test_the_test_and_the_experiment_to_contribute(monkeypatch):
    room, test, experiment = blocks("CONTRIBUTING.md", "python")[1:]
    assert "headstart.methods.linear.surrogate import Linear" in room
    monkeypatch.setitem(sys.modules, "headstart.methods.linear", SimpleNamespace(Linear=namespace["Linear"]))
    written = {"__name__": "test_linear"}
    exec(test, written)
    written["test_agrees_with_a_gaussian_process_with_a_linear_kernel"]()
    monkeypatch.setitem(registry._added, "surrogate", {"linear": namespace["Linear"]})
    exec(experiment, written)
    (declared,) = written["EXPERIMENTS"].values()
    assert all(Method.of(method).make() is not None for method in declared.kind.methods)


class TestTheMetaFeaturesOfTheDocs(MetaFeaturesContract):
    def make(self):
        return namespace["Sizes"]()


def test_the_space_of_the_docs():
    (code,) = blocks("docs/spaces.md", "python")
    found = {}
    exec(code, found)
    space = found["space"]
    for pipeline in space.sample(np.random.default_rng(0), 20):
        space.build(pipeline, 0)
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    model = HeadstartClassifier(evaluations=8, space=space, splitter=2, n_jobs=1).fit(X[::2], y[::2])
    assert model.failures_.empty
    assert {trial.pipeline.algorithms[1] for trial in model.history_} == {"svm", "knn"}
    assert model.score(X[1::2], y[1::2]) > 0.9
