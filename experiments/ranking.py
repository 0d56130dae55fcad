"""`Ranking`: which of two configurations of an algorithm is better on a patch of a table (Dida's task 2).

=============  =============================================================================================
Algorithm 4    a triplet of a patch z and configurations θ, θ', labelled 1 iff θ has the higher accuracy on z
accuracy       mean over 3 folds of the patch, by `headstart.evaluation.live.LiveObjective`
NN             two fully connected layers of [F(z); θ; θ'], trained together with the extractor F
loss           cross-entropy (equation 5.8 with its minus); configurations that are equal on a patch are left out
θ              drawn from table B.3, each hyper-parameter scaled to the unit interval
=============  =============================================================================================

Section 5.5.3 has the label the other way round, which makes no difference. Made smaller: of each table a few patches
are drawn once, and all of them are evaluated with the same few configurations; these accuracies are kept beside the
results. Extractors, hand-crafted ones too, read at most 500 rows of a patch. No table is in two of training, validation
and test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from experiments.identification import Budget, Identified
from experiments.patches import Benchmark, dataset_of, network_of, openml
from headstart.data.splits import make_splits
from headstart.evaluation.live import LiveObjective
from headstart.learning.backend import one_torch_thread, require_torch
from headstart.learning.networks import MLP
from headstart.metafeatures.set_networks import TableArrays
from headstart.methods.dida.network import PATCH_FEATURES, PATCH_ROWS
from headstart.numerics.threads import one_blas_thread
from headstart.space import Algorithm, Categorical, Float, Integer, Pipeline, PipelineSpace, Stage
from headstart.trials import Limits

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
_FLAG = (True, False)
SPACES = {
    "SGD": PipelineSpace(
        "sgd",
        [
            Stage(
                "estimator",
                [
                    Algorithm(
                        "sgd",
                        "sklearn.linear_model:SGDClassifier",
                        [
                            Float("alpha", 1e-4, 0.1, log=True),
                            Categorical("average", _FLAG),
                            Categorical("fit_intercept", _FLAG),
                            Categorical("learning_rate", ("optimal", "invscaling", "constant")),
                            Categorical("loss", ("hinge", "log_loss", "modified_huber", "squared_hinge", "perceptron")),
                            Categorical("penalty", ("l1", "l2", "elasticnet")),
                            Float("tol", 1e-5, 0.1, log=True),
                            Float("eta0", 1e-7, 0.1, log=True),
                            Float("power_t", 1e-5, 0.1, log=True),
                        ],
                    )
                ],
            )
        ],
    ),
    "k-NN": PipelineSpace(
        "knn",
        [
            Stage(
                "estimator",
                [
                    Algorithm(
                        "knn",
                        "sklearn.neighbors:KNeighborsClassifier",
                        [
                            Integer("n_neighbors", 1, 100, log=True),
                            Integer("p", 1, 2),
                            Categorical("weights", ("uniform", "distance")),
                        ],
                    )
                ],
            )
        ],
    ),
}
"""Table B.3."""
PATCHES, CONFIGURATIONS, PAIRS = 4, 12, 16
"""Patches of a table; configurations of an algorithm; pairs of configurations of a patch in a step."""
_STEP_PATCHES, _HIDDEN = 16, 64


@dataclass(frozen=True)
class Evaluated:
    """Configurations (c, k) in the unit interval; patches by table; accuracies (PATCHES, c) by table."""

    configurations: Array
    patches: Mapping[str, list[TableArrays]]
    accuracy: Mapping[str, Array]


def evaluated(algorithm: str, benchmark: Benchmark, seed: int, cache: Path) -> Evaluated:
    """Accuracies of configurations on patches, measured unless they are in the file."""
    space, rng = SPACES[algorithm], np.random.default_rng([seed, 47])
    configurations = space.sample(rng, CONFIGURATIONS)
    patches = {
        name: [patch for _ in range(PATCHES) for patch in benchmark.draw([table], rng)]
        for name, table in benchmark.tables.items()
    }
    known: dict[str, Array] = {}
    if cache.exists():
        with np.load(cache, allow_pickle=False) as held:
            known = dict(held)
    for name, of_table in patches.items():
        if name not in known:
            known[name] = np.array([accuracies(space, configurations, patch) for patch in of_table])
            cache.parent.mkdir(parents=True, exist_ok=True)
            np.savez(cache, **known)  # type: ignore[arg-type]
    return Evaluated(configurations.features(), patches, known)


def accuracies(space: PipelineSpace, pipelines: Iterable[Pipeline], patch: TableArrays) -> list[float]:
    """Mean accuracies over 3 folds; 0 where a pipeline failed."""
    dataset = dataset_of(patch)
    objective = LiveObjective(space, dataset, make_splits(dataset, folds=3, repeats=1), metric="accuracy")
    losses = [objective(pipeline, Limits(), 0).loss for pipeline in pipelines]
    return [0.0 if loss is None else 1.0 - loss for loss in losses]


class RankedPairs(Identified):
    """Shares of pairs of configurations in the right order, by network."""

    holds = "ranked configurations"

    def table(self) -> Table:
        found = super().table()
        return Table(f"{self.settings['algorithm']}: which of two configurations is better", *found[1:])


@dataclass(frozen=True)
class Ranking:
    """An experiment on configurations of one algorithm.

    Parameters
    ----------
    algorithm
        In `SPACES`.
    networks
        Seeds by label, see `experiments.patches.network_of`.
    """

    algorithm: str
    networks: Mapping[str, int]

    def run(self, setup: Setup) -> RankedPairs:
        """Train and test what is not in the file yet; saved after each training."""
        settings = {"algorithm": self.algorithm, "seconds": setup.seconds, "patches": PATCHES, "pairs": PAIRS}
        found = RankedPairs({**settings, "configurations": CONFIGURATIONS})
        if setup.out.exists():
            before = RankedPairs.load(setup.out)
            found = before if before.settings == found.settings else found
        for seed in range(max(self.networks.values())):
            missing = [
                label
                for label, seeds in self.networks.items()
                if seed < seeds and str(seed) not in found.runs.get(label, {})
            ]
            if not missing:
                continue
            with one_blas_thread():
                benchmark = openml(setup.data, seed)
                cache = setup.out.with_name(f".{setup.name}.{seed}.npz")
                pool = evaluated(self.algorithm, benchmark, seed, cache)
                for label in missing:
                    budget = Budget(setup.seconds or 0.0, f"{label}, seed {seed}", found, setup.out)
                    found.runs.setdefault(label, {})[str(seed)] = run = ranked(label, benchmark, pool, seed, budget)
                    found.runs = {name: found.runs[name] for name in self.networks if name in found.runs}
                    found.save(setup.out)
                    right = 100 * np.mean(list(run["accuracy"].values()))
                    setup.progress.done(f"{label}, seed {seed}: {right:.1f} %")
        return found

    load = staticmethod(RankedPairs.load)


def ranked(label: str, benchmark: Benchmark, pool: Evaluated, seed: int, budget: Budget) -> dict[str, Any]:
    """Train an extractor and a ranking network together, and test them."""
    rng = np.random.default_rng(seed)
    network = network_of(label, benchmark, rng)
    head = MLP("ranking", (network.outputs + 2 * pool.configurations.shape[1], _HIDDEN, 1))
    batches = {
        name: [network.whole(patch.most(PATCH_ROWS[1], PATCH_FEATURES[1])) for patch in patches]
        for name, patches in pool.patches.items()
    }

    def triplets(names: Sequence[str], stream: np.random.Generator) -> list[tuple[str, int, Rows]]:
        """Table and patch, and pairs (PAIRS, 2) of configurations that differ on it."""
        found = []
        for name in (names[int(i)] for i in stream.integers(0, len(names), _STEP_PATCHES)):
            patch = int(stream.integers(PATCHES))
            pairs = different(pool.accuracy[name][patch])
            if len(pairs):
                found.append((name, patch, pairs[stream.integers(0, len(pairs), PAIRS)]))
        return found

    def loss(tensors: dict[str, Any], drawn: Sequence[tuple[str, int, Rows]]) -> Any:
        single = {name: tensor.float() for name, tensor in tensors.items()}
        vectors = network(single, [batches[name][patch] for name, patch, _ in drawn])
        scores, better = [], []
        for vector, (name, patch, pairs) in zip(vectors, drawn, strict=True):
            scores.append(scored(single, vector, pairs))
            better.append(pool.accuracy[name][patch][pairs[:, 0]] > pool.accuracy[name][patch][pairs[:, 1]])
        torch = require_torch("ranking")
        labels = torch.as_tensor(np.concatenate(better)).float()
        return torch.nn.functional.binary_cross_entropy_with_logits(torch.cat(scores), labels)

    def scored(tensors: Mapping[str, Any], vector: Any, pairs: Rows) -> Any:
        """Logit that the first configuration of each pair is the better one."""
        torch = require_torch("ranking")
        theta = torch.as_tensor(pool.configurations[pairs].reshape(len(pairs), -1)).to(vector.dtype)
        return head(tensors, torch.cat([vector.expand(len(pairs), -1), theta], 1))[:, 0]

    training, validation, test = benchmark.split
    rounds = [triplets(validation, rng) for _ in range(6)]
    trained, about = budget.train(
        {**network.initial(rng), **head.initial(rng)},
        lambda tensors, stream: loss(tensors, triplets(training, stream)),
        lambda tensors: sum(float(loss(tensors, drawn)) for drawn in rounds) / len(rounds),
        rng,
    )
    accuracy = {}
    with one_torch_thread("testing") as torch, torch.no_grad():
        tensors = {name: torch.as_tensor(value).float() for name, value in trained.items()}
        for name in test:
            right = []
            for vector, row in zip(network(tensors, batches[name]), pool.accuracy[name], strict=True):
                pairs = different(row)
                if len(pairs):
                    found = scored(tensors, vector, pairs).numpy() > 0.0
                    right.append((found == (row[pairs[:, 0]] > row[pairs[:, 1]])).mean())
            if right:
                accuracy[name] = round(float(np.mean(right)), 4)
    return {"accuracy": accuracy, **about}


def different(accuracies: Array) -> Rows:
    """All ordered pairs (m, 2) of configurations that are not equally good.

    >>> different(np.array([0.5, 0.7, 0.5])).tolist()
    [[0, 1], [1, 0], [1, 2], [2, 1]]
    """
    return np.argwhere(accuracies[:, None] != accuracies[None])
