import math
import subprocess
import sys
import threading

import numpy as np
import pytest

from headstart.errors import InvalidInput, StoreError, StudyExists, StudyLocked, UnknownName
from headstart.space.pipeline import Pipeline
from headstart.store import Store
from headstart.trials import Fidelity, Outcome, Proposal, Status, Trial


def test_a_study_comes_back_as_it_was_written(place):
    proposal = Proposal(
        0,
        Pipeline(["pca", "knn"], [{"n": 5e-324}, {"w": "größe\x00\ud800", "p": None, "b": True}], order=[1, 0], id=4),
        {"theta": [0.1 + 0.2, -0.0, math.inf], "path": {"$float": "x", "nested": [[], {}]}},
        Fidelity(rows=0.25, folds=2),
    )
    outcome = Outcome(
        Status.OK,
        0.1 + 0.2,
        (0.3, math.nan),
        {"latency": math.inf, "size": 2.5e-320},
        1.25,
        10**12,
        Fidelity(rows=0.25, folds=2),
    )
    failure = Outcome.failed("timeout", "took longer than 3 s\nand — was ended", seconds=3.0)
    with place.open() as store:
        task = store.add_task("4fa", {"metric": "accuracy", "rows": 1000, "shift": math.nan})
        log = store.create_study("first ☂", "4fa", 2**127 + 1, {"optimizer": "bayes", "xi": 0.01})
        log.ask(proposal, Proposal(1, proposal.pipeline))
        log.finish(Trial(proposal, outcome, 1700000000.123456, 1700000001.5))
        log.finish(Trial(Proposal(1, proposal.pipeline), failure, 3.0, 4.0))
    with place.open(create=False) as store:
        assert math.isnan(store.task("4fa").info.pop("shift"))
        assert store.tasks()[0].created == task.created
        view = store.read_study("first ☂")
        assert (view.name, view.task_key, view.seed) == ("first ☂", "4fa", 2**127 + 1)
        assert view.settings == {"optimizer": "bayes", "xi": 0.01}
        asked, asked_too, told, told_too = view.events()
        assert asked == proposal
        assert math.copysign(1, asked.origin["theta"][1]) == -1
        assert asked_too == Proposal(1, proposal.pipeline)
        assert told.proposal == proposal
        assert (told.started, told.finished) == (1700000000.123456, 1700000001.5)
        assert repr(told.outcome) == repr(outcome)
        assert told_too.outcome == failure
        assert view.pending() == []
        assert view.untold() == []


def test_trials_may_be_told_later_in_another_order(place, new_log, proposal, trial):
    with place.open() as store, new_log(store) as log:
        log.ask(*(proposal(i) for i in range(4)))
        for number in (2, 0, 1):
            log.finish(trial(number), told=False)
        log.tell(0, 2)
    with place.open() as store, store.open_study("study") as log:
        assert [t.number for t in log.trials()] == [0, 1, 2]
        assert [t.number for t in log.untold()] == [1]
        assert log.pending() == [proposal(3)]
        log.tell(1)
        log.finish(trial(3))
        events = [(type(e).__name__[0], e.number) for e in store.read_study("study").events()]
        assert events == [("P", 0), ("P", 1), ("P", 2), ("P", 3), ("T", 0), ("T", 2), ("T", 1), ("T", 3)]


def test_mistakes_are_refused_and_change_nothing(place, new_log, proposal, trial):
    with place.open() as store, new_log(store) as log:
        log.ask(proposal(0), proposal(1))
        log.finish(trial(0))
        for mistake, says in [
            (lambda: log.ask(proposal(0)), "proposal 0 .* already logged"),
            (lambda: log.ask(proposal(5), proposal(5)), "proposal 5 .* already logged"),
            (lambda: log.ask(proposal(-1)), "number must be an integer"),
            (lambda: log.ask(proposal(2), proposal(3, bad=object())), r"proposal 3\['origin'\]\['bad'\] must be JSON"),
            (lambda: log.finish(trial(0)), "trial 0 .* already finished"),
            (lambda: log.finish(trial(2)), "trial 2 .* has no proposal"),
            (lambda: log.finish(trial(1, artefacts={"../up": b""})), "artefact's name .*'../up' in trial 1"),
            (lambda: log.finish(trial(1, artefacts={"a": b"", "A": b""})), "differ in more than case"),
            (lambda: log.tell(0), "trial 0 .* already been told"),
            (lambda: log.tell(1), "trial 1 .* must be finished"),
            (lambda: log.tell(9), "trial 9 .* has no proposal"),
        ]:
            with pytest.raises(InvalidInput, match=says):
                mistake()
        assert [e.number for e in log.events()] == [0, 1, 0]
        log.finish(trial(1))
        assert [e.number for e in store.read_study("study").events()] == [0, 1, 0, 1]


def test_names_and_keys(place, new_log):
    with place.open() as store:
        new_log(store).close()
        with pytest.raises(StudyExists, match=r"study 'study' already exists .* open it, or give another name"):
            new_log(store)
        with pytest.raises(UnknownName, match=r"no study 'studdy' .* did you mean 'study'"):
            store.read_study("studdy")
        with pytest.raises(UnknownName, match=r"no study"):
            store.open_study("studdy")
        with pytest.raises(UnknownName, match=r"no task 'tusk' .* did you mean 'task'"):
            store.create_study("other", "tusk", 0, {})
        for name in ("", "a\nb", "a\x00b", "\ud800", "x" * 201, None):
            with pytest.raises(InvalidInput, match=r"study name must be 1 to 200 printable"):
                store.create_study(name, "task", 0, {})
        for seed in (-1, 0.5, True, None):
            with pytest.raises(InvalidInput, match=r"seed must be an integer"):
                store.create_study("other", "task", seed, {})
        assert [s.name for s in store.studies()] == ["study"]


def test_the_first_info_of_a_task_stays(place):
    with place.open() as store:
        first = store.add_task("k", {"rows": 1})
        assert store.add_task("k", {"rows": 2}) == first
        assert store.task("k").info == {"rows": 1}
        store.add_task("l", {})
        assert [task.key for task in store.tasks()] == ["k", "l"]


def test_summaries(place, new_log, proposal, trial):
    with place.open() as store:
        with new_log(store, "one", optimizer="random") as log:
            log.ask(*(proposal(i) for i in range(5)))
            log.finish(trial(0, 0.25))
            log.finish(trial(1, 0.5), told=False)
            log.finish(Trial(proposal(2), Outcome.failed("memory", "too large"), 0, 1))
            log.finish(trial(3, 0.01, fidelity=Fidelity(rows=0.1)))
        new_log(store, "two").close()
    with place.open() as store:
        one, two = store.studies()
    assert (one.name, one.task_key, one.seed, one.settings) == ("one", "task", 7, {"optimizer": "random"})
    assert (one.n_proposals, one.n_trials, one.n_ok, one.best_loss) == (5, 4, 3, 0.25)
    assert (two.n_proposals, two.n_trials, two.n_ok, two.best_loss) == (0, 0, 0, None)
    assert one.created <= two.created
    assert one.version == two.version != ""


def test_studies_are_apart(place, new_log, proposal, trial):
    with place.open() as store, new_log(store, "one") as one, new_log(store, "two") as two:
        for log, value in ((one, 1), (two, 2)):
            log.ask(proposal(0))
            log.finish(trial(0, artefacts={"predictions": np.full(3, value)}))
        assert one.artefact(0, "predictions").tolist() == [1, 1, 1]
        assert two.artefact(0, "predictions").tolist() == [2, 2, 2]
        assert len(one.events()) == len(two.events()) == 2


def test_one_process_opens_a_study_once(place, new_log, proposal):
    with place.open() as store, place.open() as second:
        log = new_log(store)
        with pytest.raises(StudyLocked, match=r"already open for writing in this process"):
            store.open_study("study")
        with pytest.raises(StudyLocked, match=r"being run by process"):
            second.open_study("study")
        log.close()
        log.close()
        with pytest.raises(StoreError, match=r"closed for writing"):
            log.ask(proposal(0))
        assert log.events() == []
        with second.open_study("study") as again, pytest.raises(StudyLocked):
            store.open_study("study")
        again.close()
        store.open_study("study")
    with place.open() as store:
        store.open_study("study")  # closing a store releases its locks


def test_a_closed_store_says_so(place, new_log, trial):
    with place.open() as store:
        log = new_log(store)
    store.close()
    with pytest.raises(StoreError, match=r"is closed; open it again"):
        store.studies()
    with pytest.raises(StoreError, match=r"is closed"):
        log.finish(trial(0))


def test_memory_store(new_log, proposal, trial):
    with Store.open("sqlite://") as store, Store.open("sqlite://") as other, new_log(store) as log:
        log.ask(proposal(0))
        log.finish(trial(0, artefacts={"model": b"x"}))
        assert store.read_study("study").artefact(0, "model") == b"x"
        assert other.studies() == []
        with pytest.raises(StudyLocked):
            store.open_study("study")


def test_many_threads_write_and_read(place, new_log, proposal, trial):
    errors = []
    with place.open() as store, new_log(store) as log:

        def work(first):
            try:
                for number in range(first, first + 15):
                    log.ask(proposal(number))
                    log.finish(trial(number, artefacts={"predictions": np.full(100, number)}), told=number % 2 == 0)
                    if number % 2:
                        log.tell(number)
                    assert number in {event.number for event in store.read_study("study").events()}
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(log.events()) == 2 * 6 * 15
    with place.open() as store:
        view = store.read_study("study")
        told = [event.number for event in view.events() if isinstance(event, Trial)]
        assert sorted(told) == sorted(trial.number for trial in view.trials())
        assert all((view.artefact(number, "predictions") == number).all() for number in told)


def test_only_one_of_many_threads_finishes_a_trial(place, new_log, proposal, trial):
    with place.open() as store, new_log(store) as log:
        log.ask(proposal(0))
        results = []

        def work(value):
            try:
                log.finish(trial(0, artefacts={"x": np.full(10, value)}))
                results.append(value)
            except InvalidInput:
                pass

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = results
        assert (log.artefact(0, "x") == winner).all()


def test_places_that_are_no_place_for_a_store(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"file is a file; .*sqlite:///"):
        Store.open(tmp_path / "file")
    with pytest.raises(StoreError, match=r"is not a Headstart store, it contains file"):
        Store.open(tmp_path)
    for location in ("mysql://u:secret@host/db", "sqlite:///x.db?mode=ro", "sqlite://host/x", "what://"):
        with pytest.raises(StoreError, match=r"sqlite:///file.db") as caught:
            Store.open(location)
        assert "secret" not in str(caught.value)
    with pytest.raises(StoreError, match=r"there is no directory .*missing; create it first"):
        Store.open(f"sqlite:///{tmp_path}/missing/x.db")
    for location in (tmp_path / "none", f"sqlite:///{tmp_path}/none.db"):
        with pytest.raises(StoreError, match=r"there is no store"):
            Store.open(location, create=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file"]


def test_server_that_is_not_there():
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match=r"cannot be reached; check the URL") as caught:
        Store.open("postgresql://user:secret@127.0.0.1:1/db")
    assert "secret" not in str(caught.value)


def test_postgresql_shares_its_database(postgresql_server):
    import psycopg

    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA shared")
        connection.execute("CREATE TABLE shared.others (x int)")
    with Store.open(f"{postgresql_server}?options=-csearch_path%3Dshared") as store:
        assert store.studies() == []


def test_import_is_light():
    code = (
        "import sys, headstart.store; print([m for m in ('sklearn', 'pandas', 'torch', 'psycopg') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
    code = "import sys, headstart; print('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
