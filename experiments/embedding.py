"""`Embedding`: where a model with latent points puts the pipelines, and what lies close together there.

A sample of the pipelines is kept with the first dimensions of their points, so that pictures can be drawn anew without
the model; also with all dimensions flattened to two by t-SNE, if that is wanted. How much a point's neighbours say of
it is measured by its ten nearest in the dimensions kept, itself left out: the share of them with the same estimator,
and the share of the variance of a number (the loss on a task, a hyper-parameter) that the mean over them explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table, known
from experiments.model_error import model_of
from headstart.errors import InvalidInput
from headstart.metadata.metadataset import MetaDataset
from headstart.methods.deeppipe import DeepPipe
from headstart.methods.deeppipe.tuning import located
from headstart.numerics.threads import one_blas_thread
from headstart.replay.protocol import Method
from headstart.replay.results import Saved, numbers, rounded, shown
from headstart.replay.runner import given_to, plain
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Surrogate
from headstart.surrogates.recorded_gp import RecordedGP

Array = NDArray[np.float64]
_NEIGHBOURS = 10
_DIGITS = 4


@dataclass
class Points(Saved):
    """Latent points of a sample of n pipelines.

    Parameters
    ----------
    meta, method, settings, given
        What they were learned from, and by what.
    latent
        Dimensions that there were.
    points
        (n, up to 5).
    task
        Whose losses these are.
    losses
        (n,), ``None`` where a pipeline has none.
    estimators, estimator
        Names, and which of them each pipeline has.
    parameter, values
        A hyper-parameter and its (n,) values, ``None`` where a pipeline does not have it; empty if none is looked at.
    flat
        (n, 2), all dimensions by t-SNE; empty if that was not wanted.
    other_losses
        (n,) losses by the names of other tasks.
    stages
        Names of the algorithms of other stages, and which of them each pipeline has.
    """

    holds = "latent points"
    meta: str
    method: str
    settings: dict[str, Any]
    given: str
    latent: int
    points: list[list[float]]
    task: str
    losses: list[float | None]
    estimators: list[str]
    estimator: list[int]
    parameter: str
    values: list[float | None]
    flat: list[list[float]] = field(default_factory=list)
    other_losses: dict[str, list[float | None]] = field(default_factory=dict)
    stages: dict[str, tuple[list[str], list[int]]] = field(default_factory=dict)

    def explained(self, what: str) -> float:
        """Share of the variance of ``"losses"`` or ``"values"``, or of the losses on another task, explained by
        neighbours."""
        given = numbers(self.other_losses[what] if what in self.other_losses else getattr(self, what))
        known = np.isfinite(given)
        near = nearest(np.array(self.points)[known])
        left = given[known] - given[known][near].mean(axis=1)
        total = given[known].var()
        return float(1 - (left**2).mean() / total) if total > 0 else 0.0

    def alike(self, stage: str | None = None) -> tuple[float, float]:
        """Share of a point's neighbours that have the same estimator (or algorithm of a stage), and of any points."""
        own = np.array(self.estimator if stage is None else self.stages[stage][1])
        near = nearest(np.array(self.points))
        shares = np.bincount(own) / len(own)
        return float((own[near] == own[:, None]).mean()), float((shares**2).sum())

    def table(self) -> Table:
        rows = []
        for stage in (None, *self.stages):
            same, chance = self.alike(stage)
            rows.append(
                [f"neighbours with the same {stage or 'estimator'}", shown(same, ".3f"), f"{chance:.3f} by chance"]
            )
        told = {"losses": f"the loss on {self.task}"}
        told |= {task: f"the loss on {task}" for task in self.other_losses}
        told |= {"values": self.parameter} if self.parameter else {}
        rows += [
            [f"variance of {text} explained", shown(self.explained(what), ".3f"), ""] for what, text in told.items()
        ]
        title = f"{self.meta}: {len(self.points)} pipelines in {len(self.points[0])} of {self.latent} latent dimensions"
        return Table(title, ["by the ten nearest neighbours", "share", ""], rows)


@dataclass(frozen=True)
class Embedding:
    """An experiment that looks at latent points.

    Parameters
    ----------
    method
        With latent points, see `headstart.replay.protocol.Method.parse`.
    task
        Its id, for the losses; the first training task where it is not there. ``None`` for the first two test tasks.
    algorithm
        Whose first hyper-parameter is looked at; ``None`` for none.
    sample, dimensions
        How much is kept.
    flat
        Whether to flatten all dimensions by t-SNE.
    stages
        Other stages than the last whose algorithms are looked at, if the space has them.
    """

    method: str
    task: str | None = None
    algorithm: str | None = None
    sample: int = 3000
    dimensions: int = 5
    flat: bool = False
    stages: Sequence[str] = ()

    def run(self, setup: Setup) -> Points:
        """Learn, take the sample, save it."""
        meta, partition = setup.meta, setup.partition
        method = Method.parse(self.method)
        template = method.make()
        settings, given = plain(template.describe()), given_to(meta, partition, partition.initial_designs(meta))
        if before := known(Points, setup.out, settings=settings, given=given):
            setup.progress.done(f"{method.text}: already known")
            return before
        setup.progress.learning(method.text)
        with one_blas_thread():
            points = latent_points(model_of(template.meta_fit(partition.learning(meta))), meta.pipelines)
        rows = np.random.default_rng(0).permutation(len(points))[: self.sample]
        first = meta.ids.index(self.task) if self.task in meta.ids else partition.train[0]
        task, *others = partition.test[:2] if self.task is None else (first,)
        pipelines = meta.pipelines.take(rows)
        parameter, values = ("", []) if self.algorithm is None else _parameter(meta, rows, self.algorithm)
        found = Points(
            meta=meta.name,
            method=method.text,
            settings=settings,
            given=given,
            latent=points.shape[1],
            points=short(points[rows, : self.dimensions]),
            task=meta.tasks[task],
            losses=short(meta.loss_row(task)[rows]),
            estimators=list(meta.pipelines.space.stages[-1].names),
            estimator=pipelines.choice[:, -1].tolist(),
            parameter=parameter,
            values=values,
            flat=short(flattened(points[rows])) if self.flat else [],
            other_losses={meta.tasks[other]: short(meta.loss_row(other)[rows]) for other in others},
            stages={
                stage.name: (list(stage.names), pipelines.choice[:, s].tolist())
                for s, stage in enumerate(meta.pipelines.space.stages)
                if stage.name in self.stages
            },
        )
        found.save(setup.out)
        setup.progress.done(f"{method.text}: {len(rows)} latent points")
        return found

    load = staticmethod(Points.load)


def latent_points(surrogate: Surrogate, pipelines: Encoded) -> Array:
    """Latent points (P, Q) of the recorded pipelines it has learned from.

    Those of PMF are in the order of their dimensions, those first that began as the first components; those of DeepPipe
    are in units of the kernel's length scales.
    """
    if isinstance(surrogate, DeepPipe):
        return located(surrogate.network(surrogate.learned, pipelines.features()), surrogate.learned).points
    if not isinstance(surrogate, RecordedGP):
        raise InvalidInput(f"{type(surrogate).__name__} has no latent points; name pmf or deeppipe_network")
    return surrogate.prior.recorded.points


def short(values: NDArray[np.floating[Any]]) -> list[Any]:
    """Numbers (n,) or points (n, d) for JSON, with a few significant digits."""
    return [short(row) for row in values] if values.ndim > 1 else rounded(values.astype(np.float64), _DIGITS)


def flattened(points: Array) -> Array:
    """Points (n, Z) in two dimensions, by t-SNE."""
    from sklearn.manifold import TSNE

    n = len(points)
    found: Array = TSNE(2, perplexity=min(30.0, (n - 1) / 3), init="pca", random_state=0).fit_transform(points)
    return np.asarray(found, dtype=np.float64)


def nearest(points: Array, number: int = _NEIGHBOURS) -> NDArray[np.int64]:
    """Rows of the nearest other points of each, (n, number)."""
    from scipy.spatial import KDTree

    n = len(points)
    if n <= number:
        raise InvalidInput(f"there must be more than {number} points, got {n}")
    found: NDArray[np.int64] = KDTree(points).query(points, number + 1)[1]
    others = found != np.arange(n)[:, None]
    others[others.all(axis=1), -1] = False  # of many points at one place a point may not find itself
    return np.asarray(found[others].reshape(n, number))


def _parameter(meta: MetaDataset, rows: NDArray[np.int64], algorithm: str) -> tuple[str, list[float | None]]:
    """Name and values of the first hyper-parameter of an algorithm."""
    stages = meta.pipelines.space.stages
    stage = next((s for s, stage in enumerate(stages) if algorithm in stage.names), None)
    if stage is None:
        raise InvalidInput(f"there must be an algorithm {algorithm!r} in the space of {meta.name!r}")
    name = stages[stage].algorithms[stages[stage].position(algorithm)].params[0].name
    pipelines = meta.pipelines.take(rows)
    has = pipelines.choice[:, stage] == stages[stage].position(algorithm)
    values: list[Any] = [pipelines[i].params[stage].get(name) if there else None for i, there in enumerate(has)]
    return f"{algorithm}.{name}", short(numbers(values))
