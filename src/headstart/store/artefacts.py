"""Where artefacts of trials are kept: as files, or as blobs in the database."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

from headstart.errors import StoreError
from headstart.store import schema
from headstart.store.artefact_values import ArtefactRecord, called, checked_source, write_value
from headstart.store.database import Database
from headstart.trials import SpooledFile

logger = logging.getLogger(__name__)


class Artefacts(ABC):
    """Where a store keeps artefacts."""

    kind: str

    @abstractmethod
    def save(self, study_id: int, number: int, values: Mapping[str, Any]) -> list[ArtefactRecord]:
        """Make the artefacts of a trial durable, as far as that happens before its row is written; all or none."""

    @abstractmethod
    def read(self, record: ArtefactRecord) -> bytes:
        """Content as it is, unchecked."""

    @abstractmethod
    def paths(self, records: Iterable[ArtefactRecord]) -> Mapping[str, Path]:
        """Files that hold the artefacts of a trial, by name."""

    def sweep(self, study_id: int, records: Iterable[ArtefactRecord]) -> None:  # noqa: B027
        """Remove what `save` left behind when the process died before the row was written."""

    def close(self) -> None:  # noqa: B027
        """Remove what was kept only while the store was open."""

    def remove_sources(self, values: Mapping[str, Any]) -> None:
        """Remove the files that were handed over, whose content is now in the store."""
        for value in values.values():
            if isinstance(value, SpooledFile):
                try:
                    value.unlink(missing_ok=True)
                except OSError as error:  # the trial is stored: no reason to fail
                    logger.warning("%s was copied to the store, but could not be removed: %s", value, error)


class FileArtefacts(Artefacts):
    """Files in ``<root>/<study id>/``."""

    kind = "files"

    def __init__(self, root: Path) -> None:
        self._root = root

    def save(self, study_id: int, number: int, values: Mapping[str, Any]) -> list[ArtefactRecord]:
        if not values:
            return []
        records: list[ArtefactRecord] = []
        try:
            directory = self._directory(study_id)
            for name, value in values.items():
                with _writing(name, number):
                    records.append(self._save_one(directory, study_id, number, name, value))
            with _writing("directory", number):
                sync_directory(directory)
        except BaseException:
            for record in records:
                with contextlib.suppress(OSError):
                    self._path(record).unlink()
            raise
        return records

    def _directory(self, study_id: int) -> Path:
        directory = self._root / str(study_id)
        if not directory.is_dir():
            try:
                directory.mkdir(parents=True, exist_ok=True)
                sync_directory(self._root)
            except OSError as error:
                raise StoreError(f"cannot create the directory {directory} for artefacts: {error}") from error
        return directory

    def _save_one(self, directory: Path, study_id: int, number: int, name: str, value: Any) -> ArtefactRecord:
        # The dot keeps it apart from every artefact. No other thread uses the name: one at a time finishes a trial.
        temporary = directory / f".{number:06d}-{name}.tmp"
        try:
            if isinstance(value, Path):
                suffix = checked_source(value, called(name, number))
                _link_or_copy(value, temporary)
            else:
                with open(temporary, "wb") as stream:
                    suffix = write_value(value, stream, called(name, number))
            with open(temporary, "rb+") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
                record = ArtefactRecord(study_id, number, name, suffix, stream.tell(), digest)
                os.fsync(stream.fileno())
            os.replace(temporary, directory / record.file_name)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
        return record

    def read(self, record: ArtefactRecord) -> bytes:
        path = self._path(record)
        try:
            return path.read_bytes()
        except OSError as error:
            raise StoreError(f"{record} cannot be read from {path}: {error}; restore it from a backup") from error

    def paths(self, records: Iterable[ArtefactRecord]) -> Mapping[str, Path]:
        return {record.name: self._path(record) for record in records}

    def sweep(self, study_id: int, records: Iterable[ArtefactRecord]) -> None:
        directory = self._root / str(study_id)
        if not directory.is_dir():
            return
        known = {record.file_name for record in records}
        for path in directory.iterdir():
            if path.name not in known:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _path(self, record: ArtefactRecord) -> Path:
        return self._root / str(record.study_id) / record.file_name


class BlobArtefacts(Artefacts):
    """Blobs in the rows of the database, written with the trial in one transaction.

    `paths` gives files all the same: each is fetched to a temporary directory when it is first looked at.
    """

    kind = "blobs"

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: tempfile.TemporaryDirectory[str] | None = None
        self._mutex = threading.Lock()

    def save(self, study_id: int, number: int, values: Mapping[str, Any]) -> list[ArtefactRecord]:
        records = []
        for name, value in values.items():
            with _writing(name, number):
                if isinstance(value, Path):
                    suffix, content = checked_source(value, called(name, number)), value.read_bytes()
                else:
                    buffer = io.BytesIO()
                    suffix = write_value(value, buffer, called(name, number))
                    content = buffer.getvalue()
                digest = hashlib.sha256(content).hexdigest()
                records.append(ArtefactRecord(study_id, number, name, suffix, len(content), digest, content))
        return records

    def read(self, record: ArtefactRecord) -> bytes:
        table = schema.artefacts
        query = select(table.c.content).where(
            table.c.study_id == record.study_id, table.c.number == record.number, table.c.name == record.name
        )
        content = self._database.run(lambda connection: connection.execute(query).scalar())
        if content is None:
            raise StoreError(f"{record} is not in the database at {self._database.location}; restore it from a backup")
        return bytes(content)

    def paths(self, records: Iterable[ArtefactRecord]) -> Mapping[str, Path]:
        return _FetchedFiles(self, {record.name: self._kept(record) for record in records})

    def _kept(self, record: ArtefactRecord) -> ArtefactRecord:
        """The record without its content, which is put where `fetch` looks: it need not come back from a server."""
        if record.content is None:
            return record
        self._written(record, lambda: record.content or b"")
        return replace(record, content=None)

    def fetch(self, record: ArtefactRecord) -> Path:
        """The file of an artefact, from the database if it is not here yet."""
        return self._written(record, lambda: self.read(record))

    def _written(self, record: ArtefactRecord, content: Callable[[], bytes]) -> Path:
        try:
            with self._mutex:
                if self._cache is None:
                    self._cache = tempfile.TemporaryDirectory(prefix="headstart-", ignore_cleanup_errors=True)
                path = Path(self._cache.name, f"{record.study_id}-{record.file_name}")
                if not path.exists():
                    partial = path.with_name(path.name + ".part")
                    partial.write_bytes(content())
                    partial.replace(path)
        except OSError as error:
            raise StoreError(
                f"{record} cannot be fetched to a file: {error}; free space in the temporary directory"
            ) from error
        return path

    def close(self) -> None:
        if self._cache is not None:
            self._cache.cleanup()
            self._cache = None


class _FetchedFiles(Mapping[str, Path]):
    """Names to files, each fetched when it is asked for; valid until the store is closed."""

    def __init__(self, artefacts: BlobArtefacts, records: Mapping[str, ArtefactRecord]) -> None:
        self._artefacts = artefacts
        self._records = records

    def __getitem__(self, name: str) -> Path:
        return self._artefacts.fetch(self._records[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"<artefacts {', '.join(self._records)}>"

    def __reduce__(self) -> tuple[Any, ...]:  # a copy for another process has the files, not the connection
        return dict, (dict(self),)


def _link_or_copy(source: Path, target: Path) -> None:
    """Give a file a second, durable place.

    One that was handed over loses its first place when the row is written: no failure before that loses it. A user's
    file is copied, for the user may change it.
    """
    target.unlink(missing_ok=True)
    if isinstance(source, SpooledFile):
        with contextlib.suppress(OSError):  # another file system, or one without links
            os.link(source, target)
            return
    shutil.copyfile(source, target)


@contextlib.contextmanager
def _writing(name: str, number: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{called(name, number)} cannot be written: {error}; free space or make the directory "
            "writable, then try again; what was stored is intact"
        ) from error


def sync_directory(path: Path) -> None:
    """Make names in a directory durable, where the system has a way to."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
