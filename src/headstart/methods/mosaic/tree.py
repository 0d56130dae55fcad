"""The tree of partial structures that the trials of a task have grown.

A node is a partial structure: the algorithms chosen in the first few decisions. Everything a node knows follows from
the history, so there is no tree to keep, to store or to rebuild: a resumed run has the same one.

==========  ============  ===========================================================================================
symbol      name in code  meaning
==========  ============  ===========================================================================================
s           path          the choices made so far, one name for each decision
X(s)        completions   pipelines that agree with s
n(s)        visits        trials of X(s), and proposals of X(s) that are under way
Q̄(s, a)     value         median of the rewards of the trials of X(s.a)
==========  ============  ===========================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from headstart.errors import InvalidInput
from headstart.history import History
from headstart.space.candidates import Candidates
from headstart.space.encoded import Encoded
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace
from headstart.trials import Outcome, Proposal

Choices = tuple[str, ...]

ORDER = "order of steps"
"""Name of the last decision in a space whose steps may change places."""


class DecisionOrder:
    """In which order a structure is decided on, and which pipelines a partial one still allows.

    Parameters
    ----------
    space
        Whose stages are decided on.
    order
        Names of stages that come first. By default the last stage, the estimator, is first, then the others as they are
        applied; in a space with a free order of steps, that order is the last decision.
    """

    def __init__(self, space: PipelineSpace, order: Sequence[str] = ()) -> None:
        stages = [stage.name for stage in space.stages]
        unknown = [name for name in order if name not in stages]
        if unknown or len(set(order)) < len(order):
            raise InvalidInput(f"order must name stages of {', '.join(stages)}, each once, got {list(order)!r}")
        first = list(order) or stages[-1:]
        self.space = space
        self.stages = [*first, *(name for name in stages if name not in first)]
        self.names = [*self.stages, *([ORDER] if space.free_order else [])]
        self._places = [space.stage_position(name) for name in self.stages]

    def __len__(self) -> int:
        return len(self.names)

    def path(self, pipeline: Pipeline) -> Choices:
        """All decisions of a pipeline."""
        chosen = [pipeline.algorithms[place] for place in self._places]
        return (*chosen, *([self._order_name(pipeline.order)] if self.space.free_order else []))

    def choices(self, candidates: Candidates, path: Choices) -> tuple[str, ...]:
        """What may be chosen next after a partial structure."""
        if len(path) < len(self.stages):
            return candidates.allowed(self._given(path))[self.stages[len(path)]]
        if candidates.pool is None:
            return tuple(self._order_name(order) for order in self.space.orders)
        orders = self.completions(candidates, path, np.random.default_rng(0), len(candidates.pool)).order
        assert orders is not None
        return tuple(dict.fromkeys(self._order_name(tuple(order)) for order in np.unique(orders, axis=0).tolist()))

    def completions(self, candidates: Candidates, path: Choices, rng: np.random.Generator, n: int) -> Encoded:
        """Up to `n` random pipelines that agree with a partial structure."""
        given = self._given(path)
        if len(path) < len(self.names) or not self.space.free_order:
            return candidates.sample(rng, n, given)
        if candidates.pool is None:
            order = next(order for order in self.space.orders if self._order_name(order) == path[-1])
            return candidates.sample(rng, n, given).with_order(order)
        return self._agreeing(candidates.sample(rng, len(candidates.pool), given), path)[:n]

    def completions_each(
        self, candidates: Candidates, paths: Sequence[Choices], rng: np.random.Generator, n: int
    ) -> list[Encoded]:
        """Up to `n` random pipelines for each of several partial structures of equal length."""
        if self.space.free_order and any(len(path) == len(self.names) for path in paths):
            return [self.completions(candidates, path, rng, n) for path in paths]
        return candidates.sample_each(rng, n, [self._given(path) for path in paths])

    def neighbours(
        self, candidates: Candidates, path: Choices, pipeline: Pipeline, rng: np.random.Generator
    ) -> Encoded:
        """Pipelines close to one that agree with a partial structure."""
        return self._agreeing(candidates.neighbours(pipeline, rng, self._given(path)), path)

    def _agreeing(self, encoded: Encoded, path: Choices) -> Encoded:
        """Those with the order of steps that was decided on, if it was."""
        if encoded.order is None or len(path) < len(self.names):
            return encoded
        return encoded.take([self._order_name(tuple(order)) == path[-1] for order in encoded.order.tolist()])

    def _given(self, path: Choices) -> dict[str, str]:
        return dict(zip(self.stages, path, strict=False))

    def _order_name(self, order: Iterable[int] | None) -> str:
        places = range(len(self.space.stages)) if order is None else order
        return " > ".join(self.space.stages[place].name for place in places)


@dataclass
class Node:
    """A partial structure, with what came of it.

    Parameters
    ----------
    path
        The choices that lead to it.
    visits
        Trials that agree with it, and proposals under way.
    rewards
        Of the trials, in [0, 1]; proposals under way count as 0.
    losses
        Of those trials that are ok.
    failures
        How many trials failed.
    children
        The choices that were opened, by name.
    """

    path: Choices = ()
    visits: int = 0
    rewards: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    failures: int = 0
    children: dict[str, Node] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """Median reward; 0 without any."""
        return median(self.rewards) if self.rewards else 0.0

    def walk(self) -> Iterator[Node]:
        """This node and all below it, a node before its children, the most visited child first."""
        yield self
        for child in sorted(self.children.values(), key=lambda node: -node.visits):
            yield from child.walk()


def tree_of(history: History, decisions: DecisionOrder, rewards: Sequence[float] | None = None) -> Node:
    """The root of the tree that a history has grown.

    A proposal opens the nodes of the path in its ``origin``; one without, such as an initial pipeline, opens its first
    decision. All trials that agree with a node count there, whichever way they were proposed.

    Parameters
    ----------
    history
        Trials, and proposals under way. These count as visits without reward (a virtual loss), so that asks in a row
        spread out.
    decisions
        In which order structures are decided on.
    rewards
        Of the trials, in their order.
    """
    root = Node()
    made: list[tuple[Proposal, float, Outcome | None]] = [
        (t.proposal, reward, t.outcome)
        for t, reward in zip(history, rewards if rewards is not None else np.zeros(len(history)), strict=True)
    ]
    made += [(proposal, 0.0, None) for proposal in history.pending.values()]
    paths = [decisions.path(proposal.pipeline) for proposal, _, _ in made]
    for (proposal, _, _), path in zip(made, paths, strict=True):
        node = root
        for name in path[: max(1, len(proposal.origin.get("path", ())))]:
            node = node.children.setdefault(name, Node((*node.path, name)))
    for (_, reward, outcome), path in zip(made, paths, strict=True):
        agreeing: list[Node] = [root]
        for name in path:
            if name not in agreeing[-1].children:
                break
            agreeing.append(agreeing[-1].children[name])
        for node in agreeing:
            node.visits += 1
            node.rewards.append(reward)
            if outcome is not None and outcome.loss is not None:
                node.losses.append(outcome.loss)
            elif outcome is not None:
                node.failures += 1
    return root
