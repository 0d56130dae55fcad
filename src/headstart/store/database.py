"""`Database`: one connection with transactions, for all threads; `Backend`: what is special to a kind of database."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, inspect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from headstart.errors import StoreAway, StoreError, StoreVersionError, warn_user
from headstart.store import schema
from headstart.store.filelock import let_go_in_forks

Release = Callable[[], None]
"""Releases a study's lock."""

Result = TypeVar("Result")

_PATIENCE_SECONDS = 600.0
"""How long to wait for a server that is away, where no time budget says so."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds between two attempts to connect; each pause is twice the one before."""


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

    def explain(self, error: BaseException, statement: str = "") -> str:  # noqa: ARG002
        """What an error of the driver means and what to do, as the end of a sentence; it contains no password."""
        code = self.code(error) or ""
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        found = [explanation for start, explanation in self.explanations.items() if code.startswith(start)]
        return f"{found[0]} ({said})" if found else f"failed: {said}"

    def is_away(self, error: BaseException) -> bool:  # noqa: ARG002
        """Whether an error means that the connection is lost, or cannot be made now, and another may succeed."""
        return False

    def end_session(self, connection: Connection, session: Any) -> None:  # noqa: B027
        """Called on a new connection: see to it that nothing of a lost one is under way any more."""

    def session(self, connection: Connection) -> object:  # noqa: ARG002
        """What `end_session` needs to know of a connection."""
        return None

    def grant(self, connection: Connection, role: str, write: bool) -> None:  # noqa: ARG002
        """Give a user of the database the rights to read a store or also to add to it, and no others."""
        raise StoreError(
            f"the store at {self.location} is made of files; give people rights with the permissions of the files"
        )

    def execute(self, connection: Connection, statements: Sequence[tuple[Any, Any]]) -> None:
        """Execute statements with their rows."""
        for statement, rows in statements:
            connection.execute(statement, rows)

    @abstractmethod
    def running(self, connection: Connection, studies: list[int]) -> dict[int, str]:
        """Who writes to studies now, by study."""

    @abstractmethod
    def lock(self, database: Database, connection: Connection, study_id: int) -> Release | str:
        """Take a study's lock for as long as this process lives, or tell the name of the holder.

        It is called inside a transaction of the connection. The caller sees to it that one `Database` never asks twice.
        """

    def before_change(self, connection: Connection) -> None:  # noqa: B027
        """Called in the transaction that makes or migrates the tables, to keep other processes from doing so too."""

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
        self._session: object = None
        self._waits = True
        self.wait_until: float | None = None
        """Unix time until which a server that is away is waited for."""
        self.regain: dict[int, Callable[[Connection], None]] = {}
        """By study that is open for writing: takes its lock again on a new connection."""
        _open.add(self)
        try:
            with self._explained():
                self._connection = backend.engine.connect()
                self._session = backend.session(self._connection)
            self._prepare(artefacts, create)
            with self._explained():
                backend.tune(self._connection)
        except BaseException:
            self.close()
            raise

    @property
    def location(self) -> str:
        return self.backend.location

    def run(self, work: Callable[[Connection], Result], *, write: bool = False) -> Result:
        """What `work` returns, done in a transaction; after the connection was lost it is done again on a new one.

        The answer to a commit may be lost with the connection: work that writes must look whether it is done already.
        """
        with self._mutex:
            lost = False
            while True:
                connection = self.check_open()
                nested = connection.in_transaction()
                if connection.invalidated and not nested:
                    connection = self._reconnect(lost)
                try:
                    with self.transaction(write=write) as connection:
                        return work(connection)
                except StoreAway:
                    if nested:
                        raise  # the whole transaction is begun again
                    connection.invalidate()
                    lost = True

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

    def _reconnect(self, said: bool) -> Connection:
        """Connect again, as soon as the server is back; `said` is whether the user should know at once."""
        began = time.time()
        until = began + _PATIENCE_SECONDS if self.wait_until is None else self.wait_until
        pause, away = _FIRST_PAUSE, False
        while True:
            try:
                connection = self._connect_anew()
                break
            except StoreAway as error:
                left = until - time.time()
                if left <= 0 or not self._waits:
                    self._waits = False  # from now on it is only looked whether it is back
                    raise StoreAway(f"{error}; what was stored is intact, and studies can be resumed") from error
                if not away:
                    since = time.strftime("%H:%M:%S", time.localtime(began))
                    warn_user(f"{error}; away since {since}, trying again for {left:.0f} s")
                    said = away = True
                time.sleep(min(pause, left))
                pause = min(2 * pause, _LONGEST_PAUSE)
        self._waits = True
        if said:
            clock = time.strftime("%H:%M:%S")
            warn_user(f"the store at {self.location} is back since {clock}, after {time.time() - began:.1f} s")
        return connection

    def _connect_anew(self) -> Connection:
        with self._explained():
            new = self.backend.engine.connect()
            try:
                self.backend.end_session(new, self._session)
                session = self.backend.session(new)
                for regain in list(self.regain.values()):
                    regain(new)
            except BaseException:
                new.invalidate()
                new.close()
                raise
        if self._connection is not None:
            self._connection.close()
        self._connection, self._session = new, session
        return new

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
        """The connection; raises unless it is open, works, and is that of this process."""
        connection = self.check_open()
        if connection.invalidated:
            raise StoreAway(f"the connection to the store at {self.location} was lost")
        return connection

    def check_open(self) -> Connection:
        """The connection, which may be lost; raises unless it is that of this process, and not closed."""
        if self._process != os.getpid():
            raise StoreError(
                f"the store at {self.location} was opened in process {self._process} and cannot be used in its fork "
                f"{os.getpid()}; open it again there"
            )
        if self._connection is None:
            raise StoreError(f"the store at {self.location} is closed; open it again")
        return self._connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """The one place where errors of SQLAlchemy and drivers become ours."""
        try:
            yield
        except DBAPIError as error:
            raise self._store_error(error.orig or error, error.statement or "") from error
        except (SQLAlchemyError, self.backend.driver_error) as error:
            raise self._store_error(error) from error

    def _store_error(self, error: BaseException, statement: str = "") -> StoreError:
        kind = StoreAway if self.backend.is_away(error) else StoreError
        return kind(f"the store at {self.location} {self.backend.explain(error, statement)}")

    def _prepare(self, artefacts: str, create: bool) -> None:
        """Make sure that the database holds a store of this format."""
        with self.transaction() as connection:
            content = schema.read_properties(connection)
        if content is None:
            content = self._create(artefacts, create)
        version = schema.stored_version(content, self.location)
        if version < schema.FORMAT_VERSION:
            content = self._migrate(version)
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

    def _migrate(self, version: int) -> dict[str, str]:
        """Bring a store of an older format to this one."""
        try:
            with self.transaction(write=True) as connection:
                self.backend.before_change(connection)
                # Another process may have been faster.
                content = schema.read_properties(connection) or {}
                schema.migrate(connection, schema.stored_version(content, self.location))
                return content
        except StoreError as error:
            raise StoreVersionError(
                f"the store at {self.location} has format version {version} and must become "
                f"{schema.FORMAT_VERSION}, which its owner does by opening it: {error}"
            ) from error

    def _create(self, artefacts: str, create: bool) -> dict[str, str]:
        with self.transaction(write=True) as connection:
            self.backend.before_change(connection)
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
