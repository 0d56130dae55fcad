"""`History`: everything tried so far on a task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.constraints import Constraint, total_excess
from headstart.space.encoded import Encoded
from headstart.trials import FULL, Fidelity, Proposal, Trial

if TYPE_CHECKING:
    from headstart.space.candidates import Candidates

Array = NDArray[np.float64]
Scalarize = Callable[[Trial], float]
Encode = Callable[[Sequence[Proposal]], Encoded]


class History:
    """Trials in the order they were told, and proposals that are still under way.

    Parameters
    ----------
    candidates
        Of the task; they encode the pipelines.
    scalarize
        From a trial that is ok to the number that surrogates learn; its loss when omitted. Constraint penalties,
        costs and Lagrangians go here.
    constraints
        Bounds that the best trial must satisfy.
    encode
        From proposals to their encoding; by default the candidates encode their pipelines.
    """

    def __init__(
        self,
        candidates: Candidates,
        scalarize: Scalarize | None = None,
        constraints: Sequence[Constraint] = (),
        encode: Encode | None = None,
    ) -> None:
        self.candidates = candidates
        self.scalarize = scalarize
        self.constraints = tuple(constraints)
        self.encode: Encode = encode or (lambda proposals: candidates.encode([p.pipeline for p in proposals]))
        self.trials: list[Trial] = []
        self.pending: dict[int, Proposal] = {}
        self._encoded: Encoded | None = None
        self._waiting: tuple[list[int], Encoded] | None = None
        self._columns: dict[str, list[Any]] = {}

    def propose(self, proposal: Proposal) -> None:
        """A proposal is under way."""
        self.pending[proposal.number] = proposal

    def add(self, trial: Trial) -> None:
        """A trial is finished; its proposal is no longer pending."""
        self.pending.pop(trial.number, None)
        self.trials.append(trial)

    @property
    def encoded(self) -> Encoded:
        """Pipelines of all trials, in order; only those added since the last look are encoded."""
        known = 0 if self._encoded is None else len(self._encoded)
        if self._encoded is None or known < len(self.trials):
            new = self.encode([t.proposal for t in self.trials[known:]])
            self._encoded = new if self._encoded is None else Encoded.concatenate([self._encoded, new])
        return self._encoded

    @property
    def waiting(self) -> Encoded:
        """Pipelines of the pending proposals."""
        numbers, encoded = self._waiting or ([], self.encode([]))
        if numbers != [*self.pending]:  # only those added since the last look are encoded
            kept = [i for i, number in enumerate(numbers) if number in self.pending]
            known = {numbers[i] for i in kept}
            new = [proposal for number, proposal in self.pending.items() if number not in known]
            encoded = Encoded.concatenate([encoded.take(kept), self.encode(new)]) if kept else self.encode(new)
            self._waiting = ([*self.pending], encoded)
        return encoded

    @property
    def ok(self) -> NDArray[np.bool_]:
        """Which trials are ok; (n,)."""
        return np.array(self._column("ok", lambda trial: trial.outcome.ok), dtype=bool)

    def covers(self, fidelity: Fidelity) -> NDArray[np.bool_]:
        """Which trials were evaluated at this fidelity or a higher one; (n,)."""
        return np.array(self._column(repr(fidelity), lambda t: t.proposal.fidelity.covers(fidelity)), dtype=bool)

    def _column(self, name: str, of: Callable[[Trial], Any]) -> list[Any]:
        """Something of each trial, which stays; only those added since the last look are asked."""
        column = self._columns.setdefault(name, [])
        column += map(of, self.trials[len(column) :])
        return column

    def view(
        self,
        candidates: Candidates | None = None,
        scalarize: Scalarize | None = None,
        constraints: Sequence[Constraint] | None = None,
        encode: Encode | None = None,
    ) -> History:
        """The same trials and proposals, as they come, seen otherwise: what a sub-solver is started on.

        Parameters
        ----------
        candidates
            Others, such as a part of these.
        scalarize
            Targets of its own, such as a Lagrangian. It is asked at each look, so what it depends on may change.
        constraints
            Others; none for a sub-problem whose targets have them.
        encode
            An encoding of its own, such as relaxed values that the proposals have in their ``origin``.
        """
        view = History(
            candidates or self.candidates,
            scalarize or self.scalarize,
            self.constraints if constraints is None else constraints,
            encode or (self.encode if candidates is None else None),
        )
        view.trials, view.pending = self.trials, self.pending
        return view

    def mapped(self, transform: Callable[[Array], Array]) -> History:
        """A view whose targets are `transform` of these, an increasing function of arrays."""

        def target(trial: Trial) -> float:
            value = trial.outcome.loss if self.scalarize is None else self.scalarize(trial)
            return float(transform(np.array([value], dtype=np.float64))[0])

        view = self.view(scalarize=target)
        view._encoded = self.encoded if self.trials else None
        return view

    def where(self, keep: Callable[[Trial], bool], scalarize: Scalarize | None = None) -> History:
        """A view of the trials for which `keep` holds, with targets of its own where `scalarize` is given."""
        rows = [i for i, trial in enumerate(self.trials) if keep(trial)]
        view = History(self.candidates, scalarize or self.scalarize, self.constraints, self.encode)
        view.trials = [self.trials[i] for i in rows]
        view.pending = self.pending
        view._encoded = self.encoded.take(rows) if rows else None
        return view

    def full(self) -> History:
        """The trials at full fidelity only, which is what surrogates see unless they say otherwise."""
        if self.covers(FULL).all():
            return self
        return self.where(lambda t: t.proposal.fidelity.is_full)

    def targets(self) -> Array:
        """What a surrogate learns, one number per trial, to be minimised; the one place where failures get a value.

        Returns
        -------
        (n,) array; a trial that is not ok counts as much as the worst that is. Without any that is ok all are 0, for
        then there is nothing to tell them apart.
        """
        ok = self.ok
        if self.scalarize is None:
            losses = self._column("loss", lambda trial: trial.outcome.loss if trial.outcome.ok else 0.0)
            targets = np.array(losses, dtype=np.float64)
        else:
            targets = np.array([self.scalarize(t) if t.outcome.ok else 0.0 for t in self.trials], dtype=np.float64)
        if ok.any():
            targets[~ok] = targets[ok].max()
        return targets

    def with_pending(self) -> tuple[Encoded, Array]:
        """Pipelines and targets with the pending proposals added at the median target (the constant liar).

        A surrogate fitted to them holds the places under way for neither good nor bad, but knows them, so several
        asks in a row spread out.
        """
        targets = self.targets()
        if not self.pending:
            return self.encoded, targets
        waiting = self.waiting
        encoded = Encoded.concatenate([self.encoded, waiting])
        return encoded, np.concatenate([targets, np.full(len(waiting), self.lie)])

    @property
    def lie(self) -> float:
        """The target that a pending proposal is held for: the median."""
        targets = self.targets()
        return float(np.median(targets)) if len(targets) else 0.0

    @property
    def best(self) -> Trial | None:
        """The trial with the lowest loss among those at full fidelity that satisfy the constraints, if any.

        Of equals the earliest. A constraint that was not measured is not satisfied.
        """
        found = [t for t in self.trials if t.outcome.ok and t.proposal.fidelity.is_full and self.is_feasible(t)]
        return min(found, key=self.rank) if found else None

    def is_feasible(self, trial: Trial) -> bool:
        """Whether a trial satisfies all constraints."""
        return total_excess(self.constraints, trial.outcome.constraints) == 0

    def rank(self, trial: Trial) -> tuple[float, float, int]:
        """Sort key of trials that are ok, best first.

        Those that satisfy the constraints by their loss, then the others by how much they exceed the bounds, in units
        of the bounds; of equals the earliest.
        """
        excess = total_excess(self.constraints, trial.outcome.constraints)
        return excess, float(trial.outcome.loss or 0.0), trial.number

    def order(self) -> NDArray[np.int64]:
        """Positions of all trials, best first, in the order of `rank` with targets for losses; (n,).

        With constraints, trials that failed come last.
        """
        targets = self.targets()
        if not self.constraints:
            return np.argsort(targets, kind="stable").astype(np.int64)
        excess = np.array([total_excess(self.constraints, trial.outcome.constraints) for trial in self.trials])
        return np.lexsort((targets, excess, ~self.ok)).astype(np.int64)

    def __len__(self) -> int:
        return len(self.trials)

    def __getitem__(self, i: int) -> Trial:
        return self.trials[i]

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    def __repr__(self) -> str:
        best = self.best
        found = f"best {best.outcome.loss:.6g}" if best is not None else "none ok at full fidelity"
        return f"History of {len(self)} trials, {len(self.pending)} pending, {found}"
