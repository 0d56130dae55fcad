"""Exit codes: 2 is for what was typed and for tables, 1 for what the system lacks."""

import time

import pytest

from headstart import cli, errors
from headstart.cli import fit, messages
from headstart.data.errors import TableError


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidInput("seconds must be positive"), 2),
        (errors.SpaceError("no such stage"), 2),
        (errors.UnknownName("no metric"), 2),
        (TableError("empty"), 2),
        (errors.MissingDependency("pip install"), 2),
        (errors.StudyLocked("another process"), 2),
        (errors.SandboxError("no worker process could be started"), 1),
        (errors.OutOfTime("reading took long"), 1),
        (errors.HeadstartError("the executor takes no more work"), 1),
        (errors.Exhausted("nothing left"), 1),
        (errors.StoreError("damaged"), 1),
        (errors.ModelFileError("damaged"), 1),
        (MemoryError(), 1),
        (OSError(28, "No space left on device"), 1),
    ],
)
def test_exit_codes(error, code, capsys):
    assert messages.report(error) == code
    assert capsys.readouterr().err.startswith("headstart: ")


def test_workers_that_cannot_be_started_end_a_fit_with_code_1(command, monkeypatch):
    import pandas as pd

    from headstart.evaluation import _pool

    def no(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(_pool, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(_pool, "WorkerProcess", no)
    pd.DataFrame({"a": range(40), "y": ["u", "v"] * 20}).to_csv("t.csv", index=False)
    ran = command("fit", "t.csv", "--target", "y", "--evaluations", "1", "--quiet")
    assert ran.code == 1
    assert "could not be started in 3 attempts" in ran.err
    assert len(ran.err.strip().splitlines()) == 1


@pytest.mark.parametrize(("share", "reserve"), [(1.0, 1.5), (0.1, 5.0), (0.01, 9.0), (50.0, 1.5)])
def test_a_busy_machine_is_left_more_time_to_write(monkeypatch, share, reserve):
    """`share` of a processor since the command began."""
    monkeypatch.setattr(cli, "began", time.time() - 100)
    monkeypatch.setattr(time, "process_time", lambda: 100 * share)
    assert fit._writing_seconds(30.0) == pytest.approx(reserve, rel=1e-3)
