"""Stores of other versions, damaged stores, and disks that are full or read-only."""

import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from headstart.errors import StoreError, StoreVersionError
from headstart.store import Store, schema
from headstart.trials import SpooledFile


def database_file(place):
    return place.location / "headstart.db" if place.kind == "directory" else place.directory / "store.db"


def execute(place, statement):
    with closing(sqlite3.connect(database_file(place))) as connection, connection:
        connection.execute(statement)


@pytest.fixture
def filled(file_place, new_log, proposal, trial):
    """A place with a store of 60 trials, closed."""
    with file_place.open() as store, new_log(store) as log:
        log.ask(*(proposal(i) for i in range(60)))
        for number in range(60):
            log.finish(trial(number))
    return file_place


def test_a_newer_version_is_refused(filled):
    execute(filled, "UPDATE headstart_store SET value = '3' WHERE key = 'format_version'")
    before = database_file(filled).read_bytes()
    with pytest.raises(StoreVersionError, match=r"format version 3; this Headstart reads up to 2; upgrade"):
        filled.open()
    assert database_file(filled).read_bytes() == before


def test_an_older_version_without_migration_is_refused(filled):
    execute(filled, "UPDATE headstart_store SET value = '0' WHERE key = 'format_version'")
    with pytest.raises(
        StoreVersionError, match=r"format version 0; this Headstart writes 2 and has no migration from 0"
    ):
        filled.open()


def test_a_version_that_is_no_number_is_damage(filled):
    execute(filled, "UPDATE headstart_store SET value = 'x' WHERE key = 'format_version'")
    with pytest.raises(StoreError, match=r"damaged: its format version must be a number, found 'x'"):
        filled.open()


def test_older_stores_are_migrated_step_by_step(place, new_log, proposal, trial, monkeypatch):
    with place.open() as store, new_log(store) as log:
        log.ask(proposal(0))
        log.finish(trial(0))
    monkeypatch.setattr(schema, "FORMAT_VERSION", 4)
    steps = []

    def first(connection):
        connection.execute(text("ALTER TABLE headstart_task ADD COLUMN note VARCHAR(20)"))
        steps.append(1)

    def second(connection):
        connection.execute(text("UPDATE headstart_task SET note = 'migrated'"))
        steps.append(2)

    def broken(connection):
        second(connection)
        raise RuntimeError("power cut")

    def note_and_version(store):
        with store._database.transaction() as connection:
            notes = connection.execute(text("SELECT note FROM headstart_task")).scalars().all()
            return notes, schema.read_properties(connection)["format_version"]

    monkeypatch.setattr(schema, "MIGRATIONS", {2: first, 3: broken})
    with pytest.raises(RuntimeError, match="power cut"):
        place.open()
    monkeypatch.setattr(schema, "MIGRATIONS", {2: first, 3: second})  # would fail if the first step had stayed
    with place.open() as store:
        assert note_and_version(store) == (["migrated"], "4")
        assert len(store.read_study("study").events()) == 2
    with place.open() as store:
        assert note_and_version(store) == (["migrated"], "4")
    assert steps == [1, 2, 1, 2]
    monkeypatch.undo()
    with pytest.raises(StoreVersionError, match=r"format version 4"):
        place.open()


def test_a_database_of_something_else_is_left_alone(file_place):
    database_file(file_place).parent.mkdir(exist_ok=True)
    execute(file_place, "CREATE TABLE recipes (name TEXT)")
    before = database_file(file_place).read_bytes()
    with pytest.raises(StoreError, match="is not a Headstart store, but has the tables recipes"):
        file_place.open()
    assert database_file(file_place).read_bytes() == before


def test_directory_and_url_are_not_mixed_up(tmp_path):
    Store.open(tmp_path / "store").close()
    with pytest.raises(StoreError, match=r"artefacts as files, not blobs; open the directory"):
        Store.open(f"sqlite:///{tmp_path}/store/headstart.db")
    (tmp_path / "other").mkdir()
    Store.open(f"sqlite:///{tmp_path}/other/headstart.db").close()
    with pytest.raises(StoreError, match=r"artefacts as blobs, not files; open the database by its URL"):
        Store.open(tmp_path / "other")


def test_garbage_is_named_as_such(filled):
    database_file(filled).write_bytes(os.urandom(20_000))
    with pytest.raises(StoreError, match=r"is not a SQLite database, or is damaged; .*backup"):
        filled.open()


@pytest.mark.parametrize("share", [0.9, 0.5, 0.01])
def test_a_truncated_file_is_named_as_such(filled, share):
    file = database_file(filled)
    os.truncate(file, int(file.stat().st_size * share))
    with pytest.raises(StoreError, match=r"damaged; .*backup"):
        filled.open()


def test_damage_in_the_middle_is_a_store_error(filled):
    content = bytearray(database_file(filled).read_bytes())
    content[8192:-4096] = os.urandom(len(content) - 12288)
    database_file(filled).write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged|failed"), filled.open() as store:
        store.read_study("study").events()


def test_a_row_that_makes_no_sense_is_a_store_error(filled):
    execute(filled, "UPDATE headstart_trial SET content = '{\"status\": 3}' WHERE number = 5")
    with filled.open() as store, pytest.raises(StoreError, match="stored trial 5 cannot be read, the store is damaged"):
        store.read_study("study").trials()


def test_artefacts_without_their_database_are_not_taken_over(tmp_path, new_log, proposal, trial):
    with Store.open(tmp_path) as store, new_log(store) as log:
        log.ask(proposal(0))
        path = log.finish(trial(0, artefacts={"model": b"x"})).outcome.artefacts["model"]
    shutil.rmtree(tmp_path / "headstart.db-locks")
    for content in (b"", None):  # emptied, then gone
        (tmp_path / "headstart.db").write_bytes(b"") if content is not None else (tmp_path / "headstart.db").unlink()
        with pytest.raises(StoreError, match=r"contains artefacts and no headstart.db; .*restore"):
            Store.open(tmp_path)
    assert path.exists()


def test_a_creation_that_was_cut_short_is_taken_up(tmp_path):
    (tmp_path / "artefacts").mkdir()
    (tmp_path / "headstart.db").touch()
    (tmp_path / ".hidden").touch()
    with Store.open(tmp_path) as store:
        assert store.studies() == []


@contextmanager
def files_up_to(size):
    """No file may grow beyond `size` bytes: writing fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_cannot_be_written_can_be_tried_again(file_place, new_log, proposal, trial, tmp_path):
    model = tmp_path / "model.bin"
    model.write_bytes(b"m" * 3_000_000)
    large = {"a": b"1", "model": SpooledFile(model), "large": b"x" * 3_000_000}
    with file_place.open() as store, new_log(store) as log:
        log.ask(proposal(0), proposal(1))
        log.finish(trial(0, artefacts={"model": b"small"}))
        with files_up_to(2_000_000):
            for _ in range(2):
                with pytest.raises(StoreError, match=r"cannot be (read or )?written.* space"):
                    log.finish(trial(1, artefacts=large))
        assert [t.number for t in store.read_study("study").trials()] == [0]
        assert model.exists()
        if file_place.kind == "directory":  # what was half written does not fill the disk
            assert [p.name for p in (file_place.location / "artefacts" / "1").iterdir()] == ["000000-model.bin"]
        log.finish(trial(1, artefacts=large))
        assert not model.exists()
    with file_place.open() as store:
        view = store.read_study("study")
        assert [len(view.artefact(1, name)) for name in large] == [1, 3_000_000, 3_000_000]
        assert view.artefact(0, "model") == b"small"
        assert len(view.events()) == 4


def test_full_database(file_place, new_log, proposal, trial):
    with file_place.open() as store, new_log(store) as log:
        with store._database.transaction() as connection:
            pages = connection.execute(text("PRAGMA page_count")).scalar()
            connection.execute(text(f"PRAGMA max_page_count = {pages + 3}"))
        asked = []

        def ask_until_full():
            for number in range(1000):
                log.ask(proposal(number, note="x" * 500))
                asked.append(number)

        with pytest.raises(StoreError, match=r"disk is full; free space and try again; what was stored is intact"):
            ask_until_full()
        assert [proposal.number for proposal in log.pending()] == asked
        assert len(asked) > 3
        with store._database.transaction() as connection:
            connection.execute(text("PRAGMA max_page_count = 1000000"))
        log.ask(proposal(len(asked)))
        log.finish(trial(len(asked)))
        assert len(log.events()) == len(asked) + 2


def test_full_disk(new_log, proposal, trial):
    directory = tempfile.mkdtemp()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", directory]
    try:
        if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
            pytest.skip("no file system can be mounted here")
        try:
            with Store.open(directory) as store, new_log(store) as log:
                acknowledged = []

                def write_until_full():
                    for number in range(10_000):
                        log.ask(proposal(number))
                        log.finish(trial(number, artefacts={"model": b"x" * 4000}))
                        acknowledged.append(number)

                with pytest.raises(StoreError, match=r"disk is full|No space left|cannot be read or written"):
                    write_until_full()
                assert len(acknowledged) > 10
                assert {t.number for t in store.read_study("study").trials()} == set(acknowledged)
            with Store.open(directory) as store:
                view = store.read_study("study")
                assert all(view.artefact(number, "model") == b"x" * 4000 for number in acknowledged)
        finally:
            subprocess.run(["umount", directory], check=True)
    finally:
        os.rmdir(directory)


READ_ONLY = """
import os, sys
from headstart.errors import StoreError
from headstart.store import Store
Store.open("sqlite://").close()
if os.getuid() == 0:  # whom no permission binds
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
for location in sys.argv[1:]:
    try:
        store = Store.open(location)
        print("read", [study.name for study in store.studies()])
        store.add_task("other", {})
    except StoreError as error:
        print(str(error).replace(chr(10), " "))
"""


def test_read_only_places():
    """What is there can be read, though not written to; nothing can be made."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        Store.open(directory / "store").close()
        with Store.open(f"sqlite:///{directory}/store.db") as store:
            store.add_task("task", {})
            store.create_study("first", "task", 0, {}).close()
        with Store.open(directory / "killed") as store:
            store.add_task("task", {})
            store.create_study("second", "task", 0, {}).close()
            shutil.copytree(directory / "killed", directory / "unwritten")  # with a log that was not written back
        (directory / "empty").mkdir()
        for path in [*directory.rglob("*"), directory]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        locations = [f"{directory}/store", f"{directory}/empty", f"{directory}/new", f"sqlite:///{directory}/store.db"]
        locations += [f"sqlite:///{directory}/new.db", f"{directory}/unwritten"]
        command = [sys.executable, "-c", READ_ONLY, *locations]
        result = subprocess.run(command, capture_output=True, text=True, cwd="/")
        for path in [directory, *directory.rglob("*")]:
            path.chmod(0o755)
    assert result.returncode == 0, result.stderr
    read = [line for line in result.stdout.splitlines() if line.startswith("read")]
    failed = [line for line in result.stdout.splitlines() if line not in read]
    assert read == ["read []", "read ['first']", "read ['second']"]
    assert len(failed) == len(locations)
    for line in failed:
        assert "writable" in line or "written to" in line, line
