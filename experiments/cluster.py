"""`Clusters`: how close pipelines with the same estimator lie in random embeddings (DeepPipe's experiment 5, figure 4).

===========================================================  ==================  ====================================
quantity                                                     name in code        equation
===========================================================  ==================  ====================================
φ(p)                                                         points              network with weights from N(0, 1)
E_{l,m,n} I(‖φ(l) - φ(m)‖ < ‖φ(m) - φ(n)‖)                   cluster_metric      over l ≠ m with the same estimator,
                                                                                 and n with another; ½ by chance
===========================================================  ==================  ====================================

The mean is over all triples, not over a sample of them. Corollary H.4 says that a random encoder brings configurations
of one algorithm closer together than a layer that all algorithms share; it is about hyper-parameters alone, so networks
are looked at with and without the one-hot choice of algorithms among the inputs of the aggregation, which tells
algorithms apart too. One random network says little: figures are over several, and the pictures show the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.embedding import flattened, short
from experiments.experiment import Setup, Table, known
from headstart.errors import InvalidInput
from headstart.metadata.metadataset import MetaDataset
from headstart.methods.deeppipe.network import PipelineNetwork
from headstart.numerics.threads import one_blas_thread
from headstart.replay.results import Saved, half_width, rounded, shown
from headstart.replay.runner import plain

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
_DIGITS = 4


@dataclass
class Clustered(Saved):
    """What was found.

    Parameters
    ----------
    meta, key, settings
        What it was found with: name and key of the meta-dataset, and of the experiment all that can be chosen.
    estimators, estimator
        Names, and which of them each of the n pipelines has.
    layers
        Numbers of encoder layers.
    metrics
        By whether the one-hot choice is an input (``"with"`` and ``"without"``): (layers, networks).
    flat
        By number of encoder layers, t-SNE of the first network without one-hot choices: (layers, n, 2).
    """

    holds = "cluster metrics"
    meta: str
    key: str
    settings: dict[str, Any]
    estimators: list[str]
    estimator: list[int]
    layers: list[int]
    metrics: dict[str, list[list[float | None]]]
    flat: list[list[list[float]]]

    def table(self) -> Table:
        rows = []
        for choice, metrics in self.metrics.items():
            found = np.array(metrics, dtype=np.float64)
            widths = rounded(half_width(found.T))
            cells = [f"{m:.3f} ± {shown(w, '.3f')}" for m, w in zip(found.mean(axis=1), widths, strict=True)]
            rows.append([f"{choice} one-hot choices", *cells])
        networks = found.shape[1]
        title = (
            f"{self.meta}: cluster metric of {len(self.estimator):,} pipelines of {len(self.estimators)} estimators, "
            f"mean over {networks} random networks"
        )
        return Table(title, ["encoder layers", *map(str, self.layers)], rows)


@dataclass(frozen=True)
class Clusters:
    """An experiment that looks at random networks.

    Parameters
    ----------
    layers
        Numbers of encoder layers.
    total
        Encoder and aggregation layers together.
    factor, outputs
        Of the networks, see `PipelineNetwork`.
    sample, estimators
        So many pipelines, drawn evenly from those with one of the so many estimators that have the most.
    networks
        Random networks of each kind; the seeds are 0, 1, ….
    """

    layers: Sequence[int] = (0, 1, 2)
    total: int = 4
    factor: int = 8
    outputs: int = 20
    sample: int = 2000
    estimators: int = 5
    networks: int = 10

    def run(self, setup: Setup) -> Clustered:
        """Measure, unless the same is in the file; save."""
        meta = setup.meta
        given: dict[str, Any] = {"meta": meta.name, "key": meta.key, "settings": plain(asdict(self))}
        if before := known(Clustered, setup.out, **given):
            setup.progress.done("cluster metric: already known")
            return before
        rows, estimators = self._sample(meta)
        drawn = meta.pipelines.take(rows)
        features, chosen = drawn.features(), drawn.choice[:, -1]
        metrics: dict[str, list[list[float | None]]] = {"without": [], "with": []}
        flat = []
        with one_blas_thread():
            for choice in metrics:
                for layers in self.layers:
                    found = []
                    for seed in range(self.networks):
                        points = self._points(meta, layers, choice == "with", seed, features)
                        found.append(cluster_metric(points, chosen))
                        if seed == 0 and choice == "without":
                            flat.append(short(flattened(points)))
                    metrics[choice].append(rounded(np.array(found), _DIGITS))
                    setup.progress.done(
                        f"{layers} encoder layers, {choice} one-hot choices: cluster metric {np.mean(found):.3f}"
                    )
        names = meta.pipelines.space.stages[-1].names
        clustered = Clustered(
            **given,
            estimators=[names[e] for e in estimators],
            estimator=np.searchsorted(estimators, chosen).tolist(),
            layers=list(self.layers),
            metrics=metrics,
            flat=flat,
        )
        clustered.save(setup.out)
        return clustered

    load = staticmethod(Clustered.load)

    def _sample(self, meta: MetaDataset) -> tuple[Integers, Integers]:
        """Rows of pipelines, and the estimators they are drawn from in ascending order."""
        own = meta.pipelines.choice[:, -1]
        counts = np.bincount(own, minlength=len(meta.pipelines.space.stages[-1].names))
        most = np.sort(np.argsort(-counts, kind="stable")[: self.estimators])
        rows = np.flatnonzero(np.isin(own, most))
        return np.random.default_rng(0).permutation(rows)[: self.sample], most

    def _points(self, meta: MetaDataset, layers: int, one_hot: bool, seed: int, features: Array) -> Array:
        network = PipelineNetwork(
            meta.pipelines.space,
            factor=self.factor,
            encoder_layers=layers,
            aggregation_layers=self.total - layers,
            outputs=self.outputs,
            one_hot=one_hot,
        )
        rng = np.random.default_rng(seed)
        parameters = {name: rng.standard_normal(value.shape) for name, value in network.initial(rng).items()}
        points: Array = network(parameters, features).points
        return points


def cluster_metric(points: Array, kinds: NDArray[np.integer[Any]]) -> float:
    """Share of the triples with l ≠ m of one kind and n of another in which m is closer to l than to n.

    Parameters
    ----------
    points
        (n, Z).
    kinds
        (n,) whole numbers.
    """
    squares = (points**2).sum(axis=1)
    closer = triples = 0
    for m, kind in enumerate(kinds):
        distances = np.maximum(squares + squares[m] - 2.0 * points @ points[m], 0.0)
        same = kinds == kind
        others = np.sort(distances[~same])
        same[m] = False
        closer += int((len(others) - np.searchsorted(others, distances[same], side="right")).sum())
        triples += int(same.sum()) * len(others)
    if not triples:
        raise InvalidInput("there must be pipelines of two kinds, and two of one of them")
    return closer / triples
