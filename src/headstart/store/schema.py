"""Tables of a store, its format version, and how older formats become this one.

Only portable SQL types: what a database does in its own way is in its backend module.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy import Column, Connection, Integer, String, Text

from headstart.errors import StoreError, StoreVersionError

FORMAT_VERSION = 2
"""Format that this Headstart writes."""


def _add_author(connection: Connection) -> None:
    connection.execute(sa.text("ALTER TABLE headstart_study ADD COLUMN author VARCHAR(200)"))


MIGRATIONS: dict[int, Callable[[Connection], None]] = {1: _add_author}
"""By format version: what turns a store of that version into the next one. It runs inside the transaction that also
raises the version, so a store is never left between two formats."""

metadata = sa.MetaData()

properties = sa.Table(
    "headstart_store",
    metadata,
    Column("key", String(50), primary_key=True),
    Column("value", Text, nullable=False),
)

tasks = sa.Table(
    "headstart_task",
    metadata,
    Column("key", String(200), primary_key=True),
    Column("info", Text, nullable=False),
    Column("created", sa.Double, nullable=False),
)

studies = sa.Table(
    "headstart_study",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False, unique=True),
    Column("task_key", sa.ForeignKey(tasks.c.key), nullable=False),
    Column("seed", Text, nullable=False),  # text: entropy of a seed sequence has more bits than any integer column
    Column("settings", Text, nullable=False),
    Column("created", sa.Double, nullable=False),
    Column("version", String(50), nullable=False),
    Column("author", String(200)),  # NULL in a store of format 1
)

proposals = sa.Table(
    "headstart_proposal",
    metadata,
    Column("study_id", sa.ForeignKey(studies.c.id), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
)

trials = sa.Table(
    "headstart_trial",
    metadata,
    Column("study_id", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", Text, nullable=False),
    # Copies from `content`, for queries; the loss of an outcome that is not ok is NULL.
    Column("status", String(20), nullable=False),
    Column("loss", sa.Double),
    Column("full_fidelity", sa.Boolean, nullable=False),
    sa.ForeignKeyConstraint(["study_id", "number"], [proposals.c.study_id, proposals.c.number]),
)

ASK, TELL = "ask", "tell"

events = sa.Table(
    "headstart_event",
    metadata,
    Column("study_id", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("kind", String(4), nullable=False),
    Column("number", Integer, nullable=False),
    sa.ForeignKeyConstraint(["study_id", "number"], [proposals.c.study_id, proposals.c.number]),
    sa.UniqueConstraint("study_id", "kind", "number"),
)

artefacts = sa.Table(
    "headstart_artefact",
    metadata,
    Column("study_id", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", String(100), primary_key=True),
    Column("suffix", String(20), nullable=False),
    Column("size", sa.BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("content", sa.LargeBinary),  # NULL where artefacts are files
    sa.ForeignKeyConstraint(["study_id", "number"], [trials.c.study_id, trials.c.number]),
)


def read_properties(connection: Connection) -> dict[str, str] | None:
    """What the store says about itself, or None where there is no store yet."""
    if not sa.inspect(connection).has_table(properties.name):
        return None
    return {row.key: row.value for row in connection.execute(sa.select(properties))}


def create(connection: Connection, content: dict[str, str]) -> None:
    """Make the tables, and note the format version and `content`."""
    metadata.create_all(connection)
    rows = {"format_version": str(FORMAT_VERSION), **content}
    connection.execute(sa.insert(properties), [{"key": key, "value": value} for key, value in rows.items()])


def stored_version(content: dict[str, str], location: str) -> int:
    """Format version of the store; raises if this Headstart cannot read it or migrate it."""
    text = content.get("format_version", "")
    if not text.isdecimal() or len(text) > 9:
        raise StoreError(
            f"the store at {location} is damaged: its format version must be a number, found {text[:20]!r}; restore it "
            "from a backup"
        )
    version = int(text)
    if version > FORMAT_VERSION:
        raise StoreVersionError(
            f"the store at {location} has format version {version}; this Headstart reads up to "
            f"{FORMAT_VERSION}; upgrade Headstart"
        )
    missing = [step for step in range(version, FORMAT_VERSION) if step not in MIGRATIONS]
    if missing:
        raise StoreVersionError(
            f"the store at {location} has format version {version}; this Headstart writes {FORMAT_VERSION} and has no "
            f"migration from {missing[0]}; open it once with a Headstart that has one, or start a new store"
        )
    return version


def migrate(connection: Connection, version: int) -> None:
    """Bring a store from `version` to `FORMAT_VERSION`, all inside the transaction of `connection`."""
    for step in range(version, FORMAT_VERSION):
        MIGRATIONS[step](connection)
    connection.execute(
        sa.update(properties).where(properties.c.key == "format_version").values(value=str(FORMAT_VERSION))
    )
