"""``headstart replay``, run as a user would."""

import json
import signal
import subprocess
import sys
import time

import pytest
from fakes import divided_meta

from headstart.cli.replay import showing_progress
from headstart.metadata.files import save_meta


@pytest.fixture
def headstart(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    return command


@pytest.fixture(scope="module")
def meta(tmp_path_factory):
    path = tmp_path_factory.mktemp("meta") / "pmf"
    save_meta(divided_meta("pmf"), path)
    return path


def test_replay_shows_saves_and_draws(headstart, meta, tmp_path):
    out, plot = tmp_path / "data" / "replay_pmf.json", tmp_path / "plot.png"
    methods = ["-m", "random", "-m", "random4x", "-m", "linear_factors(rank=2)"]
    done = headstart("replay", meta, *methods, "--evaluations", 12, "--jobs", 2, "--out", out, "--plot", plot)
    assert done.code == 0, done.err
    assert "linear_factors(rank=2)" in done.out
    assert "random: mean regret" in done.err
    assert "\r" not in done.err
    assert plot.read_bytes().startswith(b"\x89PNG")
    content = json.loads(out.read_text())
    assert set(content["methods"]) == {"random", "random4x", "linear_factors(rank=2)"}
    again = headstart("replay", meta, "-m", "random", "--evaluations", 12, "--out", out, "--json")
    assert "already known" in again.err
    shown = json.loads(again.out)
    assert shown["methods"]["random"]["regret_mean"] == content["methods"]["random"]["regret_mean"]


def test_replay_of_what_was_trained(headstart, meta, tmp_path):
    pytest.importorskip("torch")
    quick = "deeppipe_network(factor=1, steps={}, training={{'n_tasks': 2, 'n_pipelines': 20}})"
    method, out, entries = quick.format(4), tmp_path / "r.json", []
    for steps in (2, 4):
        headstart("metatrain", meta, "-m", quick.format(steps), "-o", tmp_path / f"{steps}.npz")
        known = ["--knowledge", tmp_path / f"{steps}.npz", "--evaluations", 8, "--out", out]
        done = headstart("replay", meta, "-m", method, *known)
        assert done.code == 0, done.err
        assert "already known" not in done.err
        assert ("it is run anew and replaced" in done.err) == bool(entries)
        entries.append(json.loads(out.read_text())["methods"][method])
    assert [entry["steps"] for entry in entries] == [{"DeepPipe": [2, 2]}, {"DeepPipe": [4, 4]}]
    assert "already known" in headstart("replay", meta, "-m", method, *known).err
    anew = headstart("replay", meta, "-m", method, "--evaluations", 8, "--out", tmp_path / "anew.json")
    assert anew.code == 0, anew.err
    learned = json.loads((tmp_path / "anew.json").read_text())["methods"][method]
    for what in ("curves", "learned", "steps", "settings", "given"):
        assert entries[1][what] == learned[what]
    split = tmp_path / "other.json"
    split.write_text(json.dumps({"train": [4, 5, 6], "validation": [7], "test": [0, 1]}))
    other = headstart("replay", meta, "-m", method, "--split-file", split, "--knowledge", tmp_path / "4.npz")
    assert other.code == 2
    assert "must have learned from the training and validation tasks" in other.err


def test_a_method_that_cannot_be_run_says_why(headstart, meta, tmp_path):
    done = headstart("replay", meta, "-m", "nearest", "-m", "random", "--evaluations", 6, "--out", tmp_path / "r.json")
    assert done.code == 0, done.err
    assert "nearest could not be run: meta-features are needed" in done.err
    assert "nan" not in done.out
    again = headstart("replay", meta, "-m", "nearest", "--evaluations", 6, "--out", tmp_path / "r.json")
    assert "nearest could not be run" in again.err


def test_replay_from_a_warm_start(headstart, meta, tmp_path):
    out = tmp_path / "r.json"
    for more in ([], ["--warm-start", "average_rank", "--initial", 4]):
        done = headstart("replay", meta, "-m", "random", "--evaluations", 6, "--out", out, *more)
        assert done.code == 0, done.err
    assert "random-average_rank" in done.out
    methods = json.loads(out.read_text())["methods"]
    assert list(methods) == ["random", "random-average_rank"]
    assert methods["random"]["given"] != methods["random-average_rank"]["given"]


def test_replay_on_another_partition(headstart, meta, tmp_path):
    split = tmp_path / "other.json"
    split.write_text(json.dumps({"train": [4, 5, 6], "validation": [7], "test": [0, 1]}))
    done = headstart(
        "replay", meta, "-m", "linear_factors(rank=2)", "--split-file", split, "--evaluations", 8, "--json"
    )
    assert done.code == 0, done.err
    content = json.loads(done.out)
    assert (content["split"], content["tasks"]) == ("other", [0, 1])


def test_replay_on_a_drawn_partition(headstart, meta, tmp_path):
    done = headstart(
        "meta", "split", meta, "--seed", 1, "--test", 2, "--validation", 1, "--out", tmp_path / "drawn.json"
    )
    assert done.code == 0, done.err
    assert "train 5, validation 1, test 2" in done.out
    done = headstart(
        *("replay", meta, "-m", "random", "--split-file", tmp_path / "drawn.json", "--evaluations", 3, "--json")
    )
    assert len(json.loads(done.out)["tasks"]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give at least one method"),
        (["-m", "forrest"], "did you mean 'forest'"),
        (["-m", "gp(kernel=none)"], "kernel"),
        (["-m", "gp(colour=red)"], "colour"),
        (["-m", "gp("], "a method is NAME"),
        (["-m", "random", "--split", "training"], "split must be 'test' or 'validation'"),
        (["-m", "random", "--split-file", "missing.json"], "missing.json"),
        (["-m", "random", "--evaluations", "0"], "evaluations"),
        (["-m", "random", "--warm-start", "nearst"], "did you mean 'nearest'"),
        (["-m", "random", "--warm-start", "nearest"], "meta-features are needed"),
        (["-m", "random", "--initial", "3"], "name one with --warm-start"),
        (["-m", "random", "--plot", "plot.txt"], ".svg, .png, .pdf"),
    ],
)
def test_mistakes(headstart, meta, tmp_path, arguments, message):
    done = headstart("replay", meta, *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_meta_dataset_that_is_not_there(headstart, tmp_path):
    done = headstart("replay", tmp_path / "nothing", "-m", "random")
    assert done.code != 0
    assert len(done.err.strip().splitlines()) == 1


def test_a_replay_that_is_killed_goes_on(headstart, meta, tmp_path):
    out = tmp_path / "r.json"
    call = ["replay", str(meta), "-m", "gp", "--evaluations", "40", "--out", str(out)]
    command = [sys.executable, "-m", "headstart.cli.main", *call]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as running:
        partial = tmp_path / "r.json.gp.partial"
        end = time.monotonic() + 120
        while running.poll() is None and time.monotonic() < end:
            if partial.exists() and partial.read_text().count('"regrets"'):
                break
            time.sleep(0.01)
        running.send_signal(signal.SIGKILL)
    kept = partial.read_text().count('"regrets"') if partial.exists() else 3
    done = headstart(*call, "--json")
    assert done.code == 0, done.err
    assert kept >= 1
    fresh = headstart("replay", meta, "-m", "gp", "--evaluations", 40, "--json")
    resumed = json.loads(done.out)["methods"]["gp"]["regret_mean"]
    assert resumed == json.loads(fresh.out)["methods"]["gp"]["regret_mean"]


@pytest.mark.parametrize(
    ("kept", "words"), [(True, "the same command continues"), (False, "continues from here if it has --out FILE")]
)
def test_ctrl_c_is_answered_by_how_to_go_on(kept, words, capsys):
    with pytest.raises(KeyboardInterrupt), showing_progress(kept):
        raise KeyboardInterrupt
    assert words in capsys.readouterr().err
