"""`benchmarks/quality.py`: how systems of other environments are run, what is believed of them, and the page."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks import quality

SEEN = """
import json, sys
from pathlib import Path
import numpy as np, pandas as pd
folder = Path(sys.argv[3])
job = json.loads((folder / "job.json").read_text())
train, test = pd.read_parquet(folder / "train.parquet"), pd.read_parquet(folder / "test.parquet")
shape = (len(test), job["classes"]) if job["classes"] else len(test)
predicted = np.full(shape, 1 / (job["classes"] or 1))
(folder / "facts.json").write_text(json.dumps({"wall": 1.5}))
"""
SAVE = "np.save(folder / 'predicted.npy', predicted)\n"


def other_python(folder, program):
    """A program that stands for the interpreter of another environment."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\n{textwrap.dedent(program)}")
    path.chmod(0o755)
    return str(path)


def numbers(n=90, kind="regression"):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    table["letter"] = pd.Categorical(rng.choice(list("xyz"), n))
    if kind == "regression":
        return table.assign(target=3 * table["a"] + rng.normal(size=n))
    return table.assign(target=np.array(["no", "perhaps", "yes"])[np.arange(n) % (2 if kind == "binary" else 3)])


def evaluate(python, table, system="autogluon", limit=60.0, seconds=5.0):
    task = "regression" if table["target"].dtype.kind == "f" else "classification"
    return quality.evaluate(quality.Programs(), python, system, task, table, seconds, 1 / 3, limit)


@pytest.mark.parametrize(
    ("kind", "metric", "expected"),
    [("binary", "roc_auc", 0.5), ("multiclass", "neg_log_loss", -np.log(3)), ("regression", None, None)],
)
def test_predictions_of_another_environment_are_scored_here(tmp_path, kind, metric, expected):
    table = numbers(kind=kind)
    found = evaluate(other_python(tmp_path, SEEN + SAVE), table)
    assert found["rows"] == 60
    assert found["wall"] == 1.5
    if expected is None:  # it predicts 1 for all
        rest = quality.split(table, "regression", 1 / 3)[2]
        metric, expected = "neg_root_mean_squared_error", -np.sqrt(np.mean((rest - 1) ** 2))
    assert found["metric"] == metric
    assert found["score"] == pytest.approx(expected)


def test_it_gets_the_job_in_a_folder_and_an_environment_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "somewhere")
    copy = f"""
import os, shutil
(folder / "seen.json").write_text(json.dumps([job, list(train), list(test), len(train), dict(os.environ), os.getcwd()]))
shutil.copy(folder / "seen.json", {str(tmp_path)!r})
"""
    assert "score" in evaluate(other_python(tmp_path, SEEN + SAVE + copy), numbers(kind="multiclass"))
    job, train, test, n, environment, place = json.loads((tmp_path / "seen.json").read_text())
    expected = {"system": "autogluon", "task": "classification", "metric": "neg_log_loss", "seconds": 5.0, "classes": 3}
    assert job == expected
    assert train == ["a", "b", "c", "letter", "target"]
    assert test == ["a", "b", "c", "letter"]  # nobody sees the target of the test rows
    assert n == 60
    assert environment["OMP_NUM_THREADS"] == "1"
    assert "PYTHONPATH" not in environment
    assert not Path(place).exists()


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("sys.exit('no such module')", "exit code 1: no such module"),
        ("", "predictions cannot be read"),
        ("np.save(folder / 'predicted.npy', np.array([print, 1], dtype=object))", "predictions cannot be read"),
        ("(folder / 'predicted.npy').write_bytes(b'')", "predictions cannot be read"),
        ("predicted = predicted[1:]\n" + SAVE, "must be numbers of shape (30, 3)"),
        ("predicted = predicted.astype(str)\n" + SAVE, "must be numbers of shape (30, 3)"),
        ("predicted[0] = np.nan\n" + SAVE, "not finite"),
        ("predicted *= 2\n" + SAVE, "sum to 1"),
        (SAVE + "(folder / 'facts.json').write_text('{')", "facts cannot be read"),
        (SAVE + "(folder / 'facts.json').write_text('{}')", "facts must have wall"),
    ],
)
def test_what_goes_wrong_is_the_result(tmp_path, ending, error):
    found = evaluate(other_python(tmp_path, SEEN + ending), numbers(kind="multiclass"))
    assert error in found.pop("error")
    assert found == {"metric": "neg_log_loss", "rows": 60}


def test_a_python_that_is_not_there_is_the_result(tmp_path):
    assert "cannot be started" in evaluate(str(tmp_path / "none"), numbers())["error"]


def test_a_system_that_does_not_end_is_killed(tmp_path):
    python = other_python(tmp_path, "import time; time.sleep(600)")
    assert evaluate(python, numbers(), limit=0.1)["error"] == "killed after 0.1 s"


def wait_for(condition):
    """Until it holds; a test that waits in vain fails after a minute."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came")


def gone(pid):
    """Whether a process has ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def leaves_a_child(file):
    return f"""
import os, subprocess
child = subprocess.Popen(["sleep", "600"])
open({str(file) + ".new"!r}, "w").write(str(child.pid))
os.replace({str(file) + ".new"!r}, {str(file)!r})
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_what_a_system_leaves_running_is_ended(tmp_path):
    python = other_python(tmp_path, SEEN + SAVE + leaves_a_child(tmp_path / "pid"))
    assert "score" in evaluate(python, numbers())
    wait_for(lambda: gone((tmp_path / "pid").read_text()))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_ends_its_systems_and_writes_no_row_of_them(tmp_path, number):
    (tmp_path / "regression").mkdir()
    numbers().to_parquet(tmp_path / "regression" / "some.parquet")
    python = other_python(tmp_path, leaves_a_child(tmp_path / "pid") + "child.wait()")
    given = ["--data", tmp_path, "--table", "regression/some", "--results", tmp_path / "results.json"]
    call = [sys.executable, quality.__file__, *given, "--system", "flaml", "--flaml", python]
    with subprocess.Popen(list(map(str, call)), stderr=subprocess.DEVNULL) as process:
        wait_for((tmp_path / "pid").exists)
        process.send_signal(number)
        assert process.wait(60)
    wait_for(lambda: gone((tmp_path / "pid").read_text()))
    assert not (tmp_path / "results.json").exists()


AUTOGLUON = """
import json
from pathlib import Path
import numpy as np, pandas as pd

class TabularPredictor:
    def __init__(self, label, **given):
        self.label, self.given = label, given
    def fit(self, train, **given):
        self.classes = sorted(train[self.label].unique(), reverse=True)
        with Path(PLACE).open("a") as file:
            file.write(json.dumps([self.label, self.given, given, list(train)]) + "\\n")
        if self.given["path"] == FAILS:
            raise AssertionError("Learner is already fit.")
    def predict_proba(self, X):
        total = sum(c + 1 for c in self.classes)
        return pd.DataFrame({c: np.full(len(X), (c + 1) / total, dtype="float32") for c in self.classes})
    def predict(self, X):
        return pd.Series(np.full(len(X), 2.0))
"""


def with_autogluon(folder, table, fails=None, seconds=5.0):
    """The program that runs there is the real one; only the package is not. Result, and what was asked of it."""
    (folder / "autogluon").mkdir()
    asked = folder / "asked"
    (folder / "autogluon" / "tabular.py").write_text(f"PLACE, FAILS = {str(asked)!r}, {fails!r}\n{AUTOGLUON}")
    start = f"""
    import os, sys
    os.environ["PYTHONPATH"] = {str(folder)!r}
    os.execv({sys.executable!r}, [{sys.executable!r}, *sys.argv[1:]])
    """
    found = evaluate(other_python(folder, start), table, seconds=seconds)
    return found, [json.loads(line) for line in asked.read_text().splitlines()]


@pytest.mark.parametrize(
    ("kind", "metric"),
    [("binary", "roc_auc"), ("multiclass", "log_loss"), ("regression", "root_mean_squared_error")],
)
def test_autogluon_is_asked_for_its_best_with_one_processor(tmp_path, kind, metric):
    found, [(label, about, fit, columns)] = with_autogluon(tmp_path, numbers(kind=kind))
    assert about == {"problem_type": kind, "eval_metric": metric, "path": "first", "verbosity": 0}
    assert fit == {"time_limit": 5.0, "presets": "best_quality", "num_cpus": 1, "num_gpus": 0}
    assert label in columns
    assert {"wall", "cpu", "score", "version"} <= set(found)
    assert "note" not in found
    if kind == "multiclass":  # columns by class, not in the order in which it gives them
        assert found["score"] == pytest.approx(np.mean(np.log([1 / 6, 2 / 6, 3 / 6])))


def test_autogluon_has_its_time_again_where_dynamic_stacking_fails(tmp_path):
    found, asked = with_autogluon(tmp_path, numbers(), fails="first", seconds=1000.0)
    first, second = (fit for _, _, fit, _ in asked)
    assert first == {"time_limit": 1000.0, "presets": "best_quality", "num_cpus": 1, "num_gpus": 0}
    assert second == {**first, "dynamic_stacking": False}
    assert "without dynamic stacking" in found["note"]
    assert "Learner is already fit." in found["note"]
    assert "score" in found


def test_classes_that_were_not_seen_have_no_probability():
    found = quality.by_class(np.array([[0.3, 0.7]]), [2, 0], 3)
    assert found.tolist() == [[0.7, 0.0, 0.3]]


def command(*given, **environment):
    call = [sys.executable, quality.__file__, *map(str, given)]
    return subprocess.run(call, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def test_finished_rows_are_kept_and_not_run_again(tmp_path):
    (tmp_path / "regression").mkdir()
    numbers(300).to_parquet(tmp_path / "regression" / "some.parquet")
    count = f"open({str(tmp_path / 'calls')!r}, 'a').write(job['system'] + ' ')\n"
    python = other_python(tmp_path, SEEN + SAVE + count)
    results = tmp_path / "results.json"
    given = ["--data", tmp_path, "--table", "regression/some", "--results", results, "--seconds", 7, "--jobs", 2]
    only = ["--system", "flaml", "--system", "lightgbm"]
    for more in (
        ["--flaml", python, *only],
        ["--flaml", python, *only, "--system", "autogluon", "--autogluon", python],
    ):
        done = command(*given, *more)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "calls").read_text() == "flaml autogluon "
    found = json.loads(results.read_text())
    assert found["seconds"] == 7
    cells = found["results"]["some"]
    assert set(cells) == {"flaml", "autogluon", "lightgbm"}
    assert cells["lightgbm"]["score"] > cells["flaml"]["score"]  # it was really trained, and the other says 1
    assert "| some | 200 | neg_root_mean_squared_error |" in done.stdout
    refused = command(*given, "--seconds", 8)
    assert refused.returncode
    assert "has results for 7.0 s" in refused.stderr
    missing = command(*given, "--system", "autogluon")
    assert missing.returncode
    assert "--autogluon PYTHON" in missing.stderr


def test_generated_tables_are_always_the_same_and_mixed():
    for name, task in quality.GENERATED.items():
        table = quality.generated(name, 3000)
        pd.testing.assert_frame_equal(table, quality.generated(name, 3000))
        kinds = table.drop(columns="target").dtypes
        assert sum(isinstance(kind, pd.CategoricalDtype) for kind in kinds) == 3
        assert table["target"].notna().all()
        assert 0.01 < table.isna().to_numpy().mean() < 0.2
        classes = {"generated_binary": 2, "generated_multiclass": 5}.get(name)
        assert (task == "classification") == (classes is not None)
        if classes:
            assert table["target"].nunique() == classes
            assert table["target"].value_counts(normalize=True).min() > 0.05


def test_large_tables_are_above_the_bound_of_all_tasks_and_share_no_rows():
    rows = [
        {"name": f"{group}{kind}", "group": group, "task": task, "rows": n, "classes": classes}
        for group, n in [
            ("g1", 20_000),
            ("g2", 20_000),
            ("G_2", 20_000),
            ("g3", 10_000),
            ("g4", 11_000),
            ("g5", 11_000),
        ]
        for kind, task, classes in [("", "classification", 7), ("_bin", "classification", 2), ("_r", "regression", 0)]
    ]
    rows.append({"name": "fried", "group": "g5", "task": "regression", "rows": 500, "classes": 0})
    index = pd.DataFrame(rows)
    found = quality.large_tables(index)
    assert found == quality.large_tables(index.sample(frac=1, random_state=1))  # whatever the order of the file
    groups = [name.lower().removesuffix("_bin").removesuffix("_r").replace("_", "") for _, name in found]
    assert sorted(groups) == ["g1", "g2", "g4"]  # g3 is too small, g5 shares its rows with one of the 20
    assert [task for task, _ in found] == ["classification", "classification", "regression"]
    assert len(quality.large_tables(index, number=2)) == 2


def test_the_page_says_who_is_ahead_and_who_kept_the_budget():
    def cell(score, wall=10.0):
        return {"score": score, "wall": wall, "cpu": wall / 2, "metric": "roc_auc", "rows": 50}

    late = {"error": "killed after 160 s", "metric": "roc_auc", "rows": 50}
    found = {
        "seconds": 10.0,
        "results": {
            "b": {"headstart": cell(0.9), "autogluon": cell(0.8, 25.0), "flaml": cell(0.7)},
            "a": {"headstart": cell(0.6), "autogluon": cell(0.8, 10.5), "flaml": late},
            "c": {"headstart": cell(0.6), "autogluon": cell(0.6), "flaml": cell(0.5)},
            "unfinished": {"headstart": cell(0.6)},
        },
    }
    lines = list(quality.section(quality.LARGE, found))
    assert "| a | 50 | roc_auc | 0.6 | **0.8** | killed |" in lines
    assert "| b | 50 | roc_auc | **0.9** | 0.8 (2.5 ×) | 0.7 |" in lines
    assert "| c | 50 | roc_auc | **0.6** | **0.6** | 0.5 |" in lines
    assert not any("unfinished" in line for line in lines)
    rows = {line.split(" | ")[0]: line.split(" | ") for line in lines}
    assert rows["| autogluon"][1].startswith("1.50 ± ")
    assert rows["| autogluon"][2:] == ["1, 1, 1", "0", "2 of 3", "25 s", "0.50 |"]
    assert rows["| flaml"][2:] == ["3, 0, 0", "1", "2 of 3", "killed", "0.50 |"]
    assert rows["| headstart"][4:6] == ["3 of 3", "10 s"]
    assert "\nflaml on a: killed after 160 s" in lines


def test_the_page_is_what_the_results_give():
    files = {suite: quality.RESULTS / "data" / suite.file for suite in (quality.SMALL, quality.LARGE)}
    text = quality.page((s, json.loads(file.read_text())) for s, file in files.items() if file.exists())
    assert (quality.RESULTS / "quality.md").read_text() == text
