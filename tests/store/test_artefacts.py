import io
import os
import pickle
import sqlite3
import stat

import numpy as np
import pytest
from sqlalchemy import event, text

from headstart.errors import InvalidInput, StoreError, UnknownName
from headstart.store import Store
from headstart.trials import SpooledFile


class Hostile:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def finished(place, new_log, proposal, trial):
    """Function that stores one trial with artefacts; returns the store's view of it and what `finish` gave."""
    stores = []

    def make(**artefacts):
        store = place.open()
        stores.append(store)
        with new_log(store) as log:
            log.ask(proposal(0))
            given = log.finish(trial(0, artefacts=artefacts))
        return store.read_study("study"), given

    yield make
    for store in stores:
        store.close()


def test_arrays_need_no_trust(finished):
    arrays = {
        "plain": np.arange(6.0).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "slice": np.arange(20)[::3],
        "scalar": np.array(1.5),
        "empty": np.zeros((0, 4), dtype=np.float32),
        "records": np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
        "texts": np.array(["größe", ""]),
        "days": np.array(["2024-01-01"], dtype="datetime64[D]"),
        "bits": np.array([np.nan, -0.0, 5e-324]),
    }
    view, given = finished(**arrays)
    for name, array in arrays.items():
        back = view.artefact(0, name)
        assert back.dtype == array.dtype
        assert back.tobytes() == array.tobytes()
        assert np.load(given.outcome.artefacts[name]).shape == array.shape
    assert given.outcome.artefacts["plain"].suffix == ".npy"


def test_bytes_come_back(finished):
    view, _ = finished(model=b"\x00\xff" * 1000, nothing=b"")
    assert view.artefact(0, "model") == b"\x00\xff" * 1000
    assert view.artefact(0, "nothing") == b""


def test_pickles_are_refused_unless_trusted(finished, tmp_path):
    threshold = 3
    objects = np.array([{"a": 1}, None], dtype=object)
    masked = np.ma.masked_array([1, 2], [True, False])
    view, given = finished(model=lambda x: x > threshold, objects=objects, masked=masked)
    for name in ("model", "objects", "masked"):
        assert given.outcome.artefacts[name].suffix == ".pkl"
        with pytest.raises(
            StoreError, match=f"artefact '{name}' of trial 0 is a pickle: loading it runs .*trusted=True"
        ):
            view.artefact(0, name)
    assert view.artefact(0, "model", trusted=True)(4)
    assert view.artefact(0, "objects", trusted=True).tolist() == objects.tolist()
    assert view.artefact(0, "masked", trusted=True).mask.tolist() == [True, False]


def test_reading_a_store_runs_nothing(finished, tmp_path):
    mark = tmp_path / "executed"
    hidden = io.BytesIO()
    np.save(hidden, np.array([Hostile(mark)], dtype=object), allow_pickle=True)
    (tmp_path / "array.npy").write_bytes(hidden.getvalue())
    (tmp_path / "upper.PKL").write_bytes(pickle.dumps(Hostile(mark)))
    (tmp_path / "data.joblib").write_bytes(pickle.dumps(Hostile(mark)))
    paths = {"array": tmp_path / "array.npy", "upper": tmp_path / "upper.PKL", "job": tmp_path / "data.joblib"}
    view, _ = finished(direct=Hostile(mark), **paths)
    view.events(), view.trials(), dict(view.trials()[0].outcome.artefacts)
    for name in ("direct", "array", "upper"):
        with pytest.raises(StoreError, match=r"pickle|plain array"):
            view.artefact(0, name)
    with pytest.raises(StoreError, match=r"plain array"):
        view.artefact(0, "array", trusted=True)
    assert isinstance(view.artefact(0, "job", trusted=True), bytes)
    assert not mark.exists()
    view.artefact(0, "direct", trusted=True)  # shows that the test would notice
    assert mark.exists()


def test_files_of_the_user_are_copied(finished, tmp_path):
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"mine")
    view, _ = finished(mine=mine)
    mine.write_bytes(b"changed")
    assert view.artefact(0, "mine") == b"mine"


def test_files_that_are_handed_over_are_moved(finished, tmp_path, place):
    np.save(tmp_path / "predictions.npy", np.arange(3))
    (tmp_path / "notes").write_bytes(b"text")
    (tmp_path / "odd.a-b").write_bytes(b"odd")
    names = {"predictions": "predictions.npy", "notes": "notes", "odd": "odd.a-b"}
    sources = {name: SpooledFile(tmp_path / file) for name, file in names.items()}
    view, given = finished(**sources)
    assert not any(path.exists() for path in sources.values())
    assert view.artefact(0, "predictions").tolist() == [0, 1, 2]
    assert view.artefact(0, "notes") == b"text"
    assert view.artefact(0, "odd") == b"odd"
    assert {name: path.read_bytes() for name, path in given.outcome.artefacts.items()}["notes"] == b"text"


def test_a_file_from_another_file_system_is_copied(finished, tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "model.bin").write_bytes(b"model")
    view, _ = finished(model=SpooledFile(tmp_path / "model.bin"))
    assert view.artefact(0, "model") == b"model"
    assert not (tmp_path / "model.bin").exists()


def test_what_a_path_must_be(place, new_log, proposal, trial, tmp_path):
    (tmp_path / "real").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with place.open() as store, new_log(store) as log:
        log.ask(proposal(0))
        for path in (tmp_path / "missing", tmp_path, tmp_path / "link"):
            with pytest.raises(InvalidInput, match=r"artefact 'b' of trial 0 must be an existing file and not a link"):
                log.finish(trial(0, artefacts={"a": tmp_path / "real", "b": path}))
            assert (tmp_path / "real").exists()
        assert log.trials() == []
        log.finish(trial(0, artefacts={"a": tmp_path / "real"}))
        assert log.artefact(0, "a") == b"x"


def test_a_trial_of_the_store_itself_can_be_stored_again(place, new_log, proposal, trial):
    with place.open() as store:
        with new_log(store, "one") as one:
            one.ask(proposal(0))
            first = one.finish(trial(0, artefacts={"x": np.arange(3)}))
        with new_log(store, "two") as two:
            two.ask(proposal(0))
            two.finish(first)
            assert one.artefact(0, "x").tolist() == two.artefact(0, "x").tolist() == [0, 1, 2]


def test_what_cannot_be_pickled_is_named(place, new_log, proposal, trial):
    with place.open() as store, new_log(store) as log:
        log.ask(proposal(0))
        with pytest.raises(InvalidInput, match=r"artefact 'stream' of trial 0 .* can be pickled, got generator"):
            log.finish(trial(0, artefacts={"good": b"1", "stream": (i for i in range(3))}))
        log.finish(trial(0, artefacts={"good": b"2"}))
        assert log.artefact(0, "good") == b"2"
        assert list(log.trials()[0].outcome.artefacts) == ["good"]


def test_trials_read_have_files(finished, place):
    finished(a=np.arange(2), b=b"bytes")
    with place.open() as store:
        (trial,) = store.read_study("study").trials()
        assert sorted(trial.outcome.artefacts) == ["a", "b"]
        assert trial.outcome.artefacts["b"].read_bytes() == b"bytes"
        assert np.load(trial.outcome.artefacts["a"]).tolist() == [0, 1]
        copy = pickle.loads(pickle.dumps(trial))
        assert copy == trial
        assert copy.outcome.artefacts["b"].read_bytes() == b"bytes"
        (untold_or_told,) = (e for e in store.read_study("study").events() if e == trial)
        assert sorted(untold_or_told.outcome.artefacts) == ["a", "b"]


def test_unknown_artefact(finished):
    view, _ = finished(predictions=b"")
    with pytest.raises(UnknownName, match=r"trial 0 of study 'study' has no artefact 'prediction'; did you mean"):
        view.artefact(0, "prediction")
    with pytest.raises(UnknownName, match=r"trial 3 .* has no artefact"):
        view.artefact(3, "predictions")


@pytest.mark.parametrize("damage", ["shorter", "other", "gone"])
def test_damage_is_noticed_and_named(file_place, new_log, proposal, trial, damage):
    with file_place.open() as store, new_log(store) as log:
        log.ask(proposal(0))
        given = log.finish(trial(0, artefacts={"model": b"0123456789"}))
        path = given.outcome.artefacts["model"]
    content = {"shorter": b"012345678", "other": b"0123456780", "gone": None}[damage]
    if file_place.kind == "directory":
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    else:
        with sqlite3.connect(file_place.directory / "store.db") as connection:
            connection.execute("UPDATE headstart_artefact SET content = ?", (content,))
        connection.close()
    with file_place.open() as store:
        view = store.read_study("study")
        assert len(view.trials()) == 1
        with pytest.raises(StoreError, match=r"artefact 'model' of trial 0 (is damaged|cannot be read|is not in)"):
            view.artefact(0, "model")


def test_a_store_cannot_lead_out_of_its_directory(tmp_path, new_log, proposal, trial):
    (tmp_path / "secret").write_bytes(b"secret")
    with Store.open(tmp_path / "store") as store, new_log(store) as log:
        log.ask(proposal(0))
        log.finish(trial(0, artefacts={"model": b"secret"}))
    connection = sqlite3.connect(tmp_path / "store" / "headstart.db")
    with connection:
        connection.execute("UPDATE headstart_artefact SET name = 'x/../../../../secret', suffix = ''")
    connection.close()
    with Store.open(tmp_path / "store") as store:
        with pytest.raises(StoreError, match=r"tampered"):
            store.read_study("study").artefact(0, "x/../../../../secret")
        with pytest.raises(StoreError, match=r"tampered"):
            store.read_study("study").trials()


def test_artefacts_are_durable_before_their_row_is(tmp_path, new_log, proposal, trial, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace

    def note_fsync(descriptor):
        steps.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def note_replace(source, target):
        steps.append("rename")
        replace(source, target)

    (tmp_path / "given").write_bytes(b"given")
    with Store.open(tmp_path / "store") as store, new_log(store) as log:
        log.ask(proposal(0), proposal(1))
        log.finish(trial(0, artefacts={"x": b"makes the directory"}))
        monkeypatch.setattr(os, "fsync", note_fsync)
        monkeypatch.setattr(os, "replace", note_replace)
        event.listen(store._database.backend.engine, "commit", lambda connection: steps.append("commit"))
        log.finish(trial(1, artefacts={"value": b"1", "path": tmp_path / "given"}))
        assert steps == ["file", "rename", "file", "rename", "directory", "commit"]
        with store._database.transaction() as connection:
            assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
            assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"


def test_leftovers_are_swept_when_a_study_is_opened_for_writing(tmp_path, new_log, proposal, trial):
    with Store.open(tmp_path / "store") as store:
        with new_log(store, "one") as one, new_log(store, "two") as two:
            for log in (one, two):
                log.ask(proposal(0))
                kept = log.finish(trial(0, artefacts={"model": b"1"})).outcome.artefacts["model"]
        leftovers = [kept.parent / "000001-model.bin", kept.parent / "tmpabc.tmp"]
        for path in leftovers:
            path.write_bytes(b"left")
        store.read_study("two")
        store.open_study("one").close()
        assert all(path.exists() for path in leftovers)
        store.open_study("two").close()
        assert not any(path.exists() for path in leftovers)
        assert kept.exists()
        assert store.read_study("one").artefact(0, "model") == b"1"


def test_fetched_files_go_with_the_store(tmp_path, new_log, proposal, trial):
    with Store.open(f"sqlite:///{tmp_path}/s.db") as store, new_log(store) as log:
        log.ask(proposal(0))
        path = log.finish(trial(0, artefacts={"model": b"1"})).outcome.artefacts["model"]
        assert path.read_bytes() == b"1"
    assert not path.exists()
