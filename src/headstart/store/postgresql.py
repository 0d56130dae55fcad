"""PostgreSQL, by URL. All that is particular to it is here.

The lock of a study is an advisory lock of the session: it ends with the connection, hence with the process. A pooler
between the two must therefore keep sessions (pgbouncer: ``pool_mode=session``).

When a connection is lost the server may not know it, keep the lock, and even be about to commit what was sent last. A
new connection therefore ends the old session first: once that is gone, what it did is settled.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy import URL, Connection, create_engine, text
from sqlalchemy.pool import NullPool

from headstart.errors import MissingDependency, StoreError
from headstart.store import schema as tables
from headstart.store.database import Backend, Database, Release
from headstart.store.filelock import holder_name
from headstart.store.location import shown_location

_NO_ANSWER = "no answer of the server"
_EXPLANATIONS = {
    "53100": "cannot grow because the server's disk is full; free space and try again; what was stored is intact",
    "25006": "cannot be written to because the server is read-only; connect to the primary",
    "42501": "denies a right that is needed; its owner grants rights with 'headstart grant'",
    "23": "was changed by another process in a way that the study's lock should have prevented",
    "28": "rejects the user or the password; check the URL",
    "3D": "does not exist; create the database first",
    _NO_ANSWER: "cannot be reached; check the URL and whether the server is running",
}
_SILENCE_SECONDS = 20
"""After so long without a sign of life the other end is taken for gone, by client and server."""
_CLIENT_OPTIONS = {
    "connect_timeout": 10,
    "keepalives_idle": _SILENCE_SECONDS // 2,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 1000 * _SILENCE_SECONDS,
}
_SERVER_OPTIONS = {
    "tcp_keepalives_idle": _SILENCE_SECONDS // 2,
    "tcp_keepalives_interval": 5,
    "tcp_keepalives_count": 2,
    "tcp_user_timeout": 1000 * _SILENCE_SECONDS,
}
_AWAY = ("08", "57P0", "53300")
"""Codes of a connection that is lost, a server that stops or starts, and one that has too many connections."""


class PostgreSQLBackend(Backend):
    """A database on a server; the tables go to the first schema of the search path."""

    shared = True
    explanations = _EXPLANATIONS

    def __init__(self, url: URL) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise MissingDependency(
                "a PostgreSQL store needs the package psycopg; install it with: pip install 'headstart[postgres]'"
            ) from error
        self.driver_error = psycopg.Error
        engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            poolclass=NullPool,
            connect_args={"application_name": f"headstart {holder_name()}"[:63], **_CLIENT_OPTIONS},
        )
        super().__init__(engine, shown_location(url.render_as_string(hide_password=False), "***"))

    def code(self, error: BaseException) -> str | None:
        return getattr(error, "sqlstate", None) or _NO_ANSWER

    def explain(self, error: BaseException, statement: str = "") -> str:
        said = super().explain(error, statement)
        right = statement.partition(" ")[0]
        return said.replace("a right that is needed", f"the right {right}") if right in ("SELECT", "INSERT") else said

    def is_away(self, error: BaseException) -> bool:
        import psycopg

        code = getattr(error, "sqlstate", None)
        return isinstance(error, psycopg.OperationalError) and (code is None or code.startswith(_AWAY))

    def session(self, connection: Connection) -> object:
        settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SERVER_OPTIONS.items())
        query = f"SELECT pid, backend_start, {settings} FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        with connection.begin():
            return tuple(connection.execute(text(query)).one())[:2]

    def end_session(self, connection: Connection, session: Any) -> None:
        pid, start = session
        there = text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid AND backend_start = :start"
        )
        give_up = time.monotonic() + _SILENCE_SECONDS
        while True:
            with connection.begin():
                if connection.execute(there, {"pid": pid, "start": start}).first() is None:
                    return
            if time.monotonic() > give_up:
                raise StoreError(f"the store at {self.location} still has a session of ours that does not end")
            time.sleep(0.02)

    def grant(self, connection: Connection, role: str, write: bool) -> None:
        quote = connection.dialect.identifier_preparer.quote_identifier
        schema = quote(str(connection.execute(text("SELECT current_schema()")).scalar()))
        statements = [f"GRANT USAGE ON SCHEMA {schema} TO {quote(role)}"]
        for table in tables.metadata.sorted_tables:
            adds = ", INSERT" if write and table is not tables.properties else ""
            statements.append(f"GRANT SELECT{adds} ON {schema}.{table.name} TO {quote(role)}")
        if write:
            statements.append(f"GRANT USAGE ON SEQUENCE {schema}.{tables.studies.name}_id_seq TO {quote(role)}")
        for statement in statements:
            connection.exec_driver_sql(statement.replace("%", "%%"))

    def running(self, connection: Connection, studies: list[int]) -> dict[int, str]:
        schema = connection.execute(text("SELECT current_schema()")).scalar()
        keys = {_key(f"{schema}:{study}"): study for study in studies}
        held = connection.execute(text(_HOLDERS)).all()
        return {keys[key]: _holder(name) for key, name in held if key in keys}

    def before_change(self, connection: Connection) -> None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _key("creation")})

    def let_go_in_fork(self, connection: Connection) -> None:
        # The server takes a session for alive while any process has its socket. To close it properly would end the
        # parent's session, and a closed descriptor could become another file's: put something harmless there.
        driver: Any = connection.connection.driver_connection
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, driver.pgconn.socket, inheritable=False)
        os.close(nothing)

    def lock(self, database: Database, connection: Connection, study_id: int) -> Release | str:
        schema = connection.execute(text("SELECT current_schema()")).scalar()
        key = _key(f"{schema}:{study_id}")
        if connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar():
            return partial(_unlock, database, key)
        holder = connection.execute(text(f"{_HOLDERS} AND {_LOCK_KEY} = :key"), {"key": key}).first()
        return _holder(None if holder is None else holder[1])


# A key of 64 bits is shown as its two halves.
_LOCK_KEY = "(l.classid::bigint << 32 | l.objid::bigint)"
_HOLDERS = (
    f"SELECT {_LOCK_KEY}, a.application_name FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def _holder(application: str | None) -> str:
    return (application or "another process").removeprefix("headstart ")


def _unlock(database: Database, key: int) -> None:
    # If the connection is gone, the lock is so too.
    with suppress(StoreError), database.transaction() as connection:
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": key})


def _key(what: str) -> int:
    """A number of 63 bits: advisory locks are shared by all programs that use the database."""
    return int.from_bytes(hashlib.sha256(f"headstart:{what}".encode()).digest()[:8]) >> 1
