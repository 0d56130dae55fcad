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


@pytest.fixture(scope="session")
def postgresql_server():
    """URL of an empty server on the loopback, gone after the tests."""
    pytest.importorskip("psycopg")
    initdb, pg_ctl = shutil.which("initdb"), shutil.which("pg_ctl")
    if not initdb or not pg_ctl:
        pytest.skip("no PostgreSQL server program")
    directory = Path(tempfile.mkdtemp(prefix="headstart-pg-"))
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": directory}
    if os.getuid() == 0:  # the server refuses to run as root
        shutil.chown(directory, "nobody")
        options |= {"user": "nobody", "extra_groups": []}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = directory / "data"
    # Durability is the server's matter; the tests need its speed.
    start = ["-o", f"-F -p {port} -h 127.0.0.1 -k {directory}", "-w", "start"]
    try:
        initialise = [initdb, "-D", str(data), "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync"]
        if subprocess.run(initialise, check=False, **options).returncode:
            pytest.skip("no PostgreSQL cluster can be made here")
        log = str(directory / "log")
        if subprocess.run([pg_ctl, "-D", str(data), "-l", log, *start], check=False, **options).returncode:
            pytest.skip("no PostgreSQL server can be started here")
        yield f"postgresql://tester@127.0.0.1:{port}/postgres"
    finally:
        subprocess.run([pg_ctl, "-D", str(data), "-m", "fast", "stop"], check=False, **options)
        shutil.rmtree(directory, ignore_errors=True)


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
