"""Explaining, intervals, ONNX and serving from the command line."""

from __future__ import annotations

import http.client
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

KEPT = Path(__file__).parent.parent / "fitting" / "kept"
pytestmark = pytest.mark.filterwarnings("ignore::headstart.errors.HeadstartWarning")  # versions of libraries


@pytest.fixture
def table(tmp_path):
    X = pd.DataFrame({"a": [0.5, None], "b": [1, 2.0], "k": ["x", None], "d": ["03.02.2020", "04.02.2020"]})
    X["t"], X["flag"] = ["a red day of rest", "work"], ["yes", "no"]
    X.to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


def test_intervals_and_sets(command, table):
    ran = command("predict", KEPT / "numbers_1.headstart", table, "--coverage", "0.8")
    found = pd.read_csv(io.StringIO(ran.out))
    assert list(found.columns) == ["prediction", "lower", "upper"]
    assert (found["lower"] < found["upper"]).all()
    ran = command("predict", KEPT / "classes_1.headstart", table, "--coverage", "0.8", "--id", "flag")
    found = pd.read_csv(io.StringIO(ran.out))
    assert list(found.columns) == ["flag", "prediction", "high", "low", "mid"]
    assert found["high"].dtype == bool


def test_explanations(command, table):
    pytest.importorskip("shap")
    ran = command("explain", KEPT / "numbers_1.headstart", table, "--rows", "1")
    assert ran.code == 0
    assert "Row 1: target" in ran.out
    assert "Row 2" not in ran.out
    assert "exact: all subsets of 6 columns" in ran.out
    ran = command("explain", KEPT / "classes_1.headstart", table, "--class", "low", "--json")
    found = json.loads(ran.out)
    row = found["rows"][0]
    assert row["(class)"] == "low"
    names = ["a", "b", "k", "d", "t", "flag"]
    assert row["(base)"] + sum(row[name] for name in names) == pytest.approx(row["(prediction)"], abs=1e-8)


def test_a_file_for_onnxruntime(command, table):
    runtime = pytest.importorskip("onnxruntime")
    ran = command("export", KEPT / "classes_1.headstart", "--onnx", "m.onnx")
    assert ran.out.strip() == "m.onnx predicts target from raw columns and needs only onnxruntime"
    assert [known.name for known in runtime.InferenceSession("m.onnx").get_outputs()] == ["probabilities", "label"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("predict", "MODEL", "new.csv", "--coverage", "1.5"),
            "coverage must be between 0 and 1, such as 0.9, got 1.5",
        ),
        (("predict", "MODEL", "new.csv", "--coverage", "0.9", "--proba"), "give --proba or --coverage, not both"),
        (
            ("explain", "MODEL", "new.csv", "--class", "deep"),
            "label (--class) must be one of high, low, mid, got 'deep'",
        ),
        (("explain", "MODEL", "new.csv", "--rows", "0"), "greater than or equal to 1"),
        (("explain", "nowhere", "new.csv"), "nowhere not found"),
        (("export", "MODEL", "--onnx", "m.onnx", "--out", "m.py"), "give --onnx or --out, not both"),
        (("export", "MODEL", "--best"), "--best is for --onnx"),
        (("export", "MODEL", "--onnx", "no/m.onnx"), "no"),
        (("serve", "MODEL", "--port", "99999"), "less than or equal to 65535"),
        (("serve", "MODEL", "--port", "0", "--host", "256.1.1.1"), "choose another port or host"),
        (("serve", "nowhere"), "nowhere not found"),
    ],
)
def test_a_mistake_is_one_line(command, table, args, message):
    if "explain" in args:
        pytest.importorskip("shap")
    if "--onnx" in args:
        pytest.importorskip("onnxruntime")
    ran = command(*[KEPT / "classes_1.headstart" if arg == "MODEL" else arg for arg in args])
    assert ran.code == 2
    assert message in ran.err
    assert len([line for line in ran.err.splitlines() if "warning" not in line]) == 1
    assert "Traceback" not in ran.err


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a signal")
def test_a_model_is_served_until_it_is_interrupted():
    command = [sys.executable, "-m", "headstart", "serve", str(KEPT / "numbers_1.headstart"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline()
        port = int(line.partition("http://127.0.0.1:")[2].partition(";")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/health")
        assert json.loads(connection.getresponse().read())["status"] == "ok"
        connection.close()
        server.send_signal(signal.SIGINT)
        out, _ = server.communicate(timeout=60)
    assert out.strip() == "stopped"
    assert server.returncode == 0
