"""``python -m experiments``, run as a user would."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import divided_meta

from experiments.__main__ import main
from headstart.metadata.files import save_meta

ROOT = Path(__file__).parents[2]


@pytest.fixture
def experiments(monkeypatch, capsys):
    """``python -m experiments …`` in this process."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.chdir(ROOT)

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["experiments", *map(str, args)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        shown = capsys.readouterr()
        return subprocess.CompletedProcess(args, code, shown.out, shown.err)

    return run


@pytest.fixture(scope="module")
def meta(tmp_path_factory):
    path = tmp_path_factory.mktemp("meta") / "pmf"
    save_meta(divided_meta("pmf"), path)
    return path


def test_experiments_are_listed_and_run(experiments, meta, tmp_path):
    command = [sys.executable, "-m", "experiments"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert listed.returncode == 0, listed.stderr
    assert [line.split()[0] for line in listed.stdout.splitlines()][:2] == ["pmf_regret", "pmf_error"]
    call = ["pmf_error", "--meta", meta, "--results", tmp_path, "--tasks", 2, "--evaluations", 5]
    done = experiments(*call)
    assert done.returncode == 0, done.stderr
    assert "pmf(logarithmic=False): 2 of 2 runs" in done.stderr
    assert "pmf_paper: variance" in done.stdout
    path = tmp_path / "data" / "pmf_error_first2_5evaluations.json"
    assert f"written: {path}" in done.stdout
    assert f"{json.loads(path.read_text())['methods']['pmf_paper']['error_mean'][0]:.4f} ±" in done.stdout
    assert "pmf_paper: already known" in experiments(*call).stderr


def test_pages(experiments, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "page.md").write_text("# Nothing\n")
    done = experiments("pages", "--results", tmp_path)
    assert done.stdout == f"written: {tmp_path / 'page.md'}\n"
    assert (tmp_path / "page.md").read_text().endswith("\n# Nothing\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pmf_errors"], "did you mean 'pmf_error'"),
        (["pmf_error", "--meta", "nothing"], "nothing"),
        (["pages", "--results", "nowhere"], "folder with the notes"),
    ],
)
def test_mistakes(experiments, arguments, message):
    done = experiments(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
