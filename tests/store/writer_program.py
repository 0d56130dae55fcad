"""Program of the process tests: stores trials until it is killed.

``serve LOCATION SCRATCH`` forks a writer at each line of its input, so that a test can kill many of them without
waiting for imports; ``write LOCATION COUNT STUDY ...`` writes so many trials to each study, each from a process of its
own, and says ``ready`` before that and how many of them failed after it; ``hold LOCATION`` keeps a study locked, with a
forked child that outlives it. Each other line of output is one acknowledgement.
"""

import os
import sys
import time
import traceback

import numpy as np

from headstart.errors import StudyLocked
from headstart.space.pipeline import Pipeline
from headstart.store import Store
from headstart.trials import Outcome, Proposal, SpooledFile, Trial


def say(text):
    os.write(1, f"{text}\n".encode())  # one write, whole or not at all


def artefacts_of(number):
    """What trial `number` must hold."""
    return {
        "predictions": np.full(50 + number % 7, number),
        "notes": b"%d" % number * 100,
        "model": b"m%d" % number * 999,
    }


def opened(store):
    """The study, once a server has noticed that its last writer is dead."""
    while True:
        try:
            return store.open_study("study")
        except StudyLocked:
            time.sleep(0.002)


def write_until_killed(location, scratch):
    say(f"pid {os.getpid()}")
    with Store.open(location) as store, opened(store) as log:
        proposals = log.pending()
        number = len(log.trials()) + len(proposals)
        log.tell(*(trial.number for trial in log.untold()))
        while True:
            if not proposals:
                proposals = [
                    Proposal(number, Pipeline(["knn"], [{"k": number}])),
                    Proposal(number + 1, Pipeline(["svm"])),
                ]
                number += 2
                log.ask(*proposals)
            proposal = proposals.pop(0)
            artefacts = artefacts_of(proposal.number)
            model = SpooledFile(scratch, f"{proposal.number}.bin")  # as if a sandbox had written it
            model.write_bytes(artefacts["model"])
            later = proposal.number % 3 == 0
            trial = Trial(
                proposal, Outcome.of(1 / (1 + proposal.number), artefacts={**artefacts, "model": model}), 1, 2
            )
            log.finish(trial, told=not later)
            say(proposal.number)
            if later:
                log.tell(proposal.number)


def serve(location, scratch):
    Store.open(location).close()  # imports all that a writer needs
    for _ in sys.stdin:
        pid = _forked(write_until_killed, location, scratch)
        os.waitpid(pid, 0)
        say("dead")


def write(location, count, *studies):
    say("ready")
    children = [_forked(_write, location, study, count) for study in studies]
    say(sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0 for child in children))


def _forked(function, *arguments):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function(*arguments)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def _write(location, study, count):
    with Store.open(location) as store:
        store.add_task("task", {})
        with store.create_study(study, "task", 0, {}) as log:
            for number in range(int(count)):
                proposal = Proposal(number, Pipeline(["knn"]))
                log.ask(proposal)
                log.finish(Trial(proposal, Outcome.of(0.5, artefacts={"predictions": np.full(20, number)}), 1, 2))


def hold(location):
    with Store.open(location) as store, store.open_study("study"):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        say(child)
        time.sleep(60)


if __name__ == "__main__":
    {"serve": serve, "write": write, "hold": hold}[sys.argv[1]](*sys.argv[2:])
