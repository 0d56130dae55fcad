"""Stores under several processes, and under sudden death."""

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from headstart.errors import StoreError, StudyLocked
from headstart.trials import Trial

PROGRAM = Path(__file__).with_name("writer_program.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def start(*arguments):
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


@pytest.fixture
def artefacts_of():
    specification = importlib.util.spec_from_file_location("writer_program", PROGRAM)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.artefacts_of


def test_no_finished_trial_is_lost_when_the_process_is_killed(place, new_log, tmp_path, artefacts_of):
    rng = random.Random(0)
    kills, longest = {"directory": (25, 0.06), "sqlite": (20, 0.05), "postgresql": (8, 0.1)}[place.kind]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with place.open() as store:
        new_log(store).close()
    acknowledged, checked = set(), set()
    server = start("serve", place.location, scratch)
    try:
        for _ in range(kills):
            server.stdin.write("go\n")
            _, pid = server.stdout.readline().split()
            if rng.random() < 0.7:
                acknowledged.add(int(server.stdout.readline()))
            time.sleep(rng.uniform(0, longest))  # from before the store is open to many trials later
            os.kill(int(pid), signal.SIGKILL)
            while (line := server.stdout.readline().strip()) != "dead":
                acknowledged.add(int(line))
            with place.open(create=False) as store:
                view = store.read_study("study")
                stored = {trial.number for trial in view.trials()}
                assert acknowledged <= stored
                for number in stored - checked:  # acknowledged or not: what has a row is whole
                    for name, value in artefacts_of(number).items():
                        assert np.array_equal(view.artefact(number, name), value), (number, name)
                checked |= stored
                pending = {proposal.number for proposal in view.pending()}
                assert stored | pending == set(range(len(stored | pending)))
    finally:
        server.kill()
        server.wait()
        server.stdin.close()
        server.stdout.close()
    assert len(acknowledged) >= kills // 2
    with place.open() as store, store.open_study("study") as log:
        log.tell(*(trial.number for trial in log.untold()))
        told = [event.number for event in log.events() if isinstance(event, Trial)]
        assert sorted(told) == [trial.number for trial in log.trials()]
        assert checked <= set(told)
        files = {path for trial in log.trials() for path in trial.outcome.artefacts.values()}
        if place.kind == "directory":
            assert {path for path in (place.location / "artefacts").rglob("*") if path.is_file()} == files
        assert len(list(scratch.iterdir())) <= kills  # a source goes once its trial is stored; one per kill may be left


def test_others_read_while_one_writes(place, new_log):
    with place.open() as store:
        new_log(store, "other").close()
    writer = start("write", place.location, 100, "study")
    lengths = []
    with place.open() as store:
        assert writer.stdout.readline() == "ready\n"
        while writer.poll() is None or not lengths:
            if "study" not in [summary.name for summary in store.studies()]:
                continue
            view = store.read_study("study")
            events = view.events()
            told = [event for event in events if isinstance(event, Trial)]
            assert [event.number for event in told] == list(range(len(told)))
            if told:
                assert (view.artefact(told[-1].number, "predictions") == told[-1].number).all()
            lengths.append(len(events))
        assert writer.stdout.read() == "0\n"
        assert lengths == sorted(lengths)
        assert len(set(lengths)) > 2
        assert len(store.read_study("study").events()) == 200
    writer.stdin.close()
    writer.stdout.close()


def test_many_processes_make_and_write_one_store(place):
    writers = start("write", place.location, 20, *(f"study {i}" for i in range(3)))
    assert writers.communicate()[0] == "ready\n0\n"
    with place.open(create=False) as store:
        assert sorted(s.name for s in store.studies()) == [f"study {i}" for i in range(3)]
        assert {s.n_trials for s in store.studies()} == {20}


def test_a_lock_ends_with_its_process_though_a_child_lives_on(place, new_log):
    with place.open() as store:
        new_log(store).close()
        holder = start("hold", place.location)
        child = int(holder.stdout.readline())
        try:
            with pytest.raises(StudyLocked, match=f"'study' is being run by process {holder.pid} on .*read_study"):
                store.open_study("study")
            assert store.read_study("study").events() == []
            holder.kill()
            holder.wait()
            deadline = time.monotonic() + 10
            while True:
                try:
                    store.open_study("study").close()
                    break
                except StudyLocked:  # a server needs a moment to see that its client is gone
                    assert place.kind == "postgresql"
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
        finally:
            os.kill(child, signal.SIGKILL)
            holder.stdin.close()
            holder.stdout.close()


def test_a_fork_is_told_to_open_the_store_again(place, new_log, proposal, trial):
    with place.open() as store:
        log = new_log(store)
        log.ask(proposal(0))
        child = os.fork()
        if child == 0:
            answers = []
            for call in (store.studies, lambda: log.ask(proposal(1)), lambda: log.finish(trial(0))):
                try:
                    call()
                except StoreError as error:
                    answers.append("open it again" in str(error))
                except BaseException:
                    answers.append(False)
            store.close()
            os._exit(0 if answers == [True, True, True] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pytest.raises(StudyLocked):
            store.open_study("study")
        log.finish(trial(0))
        assert len(log.events()) == 2
