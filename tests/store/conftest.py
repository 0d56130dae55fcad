"""Places for stores: a directory, a SQLite file, a PostgreSQL server where there is one."""

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from headstart.space.pipeline import Pipeline
from headstart.store import Store
from headstart.trials import Outcome, Proposal, Trial

_names = itertools.count()


class Place:
    """Where a test has its store; `open` opens it, as often as wanted."""

    def __init__(self, kind, location, directory):
        self.kind = kind
        self.location = location
        self.directory = directory

    def open(self, **options):
        return Store.open(self.location, **options)


def postgresql_program(name):
    """A program of the server's, which Debian does not put on the path."""
    found = shutil.which(name) or max(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default=None)
    return found or pytest.skip(f"no PostgreSQL server program {name}")


class Server:
    """A PostgreSQL server on the loopback; `url` names it."""

    def __init__(self):
        self._pg_ctl = postgresql_program("pg_ctl")
        self._directory = Path(tempfile.mkdtemp(prefix="headstart-pg-"))
        self._data = self._directory / "data"
        self._options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": self._directory}
        if os.getuid() == 0:  # the server refuses to run as root
            shutil.chown(self._directory, "nobody")
            self._options |= {"user": "nobody", "extra_groups": []}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"postgresql://tester@127.0.0.1:{self.port}/postgres"
        initialise = ["-D", str(self._data), "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync"]
        if subprocess.run([postgresql_program("initdb"), *initialise], check=False, **self._options).returncode:
            pytest.skip("no PostgreSQL cluster can be made here")

    def start(self):
        # Durability is the server's matter; the tests need its speed.
        settings = f"-F -p {self.port} -h 127.0.0.1 -k {self._directory}"
        log = str(self._directory / "log")
        if self._control("-l", log, "-o", settings, "-w", "start"):
            pytest.skip("no PostgreSQL server can be started here")
        return self

    def kill(self):
        """As a power cut does: no transaction is ended, no client is told."""
        self._control("-m", "immediate", "-w", "stop")

    def close(self):
        self._control("-m", "fast", "stop")
        shutil.rmtree(self._directory, ignore_errors=True)

    def _control(self, *arguments):
        command = [self._pg_ctl, "-D", str(self._data), *arguments]
        return subprocess.run(command, check=False, **self._options).returncode


@pytest.fixture(scope="session")
def postgresql_server():
    """URL of an empty server, gone after the tests."""
    pytest.importorskip("psycopg")
    server = Server()
    try:
        yield server.start().url
    finally:
        server.close()


@pytest.fixture(scope="module")
def own_server():
    """A server that a test may stop; the test must start it again."""
    pytest.importorskip("psycopg")
    server = Server()
    try:
        yield server.start()
    finally:
        server.close()


def make_place(kind, directory, request):
    if kind == "directory":
        return Place(kind, directory / "store", directory)
    if kind == "sqlite":
        return Place(kind, f"sqlite:///{directory / 'store.db'}", directory)
    psycopg = pytest.importorskip("psycopg")
    server = request.getfixturevalue("postgresql_server")
    schema = f"test_{next(_names)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return Place(kind, f"{server}?options=-csearch_path%3D{schema}", directory)


@pytest.fixture(params=["directory", "sqlite", "postgresql"])
def place(request, tmp_path):
    """Each kind of place in turn."""
    return make_place(request.param, tmp_path, request)


@pytest.fixture(params=["directory", "sqlite"])
def file_place(request, tmp_path):
    """Each kind of place that is a file of ours."""
    return make_place(request.param, tmp_path, request)


@pytest.fixture
def new_log():
    """Function that adds a task and a study to a store."""

    def make(store, name="study", **settings):
        store.add_task("task", {"metric": "accuracy"})
        return store.create_study(name, "task", 7, settings)

    return make


@pytest.fixture
def proposal():
    """Function that makes a proposal."""
    return lambda number, **origin: Proposal(number, Pipeline(["pca", "knn"], [{}, {"k": number + 1}]), origin)


@pytest.fixture
def trial(proposal):
    """Function that makes a trial."""

    def make(number, loss=0.5, **others):
        return Trial(proposal(number), Outcome.of(loss, **others), 10.0 + number, 11.5 + number)

    return make
