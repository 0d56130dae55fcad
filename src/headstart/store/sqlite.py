"""SQLite: the store's own choice of database. All that is particular to it is here.

A write-ahead log lets others read while one writes, and ``synchronous=FULL`` makes each commit reach the disk before it
returns.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sqlite3
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, create_engine, event
from sqlalchemy.pool import NullPool

from headstart.store.database import Backend, Database, Release
from headstart.store.filelock import FileLock

logger = logging.getLogger(__name__)

_BUSY_SECONDS = 60.0
"""How long to wait for another process that is writing."""

_EXPLANATIONS = {
    "SQLITE_NOTADB": "is not a SQLite database, or is damaged; give another location, or restore it from a backup",
    "SQLITE_CORRUPT": "is damaged; restore it from a backup, or save what can be saved with sqlite3's .recover",
    "SQLITE_FULL": "cannot grow because the disk is full; free space and try again; what was stored is intact",
    "SQLITE_READONLY": "cannot be written to; give yourself write permission, or copy the store elsewhere",
    "SQLITE_PERM": "cannot be written to; give yourself write permission, or copy the store elsewhere",
    "SQLITE_CANTOPEN": "cannot be opened; its directory must exist and be writable, also for the files next to it",
    "SQLITE_BUSY": f"was busy for {_BUSY_SECONDS:.0f} s with another process; try again",
    "SQLITE_LOCKED": "is in use by another connection; try again",
    "SQLITE_IOERR": "cannot be read or written; check the disk, its free space and quota",
    "SQLITE_TOOBIG": "cannot take a value of that size (SQLite's limit is 1 GB); use a directory as the store",
    "SQLITE_CONSTRAINT": "was changed by another process in a way that the study's lock should have prevented",
}


class SQLiteBackend(Backend):
    """A database in a file, or in memory for `file` None."""

    driver_error = sqlite3.Error
    explanations = _EXPLANATIONS

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._read_only = file is not None and file.exists() and not _may_write(file)
        engine = create_engine(
            _read_only_url(file) if self._read_only and file is not None else _url(file),
            poolclass=NullPool,
            connect_args={"check_same_thread": False, "timeout": _BUSY_SECONDS},
        )
        if not self._read_only:
            event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin)
        super().__init__(engine, "memory (sqlite://)" if file is None else str(file))
        self.reconnects = file is not None

    def code(self, error: BaseException) -> str | None:
        return getattr(error, "sqlite_errorname", None)

    def lock(self, database: Database, connection: Connection, study_id: int) -> Release | str:  # noqa: ARG002
        if self._file is None:  # nobody else can have it
            return lambda: None
        directory = self._file.with_name(self._file.name + "-locks")
        if self._read_only:
            raise PermissionError("the store can only be read; give yourself write permission, or copy it elsewhere")
        directory.mkdir(exist_ok=True)
        lock = FileLock(directory / f"{study_id}.lock")
        return lock.acquire() or lock.release

    def running(self, connection: Connection, studies: list[int]) -> dict[int, str]:  # noqa: ARG002
        if self._file is None:
            return {}
        directory = self._file.with_name(self._file.name + "-locks")
        found = {study: FileLock(directory / f"{study}.lock").holder() for study in studies}
        return {study: holder for study, holder in found.items() if holder is not None}

    def tune(self, connection: Connection) -> None:
        """Turn on the write-ahead log, which stays on for the file."""
        if self._file is None or self._read_only:
            return
        driver: Any = connection.connection.driver_connection
        give_up = time.monotonic() + _BUSY_SECONDS
        while driver.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            # SQLite does not wait by itself here when other processes open the new store at the same moment.
            try:
                mode = driver.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            except sqlite3.OperationalError as error:
                if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)
                continue
            if mode != "wal":
                logger.warning("%s cannot use a write-ahead log (file system?): readers will block writers", self._file)
                return


def _url(file: Path | None) -> URL:
    return URL.create("sqlite", database=None if file is None else str(file))


def _may_write(file: Path) -> bool:
    """Whether the file may be changed, and those be made that SQLite keeps next to it."""
    return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)


def _read_only_url(file: Path) -> URL:
    """To read only, and without the files next to it; where its log was not written back, of a copy that has it."""
    log = file.with_name(file.name + "-wal")
    query = {"mode": "ro", "uri": "true"}
    if log.exists() and log.stat().st_size:
        folder = Path(tempfile.mkdtemp(prefix="headstart-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        file = Path(shutil.copyfile(file, folder / file.name))
        shutil.copyfile(log, folder / log.name)
    else:
        query["immutable"] = "1"
    return URL.create("sqlite", database=f"file:{quote(str(file))}", query=query)


def _set_up(driver: Any, _record: object) -> None:
    driver.isolation_level = None  # else the driver decides when transactions begin, and does so too late
    driver.execute("PRAGMA foreign_keys=ON")
    driver.execute("PRAGMA synchronous=FULL")


def _begin(connection: Connection) -> None:
    # A transaction that reads first and writes later can fail at once where one that says so at the start would wait.
    writes = connection.get_execution_options().get(Backend.WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
