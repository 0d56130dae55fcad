"""PostgreSQL stores whose server or network goes away, and studies that two want."""

import socket
import threading
import time
from contextlib import suppress

import pytest

from headstart.errors import HeadstartWarning, StoreError, StudyLocked
from headstart.store import Store
from headstart.study import Study
from headstart.testing.examples import live_task

psycopg = pytest.importorskip("psycopg")


class Proxy:
    """Stands between client and server, and can be cut.

    With `swallow` set, it passes on what contains these bytes, but not the answer: it then cuts the connection.
    """

    def __init__(self, port):
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._pairs = []
        self.up = True
        self.swallow = None
        self.hang = False
        self.lost = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.up:
                client.close()
                continue
            server = socket.create_connection(self._target)
            pair = (client, server)
            self._pairs.append(pair)
            threading.Thread(target=self._forward, args=(*pair, True), daemon=True).start()
            threading.Thread(target=self._forward, args=(*pair[::-1], False), daemon=True).start()

    def _forward(self, source, target, asks):
        with suppress(OSError):
            while data := source.recv(65536):
                if asks and self.swallow is not None and self.swallow in data:
                    self.swallow = None
                    self.lost += 1
                    if not self.hang:  # else the server never hears of it, nor that the client is gone
                        target.sendall(data)
                        time.sleep(0.1)
                    source.shutdown(socket.SHUT_RDWR)
                    source.close()
                    return
                target.sendall(data)
        if not self.hang:
            for one in (source, target):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def cut(self):
        self.up = False
        for pair in self._pairs:
            for one in pair:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.hang = False
        self.cut()
        self._listener.close()


_schemas = iter(range(1000))


@pytest.fixture
def location(own_server):
    schema = f"outage_{next(_schemas)}"
    with psycopg.connect(own_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{own_server.url}?options=-csearch_path%3D{schema}"


@pytest.fixture
def proxy(own_server):
    proxy = Proxy(own_server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def through(location, own_server, proxy):
    """The location, by way of the proxy."""
    return location.replace(f":{own_server.port}/", f":{proxy.port}/")


def numbers(log):
    return [(type(event).__name__[0], event.number) for event in log.events()]


def test_a_killed_server_that_comes_back_loses_and_doubles_nothing(own_server, location, new_log, proposal, trial):
    with Store.open(location) as store, new_log(store) as log:
        for number in range(10):
            log.ask(proposal(number))
            if number in (2, 5, 8):
                own_server.kill()
                timer = threading.Timer(0.3, own_server.start)
                timer.start()
                with pytest.warns(HeadstartWarning) as said:
                    log.finish(trial(number, artefacts={"notes": b"%d" % number}))
                timer.join()
                away, back = (str(warning.message) for warning in said)
                assert "away since" in away
                assert "trying again for 600 s" in away
                assert "is back since" in back
            else:
                log.finish(trial(number, artefacts={"notes": b"%d" % number}))
        assert numbers(log) == [event for n in range(10) for event in (("P", n), ("T", n))]
        assert [log.artefact(n, "notes") for n in range(10)] == [b"%d" % n for n in range(10)]
        with Store.open(location) as second, pytest.raises(StudyLocked, match="being run by process"):
            second.open_study("study")  # the lock was taken again


@pytest.mark.parametrize("hang", [False, True], ids=["answer lost", "request lost"])
@pytest.mark.parametrize("call", ["ask", "finish", "finish untold", "tell", "create", "add_task"])
@pytest.mark.filterwarnings("ignore::headstart.errors.HeadstartWarning")
def test_a_commit_without_an_answer_happens_once(through, location, proxy, new_log, proposal, trial, call, hang):
    """Whether it reached the server is found out; a session that the server takes for alive is ended."""
    with Store.open(through) as store, new_log(store) as log:
        log.ask(proposal(0), proposal(1))
        log.finish(trial(1), told=False)
        proxy.hang = hang
        proxy.swallow = b"COMMIT"
        calls = {
            "ask": lambda: log.ask(proposal(2)),
            "finish": lambda: log.finish(trial(0, artefacts={"notes": b"x"})),
            "finish untold": lambda: log.finish(trial(0), told=False),
            "tell": lambda: log.tell(1),
            "create": lambda: store.create_study("other", "task", 1, {}),
            "add_task": lambda: store.add_task("another", {"rows": 3}),
        }
        calls[call]()
        assert proxy.lost == 1
        start = [("P", 0), ("P", 1)]
        added = {"ask": [("P", 2)], "finish": [("T", 0)], "tell": [("T", 1)]}.get(call, [])
        assert numbers(log) == start + added
        log.ask(proposal(7))
        with Store.open(location) as direct:
            assert numbers(direct.read_study("study")) == [*start, *added, ("P", 7)]
            assert [t.number for t in direct.read_study("study").trials()] == ([0, 1] if "finish" in call else [1])
            assert [s.name for s in direct.studies()] == (["study", "other"] if call == "create" else ["study"])
            assert all(s.running for s in direct.studies())
            assert len(direct.tasks()) == (2 if call == "add_task" else 1)


def test_a_study_that_another_continued_meanwhile_is_theirs(through, location, proxy, new_log, proposal, trial):
    with Store.open(through) as store, Store.open(location) as other, new_log(store) as log:
        log.ask(proposal(0))
        proxy.cut()
        deadline = time.monotonic() + 10
        while True:
            try:
                theirs = other.open_study("study")
                break
            except StudyLocked:  # until the server sees that the connection is gone
                assert time.monotonic() < deadline
                time.sleep(0.01)
        proxy.up = True
        with pytest.raises(StudyLocked, match=r"is being run by process .* since the connection .* was lost"):
            log.finish(trial(0))
        theirs.finish(trial(0, 0.25))
        theirs.close()
        with pytest.raises(StudyLocked, match=r"was continued by another process since the connection"):
            log.finish(trial(0))
        assert numbers(other.read_study("study")) == [("P", 0), ("T", 0)]
        other.open_study("study").close()  # nobody keeps the lock


def test_waiting_ends_with_the_budget(through, location, proxy, new_log, proposal, trial):
    with Store.open(through) as store, new_log(store) as log:
        log.ask(proposal(0))
        proxy.cut()
        store.wait_until = time.time() + 0.3
        with (
            pytest.warns(HeadstartWarning, match="away since"),
            pytest.raises(
                StoreError, match=r"cannot be reached.*what was stored is intact, and studies can be resumed"
            ),
        ):
            log.finish(trial(0))
        proxy.up = True
        log.finish(trial(0))
        assert numbers(log) == [("P", 0), ("T", 0)]


def test_a_run_goes_on_when_the_server_does(own_server, location):
    """Evaluations that end while it is away are stored when it is back; the run is the same as without it."""

    def loss(pipeline):
        return float(len(str(pipeline)))

    task = live_task()
    killed = []

    def kill(study, trial):
        if trial.number == 5 and not killed:
            killed.append(True)
            own_server.kill()
            threading.Timer(0.3, own_server.start).start()

    with Store.open(location) as store:
        study = Study(task, loss, "random", seed=1, store=store, callbacks=[kill])
        with pytest.warns(HeadstartWarning) as said:
            study.run(evaluations=12, n_jobs=2)
        assert ["away since" in str(said[0].message), "is back since" in str(said[1].message)] == [True, True]
        expected = Study(task, loss, "random", seed=1).run(evaluations=12, n_jobs=2)
        stored = store.read_study("study").trials()
        assert [t.pipeline for t in stored] == [t.pipeline for t in sorted(expected, key=lambda t: t.number)]


def test_a_new_study_has_its_own_name_in_each_of_many_stores(location, new_log):
    """Two that want one name: one gets it, the other a clear answer."""
    from headstart.errors import StudyExists

    answers = []
    with Store.open(location) as store:
        store.add_task("task", {})

    def create():
        with Store.open(location) as store:
            try:
                store.create_study("study", "task", 0, {}).close()
                answers.append("created")
            except StudyExists:
                answers.append("exists")

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["created", "exists", "exists", "exists"]


@pytest.mark.parametrize(
    "form", ["postgresql://u:s3cret@127.0.0.1:1/db", "postgresql://u@127.0.0.1:1/db?password=s3cret"]
)
def test_passwords_are_in_no_message(form):
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        Store.open(form)
    error = caught.value
    while error is not None:
        assert "s3cret" not in str(error)
        error = error.__cause__
