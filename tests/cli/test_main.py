"""The command, run as a user would."""

import json
import os
import re
import subprocess
import sys

import pytest

from headstart import registry
from headstart.evaluation.synthetic import Synthetic
from headstart.store import Store
from headstart.study import Study
from headstart.testing.examples import live_task, small_space


def headstart(*args):
    command = [sys.executable, "-m", "headstart.cli.main", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    location = tmp_path_factory.mktemp("cli") / "store"
    with Store.open(location) as opened:
        Study(live_task(), Synthetic(small_space(), 7, failing=0.2), store=opened, name="first").run(evaluations=12)
    return location


def test_help_and_version():
    assert "methods" in headstart("--help").stdout
    assert headstart("--version").stdout.startswith("headstart ")
    assert headstart().returncode == 2


def test_methods():
    lines = headstart("methods").stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == list(registry.KINDS)
    shown = dict(line.split(maxsplit=1) for line in lines if line.startswith(" "))
    assert set(shown) == {name for kind in registry.KINDS for name in registry.names(kind)}
    assert shown["ablr"] == (
        "Bayesian linear regression on features learned from other tasks (Perrone et al., NeurIPS 2018)."
    )
    ours = {"average_rank", "default", "portfolio", "greedy", "linear_factors", "mixture", "deeppipe", "handcrafted"}
    ours |= {"enumeration", "log_units"}
    assert {name for name, text in shown.items() if not re.search(r"\(.* \d{4}\)\.$", text)} == ours


def test_studies(store):
    shown = headstart("studies", store)
    assert shown.returncode == 0
    assert "first" in shown.stdout
    assert "RandomSearch" in shown.stdout
    (row,) = json.loads(headstart("studies", store, "--json").stdout)
    assert (row["name"], row["trials"]) == ("first", 12)


def test_trials_of_a_study(store):
    found = json.loads(headstart("studies", store, "first", "--best", 3, "--json").stdout)
    losses = [row["loss"] for row in found]
    assert len(losses) == 3
    assert losses == sorted(losses)
    assert "best of 12 trials" in headstart("studies", store, "first").stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["no-such-directory"], "no-such-directory"),
        (["{store}", "nonesuch"], "no study 'nonesuch'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(store, args, message):
    failed = headstart("studies", *[a.format(store=store) for a in args])
    assert failed.returncode == 2
    assert failed.stderr.startswith("headstart: ")
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr
