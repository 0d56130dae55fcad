"""Tiny methods that prove the contracts before the real ones arrive.

Each stands for a kind: a transductive surrogate (knows only recorded pipelines, as PMF does), a surrogate that needs
the table (as DMFBS does), a tree (as Mosaic does), a multi-step optimizer that waits, and one that splits a problem (as
ADMM does).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Self

import numpy as np

from headstart.errors import NeedsTable, UnknownPipeline
from headstart.history import History
from headstart.learning.base import Needs
from headstart.metadata.metadataset import MetaDataset
from headstart.metafeatures.base import MetaFeatures
from headstart.optimizers.base import Optimizer
from headstart.optimizers.random import draw_untried, tried_ids, untried
from headstart.space import Algorithm, Encoded, Float, Pipeline, PipelineSpace, Stage
from headstart.surrogates.base import Prediction, Surrogate
from headstart.task import Task
from headstart.testing.examples import small_meta
from headstart.trials import Fidelity, Proposal, Trial


class TransductiveSurrogate(Surrogate):
    """Average loss on other tasks, shifted by what this task's trials say; knows only recorded pipelines."""

    def meta_fit(self, meta: MetaDataset) -> Self:
        self._ids = meta.pipelines.ids
        known = np.isfinite(meta.losses)
        total = np.where(known, meta.losses, 0.0).sum(axis=0)
        self._means = np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nanmean(meta.losses))
        return self

    def start(self, task: Task) -> Self:
        if not hasattr(self, "_ids"):
            raise self.not_learned()
        return super().start(task)

    def _known(self, encoded: Encoded) -> np.ndarray:
        places = np.searchsorted(self._ids, encoded.ids)
        places = np.minimum(places, len(self._ids) - 1)
        if not encoded.recorded or (self._ids[places] != encoded.ids).any():
            raise UnknownPipeline("this surrogate knows only the pipelines it was meta-trained on")
        return self._means[places]

    def fit(self, history: History) -> Self:
        targets = history.targets()
        expected = self._known(history.encoded) if len(history) else np.empty(0)
        self._shift = float((targets - expected).mean()) if len(targets) else 0.0
        self._seen = dict(zip(history.encoded.ids.tolist(), targets, strict=True)) if len(history) else {}
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        mean = self._known(encoded) + self._shift
        for i, id in enumerate(encoded.ids.tolist()):
            mean[i] = self._seen.get(id, mean[i])
        scale = max(1.0, float(np.abs(mean).max(initial=0.0)))
        return Prediction(mean, np.full(len(encoded), 0.1 * scale))


class TableSurrogate(Surrogate):
    """Says the same of all pipelines: the mean target, plus what the table's size adds."""

    @property
    def needs(self) -> Needs:
        return Needs(table=True)

    def start(self, task: Task) -> Self:
        if task.dataset is None:
            raise NeedsTable("this surrogate needs the table of the task; give Task(dataset=...)")
        fresh = super().start(task)
        fresh._size = float(np.log1p(task.dataset.n_rows * task.dataset.n_features))
        return fresh

    def fit(self, history: History) -> Self:
        targets = history.targets()
        self._mean = float(targets.mean()) if len(targets) else 0.0
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        return Prediction(np.full(len(encoded), self._mean) + 1e-6 * self._size * encoded.values.sum(axis=1))


class TreeOptimizer(Optimizer):
    """A one-level tree over the last stage's algorithms with UCB; visits and values are its state."""

    def prepare(self) -> None:
        stage = self.task.space.stages[-1]
        self._stage = stage.name
        self._visits = dict.fromkeys(stage.names, 0)
        self._losses: dict[str, list[float]] = {name: [] for name in stage.names}

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        total = 1 + sum(self._visits.values())
        scores = {
            name: np.inf if n == 0 else -float(np.median(self._losses[name] or [0.0])) + np.sqrt(np.log(total) / n)
            for name, n in self._visits.items()
        }
        for name in sorted(scores, key=lambda name: -scores[name]):
            left = untried(self.task.candidates.sample(rng, 200, {self._stage: name}), tried_ids(self.history))
            if len(left):
                pipeline = left[int(rng.integers(len(left)))]
                return Proposal(number, pipeline, {"by": "tree", "path": [name]})
        return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})

    def proposed(self, proposal: Proposal) -> None:
        self._visits[proposal.pipeline.algorithms[-1]] += 1

    def observe(self, trial: Trial) -> None:
        loss = 1.0 if trial.outcome.loss is None else trial.outcome.loss
        self._losses[trial.pipeline.algorithms[-1]].append(loss)


class MultiStepOptimizer(Optimizer):
    """Alternates two sub-problems of three proposals each, and waits for all results of one before the other.

    The first explores at half of the rows; the second snaps relaxed points around the best so far, with a multiplier
    that depends on the results of the first.
    """

    size = 3

    def prepare(self) -> None:
        self._multiplier = 0.0
        self._done = 0

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        if self._done < number // self.size * self.size:
            return None
        explore = (number // self.size) % 2 == 0
        best = self.history.best
        if explore or best is None:
            fidelity = Fidelity(rows=0.5) if explore else Fidelity()
            pipeline = draw_untried(self.history, rng, fidelity)[0]
            return Proposal(number, pipeline, {"by": "explore", "step": number // self.size}, fidelity)
        given = dict(zip([s.name for s in self.task.space.stages], best.pipeline.algorithms, strict=True))
        box = self.task.space.relaxed(given)
        relaxed = self.task.candidates.encode([best.pipeline]).values[0].copy()
        for _ in range(20):
            step = (0.05 + 0.1 * self._multiplier) * rng.standard_normal(len(box))
            relaxed[box.columns] = np.clip(relaxed[box.columns] + step, 0, 1)
            found = untried(self.task.candidates.nearest(relaxed, given), tried_ids(self.history))
            if len(found):
                return Proposal(number, found[0], {"by": "theta", "relaxed": relaxed.tolist()})
        return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})

    def observe(self, trial: Trial) -> None:
        self._done += 1
        if trial.proposal.origin.get("by") == "explore":
            self._multiplier = min(1.0, self._multiplier + (0.0 if trial.outcome.ok else 0.2))


class SplittingOptimizer(Optimizer):
    """The skeleton of operator splitting: one structure, whose numeric hyper-parameters a sub-solver searches.

    The sub-problem is over relaxed values θ̃ in a box, which proposals keep in their origin. Its targets are the
    augmented Lagrangian f + λᵀ(θ̃ − δ) + ρ/2 ‖θ̃ − δ‖² + μ max(0, g − bound) at the multipliers as they are now. After
    each round of three results δ is the snapped best, λ is raised by ρ (θ̃ − δ), and a draw decides whether μ is.
    """

    parts = {"solver": "optimizer"}  # noqa: RUF012
    size, rho = 3, 1.0

    def __init__(self, solver: Optimizer | str = "gp") -> None:
        self.solver = solver

    def prepare(self) -> None:
        space, candidates = self.task.space, self.task.candidates
        self._given: dict[str, str] = {}
        for stage in reversed(space.stages):
            names = candidates.allowed(self._given)[stage.name]
            self._given[stage.name] = max(names, key=lambda name: len(space.relaxed({stage.name: name})))
        self._columns = space.relaxed(self._given).columns
        names = [f"x{column}" for column in self._columns]
        self._box = PipelineSpace("box", [Stage("box", [Algorithm("theta", params=[Float(n, 0, 1) for n in names])])])
        self._multipliers, self._snapped = np.zeros(len(names)), np.full(len(names), 0.5)
        self._price, self._done = 0.0, 0
        view = self.history.view(self._box, self.lagrangian, (), self.boxed)
        self._solver = self.part("solver").start(Task(self._box), self.seed, view)

    def relaxed(self, proposal: Proposal) -> np.ndarray:
        known = proposal.origin.get("relaxed")
        return np.array(known) if known else self.task.candidates.encode([proposal.pipeline]).values[0, self._columns]

    def boxed(self, proposals) -> Encoded:
        points = [self.relaxed(proposal).tolist() for proposal in proposals]
        params = [{f"x{c}": value for c, value in zip(self._columns, point, strict=True)} for point in points]
        return self._box.encode([Pipeline(["theta"], [values]) for values in params])

    def lagrangian(self, trial: Trial) -> float:
        apart = self.relaxed(trial.proposal) - self._snapped
        over = sum(max(0.0, trial.outcome.constraints.get(c.name, 0.0) - c.upper) for c in self.task.constraints)
        penalty = self._multipliers @ apart + self.rho / 2 * apart @ apart
        return float(trial.outcome.loss + penalty + self._price * over)

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        if self._done < number // self.size * self.size:
            return None
        inner = self._solver.suggest(number, rng)
        point = np.zeros(self.task.space.width)
        point[self._columns] = [inner.pipeline.params[0][f"x{column}"] for column in self._columns]
        found = untried(self.task.candidates.nearest(point, self._given), tried_ids(self.history))
        if not len(found):
            return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})
        return Proposal(number, found[0], {"by": "theta", "relaxed": point[self._columns].tolist()})

    def proposed(self, proposal: Proposal) -> None:
        self._solver.proposed(proposal)

    def observe(self, trial: Trial) -> None:
        self._solver.observe(trial)
        self._done += 1
        if self._done % self.size == 0 and self.history.best is not None:
            best = self.history.best.proposal
            relaxed = self.relaxed(best)
            self._snapped = self.task.candidates.encode([best.pipeline]).values[0, self._columns]
            self._multipliers = self._multipliers + self.rho * (relaxed - self._snapped)
            self._price += float(self.stream(trial.number).random() < 0.5)


class ColumnMeans(MetaFeatures):
    """Mean and spread of a table."""

    def transform(self, dataset, metafeatures=MappingProxyType({})) -> np.ndarray:
        numbers = dataset.X.select_dtypes("number").to_numpy()
        return np.array([np.nanmean(numbers), np.nanstd(numbers), float(len(numbers))])


class Whitened(MetaFeatures):
    """Other meta-features, those named `of`, less their mean over the tasks learned from; reads no table.

    The best loss of the nearest of these tasks is appended, so that results count too.
    """

    keeps = ("_mean", "_vectors", "_best")

    def __init__(self, of: str = "example") -> None:
        self.of = of

    @property
    def needs(self) -> Needs:
        return Needs(metafeatures=frozenset({self.of}))

    def meta_fit(self, meta: MetaDataset) -> Self:
        self._vectors = np.array(meta.metafeatures[self.of])
        self._mean, self._best = self._vectors.mean(axis=0), np.nanmin(meta.losses, axis=1)
        self.meta_key = meta.key
        return self

    def transform(self, dataset, metafeatures=MappingProxyType({})) -> np.ndarray:
        vector = metafeatures[self.of]
        nearest = ((self._vectors - vector) ** 2).sum(axis=1).argmin()
        return np.append(vector - self._mean, self._best[nearest])


def divided_meta(name: str) -> MetaDataset:
    """Eight tasks in splits, each with three initial pipelines that have a value on it."""
    small = small_meta(n_tasks=8)
    initial = [small.pipelines.ids[np.isfinite(row)][:3] for row in small.losses]
    splits = {"train": [0, 1, 2, 3], "validation": [4], "test": [5, 6, 7]}
    return small.changed(initial=initial, splits=splits, name=name, metafeatures={})
