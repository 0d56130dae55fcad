"""`StudyLog`: what a study asked, found and was told, in order; `StudyView`: the same to read only."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from sqlalchemy import Connection, bindparam, exists, insert, select

from headstart.errors import InvalidInput, StoreError, StudyLocked, UnknownName, suggestion
from headstart.store import codec, schema
from headstart.store.artefact_values import ArtefactRecord, check_names, load
from headstart.store.artefacts import Artefacts
from headstart.store.database import Database, Release
from headstart.store.schema import ASK, TELL
from headstart.trials import Proposal, Trial

_study = bindparam("study_id", type_=schema.studies.c.id.type)

# Statements are built once: the same object finds its compiled form faster.
_EVENTS = (
    select(schema.events.c.kind, schema.events.c.number)
    .where(schema.events.c.study_id == _study)
    .order_by(schema.events.c.position)
)
_PROPOSALS = (
    select(schema.proposals.c.number, schema.proposals.c.content)
    .where(schema.proposals.c.study_id == _study)
    .order_by(schema.proposals.c.number)
)
_TRIALS = (
    select(schema.trials.c.number, schema.proposals.c.content, schema.trials.c.content)
    .join_from(
        schema.trials,
        schema.proposals,
        (schema.proposals.c.study_id == schema.trials.c.study_id)
        & (schema.proposals.c.number == schema.trials.c.number),
    )
    .where(schema.trials.c.study_id == _study)
    .order_by(schema.trials.c.number)
)
_HAS_TRIAL = exists().where(
    schema.trials.c.study_id == schema.proposals.c.study_id, schema.trials.c.number == schema.proposals.c.number
)
_WAS_TOLD = exists().where(
    schema.events.c.study_id == schema.trials.c.study_id,
    schema.events.c.number == schema.trials.c.number,
    schema.events.c.kind == TELL,
)
_ARTEFACTS = select(
    *(schema.artefacts.c[name] for name in ("study_id", "number", "name", "suffix", "size", "sha256"))
).where(schema.artefacts.c.study_id == _study)

_FINISHED = select(schema.trials.c.number).where(schema.trials.c.study_id == _study)

_ADD_EVENT = insert(schema.events)
_ADD_PROPOSAL = insert(schema.proposals)
_ADD_TRIAL = insert(schema.trials)
_ADD_ARTEFACT = insert(schema.artefacts)


class StudyView:
    """A study in a store, to read while another process may be writing it.

    Attributes
    ----------
    name, task_key, seed, settings
        As given when the study was created.
    """

    def __init__(self, database: Database, artefacts: Artefacts, row: Mapping[str, Any]) -> None:
        self._database = database
        self._artefacts = artefacts
        self._id: int = row["id"]
        self.name: str = row["name"]
        self.task_key: str = row["task_key"]
        with codec.reading(f"study {self.name!r}"):
            self.seed = int(row["seed"])
        self.settings: dict[str, Any] = codec.decode_mapping(row["settings"], f"study {self.name!r}")

    def events(self) -> list[Proposal | Trial]:
        """Proposals asked for and trials told, in the order the optimizer saw them."""
        # Rows are only ever added: read in this order, all that an event refers to is there.
        events = self._rows(_EVENTS)
        trials = {trial.number: trial for trial in self.trials()}
        proposals = {number: trial.proposal for number, trial in trials.items()}
        unfinished = {number for _, number in events} - proposals.keys()
        if unfinished:
            rows = self._rows(_PROPOSALS)
            proposals |= {number: codec.decode_proposal(content) for number, content in rows if number in unfinished}
        with codec.reading(f"study {self.name!r}"):
            return [proposals[number] if kind == ASK else trials[number] for kind, number in events]

    def trials(self) -> list[Trial]:
        """All finished trials by number, told or not.

        Artefacts of their outcomes are paths of files in the store (of a store in a database: files fetched when looked
        at, there until the store is closed). `artefact` checks and loads one.
        """
        return self._trials(_TRIALS)

    def untold(self) -> list[Trial]:
        """Finished trials that the optimizer was not told yet, by number."""
        return self._trials(_TRIALS.where(~_WAS_TOLD))

    def pending(self) -> list[Proposal]:
        """Proposals without a trial, by number."""
        return [codec.decode_proposal(text) for _, text in self._rows(_PROPOSALS.where(~_HAS_TRIAL))]

    def artefact(self, number: int, name: str, *, trusted: bool = False) -> Any:
        """Load an artefact of a trial, after a check of its size and checksum.

        Parameters
        ----------
        number
            Number of the trial.
        name
            Key in its outcome's ``artefacts``.
        trusted
            Whether to load pickles. Loading a pickle runs code that its writer chose: say True only for a store whose
            writers you trust as you trust the programs that you run.

        Returns
        -------
        Any
            An array (``.npy``), what was pickled (``.pkl``), or else bytes.

        Raises
        ------
        UnknownName
            If the trial has no such artefact.
        StoreError
            If it is damaged, or a pickle and not `trusted`.
        """
        records = self._records(_ARTEFACTS.where(schema.artefacts.c.number == number)).get(number, [])
        for record in records:
            if record.name == name:
                return load(self._artefacts.read(record), record, trusted=trusted)
        raise UnknownName(
            f"trial {number} of study {self.name!r} has no artefact {name!r}; "
            + suggestion(name, [record.name for record in records])
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} in {self._database.location}>"

    def _rows(self, query: Any) -> list[Any]:
        return self._database.run(lambda connection: list(connection.execute(query, {"study_id": self._id}).all()))

    def _records(self, query: Any = _ARTEFACTS) -> dict[int, list[ArtefactRecord]]:
        by_number = defaultdict(list)
        for row in self._rows(query):
            by_number[row.number].append(ArtefactRecord(*row))
        return by_number

    def _trials(self, query: Any) -> list[Trial]:
        rows = self._rows(query)
        records = self._records() if rows else {}
        return [
            codec.decode_trial(trial, codec.decode_proposal(proposal), self._artefacts.paths(records.get(number, ())))
            for number, proposal, trial in rows
        ]


class StudyLog(StudyView):
    """A study in a store, to write. It holds the study's lock until it is closed.

    Each call is one transaction and returns when what it wrote is on the disk. All threads of the process may use it.
    """

    def __init__(
        self,
        database: Database,
        artefacts: Artefacts,
        row: Mapping[str, Any],
        release: Release,
    ) -> None:
        super().__init__(database, artefacts, row)
        self._release: Release | None = release
        self._mutex = threading.RLock()
        # What is logged, kept here too: only this object writes, so a mistake is found without a query.
        events = self._rows(_EVENTS)
        self._position = len(events)
        self._asked = {number for kind, number in events if kind == ASK}
        self._told = {number for kind, number in events if kind == TELL}
        self._finished = {number for (number,) in self._rows(_FINISHED)}
        self._finishing: set[int] = set()
        self._writing: _Write | None = None
        database.regain[self._id] = self._regain
        artefacts.sweep(self._id, [record for records in self._records().values() for record in records])

    def ask(self, *proposals: Proposal) -> None:
        """Log that the optimizer made these proposals, in this order; all of them or, on failure, none."""
        numbers = [proposal.number for proposal in proposals]
        rows = [
            {"study_id": self._id, "number": p.number, "content": codec.encode(p.to_dict(), f"proposal {p.number}")}
            for p in proposals
        ]
        with self._mutex:
            self._check_open()
            for i, number in enumerate(numbers):
                if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**31:
                    raise InvalidInput(f"a proposal's number must be an integer from 0 to 2**31 - 1, got {number!r}")
                if number in self._asked or number in numbers[:i]:
                    raise InvalidInput(f"proposal {number} of study {self.name!r} is already logged; give a new number")
            if not rows:
                return
            self._write(_Write(ASK, numbers, [(_ADD_PROPOSAL, rows)]))
            self._asked.update(numbers)

    def finish(self, trial: Trial, told: bool = True) -> Trial:
        """Keep a trial with its artefacts: when this returns, neither can be lost.

        Parameters
        ----------
        trial
            Its proposal must have been asked for. Files that its artefacts name by path are moved into the store, when
            all else is written: after an error they are where they were, and it can be tried again.
        told
            Whether the optimizer is told it now. If not, `tell` says when.

        Returns
        -------
        Trial
            The same, with artefacts that are paths of files in the store.
        """
        number, values = trial.number, trial.outcome.artefacts
        row = {
            "study_id": self._id,
            "number": number,
            "content": codec.encode_trial(trial),
            "status": trial.outcome.status.value,
            "loss": trial.outcome.loss if trial.outcome.ok else None,
            "full_fidelity": trial.outcome.fidelity.is_full,
        }
        check_names(values, number)
        with self._mutex:
            self._check_open()
            self._check_asked(number)
            if number in self._finished or number in self._finishing:
                raise InvalidInput(f"trial {number} of study {self.name!r} is already finished")
            self._finishing.add(number)
        try:
            # Not under the mutex: other threads need not wait for large files. If the row cannot be written the files
            # stay, since an interrupt may come just after the commit; another attempt or the next opening clears them.
            records = self._artefacts.save(self._id, number, values)
            with self._mutex:
                self._check_open()
                rows: list[tuple[Any, Any]] = [(_ADD_TRIAL, [row])]
                if records:
                    rows.append((_ADD_ARTEFACT, [asdict(record) for record in records]))
                self._write(_Write(TELL, [number] if told else [], rows, finishes=row))
                self._finished.add(number)
                if told:
                    self._told.add(number)
        finally:
            self._finishing.discard(number)
        self._artefacts.remove_sources(values)
        return replace(trial, outcome=replace(trial.outcome, artefacts=self._artefacts.paths(records)))

    def tell(self, *numbers: int) -> None:
        """Log that the optimizer is told these finished trials, in this order; all of them or, on failure, none."""
        with self._mutex:
            self._check_open()
            for i, number in enumerate(numbers):
                self._check_asked(number)
                if number not in self._finished:
                    raise InvalidInput(f"trial {number} of study {self.name!r} must be finished before it is told")
                if number in self._told or number in numbers[:i]:
                    raise InvalidInput(f"trial {number} of study {self.name!r} has already been told")
            if not numbers:
                return
            self._write(_Write(TELL, list(numbers), []))
            self._told.update(numbers)

    def close(self) -> None:
        """Release the study's lock; closing twice does nothing."""
        with self._mutex:
            if self._release is not None:
                self._database.regain.pop(self._id, None)
                self._release()
                self._release = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_open(self) -> None:
        self._database.check_open()
        if self._release is None:
            raise StoreError(f"study {self.name!r} is closed for writing; open it again with open_study")

    def _check_asked(self, number: int) -> None:
        if number not in self._asked:
            raise InvalidInput(f"trial {number} of study {self.name!r} has no proposal; log one with ask first")

    def _write(self, write: _Write) -> None:
        """Commit something once, also if the connection is lost meanwhile, with the answer to a commit or without."""
        events = [
            {"study_id": self._id, "position": self._position + i, "kind": write.kind, "number": number}
            for i, number in enumerate(write.events)
        ]
        statements = [*write.rows, (_ADD_EVENT, events)] if events else write.rows

        def work(connection: Connection) -> None:
            if not write.done:
                self._database.backend.execute(connection, statements)

        self._writing = write
        try:
            self._database.run(work, write=True)
            self._position += len(events)
        finally:
            self._writing = None

    def _regain(self, connection: Connection) -> None:
        """Take the lock again on a new connection, and see whether what was being written is there.

        While the connection was lost the lock was free. If somebody else has written to the study, it is theirs now.
        """
        with connection.begin():
            lock = self._database.backend.lock(self._database, connection, self._id)
            if isinstance(lock, str):
                raise self._taken(f"is being run by {lock}")

            def rows(query: Any) -> list[Any]:
                return list(connection.execute(query, {"study_id": self._id}).all())

            added = [(kind, number) for kind, number in rows(_EVENTS)[self._position :]]
            finished = {number for (number,) in rows(_FINISHED)}
            write = self._writing
            if not added and finished == self._finished:
                return
            if write is not None and added == [(write.kind, number) for number in write.events]:
                row = write.finishes
                ours = self._finished if row is None else self._finished | {row["number"]}
                content = None if row is None else {n: text for n, _, text in rows(_TRIALS)}.get(row["number"])
                if finished == ours and (row is None or content == row["content"]):
                    write.done = True
                    return
            lock()
        raise self._taken("was continued by another process")

    def _taken(self, what: str) -> StudyLocked:
        return StudyLocked(
            f"study {self.name!r} {what} since the connection to the store at {self._database.location} was lost; "
            "what was stored before is in it"
        )


@dataclass
class _Write:
    """What a transaction adds to a study: events of one kind, rows, and perhaps the row of a trial."""

    kind: str
    events: Sequence[int]
    rows: list[tuple[Any, Any]]
    finishes: Mapping[str, Any] | None = None
    done: bool = False
    """Whether it was found in the database after the answer to the commit was lost."""
