"""``python -m experiments``, run as a user would."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import divided_meta

from headstart.metadata.files import save_meta


def experiments(*args):
    command = [sys.executable, "-m", "experiments", *map(str, args)]
    environment = {**os.environ, "COLUMNS": "160"}
    root = Path(__file__).parents[2]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=root)


@pytest.fixture(scope="module")
def meta(tmp_path_factory):
    path = tmp_path_factory.mktemp("meta") / "pmf"
    save_meta(divided_meta("pmf"), path)
    return path


def test_experiments_are_listed_and_run(meta, tmp_path):
    listed = experiments()
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


def test_pages(tmp_path):
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
def test_mistakes(arguments, message):
    done = experiments(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
