"""`Store`: tasks and studies in a directory or a database."""

from __future__ import annotations

import getpass
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from sqlalchemy import URL, Column, Connection, func, insert, make_url, select
from sqlalchemy.exc import ArgumentError, IntegrityError

from headstart.errors import InvalidInput, StoreError, StudyExists, StudyLocked, UnknownName, suggestion
from headstart.store import codec, schema
from headstart.store.artefacts import Artefacts, BlobArtefacts, FileArtefacts, sync_directory
from headstart.store.database import Backend, Database
from headstart.store.location import shown_location
from headstart.store.postgresql import PostgreSQLBackend
from headstart.store.sqlite import SQLiteBackend
from headstart.store.study_log import StudyLog, StudyView

_DATABASE_FILE = "headstart.db"
_ARTEFACTS_DIRECTORY = "artefacts"
_LATEST = 1e11
"""Unix time that nothing was created after."""


@dataclass(frozen=True)
class TaskRecord:
    """A task in a store: its key, what was noted about it, and the Unix time when it was added."""

    key: str
    info: dict[str, Any]
    created: float


@dataclass(frozen=True)
class StudySummary:
    """What `Store.studies` tells of a study.

    `best_loss` is that of the best trial at full fidelity that ended well, or None; `author` the user and machine that
    began it, where that was noted; `last` the Unix time when its last trial ended; `running` who writes to it now.
    """

    name: str
    task_key: str
    seed: int
    settings: dict[str, Any]
    created: float
    version: str
    n_proposals: int
    n_trials: int
    n_ok: int
    best_loss: float | None
    author: str | None
    last: float | None
    running: str | None


class Store:
    """Tasks, their studies, and all that came of them. Open one with `Store.open`; all threads may use it.

    Examples
    --------
    >>> from headstart.space.pipeline import Pipeline
    >>> from headstart.trials import Outcome, Proposal, Trial
    >>> with Store.open("sqlite://") as store:  # in memory; usually a directory
    ...     _ = store.add_task("4f1c", {"metric": "accuracy"})
    ...     log = store.create_study("first", "4f1c", seed=0, settings={"optimizer": "random"})
    ...     proposal = Proposal(0, Pipeline(["knn"]))
    ...     log.ask(proposal)
    ...     _ = log.finish(Trial(proposal, Outcome.of(0.25), started=1.0, finished=2.0))
    ...     [type(event).__name__ for event in store.read_study("first").events()]
    ['Proposal', 'Trial']
    """

    def __init__(self, database: Database, artefacts: Artefacts) -> None:
        self._database = database
        self._artefacts = artefacts
        self._writers: dict[int, StudyLog] = {}

    @classmethod
    def open(cls, location: str | Path, *, create: bool = True) -> Store:
        """Open a store.

        Parameters
        ----------
        location
            A directory, or the URL of a database: ``sqlite:///runs.db``, ``postgresql://user@host/database``, or
            ``sqlite://`` for one in memory. A directory holds a SQLite database and the artefacts as files; in a
            database artefacts are blobs.
        create
            Whether to make a new store where there is none.

        Raises
        ------
        StoreError
            If there is something else at that place, it is damaged, or it cannot be reached or written to.
        StoreVersionError
            If a newer Headstart wrote it.
        """
        if isinstance(location, str) and "://" in location:
            backend = _backend(location, create)
            database = Database(backend, BlobArtefacts.kind, create)
            return cls(database, BlobArtefacts(database))
        directory = Path(location).expanduser().absolute()
        try:
            _check_directory(directory, create)
            directory.mkdir(parents=True, exist_ok=True)
            database = Database(SQLiteBackend(directory / _DATABASE_FILE), FileArtefacts.kind, create)
            artefacts = directory / _ARTEFACTS_DIRECTORY
            if not artefacts.is_dir() and os.access(directory, os.W_OK):
                artefacts.mkdir(exist_ok=True)
                sync_directory(directory)
        except OSError as error:
            raise StoreError(
                f"cannot open a store in {directory}: {error}; give a directory that can be written to"
            ) from error
        return cls(database, FileArtefacts(artefacts))

    @property
    def location(self) -> str:
        """The directory's database file or the URL, without a password."""
        return self._database.location

    @property
    def wait_until(self) -> float | None:
        """Unix time until which a server that is away is waited for; None for ten minutes each time."""
        return self._database.wait_until

    @wait_until.setter
    def wait_until(self, value: float | None) -> None:
        self._database.wait_until = value

    def grant(self, role: str, *, write: bool = False) -> None:
        """Give a user of a PostgreSQL server the rights to read the store, or also to add to it, and no others."""
        self._database.run(lambda connection: self._database.backend.grant(connection, role, write), write=True)

    def close(self) -> None:
        """Close the studies that are open for writing, then the store; closing twice does nothing."""
        for log in list(self._writers.values()):
            log.close()
        self._artefacts.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.location}>"

    def add_task(self, key: str, info: Mapping[str, Any]) -> TaskRecord:
        """Add a task, unless its key already exists: then the first `info` stays.

        A key is a hash of all that makes the task what it is, so a differing `info` can only be described differently.

        Returns
        -------
        TaskRecord
            What the store has under that key.
        """
        row = {"key": _checked_name(key, "task key"), "info": codec.encode(info, "task info"), "created": time.time()}

        def add(connection: Connection) -> None:
            known = connection.execute(select(schema.tasks.c.key).where(schema.tasks.c.key == key)).scalar()
            if known is None:
                # Two servers' clients may both see nothing: the loser of that race finds the winner's row below.
                try:
                    with connection.begin_nested():
                        connection.execute(insert(schema.tasks), row)
                except IntegrityError:
                    pass

        self._database.run(add, write=True)
        return self.task(key)

    def task(self, key: str) -> TaskRecord:
        """The task under a key; raises `UnknownName` if there is none."""
        return _task_record(self._named("task", schema.tasks.c.key, key))

    def tasks(self) -> list[TaskRecord]:
        """All tasks, oldest first."""
        query = select(schema.tasks).order_by(schema.tasks.c.created, schema.tasks.c.key)
        rows = self._database.run(lambda connection: connection.execute(query).all())
        return [_task_record(row._asdict()) for row in rows]

    def create_study(self, name: str, task_key: str, seed: int, settings: Mapping[str, Any]) -> StudyLog:
        """Begin a study and open it for writing.

        Parameters
        ----------
        name
            Unique in the store.
        task_key
            Of a task that was added before.
        seed
            Not negative, of any size.
        settings
            JSON: the optimizer, its settings, and what else a resumed run needs.

        Raises
        ------
        StudyExists
            If there is a study of that name.
        """
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InvalidInput(f"seed must be an integer of at least 0, got {seed!r}")
        row = {
            "name": _checked_name(name, "study name"),
            "task_key": self.task(task_key).key,
            "seed": str(seed),
            "settings": codec.encode(settings, "settings"),
            "created": time.time(),
            "version": _headstart_version(),
            "author": _author(),
        }

        def begin(connection: Connection) -> StudyLog:
            there = connection.execute(select(schema.studies).where(schema.studies.c.name == name)).one_or_none()
            ours = there is not None and {key: there._asdict()[key] for key in row} == row
            if not ours:  # else it was committed, and only the answer to that was lost
                try:
                    with connection.begin_nested():
                        connection.execute(insert(schema.studies), row)
                except IntegrityError as error:
                    raise StudyExists(
                        f"study {name!r} already exists in the store at {self.location}; open it, or give another name"
                    ) from error
            # Before the commit: nobody sees the study before it is locked.
            return self._writer(connection, self._study_row(name))

        return self._opened(begin, write=True)

    def open_study(self, name: str) -> StudyLog:
        """Open a study for writing, to continue it.

        Raises
        ------
        StudyLocked
            If another process, or this one, has it open for writing. A process that died has not.
        UnknownName
            If there is no such study.
        """
        return self._opened(lambda connection: self._writer(connection, self._study_row(name)))

    def _opened(self, work: Callable[[Connection], StudyLog], *, write: bool = False) -> StudyLog:
        """The study that `work` opens in a transaction; closed again if that fails."""
        opened: list[StudyLog] = []

        def attempt(connection: Connection) -> StudyLog:
            for log in opened:  # its lock went with the connection
                log.close()
            opened[:] = [work(connection)]
            return opened[0]

        try:
            return self._database.run(attempt, write=write)
        except BaseException:
            for log in opened:
                log.close()
            raise

    def read_study(self, name: str) -> StudyView:
        """A study to read only, whoever may be writing it; each call of its methods sees what is there then."""
        return StudyView(self._database, self._artefacts, self._study_row(name))

    def studies(self) -> list[StudySummary]:
        """All studies, oldest first."""
        study, proposal, trial = schema.studies.c, schema.proposals.c, schema.trials.c
        of_study = trial.study_id == study.id
        query = select(
            *study,
            select(func.count()).where(proposal.study_id == study.id).scalar_subquery().label("n_proposals"),
            select(func.count()).where(of_study).scalar_subquery().label("n_trials"),
            select(func.count(trial.loss)).where(of_study).scalar_subquery().label("n_ok"),
            select(func.min(trial.loss)).where(of_study, trial.full_fidelity).scalar_subquery().label("best_loss"),
            select(trial.content)
            .where(of_study)
            .order_by(trial.number.desc())
            .limit(1)
            .scalar_subquery()
            .label("last"),
        ).order_by(study.created, study.id)

        def read(connection: Connection) -> tuple[Sequence[Any], dict[int, str]]:
            rows = connection.execute(query).all()
            return rows, self._database.backend.running(connection, [row.id for row in rows])

        rows, running = self._database.run(read)
        return [_study_summary(row, running.get(row.id)) for row in rows]

    def _study_row(self, name: str) -> dict[str, Any]:
        return self._named("study", schema.studies.c.name, name)

    def _named(self, what: str, column: Column[str], name: str) -> dict[str, Any]:
        """The row whose column holds a name; raises `UnknownName` if there is none."""

        def read(connection: Connection) -> dict[str, Any]:
            row = connection.execute(select(column.table).where(column == name)).one_or_none()
            if row is None:
                known = [str(there) for there in connection.execute(select(column)).scalars()]
                raise UnknownName(f"no {what} {name!r} in the store at {self.location}; {suggestion(name, known)}")
            return row._asdict()

        return self._database.run(read)

    def _writer(self, connection: Connection, row: Mapping[str, Any]) -> StudyLog:
        """Lock a study and open it for writing; called inside a transaction, which keeps other threads out."""
        study_id, name = row["id"], row["name"]
        if study_id in self._writers:
            raise StudyLocked(f"study {name!r} is already open for writing in this process; close it first")
        try:
            lock = self._database.backend.lock(self._database, connection, study_id)
        except OSError as error:
            raise StoreError(f"cannot lock study {name!r} in the store at {self.location}: {error}") from error
        if isinstance(lock, str):
            raise StudyLocked(
                f"study {name!r} is being run by {lock}; wait for it or stop it; read_study can read it meanwhile"
            )

        def release() -> None:
            lock()
            self._writers.pop(study_id, None)

        try:
            self._writers[study_id] = StudyLog(self._database, self._artefacts, row, release)
        except BaseException:
            release()
            raise
        return self._writers[study_id]


def _task_record(row: Mapping[str, Any]) -> TaskRecord:
    return TaskRecord(**{**row, "info": codec.decode_mapping(row["info"], f"task {row['key']!r}")})


def _study_summary(row: Any, running: str | None) -> StudySummary:
    what = f"study {row.name!r}"
    settings = codec.decode_mapping(row.settings, what)
    with codec.reading(what):
        if not isinstance(row.name, str) or not 0 <= float(row.created) < _LATEST:
            raise ValueError(f"it was created at {row.created!r}")
        last = None if row.last is None else float(codec.decode(row.last)["finished"])
        content = {key: value for key, value in row._asdict().items() if key != "id"}
        found = {"seed": int(row.seed), "settings": settings, "last": last, "running": running}
        return StudySummary(**{**content, **found})


def _backend(location: str, create: bool) -> Backend:
    try:
        url = make_url(location)
    except ArgumentError:
        raise StoreError(f"not a database URL: {location.split('@')[-1]!r}; {_FORMS}") from None
    system = url.get_backend_name()
    if system in ("postgresql", "postgres"):
        return PostgreSQLBackend(url)
    if system != "sqlite" or url.query or url.host:
        raise StoreError(f"cannot use a store at {shown_location(location, '***')}; {_FORMS}")
    return SQLiteBackend(_sqlite_file(url, create))


_FORMS = "give a directory, sqlite:///file.db, sqlite:////absolute/file.db or postgresql://user@host/database"


def _sqlite_file(url: URL, create: bool) -> Path | None:
    if url.database in (None, "", ":memory:"):
        return None
    file = Path(str(url.database)).absolute()
    if not file.exists():
        if not create:
            raise StoreError(f"there is no store at {file}; check the location, or allow it to be created")
        if not file.parent.is_dir():
            raise StoreError(f"cannot create a store at {file}: there is no directory {file.parent}; create it first")
    return file


def _check_directory(directory: Path, create: bool) -> None:
    """Raise unless there is a store in a directory, or a new one may be made."""
    if directory.is_file():
        raise StoreError(
            f"{directory} is a file; give a directory, or for a SQLite database the URL sqlite:///{directory}"
        )
    database = directory / _DATABASE_FILE
    if database.exists() and database.stat().st_size > 0:
        return
    if not create:
        raise StoreError(f"there is no store in {directory}; check the location, or allow it to be created")
    # Leftovers of a creation that was cut short are fine; artefacts whose database is gone are not.
    fine = {_DATABASE_FILE, _DATABASE_FILE + "-journal", "lost+found"}
    if directory.is_dir():
        artefacts = directory / _ARTEFACTS_DIRECTORY
        if artefacts.is_dir() and not any(artefacts.iterdir()):
            fine.add(_ARTEFACTS_DIRECTORY)
        others = sorted(p.name for p in directory.iterdir() if p.name not in fine and not p.name.startswith("."))
        if others:
            raise StoreError(
                f"{directory} is not a Headstart store, it contains {', '.join(others[:5])} and no {_DATABASE_FILE}; "
                "give a new or empty directory, or restore the database from a backup"
            )


def _checked_name(name: str, what: str) -> str:
    if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
        raise InvalidInput(f"a {what} must be 1 to 200 printable characters, got {name!r}")
    return name


def _author() -> str:
    """Who runs this, and where."""
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a user without a name
        user = str(os.getuid()) if hasattr(os, "getuid") else "unknown"
    return f"{user}@{socket.gethostname()}"[:200]


def _headstart_version() -> str:
    try:
        return metadata.version("headstart")
    except metadata.PackageNotFoundError:  # run from a source tree
        return "unknown"
