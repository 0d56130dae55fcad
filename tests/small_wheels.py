"""Small wheels of the form of those on PyPI, and pips that hand them out, or do not."""

import hashlib
import io
import itertools
import json
import pickle
import textwrap
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from headstart.metadata import sources
from headstart.metadata.sources import pmf
from headstart.metadata.sources.wheels import DEEPPIPE, OBOE

DATA = "deeppipe_api/experiments/data/"
OBOE_DATA = "oboe/defaults/TensorOboe/"


def with_missing(rng, tasks, pipelines, share=0.2):
    errors = rng.random((tasks, pipelines)).round(9)
    return np.where(rng.random(errors.shape) < share, np.nan, errors)


def pmf_content(tasks=6, pipelines=30):
    """As the file of PMF, where columns of algorithms that are not chosen hold constants."""
    rng = np.random.default_rng(0)
    widths = [len(columns) for _, columns in pmf.ALGORITHMS]
    domains = [0, *itertools.accumulate(widths)]
    selector = np.stack([rng.integers(0, 2, pipelines), rng.integers(0, 8, pipelines)], axis=1)
    columns = np.ones((pipelines, domains[-1]))
    for i, (first, second) in enumerate(selector):
        for a in (first, 2 + second):
            columns[i, domains[a] : domains[a + 1]] = rng.random(widths[a])
    return {
        "pipelines": columns.tolist(),
        "error": with_missing(rng, tasks, pipelines).tolist(),
        "list_for_concatenator": [[0, 1], list(range(2, 10))],
        "list_for_selector": selector.tolist(),
        "algorithm_domain": domains,
        "tasks_index": [[3], [4, 5], [0, 1, 2]],
        "init_ids": [[], {"4": [1, 2], "5": [3]}, []],
        "original_dataset_id": [str(i) for i in (31, 1464, 3, 6, 12, 50)],
    }


def zap_content():
    rng = np.random.default_rng(1)
    names = ["common.autocv.optimizer.lr", "common.autocv.dataset.batch_size"]
    names += [f"optimizer.type.autocv.optimizer.type_{n}" for n in ("Adam", "AdamW", "SGD")]
    names += [f"architecture.autocv.model.architecture_{n}" for n in ("ResNet18", "efficientnetb0")]
    selector = np.stack([np.zeros(4, int), rng.integers(0, 3, 4), rng.integers(0, 2, 4)], axis=1)
    columns = np.concatenate([rng.random((4, 2)), np.eye(3)[selector[:, 1]], np.eye(2)[selector[:, 2]]], axis=1)
    columns[0, 0] = 1.0000002
    return {
        "pipelines": columns.tolist(),
        "variable_names": names,
        "init_ids": [{"0": [1]}, {"1": [2]}, {"2": [3], "3": [0]}],
        "pipelines_names": ["0-cars196", "0-mnist", "0-svhn-cropped", "1-svhn-cropped"],
        "error": with_missing(rng, 4, 4, 0.0).tolist(),
        "list_for_concatenator": [[0], [1, 2, 3], [4, 5]],
        "list_for_selector": selector.tolist(),
        "tasks_index": [[0], [1], [2, 3]],
        "algorithm_domain": [0, 2, 3, 4, 5, 6, 7],
    }


SPLITS = (1e-05, 0.0001, 0.001, 0.01, 0.1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def logarithmic(value, largest):
    return np.log((value + 1e-8) / 1e-8) / np.log((largest + 1e-8) / 1e-8)


def oboe_columns():
    """Some recorded pipelines of Tensor-OBOE, and what they are, written down by hand from the tables of the papers."""
    cases = [
        ({1: 1, 30: 1 / 15, 31: 0.5}, "mean", "none", "none", "none", "knn", {"n_neighbors": 1, "p": 1}),
        (
            {0: 1, 4: 1, 5: 1, 6: 1 / 3, 9: logarithmic(1e-5, 1024), 10: 1},
            *("constant", "one_hot", "standard", ("pca", 0.25), "extra_trees"),
            {"min_samples_split": 1e-5, "criterion": "entropy"},
        ),
        (
            {2: 1, 4: 1, 7: 2 / 3, 12: 0.05, 13: 1, 15: 1},
            *("median", "one_hot", "none", ("select_k_best", 0.5), "gradient_boosting"),
            {"learning_rate": 0.025, "max_depth": 6, "max_features": "log2"},
        ),
        (
            {3: 1, 5: 1, 8: 1, 16: 0.375, 17: 1, 20: 1},
            *("most_frequent", "none", "standard", "variance_threshold", "logistic_regression"),
            {"C": 1.5, "penalty": "l1", "solver": "saga"},
        ),
        (
            {1: 1, 21: 0.01, 22: 0.1, 23: 1, 25: 1},
            *("mean", "none", "none", "none", "mlp"),
            {"alpha": 0.0001, "learning_rate_init": 0.001, "learning_rate": "adaptive", "solver": "sgd"},
        ),
        (
            {1: 1, 26: logarithmic(1024, 1024), 28: 1},
            *("mean", "none", "none", "none", "random_forest"),
            {"min_samples_split": 1024, "criterion": "gini"},
        ),
        ({1: 1, 29: 0.125 / 16}, "mean", "none", "none", "none", "linear_svm", {"C": 0.125}),
        ({1: 1, 32: logarithmic(2, 1024)}, "mean", "none", "none", "none", "decision_tree", {"min_samples_split": 2}),
        (
            {1: 1, 33: 0.5, 34: logarithmic(50, 100)},
            *("mean", "none", "none", "none", "adaboost"),
            {"learning_rate": 1.5, "n_estimators": 50},
        ),
        ({1: 1, 35: 1}, "mean", "none", "none", "none", "gaussian_nb", {}),
        ({1: 1, 36: 1}, "mean", "none", "none", "none", "perceptron", {}),
    ]
    columns = np.zeros((len(cases), 37))
    for i, (cells, *_) in enumerate(cases):
        for column, value in cells.items():
            columns[i, column] = value
    return columns, [case[1:] for case in cases]


OBOE_SETTINGS = {
    "imputer": {
        "algorithms": ["SimpleImputer"],
        "hyperparameters": {"SimpleImputer": {"strategy": ["mean", "constant"]}},
    },
    "encoder": {"algorithms": [None], "hyperparameters": {}},
    "standardizer": {"algorithms": [None, "StandardScaler"], "hyperparameters": {"StandardScaler": {}}},
    "dim_reducer": {"algorithms": [None], "hyperparameters": {}},
    "estimator": {
        "algorithms": ["KNN", "DT", "lSVM", "GNB"],
        "hyperparameters": {
            "KNN": {"n_neighbors": [1], "p": [1]},
            "DT": {"min_samples_split": [2, 256]},
            "lSVM": {"C": [0.125]},
            "GNB": {},
        },
    },
}
"""What the small wheel's pipelines are set to."""


def oboe_published():
    """Columns of all of them in the order of the settings, as they are published."""
    estimators = [
        {30: 1 / 15, 31: 0.5},
        {32: logarithmic(2, 1024)},
        {32: logarithmic(256, 1024)},
        {29: 0.125 / 16},
        {35: 1},
    ]
    cases = [i | s | e for i, s, e in itertools.product([{1: 1}, {0: 1}], [{}, {5: 1}], estimators)]
    columns = np.zeros((len(cases), 37))
    for i, cells in enumerate(cases):
        columns[i, list(cells)] = list(cells.values())
    return columns


def oboe_contents(ids=None):
    """The file in DeepPipe's wheel, and files in oboe's, for five folds of tasks of which one is empty."""
    rng = np.random.default_rng(2)
    columns = oboe_published()
    n = len(columns)
    errors = rng.random((6, n)).astype(np.float16)
    observed = rng.random(errors.shape) > 0.2
    observed[2] = False
    seconds = np.where(observed, rng.random(errors.shape) + 0.1, np.nan).astype(np.float16)
    failed = ~observed & (rng.random(errors.shape) > 0.5)
    seconds[failed] = -1
    content = {
        "pipelines": columns.tolist(),
        "error": np.where(observed, errors, np.nan).astype(float).tolist(),
        "list_for_concatenator": [[0], [1], [2], [3, 4, 5], list(range(6, 16))],
        "list_for_selector": [[0] * 5] * n,
        "algorithm_domain": [0, 4, 5, 6, 7, 8, 9, 12, 16, 21, 26, 29, 30, 32, 33, 35, 37],
        "tasks_index": [[5], [1], [0], [2, 3], [4]],
        "init_ids": [{"5": [0, 1]}, {"1": [2]}, {}, {"2": [3]}, {}],
    }
    return content, {
        "runtime_tensor_f16_compressed.npz": array(seconds.reshape(6, n, 1)),
        "error_tensor_imputed_20-4-2-2-8-20_f16_compressed.npz": array(errors.reshape(6, n, 1)),
        "classification.json": json.dumps(OBOE_SETTINGS),
        "training_index.pkl": pickle.dumps(ids or [31, 1464, 3, 6, 12, 40_000], protocol=3),
    }


def array(values):
    stream = io.BytesIO()
    np.savez_compressed(stream, a=values)
    return stream.getvalue()


def write_wheel(folder, wheel, files):
    """A wheel that pip accepts; returns the `Wheel` with its hash."""
    info = f"{wheel.project}-{wheel.version}.dist-info/"
    files = {
        **files,
        info + "METADATA": f"Metadata-Version: 2.1\nName: {wheel.project}\nVersion: {wheel.version}\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "RECORD": "",
    }
    with zipfile.ZipFile(folder / wheel.file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    content = (folder / wheel.file).read_bytes()
    return replace(wheel, sha256=hashlib.sha256(content).hexdigest(), size=len(content))


def write_deeppipe(folder):
    contents = {"pmf": pmf_content(), "zap": zap_content(), "tensor_oboe": oboe_contents()[0]}
    files = {f"{DATA}{name}_meta_dataset.json": json.dumps(content) for name, content in contents.items()}
    return write_wheel(folder, DEEPPIPE, {**files, "deeppipe_api/__init__.py": "raise SystemExit('imported')"})


def write_oboe(folder, **changed):
    files = {OBOE_DATA + name: content for name, content in {**oboe_contents()[1], **changed}.items()}
    return write_wheel(folder, OBOE, {**files, "oboe/__init__.py": "raise SystemExit('imported')"})


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """Small wheels in a folder, expected by the sources in place of the real ones; an empty cache."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    known = {DEEPPIPE: write_deeppipe(folder), OBOE: write_oboe(folder)}
    small = {n: replace(s, wheels=tuple(known[w] for w in s.wheels)) for n, s in sources.SOURCES.items()}
    monkeypatch.setattr(sources, "SOURCES", small)
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return folder


PIP = """
    import os, shutil, sys
    from pathlib import Path
    assert sys.argv[1] == "download", sys.argv
    assert "--no-deps" in sys.argv
    target = Path(sys.argv[sys.argv.index("--dest") + 1])
    project, version = sys.argv[-1].split("==")
    file = f"{project}-{version}-py3-none-any.whl"
    source = Path(os.environ["FAKE_WHEELS"]) / file
"""


@pytest.fixture
def fake_pip(tmp_path, monkeypatch, wheels):
    """``fake_pip(lines)`` has ``python -m pip`` run these lines; without any it copies the wheel."""
    folder = tmp_path / "fake" / "pip"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(folder.parent))
    monkeypatch.setenv("FAKE_WHEELS", str(wheels))

    def act(lines="shutil.copy(source, target / file)"):
        (folder / "__main__.py").write_text(textwrap.dedent(PIP) + textwrap.dedent(lines))

    act()
    return act
