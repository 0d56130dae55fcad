"""Places for stores: a directory, a SQLite file, a PostgreSQL server where there is one."""

import itertools

import pytest

from benchmarks.servers import NoServer, PostgreSQL
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


def new_server():
    """A PostgreSQL server of its own. Durability is the server's matter; the tests need its speed."""
    pytest.importorskip("psycopg")
    try:
        return PostgreSQL(durable=False)
    except NoServer as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def postgresql_server():
    """URL of an empty server, gone after the tests."""
    with new_server() as server:
        yield server.url


@pytest.fixture(scope="module")
def own_server():
    """A server that a test may stop; the test must start it again."""
    with new_server() as server:
        yield server


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
