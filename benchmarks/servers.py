"""A PostgreSQL server, and a Dask scheduler with workers, on the loopback: for benchmarks, and for tests."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self


class NoServer(Exception):
    """It cannot be started here."""


def eventually(holds: Callable[[], Any], seconds: float = 60.0) -> bool:
    """Whether something holds within so many seconds."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class PostgreSQL:
    """A server of its own, empty at first; `url` names it.

    Parameters
    ----------
    durable
        Whether a commit waits for the disk.
    """

    def __init__(self, *, durable: bool) -> None:
        self._durable = durable
        self._pg_ctl = _postgresql_program("pg_ctl")
        self._directory = Path(tempfile.mkdtemp(prefix="headstart-pg-"))
        self._data = self._directory / "data"
        self._options: dict[str, Any] = {
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
            "cwd": self._directory,
        }
        if os.getuid() == 0:  # the server refuses to run as root
            shutil.chown(self._directory, "nobody")
            self._options |= {"user": "nobody", "extra_groups": []}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"postgresql://tester@127.0.0.1:{self.port}/postgres"
        initialise = ["-D", str(self._data), "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync"]
        if subprocess.run([_postgresql_program("initdb"), *initialise], check=False, **self._options).returncode:
            self.close()
            raise NoServer("no PostgreSQL cluster can be made here")
        self.start()

    def start(self) -> None:
        settings = f"{'' if self._durable else '-F '}-p {self.port} -h 127.0.0.1 -k {self._directory}"
        if self._control("-l", str(self._directory / "log"), "-o", settings, "-w", "start"):
            raise NoServer("no PostgreSQL server can be started here")

    def kill(self) -> None:
        """As a power cut does: no transaction is ended, no client is told."""
        self._control("-m", "immediate", "-w", "stop")

    def close(self) -> None:
        self._control("-m", "fast", "stop")
        shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _control(self, *arguments: str) -> int:
        return subprocess.run(
            [self._pg_ctl, "-D", str(self._data), *arguments], check=False, **self._options
        ).returncode


def _postgresql_program(name: str) -> str:
    """A program of the server's, which Debian does not put on the path."""
    found = shutil.which(name) or max(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default=None)
    if found is None:
        raise NoServer(f"no PostgreSQL server program {name}")
    return found


_LOOPBACK = ("--host", "127.0.0.1", "--no-dashboard")


class Dask:
    """A scheduler and its workers, each a process of its own.

    Parameters
    ----------
    folder
        For their files and logs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        file.unlink(missing_ok=True)
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", file)
        if not eventually(lambda: file.exists() and file.stat().st_size > 0):
            raise NoServer("no Dask scheduler can be started here")
        self.address: str = json.loads(file.read_text())["address"]

    def worker(self, *options: object) -> subprocess.Popen[bytes]:
        """Start a worker of one thread, unless `options` of ``dask worker`` say more; it is there when this returns."""
        usual = ("--nthreads", 1, "--no-nanny", "--local-directory", self.folder)
        before = {*self.names()}  # one of them may have died
        worker = self._start("worker", self.address, *usual, *options)
        if not eventually(lambda: {*self.names()} - before):
            raise NoServer("no Dask worker can be started here")
        return worker

    def names(self) -> list[str]:
        """Addresses of the workers that are there now."""
        from distributed import Client

        connect: Any = Client
        with connect(self.address, set_as_default=False, timeout=30) as client:
            return list(client.scheduler_info(n_workers=-1)["workers"])

    def _start(self, what: str, *options: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *_LOOPBACK, *map(str, options)]
        with (self.folder / f"{what}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self.all.append(process)
        return process

    def close(self) -> None:
        for process in reversed(self.all):
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
