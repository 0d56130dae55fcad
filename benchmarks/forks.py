"""Many runs of a program without waiting for its imports: a process that has imported everything forks for each.

The server reads a line per run and writes lines: ``pid N`` at the start, then whatever the run says, and ``ended CODE``
(negative for a signal) at its end. `tests/study/test_kill_campaign.py` and `benchmarks/robustness.py` kill such runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self


def say(text: object) -> None:
    """Write a line to the client, in one write: it comes whole or not at all."""
    os.write(1, f"{text}\n".encode())


def serve(run: Callable[[str], int]) -> None:
    """Fork for each line of standard input; `run` gets the line and returns the exit code."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setsid()
                say(f"pid {os.getpid()}")
                code = run(line.rstrip("\n"))
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        say(f"ended {os.waitstatus_to_exitcode(status)}")


class Server:
    """The client's side: one run at a time.

    Parameters
    ----------
    program, args
        A script that calls `serve`.
    paths
        Where it finds what it imports, besides this repository.
    environment
        Added to that of this process.
    """

    def __init__(
        self,
        program: Path,
        *args: object,
        paths: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        root = Path(__file__).resolve().parents[1]
        inherited = filter(None, [os.environ.get("PYTHONPATH")])
        where = os.pathsep.join([*map(str, [root, *paths]), *inherited])
        self._process = subprocess.Popen(
            [sys.executable, str(program), *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, **(environment or {}), "PYTHONPATH": where},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, line: str = "go") -> Run:
        """Start a run."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        _, pid = self.line().split()
        return Run(self, int(pid))

    def line(self) -> str:
        assert self._process.stdout is not None
        found = self._process.stdout.readline()
        if not found:
            raise RuntimeError(f"the server of runs has ended with code {self._process.wait()}")
        return found.rstrip("\n")


class Run:
    """A run that is under way.

    Attributes
    ----------
    code
        The exit code once it has ended, negative for a signal.
    """

    def __init__(self, server: Server, pid: int) -> None:
        self.server = server
        self.pid = pid
        self.code: int | None = None

    def line(self) -> str | None:
        """What it says next; None once it has ended."""
        if self.code is not None:
            return None
        found = self.server.line()
        if found.startswith("ended "):
            self.code = int(found.split()[1])
            return None
        return found

    def rest(self) -> list[str]:
        """What else it says until it ends."""
        found = []
        while (line := self.line()) is not None:
            found.append(line)
        return found

    def kill(self, delay: float = 0.0) -> list[str]:
        """SIGKILL it after some seconds; returns what it had said before and nobody had read."""
        time.sleep(delay)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it was faster
        return self.rest()
