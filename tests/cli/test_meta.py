"""``headstart meta``."""

import json
import subprocess
import sys

import pytest
from small_wheels import fake_pip, wheels

from headstart.cli.main import main
from headstart.evaluation.synthetic import Synthetic
from headstart.metadata.files import load_meta, save_meta
from headstart.store import Store
from headstart.study import Study
from headstart.testing.examples import live_task, small_meta, small_space

__all__ = ["fake_pip", "wheels"]


def run(capsys, *args):
    with pytest.raises(SystemExit) as ended:
        main(["meta", *map(str, args)])
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_fetch_list_info(capsys, fake_pip, tmp_path):
    code, out, _ = run(capsys, "list")
    assert code == 0
    assert [line.split()[-1] for line in out.splitlines()[2:]] == ["-", "-", "-"]
    code, out, err = run(capsys, "fetch", "pmf", "tensor_oboe")
    assert code == 0, err
    assert f"MB in {tmp_path / 'cache' / 'meta' / 'pmf'}; licence BSD-3-Clause (deeppipe_api==0.1.1)" in out
    assert "BSD-3-Clause (oboe==0.2.0)" in out
    steps = [line for line in err.splitlines() if line.startswith("tensor_oboe: ")]
    assert [s.split()[1] for s in steps] == ["downloading", "downloading", "reading", "decoding", "aligning", "writing"]
    rows = {row["name"]: row for row in json.loads(run(capsys, "list", "--json")[1])}
    assert rows["pmf"]["place"] == str(tmp_path / "cache" / "meta" / "pmf")
    assert rows["pmf"]["size"] > 1000
    assert rows["zap"]["place"] is None
    found = json.loads(run(capsys, "info", "tensor_oboe", "--json")[1])
    assert (found["tasks"], found["pipelines"], found["seconds"], found["statuses"]) == (6, 20, True, False)
    assert found["splits"] == {"train": 3, "validation": 1, "test": 1}
    assert found["space"]["name"] == "tensor_oboe"
    assert 0.1 < found["missing"] < 0.5
    code, out, _ = run(capsys, "info", "pmf")
    assert code == 0
    for text in ("train 3, validation 1, test 2; 2 with an initial design", "30;", "pmf_recorded", "BSD-3-Clause"):
        assert text in out


def test_what_is_there_is_fetched_again_only_if_asked(capsys, fake_pip):
    assert run(capsys, "fetch", "zap")[0] == 0
    fake_pip("sys.exit('ERROR: called')")
    code, out, _ = run(capsys, "fetch", "zap")
    assert code == 0
    assert "--again fetches it again" in out
    code, _, err = run(capsys, "fetch", "zap", "--again")
    assert code == 1
    assert "ERROR" not in err
    assert "headstart: pip could not download deeppipe_api==0.1.1: called; check the network" in err
    assert run(capsys, "info", "zap")[0] == 0


def test_a_download_that_was_cut_off(capsys, fake_pip):
    fake_pip("(target / file).write_bytes(source.read_bytes()[:99])")
    code, out, err = run(capsys, "fetch", "zap")
    assert (code, out) == (1, "")
    last = err.splitlines()[-1]
    assert last.startswith("headstart: deeppipe_api-0.1.1-py3-none-any.whl is not the expected file and was not used")
    assert json.loads(run(capsys, "list", "--json")[1])[2]["place"] is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["fetch", "pfm"], "did you mean 'pmf'"),
        (["fetch", "pmf", "nonesuch"], "no meta-dataset 'nonesuch'"),
        (["info", "pmf"], "headstart meta fetch pmf"),
        (["info", "nonesuch"], "nonesuch is no meta-dataset and no directory with one"),
        (["info", "{empty}"], "there is no meta.json"),
        (["from-store", "nonesuch", "--out", "x"], "no store at nonesuch"),
        (["from-store", "{empty}", "--out", "x"], "no store in"),
        (["fetch"], "headstart meta fetch --help"),
    ],
)
def test_mistakes(capsys, fake_pip, tmp_path, args, message):
    fake_pip("sys.exit('ERROR: called')")
    (tmp_path / "empty").mkdir()
    code, _, err = run(capsys, *[a.format(empty=tmp_path / "empty") for a in args])
    assert code in (1, 2)
    assert (code == 2) == ("no store in" not in err)
    assert message in err
    assert err.startswith("headstart: ")
    assert len(err.splitlines()) == 1


def test_damage(capsys, tmp_path):
    place = save_meta(small_meta(), tmp_path / "meta")
    (place / "meta.json").write_text("{")
    code, _, err = run(capsys, "info", place)
    assert code == 1
    assert "is damaged" in err


def test_from_a_store(capsys, tmp_path):
    with Store.open(tmp_path / "store") as store:
        Study(live_task(), Synthetic(small_space(), 7, failing=0.2), store=store, name="first").run(evaluations=12)
    code, out, err = run(capsys, "from-store", tmp_path / "store", "--out", tmp_path / "runs.meta")
    assert code == 0, err
    assert out.startswith("MetaDataset of 1 tasks × 12 pipelines")
    assert load_meta(tmp_path / "runs.meta").name == "runs"
    code, out, _ = run(capsys, "info", tmp_path / "runs.meta")
    assert code == 0
    assert "losses, seconds, statuses, example" in out
    with Store.open(tmp_path / "fit" / "store") as store:  # as in the directory of a fit
        Study(live_task(), Synthetic(small_space(), 7), store=store, name="first", seed=5).run(evaluations=3)
    code, out, err = run(capsys, "from-store", tmp_path / "store", tmp_path / "fit", "--out", tmp_path / "both.meta")
    assert code == 0, err
    assert out.startswith("MetaDataset of 1 tasks × 15 pipelines")
    code, _, err = run(capsys, "from-store", tmp_path / "store", "--out", tmp_path / "both.meta")
    assert code == 2
    assert "already exists" in err
    (tmp_path / "notes.csv").touch()
    code, _, err = run(capsys, "from-store", tmp_path / "notes.csv", "--out", tmp_path / "x")
    assert code == 2
    assert "notes.csv must be a directory, but is a file" in err
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").touch()
    code, _, err = run(capsys, "from-store", tmp_path / "store", "--out", tmp_path / "thesis")
    assert code == 2
    assert "holds something else" in err
    code, _, err = run(capsys, "from-store", tmp_path / "store", "--out", tmp_path / "x", "--space", "pmf")
    assert code == 2
    assert "no studies over that space" in err


def test_the_command_stays_light():
    """Declaring the command imports neither Arrow nor pandas."""
    program = (
        "import sys, headstart.cli.main; print(sorted({'pyarrow', 'pandas', 'platformdirs'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "[]"
