"""`Optimizer`: decides which pipeline to try next."""

from __future__ import annotations

import copy
from abc import abstractmethod
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from headstart.errors import Exhausted, HeadstartError, InvalidInput
from headstart.history import History
from headstart.learning.base import Learner
from headstart.registry import Kind
from headstart.trials import Proposal, Trial

if TYPE_CHECKING:
    from headstart.task import Task

_DECISION, _EVALUATION, _OBSERVATION = 0, 1, 2


def decision_stream(seed: int, number: int) -> np.random.Generator:
    """The random numbers behind the choice of proposal `number`."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, _DECISION)))


def evaluation_seed(seed: int, number: int) -> int:
    """The seed that proposal `number` is evaluated with; below 2³¹, which every library takes."""
    state = np.random.SeedSequence(seed, spawn_key=(number, _EVALUATION)).generate_state(1)[0]
    return int(state) >> 1


def observation_stream(seed: int, number: int) -> np.random.Generator:
    """The random numbers that the result of proposal `number` is taken note of with."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, _OBSERVATION)))


class Optimizer(Learner):
    """Decides which pipeline to try next.

    The life of an optimizer::

        optimizer = MyOptimizer(settings).meta_fit(meta)   # once, from other tasks; few need it
        run = optimizer.start(task, seed)                  # once per task; `optimizer` itself does not change
        proposals = run.ask(n)                             # whenever a worker is free
        run.tell(trial)                                    # whenever one has finished

    `ask` and `tell` do what all optimizers share: numbering, the task's initial pipelines, the history with what is
    pending. A plug-in writes `suggest`, which decides, and, only if it keeps state beyond the history (a tree,
    multipliers), `proposed` and `observe`, which change that state.

    **Resuming** never asks again what was asked before: a fresh optimizer is given the proposals and trials of the log
    in their order (`restore` and `tell`), so `suggest` must follow from settings, meta-state, history, that state, the
    number and its random stream alone, and must change none of them. All that `proposed` needs is in the proposal's
    ``origin``.
    """

    kind: ClassVar[Kind] = "optimizer"

    task: Task
    seed: int
    history: History

    def start(self, task: Task, seed: int = 0, history: History | None = None) -> Self:
        """A fresh optimizer for one task, sharing settings and meta-state; called once per run.

        Parameters
        ----------
        task, seed
            Of the run.
        history
            For an optimizer that is a part of another one: a `History.view` of the other's. It is then never asked or
            told itself: the other one calls its `suggest`, `proposed` and `observe`.
        """
        given: Any = seed
        if isinstance(given, bool) or not isinstance(given, Integral) or given < 0:
            raise InvalidInput(f"seed must be a whole number of at least 0, got {seed!r}")
        fresh = copy.copy(self)
        fresh.task = task
        fresh.seed = int(seed)
        fresh.history = history if history is not None else History(task.candidates, constraints=task.constraints)
        fresh._next_number = 0
        fresh.prepare()
        return fresh

    _next_number: int

    def ask(self, n: int = 1) -> list[Proposal]:
        """Up to `n` proposals; none means: wait for results. Raises `Exhausted` when there is nothing left at all."""
        proposals: list[Proposal] = []
        while len(proposals) < n:
            number = self._next_number
            if number < len(self.task.initial):
                proposal: Proposal | None = Proposal(number, self.task.initial[number], {"by": "initial"})
            else:
                try:
                    proposal = self.suggest(number, decision_stream(self.seed, number))
                except Exhausted:
                    if proposals:  # those stand; the next ask ends the same way
                        break
                    raise
            if proposal is None:
                break
            self.restore(proposal)
            proposals.append(proposal)
        return proposals

    def restore(self, proposal: Proposal) -> None:
        """Take note of a proposal that was made: by `ask`, or by an earlier run whose log is being replayed."""
        if proposal.number != self._next_number:
            raise HeadstartError(f"proposal {self._next_number} must come next, got {proposal.number}")
        self._next_number += 1
        self.history.propose(proposal)
        self.proposed(proposal)

    def tell(self, trial: Trial) -> None:
        """Take note of the outcome of a proposal made before."""
        if trial.number not in self.history.pending:
            raise HeadstartError(f"trial {trial.number} must be of a proposal that is pending")
        self.history.add(trial)
        self.observe(trial)

    @abstractmethod
    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        """Decide on proposal `number`; called by `ask` after the task's initial pipelines are used up.

        Everything random comes from `rng`. Returns ``None`` to wait for pending results; raises `Exhausted` when
        nothing is left to propose.
        """

    def stream(self, number: int) -> np.random.Generator:
        """The random numbers that `observe` of trial `number` may use, the same each time a log is replayed."""
        return observation_stream(self.seed, number)

    def prepare(self) -> None:
        """Set up the state of a run; called at the end of `start`."""

    def proposed(self, proposal: Proposal) -> None:
        """A proposal was made (an initial one too); called once for each, also when a log is replayed."""

    def observe(self, trial: Trial) -> None:
        """A trial is in the history now; called once for each, also when a log is replayed."""
