"""A time limit for work in this process."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pandas as pd
import pytest

from headstart import HeadstartClassifier
from headstart.errors import OutOfTime
from headstart.fitting import clock
from headstart.fitting.clock import within
from headstart.knowledge.files import Knowledge

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs alarms")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "LEAST_SECONDS", 0.0)


def endless() -> None:
    while True:
        try:
            time.sleep(60)
        except Exception:
            continue


def test_it_ends_what_takes_too_long_and_leaves_no_alarm() -> None:
    with pytest.raises(OutOfTime, match=r"^to wait took longer than 0.05 s, with a"), within(0.05, "to wait"):
        endless()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


@pytest.mark.parametrize("name", ["setitimer", "signal"])
def test_an_alarm_that_comes_while_it_is_turned_off_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, done = getattr(signal, name), []

    def alarmed(*args: Any) -> Any:
        if done:
            signal.raise_signal(signal.SIGALRM)
        return function(*args)

    try:
        with within(60.0, "to do nothing"):
            monkeypatch.setattr(signal, name, alarmed)
            done.append(True)
    finally:
        monkeypatch.undo()
        left = signal.setitimer(signal.ITIMER_REAL, 0)
    assert left == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_what_is_done_in_time_or_has_no_limit_is_left_alone() -> None:
    for seconds in (60.0, None):
        with within(seconds, "to do nothing"):
            done = seconds
        assert done == seconds
    with pytest.raises(ZeroDivisionError), within(60.0, "to fail"):
        1 / 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_short_budget_is_no_reason_to_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "LEAST_SECONDS", 60.0)
    with within(0.001, "to wait"):
        time.sleep(0.01)


def test_in_another_thread_there_is_no_limit() -> None:
    done = []

    def wait() -> None:
        with within(0.01, "to wait"):
            time.sleep(0.05)
            done.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert done == [True]


def test_alarms_of_the_program_are_left_alone() -> None:
    def own(*_: object) -> None:
        pass

    signal.signal(signal.SIGALRM, own)
    try:
        with within(0.01, "to wait"):
            time.sleep(0.05)
            assert signal.getsignal(signal.SIGALRM) is own
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_a_table_that_is_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstart.data.dataset.read_table", lambda *_, **__: endless())
    with pytest.raises(OutOfTime, match="reading the table took longer"):
        HeadstartClassifier(time_budget=0.2).fit("table.csv.gz", target="label")


def test_knowledge_that_is_read_for_ever(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Knowledge, "load", lambda _: endless())
    with pytest.raises(OutOfTime, match=r"reading big.npz took longer"):
        HeadstartClassifier(time_budget=0.2, knowledge="big.npz").fit(frame, target="label")


def test_meta_features_that_are_computed_for_ever(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstart.fitting.run.table_metafeatures", lambda *_: endless())
    with pytest.raises(OutOfTime, match="computing the meta-features of the table took longer"):
        HeadstartClassifier(time_budget=0.2, optimizer="nearest(metafeatures=mf1)").fit(frame, target="label")
