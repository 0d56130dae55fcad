"""`ADMM`: operator splitting, hyper-parameters and algorithms in turns.

After Liu et al. (2020), *An ADMM based framework for AutoML pipeline configuration*; symbols and formulas are in
`headstart.methods.admm.splitting`. An iteration has two sub-problems with a budget of evaluations each:

- **θ-min** searches the box of the hyper-parameters that the current structure uses, integers relaxed. What is
  evaluated is the nearest pipeline; what the sub-solver learns is the augmented Lagrangian at the relaxed point. It
  sees all trials of this structure, with the Lagrangian as it is now.
- **z-min** searches the structures with the hyper-parameters as they are, those of algorithms that were not active
  included. Its sub-solver sees the trials of this iteration, the bandit all pulls of the run.

What is ours: losses are divided by a scale, since (ρ/2)‖θ̃ − b‖² in the unit cube would swamp differences of some
hundredths; constraints are in tenths of their bounds; a pipeline that is known is not evaluated again but counts in the
budget of its sub-problem; on recorded pipelines, relaxed points snap to the nearest recorded one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from headstart.errors import Exhausted, InvalidInput, SpaceError, check_positive
from headstart.history import History
from headstart.methods.admm.bandit import CombinatorialBandit
from headstart.methods.admm.splitting import (
    Rounding,
    Split,
    Structure,
    best_slacks,
    constraint_penalty,
    in_bounds,
)
from headstart.optimizers.base import Optimizer
from headstart.optimizers.random import draw_untried, tried_ids, untried
from headstart.registry import Kind
from headstart.space.candidates import Candidates, Pool
from headstart.space.distinct import Distinct
from headstart.space.encoded import Encoded
from headstart.space.parameters import Categorical, Float, Parameter
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage
from headstart.task import Task
from headstart.trials import FULL, Fidelity, Proposal, Trial

Array = NDArray[np.float64]
Phase = Literal["theta", "z"]
Event = dict[str, Any]
Wanted = tuple[Pipeline, Fidelity, Event]

_FIRST = "gaussian_nb"
_REPEATS = 8
"""Known pipelines in a row after which a random one is taken instead of what the sub-solver wants."""
_SAMPLES = 64


class ADMM(Optimizer):
    """Alternate between hyper-parameters and algorithms (Liu et al., AAAI 2020).

    Sub-solvers are optimizers. With a given structure the first one searches its hyper-parameters, integers relaxed to
    a continuum; with given hyper-parameters the second one searches the algorithms. Constraints of the task enter both
    by multipliers.

    Parameters
    ----------
    theta
        Searches the hyper-parameters of a structure.
    z
        Searches structures.
    rho
        Weight of the quadratic penalties.
    budget
        Evaluations of a sub-problem in the first iteration.
    growth
        By how many that rises with each iteration; 0 for a fixed budget.
    most
        Evaluations of a sub-problem at most.
    loss_scale
        The loss that counts as 1 beside the penalties. By default twice the distance from the best to the median loss
        so far; 1 takes losses as they are, as the paper does.
    """

    parts: ClassVar[Mapping[str, Kind]] = {"theta": "optimizer", "z": "optimizer"}
    adjustable = frozenset({"rho", "budget", "growth", "most", "loss_scale"})

    def __init__(
        self,
        theta: Optimizer | str = "bayes(surrogate=gp, n_samples=300, n_starts=0, n_polished=4)",
        z: Optimizer | str = "bandit",
        rho: float = 1.0,
        budget: int = 16,
        growth: int = 16,
        most: int = 128,
        loss_scale: float | None = None,
    ) -> None:
        check_positive("rho", rho)
        check_positive("budget", budget, whole=True)
        check_positive("loss_scale", loss_scale)
        if growth < 0 or most < budget:
            raise InvalidInput(f"growth must be at least 0 and most at least budget, got {growth!r} and {most!r}")
        self.theta = theta
        self.z = z
        self.rho = rho
        self.budget = budget
        self.growth = growth
        self.most = most
        self.loss_scale = loss_scale

    def prepare(self) -> None:
        self._rounding = Rounding(self.task.space)
        self._structures = Structures(self.task.candidates)
        self._box = lru_cache(maxsize=64)(lambda algorithms: Box(self.task.space, Structure(algorithms)))
        self._problem: Problem | None = None
        self._pulls: list[Trial] = []

    # -- deciding -------------------------------------------------------------------------------------------------

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        if not len(self.history):
            if self.history.pending:
                return None
            return Proposal(number, self._first(), {"by": "first"})
        events: list[Event] = []
        problem, pulls = self._problem, list(self._pulls)
        if problem is None:
            problem = self._begun()
            events.append({"begin": True})
        repeats, first = 0, problem
        while problem.iteration <= first.iteration + 1:  # else a whole iteration met nothing that is not known
            if len(problem.waiting) + problem.done >= self._budget_of(problem):
                return None  # it ends when the results are in
            found = None
            if not self._is_solved(problem):
                found = self._next(problem, pulls, number, rng) if repeats < _REPEATS else None
                found = self._any(problem, rng) if found is None else found
            if found is None:
                if problem.waiting:
                    return None
                event: Event = {"end": True}
            else:
                pipeline, fidelity, about = found
                if not self._is_tried(pipeline, fidelity):
                    about |= {"by": problem.phase, "iteration": problem.iteration, "events": events}
                    return Proposal(number, pipeline, about, fidelity)
                known = self._known(pipeline, fidelity)
                if known is None:  # it is under way
                    return None
                event = {"seen": known, **about}
            problem = self._advanced(problem, event, pulls)
            repeats = repeats + 1 if "seen" in event else 0
            events.append(event)
        pipeline = draw_untried(self.history, rng)[0]  # raises when none is left
        return Proposal(number, pipeline, {"by": "random", "events": events})

    def _first(self) -> Pipeline:
        """Naive Bayes, where there is one, with the first choices of the other stages."""
        space, candidates = self.task.space, self.task.candidates
        last = space.stages[-1].name
        given = {last: _FIRST} if _FIRST in candidates.allowed()[last] else {}
        pipeline = space.default(given)
        if candidates.pool is not None:
            return candidates.nearest(space.encode([pipeline]).values, given)[0]
        return candidates.encode([pipeline])[0]

    def _next(self, problem: Problem, pulls: list[Trial], number: int, rng: np.random.Generator) -> Wanted | None:
        """What the sub-solver wants evaluated; ``None`` where it has nothing left."""
        if problem.phase == "theta":
            box = self._box(problem.split.structure.algorithms)
            point = np.zeros(0)
            if box.space.width:
                solver = self.part("theta").start(Task(box.space), self.seed, self._theta_history(problem))
                try:
                    proposal = solver.suggest(number, rng)
                except Exhausted:
                    return None
                if proposal is None:
                    return None
                point = box.space.encode([proposal.pipeline]).values[0]
            theta = problem.split.theta.copy()
            theta[box.columns] = point
            return self._at(theta, problem.split.structure), FULL, {"relaxed": point.tolist()}
        solver = self.part("z")
        remembers = isinstance(solver, CombinatorialBandit)
        history = self._z_history(problem, pulls if remembers else problem.trials)
        solver = solver.start(Task(self._structures.candidates), self.seed, history)
        if remembers:
            return self._at(problem.split.theta, solver.pull(rng)), FULL, {}
        try:
            proposal = solver.suggest(number, rng)
        except Exhausted:
            return None
        if proposal is None:
            return None
        return self._at(problem.split.theta, _structure_of(proposal.pipeline)), proposal.fidelity, {}

    def _is_solved(self, problem: Problem) -> bool:
        """Whether the loss of every structure is known in z-min."""
        size = self._structures.size
        return problem.phase == "z" and len({_structure_of(t.pipeline) for t in problem.trials}) == size

    def _is_tried(self, pipeline: Pipeline, fidelity: Fidelity) -> bool:
        tried = tried_ids(self.history, fidelity)
        return bool(np.isin(self.task.candidates.encode([pipeline]).ids, tried).any())

    def _known(self, pipeline: Pipeline, fidelity: Fidelity) -> int | None:
        """Number of the trial that has evaluated a pipeline as thoroughly."""
        same = self.history.encoded.ids == self.task.candidates.encode([pipeline]).ids[0]
        for i in np.flatnonzero(same).tolist():
            if self.history[i].proposal.fidelity.covers(fidelity):
                return self.history[i].number
        return None

    def _any(self, problem: Problem, rng: np.random.Generator) -> Wanted | None:
        """A pipeline that was not tried yet: in θ-min any of the structure, in z-min of any structure at θ."""
        if problem.phase == "z":
            drawn = map(_structure_of, self._structures.candidates.sample(rng, _SAMPLES).unique())
            pipelines = [self._at(problem.split.theta, structure) for structure in drawn]
            found = self.task.candidates.encode(pipelines)
        else:
            structure = problem.split.structure
            found = self.task.candidates.sample(rng, _SAMPLES, structure.given(self.task.space))
            found = self._ordered(found, structure)
        left = untried(found, tried_ids(self.history))
        return (left[0], FULL, {}) if len(left) else None

    def _ordered(self, found: Encoded, structure: Structure) -> Encoded:
        """Pipelines with the order of a structure; recorded ones are as they are."""
        return found if structure.order is None or found.recorded else found.with_order(structure.order)

    def _at(self, theta: Array, structure: Structure) -> Pipeline:
        """The pipeline of a structure nearest to relaxed hyper-parameters."""
        given = structure.given(self.task.space)
        try:
            found = self.task.candidates.nearest(theta, given)
        except SpaceError:  # forbidden together: the structure's own default values
            found = self.task.candidates.encode([self.task.space.default(given)])
            return found[0]
        return self._ordered(found, structure)[0]

    # -- state ----------------------------------------------------------------------------------------------------

    def proposed(self, proposal: Proposal) -> None:
        for event in proposal.origin.get("events", ()):
            if "begin" in event:
                self._problem = self._begun()
            elif self._problem is not None:
                self._problem = self._advanced(self._problem, event, self._pulls)
        problem = self._problem
        if problem is not None and problem.owns(proposal):
            self._problem = replace(problem, waiting=problem.waiting | {proposal.number})

    def observe(self, trial: Trial) -> None:
        if self._problem is not None and trial.number in self._problem.waiting:
            self._problem = self._advanced(self._problem, {"told": trial}, self._pulls)

    def _begun(self) -> Problem:
        """The first sub-problem, around the best of what is known."""
        best = self.history.encoded.take(self.history.order()[:1])
        values = best.values[0]
        structure = _structure_of(best[0])
        theta = defaults_of(self.task.space)
        columns = self._box(structure.algorithms).columns
        theta[columns] = values[columns]
        split = Split.at(structure, theta, self._rounding, len(self.task.constraints))
        return Problem("theta", 0, split, self._scale())

    def _scale(self) -> float:
        if self.loss_scale is not None:
            return self.loss_scale
        losses = [trial.outcome.loss for trial in self.history if trial.outcome.loss is not None]
        spread = 2.0 * (float(np.median(losses)) - min(losses)) if losses else 0.0
        return spread if spread > 0 else 1.0

    def _budget_of(self, problem: Problem) -> int:
        if problem.phase == "theta" and not self._box(problem.split.structure.algorithms).space.width:
            return 1
        return min(self.most, self.budget + self.growth * problem.iteration)

    def _advanced(self, problem: Problem, event: Event, pulls: list[Trial]) -> Problem:
        """The sub-problem after a result, a pipeline that was known already, or its early end."""
        if "told" in event or "seen" in event:
            if "told" in event:
                trial: Trial = event["told"]
                problem = replace(problem, waiting=problem.waiting - {trial.number})
            else:
                trial = self._seen(event, _SEEN + 1000 * len(pulls) + problem.done)
            problem = replace(problem, done=problem.done + 1, trials=(*problem.trials, trial))
            if problem.phase == "z":
                pulls.append(trial)
            if problem.done < self._budget_of(problem) or problem.waiting:
                return problem
        return self._after_theta(problem) if problem.phase == "theta" else self._after_z(problem)

    def _seen(self, event: Event, number: int) -> Trial:
        """A known outcome at the point that a sub-solver asked for, as a trial of its own."""
        trial = next(t for t in self.history if t.number == event["seen"])
        about = {"relaxed": event["relaxed"]} if "relaxed" in event else {}
        return replace(trial, proposal=replace(trial.proposal, number=number, origin=about))

    def _after_theta(self, problem: Problem) -> Problem:
        history = self._theta_history(problem)
        split = problem.split
        box = self._box(split.structure.algorithms)
        point = split.theta[box.columns]
        if history.ok.any():
            targets = np.where(history.ok, history.targets(), np.inf)
            best = history[int(targets.argmin())]
            (point,) = self._points([best.proposal], box)
        split = split.after_theta(point, box.columns, self._rounding, self.rho)
        return Problem("z", problem.iteration, split, self._scale())

    def _after_z(self, problem: Problem) -> Problem:
        history = self._z_history(problem, problem.trials).full()
        split = problem.split
        if history.ok.any():
            targets = np.where(history.ok, history.targets(), np.inf)
            best = history[int(targets.argmin())]
            split = split.after_z(_structure_of(best.pipeline), self._measured(best), self.rho)
        return Problem("theta", problem.iteration + 1, split, self._scale())

    # -- what sub-solvers see ---------------------------------------------------------------------------------------

    def _measured(self, trial: Trial) -> Array:
        return in_bounds(self.task.constraints, trial.outcome.constraints)

    def _penalty(self, trial: Trial, split: Split) -> float:
        """Of the constraints, with the slacks that are best for the trial."""
        values = self._measured(trial)
        return constraint_penalty(values, best_slacks(values, split.prices, self.rho), split.prices, self.rho)

    def _points(self, proposals: Sequence[Proposal], box: Box) -> Array:
        """Points in the box that proposals were made for; those of their pipelines where they were made otherwise."""
        points = np.zeros((len(proposals), len(box.columns)))
        others = [i for i, proposal in enumerate(proposals) if "relaxed" not in proposal.origin]
        for i, proposal in enumerate(proposals):
            points[i] = proposal.origin.get("relaxed", 0.0)
        if others:
            encoded = self.task.candidates.encode([proposals[i].pipeline for i in others])
            points[others] = encoded.values[:, box.columns]
        return points

    def _theta_history(self, problem: Problem) -> History:
        """All trials of the structure in the box, with the augmented Lagrangian as their target."""
        split, box = problem.split, self._box(problem.split.structure.algorithms)

        def belongs(proposal: Proposal) -> bool:
            return proposal.fidelity.is_full and _structure_of(proposal.pipeline) == split.structure

        trials = [trial for trial in self.history if belongs(trial.proposal)]
        trials += [trial for trial in problem.trials if trial.number >= _SEEN]
        points = self._points([trial.proposal for trial in trials], box)

        targets = {
            trial.number: _loss(trial) / problem.scale
            + split.distance_penalty(point, box.columns, self._rounding, self.rho)
            + self._penalty(trial, split)
            for trial, point in zip(trials, points, strict=True)
        }
        return _sub_history(
            box.space,
            trials,
            {n: p for n, p in self.history.pending.items() if belongs(p)},
            targets,
            lambda proposals: box.space.nearest(self._points(proposals, box)),
        )

    def _z_history(self, problem: Problem, trials: Sequence[Trial]) -> History:
        """Structures of some trials, with loss and penalty as their target."""
        split = problem.split
        targets = {t.number: _loss(t) / problem.scale + self._penalty(t, split) for t in trials}
        pending = {n: p for n, p in self.history.pending.items() if n in problem.waiting}
        return _sub_history(self._structures.candidates, trials, pending, targets, self._structures.encode)


def _sub_history(
    candidates: Candidates,
    trials: Sequence[Trial],
    pending: Mapping[int, Proposal],
    targets: Mapping[int, float],
    encode: Callable[[Sequence[Proposal]], Encoded],
) -> History:
    """What a sub-solver sees: targets by the number of a trial, computed once since acquisitions ask for them often."""
    history = History(candidates, lambda trial: targets[trial.number], (), encode)
    history.trials, history.pending = list(trials), dict(pending)
    return history


def _loss(trial: Trial) -> float:
    """0 for a trial that failed, which has no target of its own."""
    return 0.0 if trial.outcome.loss is None else trial.outcome.loss


_SEEN = 10**9
"""Numbers of known trials that a sub-problem met again begin here."""


@dataclass(frozen=True)
class Problem:
    """One of the two sub-problems, as it stands.

    Parameters
    ----------
    phase, iteration
        Which one it is.
    split
        The variables that are fixed in it.
    scale
        What losses are divided by.
    trials
        Seen in it so far, known ones included.
    waiting
        Numbers of its proposals under way.
    done
        Results so far.
    """

    phase: Phase
    iteration: int
    split: Split
    scale: float
    trials: tuple[Trial, ...] = ()
    waiting: frozenset[int] = field(default_factory=frozenset)
    done: int = 0

    def owns(self, proposal: Proposal) -> bool:
        return proposal.origin.get("by") == self.phase and proposal.origin.get("iteration") == self.iteration


class Box:
    """The hyper-parameters of one structure, integers relaxed, as a space of its own.

    Attributes
    ----------
    space
        The same stages with one algorithm each. Its columns are those of the algorithms in the whole space, one after
        another: what was a number or an ordered choice is a number between 0 and 1, other choices stay what they are.
    columns
        Which columns of the whole space they are.
    """

    def __init__(self, space: PipelineSpace, structure: Structure) -> None:
        part = space.restrict(structure.given(space))
        named = {key.partition(".")[2] for clause in part.forbidden for key in clause}
        stages = []
        for stage in part.stages:
            (algorithm,) = stage.algorithms
            fixed = named | {parent for p in algorithm.params for parent in p.when}
            params = [_relaxed_parameter(p, p.name in fixed) for p in algorithm.params]
            stages.append(Stage(stage.name, [Algorithm(algorithm.name, params=params)]))
        self.space = PipelineSpace("box", stages, part.forbidden)
        spans = [space.columns(s.name, a) for s, a in zip(space.stages, structure.algorithms, strict=True)]
        self.columns: NDArray[np.int64] = np.concatenate([np.arange(span.start, span.stop) for span in spans])


def _relaxed_parameter(parameter: Parameter, decides: bool) -> Parameter:
    """A continuum in place of numbers and ordered choices, but for those that other parts of a space depend on."""
    if isinstance(parameter, Categorical) and (decides or not parameter.ordered):
        return parameter
    default = float(parameter.to_unit([parameter.default])[0, 0])
    return Float(parameter.name, 0.0, 1.0, default=default, when=parameter.when)


class Structures:
    """Structures as candidates: stages and algorithms without hyper-parameters; of recorded pipelines, theirs."""

    def __init__(self, candidates: Candidates) -> None:
        whole = candidates.space
        stages = [
            Stage(s.name, [Algorithm(a.name, a.path, weight=a.weight) for a in s.algorithms], s.kind, s.columns)
            for s in whole.stages
        ]
        forbidden = [clause for clause in whole.forbidden if not any("." in key for key in clause)]
        self._space = PipelineSpace("structures", stages, forbidden, whole.free_order)
        self._positions = [{name: i for i, name in enumerate(stage.names)} for stage in stages]
        self._ids: dict[Structure, int] | None = None
        self.candidates: Candidates = candidates.over(self._space) if isinstance(candidates, Distinct) else self._space
        if candidates.pool is not None:
            found = list(dict.fromkeys(map(_structure_of, candidates.pool)))
            self._ids = {structure: i for i, structure in enumerate(found)}
            self.candidates = Pool(self._encoded(found))

    @property
    def size(self) -> int | None:
        """How many there are, where they can be listed."""
        return None if self.candidates.listed is None else len(self.candidates.listed)

    def encode(self, proposals: Sequence[Proposal]) -> Encoded:
        return self._encoded([_structure_of(proposal.pipeline) for proposal in proposals])

    def _encoded(self, structures: Sequence[Structure]) -> Encoded:
        n = len(structures)
        rows = [[p[name] for p, name in zip(self._positions, s.algorithms, strict=True)] for s in structures]
        choice = np.array(rows, dtype=np.int64).reshape(n, len(self._positions))
        order = np.array([s.order for s in structures]).reshape(choice.shape) if self._space.free_order else None
        ids = None if self._ids is None else np.array([self._ids[s] for s in structures], dtype=np.int64)
        return Encoded(self._space, np.zeros((n, 0)), np.zeros((n, 0), dtype=bool), choice, order, ids)


def defaults_of(space: PipelineSpace) -> Array:
    """Default hyper-parameters of all algorithms; (D,)."""
    values = np.zeros(space.width)
    for stage in space.stages:
        for algorithm in stage.algorithms:
            for parameter in algorithm.params:
                columns = space.columns(stage.name, algorithm.name, parameter.name)
                values[columns] = parameter.to_unit([parameter.default])[0]
    return values


def _structure_of(pipeline: Pipeline) -> Structure:
    order = None if pipeline.order is None else tuple(pipeline.order)
    return Structure(tuple(pipeline.algorithms), order)
