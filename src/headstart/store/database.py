"""`Database`: one connection with transactions, for all threads; `Backend`: what is special to a kind of database."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from headstart.errors import StoreError
from headstart.store import schema
from headstart.store.filelock import let_go_in_forks

Release = Callable[[], None]
"""Releases a study's lock."""


class Backend(ABC):
    """A kind of database.

    Parameters
    ----------
    engine
        Must open a connection of its own at each connect, and close it when it is given back.
    location
        Where the database is, for messages: without a password.
    """

    WRITES = "headstart_writes"
    """Execution option of a connection: whether the transaction that begins next writes."""

    explanations: Mapping[str, str]
    """What errors mean and what to do, as ends of sentences, by the beginning of the driver's code."""

    driver_error: type[Exception]
    """Base of the errors that the database's driver raises."""

    reconnects = False
    """Whether another connection is as good as the one before: locks and data do not hang on it."""

    shared = False
    """Whether a database may hold tables of others next to a store's."""

    def __init__(self, engine: Engine, location: str) -> None:
        self.engine = engine
        self.location = location

    @abstractmethod
    def code(self, error: BaseException) -> str | None:
        """The driver's code of an error, if it has one."""

    def explain(self, error: BaseException) -> str:
        """What an error of the driver means and what to do, as the end of a sentence."""
        code = self.code(error) or ""
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        found = [explanation for start, explanation in self.explanations.items() if code.startswith(start)]
        return f"{found[0]} ({said})" if found else f"failed: {said}"

    @abstractmethod
    def lock(self, database: Database, study_id: int) -> Release | str:
        """Take a study's lock for as long as this process lives, or tell the name of the holder.

        It is called inside a transaction. The caller sees to it that one `Database` never asks twice.
        """

    def before_creation(self, connection: Connection) -> None:  # noqa: B027
        """Called in the transaction that makes the tables, to keep other processes from making them too."""

    def let_go_in_fork(self, connection: Connection) -> None:  # noqa: B027
        """Called in a fork of the process: drop what would keep its locks when it dies, without disturbing it."""

    def tune(self, connection: Connection) -> None:  # noqa: B027
        """Called once it is known that the database holds a store of ours, outside of any transaction."""


class Database:
    """The connection of an open store.

    All threads use one connection, one at a time: a write waits for the disk anyway, a read takes milliseconds, and it
    is the only way that works for an in-memory database too.

    Parameters
    ----------
    backend
        Kind of database.
    artefacts
        Where the store keeps artefacts, ``"files"`` or ``"blobs"``.
    create
        Whether to make the tables where there are none.
    """

    def __init__(self, backend: Backend, artefacts: str, create: bool) -> None:
        self.backend = backend
        self._mutex = threading.RLock()
        self._process = os.getpid()
        self._connection: Connection | None = None
        _open.add(self)
        try:
            with self._explained():
                self._connection = backend.engine.connect()
            self._prepare(artefacts, create)
            with self._explained():
                backend.tune(self._connection)
        except BaseException:
            self.close()
            raise

    @property
    def location(self) -> str:
        return self.backend.location

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Connection]:
        """A transaction, committed at the end; nested in another one of the same thread it is part of that."""
        with self._mutex, self._explained():
            connection = self.check_usable()
            if connection.in_transaction():
                yield connection
                return
            connection.execution_options(**{Backend.WRITES: write})
            try:
                with connection.begin():
                    yield connection
            except KeyboardInterrupt:
                self._open_anew(connection)
                raise

    def _open_anew(self, connection: Connection) -> None:
        """Replace a connection that Ctrl-C broke, where nothing hangs on it; the transaction is rolled back or done."""
        if connection.invalidated and self.backend.reconnects:
            connection.close()
            self._connection = self.backend.engine.connect()

    def let_go_in_fork(self) -> None:
        if self._connection is not None and self._process != os.getpid():
            self.backend.let_go_in_fork(self._connection)

    def close(self) -> None:
        with self._mutex:
            if self._connection is not None and self._process == os.getpid():
                try:
                    self._connection.close()
                except (SQLAlchemyError, self.backend.driver_error):  # the server is gone; so is the connection
                    self._connection.invalidate()
            self._connection = None

    def check_usable(self) -> Connection:
        """The connection; raises unless it is open, and is that of this process."""
        if self._process != os.getpid():
            raise StoreError(
                f"the store at {self.location} was opened in process {self._process} and cannot be used in its fork "
                f"{os.getpid()}; open it again there"
            )
        if self._connection is None:
            raise StoreError(f"the store at {self.location} is closed; open it again")
        if self._connection.invalidated:
            raise StoreError(
                f"the connection to {self.location} was lost; open the store again, studies can be resumed"
            )
        return self._connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """The one place where errors of SQLAlchemy and drivers become ours."""
        try:
            yield
        except DBAPIError as error:
            raise self._store_error(error.orig or error) from error
        except (SQLAlchemyError, self.backend.driver_error) as error:
            raise self._store_error(error) from error

    def _store_error(self, error: BaseException) -> StoreError:
        return StoreError(f"the store at {self.location} {self.backend.explain(error)}")

    def _prepare(self, artefacts: str, create: bool) -> None:
        """Make sure that the database holds a store of this format."""
        with self.transaction() as connection:
            content = schema.read_properties(connection)
        if content is None:
            content = self._create(artefacts, create)
        version = schema.stored_version(content, self.location)
        if version < schema.FORMAT_VERSION:
            with self.transaction(write=True) as connection:
                # Another process may have been faster.
                content = schema.read_properties(connection) or content
                schema.migrate(connection, schema.stored_version(content, self.location))
        kept_as = content.get("artefacts")
        if kept_as != artefacts:
            advice = (
                "open the directory that it is in"
                if kept_as == "files"
                else "open the database by its URL, such as sqlite:///runs.db"
            )
            raise StoreError(
                f"the store at {self.location} keeps its artefacts as {kept_as}, not {artefacts}; {advice}"
            )

    def _create(self, artefacts: str, create: bool) -> dict[str, str]:
        with self.transaction(write=True) as connection:
            self.backend.before_creation(connection)
            content = schema.read_properties(connection)
            if content is not None:
                return content
            others = [] if self.backend.shared else inspect(connection).get_table_names()
            if others:
                raise StoreError(
                    f"the database at {self.location} is not a Headstart store, but has the tables "
                    f"{', '.join(sorted(others)[:5])}; give another location"
                )
            if not create:
                raise StoreError(f"there is no store at {self.location}; check the location, or allow it to be created")
            schema.create(connection, {"artefacts": artefacts})
            return schema.read_properties(connection) or {}


_open = let_go_in_forks(Database.let_go_in_fork)
