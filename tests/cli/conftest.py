"""Commands run in the process of the tests."""

import pytest

from headstart.cli.main import main
from headstart.fitting.run import Run


class Ran:
    """What a command gave."""

    def __init__(self, code, captured):
        self.code, self.out, self.err = code, captured.out, captured.err


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    """``headstart …``, run in this process in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*args):
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        return Ran(ended.value.code, capsys.readouterr())

    return run


@pytest.fixture
def in_process(monkeypatch):
    """Fits without a sandbox, for tests that are about something else: its worker takes longer than such a fit."""
    monkeypatch.setattr(Run, "sandboxed", lambda run, objective, stack: objective)
