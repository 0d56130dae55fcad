"""PostgreSQL, by URL. All that is particular to it is here.

The lock of a study is an advisory lock of the session: it ends with the connection, hence with the process. A pooler
between the two must therefore keep sessions (pgbouncer: ``pool_mode=session``).
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy import URL, Connection, create_engine, text
from sqlalchemy.pool import NullPool

from headstart.errors import MissingDependency, StoreError
from headstart.store.database import Backend, Database, Release
from headstart.store.filelock import holder_name

_NO_ANSWER = "no answer of the server"
_EXPLANATIONS = {
    "53100": "cannot grow because the server's disk is full; free space and try again; what was stored is intact",
    "25006": "cannot be written to because the server is read-only; connect to the primary",
    "42501": "denies permission; grant the user the right to create, read and write tables",
    "23": "was changed by another process in a way that the study's lock should have prevented",
    "28": "rejects the user or the password; check the URL",
    "3D": "does not exist; create the database first",
    _NO_ANSWER: "cannot be reached; check the URL and whether the server is running",
}


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
            connect_args={"application_name": f"headstart {holder_name()}"[:63], "connect_timeout": 10},
        )
        super().__init__(engine, url.render_as_string(hide_password=True))

    def code(self, error: BaseException) -> str | None:
        return getattr(error, "sqlstate", None) or _NO_ANSWER

    def before_creation(self, connection: Connection) -> None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _key("creation")})

    def let_go_in_fork(self, connection: Connection) -> None:
        # The server takes a session for alive while any process has its socket. To close it properly would end the
        # parent's session, and a closed descriptor could become another file's: put something harmless there.
        driver: Any = connection.connection.driver_connection
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, driver.pgconn.socket, inheritable=False)
        os.close(nothing)

    def lock(self, database: Database, study_id: int) -> Release | str:
        with database.transaction() as connection:
            schema = connection.execute(text("SELECT current_schema()")).scalar()
            key = _key(f"{schema}:{study_id}")
            if connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar():
                return partial(_unlock, database, key)
            # A key of 64 bits is shown as its two halves.
            holder = connection.execute(
                text(
                    "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
                    "WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = :high "
                    "AND l.objid::bigint = :low AND l.objsubid = 1"
                ),
                {"high": key >> 32, "low": key & 0xFFFFFFFF},
            ).scalar()
        return str(holder or "another process").removeprefix("headstart ")


def _unlock(database: Database, key: int) -> None:
    # If the connection is gone, the lock is so too.
    with suppress(StoreError), database.transaction() as connection:
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": key})


def _key(what: str) -> int:
    """A number of 63 bits: advisory locks are shared by all programs that use the database."""
    return int.from_bytes(hashlib.sha256(f"headstart:{what}".encode()).digest()[:8]) >> 1
