"""`Dataset2Vec`: meta-features that are learned by telling tables apart.

Network, loss and notation are in `headstart.metafeatures.set_networks`. It is trained on batch identification: of two
batches, each of some rows, features and targets of a table, say whether they are of the same table.

Decided here. (1) Every step takes two batches of each of some tables. Pairs of one table are the positives, all pairs
of different tables the negatives, and both kinds count half: a negative is never of the same table, and one pass
through the network gives many. (2) A whole table is described with all its rows up to `max_rows` and all its pairs up
to `max_pairs`, where training sees small batches: means over more rows are the same quantities with less noise. Beyond
these bounds a fixed random part stands for the table; below them the vector does not depend on the order of rows,
columns or classes. (3) Networks half as deep as the published ones by default; ``blocks=8, depth=4`` are theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, NeedsTable, check_positive
from headstart.learning.backend import require_torch
from headstart.learning.networks import Parameters
from headstart.learning.training import Training, train_network
from headstart.metadata.metadataset import MetaDataset
from headstart.metafeatures.base import MetaFeatures, TableNetwork
from headstart.metafeatures.set_networks import Dataset2VecNetwork, TableArrays, distance, identification_loss
from headstart.numerics.threads import one_blas_thread

if TYPE_CHECKING:
    from headstart.data import Dataset

Array = NDArray[np.float64]

_TRAINING_ROWS = 20_000
_HELD_OUT, _LEAST_FOR_HOLDING_OUT = 0.15, 10
_VALIDATION_ROUNDS = 6


class Dataset2Vec(MetaFeatures):
    """Learned meta-features of a table: a deep set over its (feature, target) pairs (Jomaa, Schmidt-Thieme & Grabocka,
    Data Mining and Knowledge Discovery 2021).

    `meta_fit` needs torch; `transform` NumPy alone.

    Parameters
    ----------
    outputs
        Length of the vector.
    units, blocks, depth
        Of the network, see `headstart.metafeatures.set_networks.Dataset2VecNetwork`.
    steps, learning_rate, patience
        Of training: most steps, Adam's rate, checks (every 100 steps) without improvement before it ends.
    n_tables
        Of a step.
    max_rows, max_pairs
        Most rows and most (feature, target) pairs that a table is described with.
    seed
        Of initial parameters, of batches and of which rows are left out of large tables.
    """

    keeps = ("_parameters",)
    _parameters: Parameters | None = None

    def __init__(
        self,
        outputs: int = 32,
        units: int = 32,
        blocks: int = 2,
        depth: int = 2,
        steps: int = 2000,
        learning_rate: float = 1e-3,
        patience: int = 10,
        n_tables: int = 16,
        max_rows: int = 2000,
        max_pairs: int = 200,
        seed: int = 0,
    ) -> None:
        sizes = {"outputs": outputs, "units": units, "max_rows": max_rows, "max_pairs": max_pairs}
        for name, value in sizes.items():
            check_positive(name, value, whole=True)
        if n_tables < 2:
            raise InvalidInput(f"n_tables must be at least 2, for there is nothing to tell apart, got {n_tables!r}")
        self.outputs = outputs
        self.units = units
        self.blocks = blocks
        self.depth = depth
        self.steps = steps
        self.learning_rate = learning_rate
        self.patience = patience
        self.n_tables = n_tables
        self.max_rows = max_rows
        self.max_pairs = max_pairs
        self.seed = seed

    @property
    def network(self) -> TableNetwork:
        """The architecture; a method that trains it further adds its parameters to its own."""
        return Dataset2VecNetwork(self.units, self.outputs, self.blocks, self.depth, self.max_pairs)

    @property
    def parameters(self) -> Parameters:
        """What was learned."""
        if self._parameters is None:
            raise InvalidInput("Dataset2Vec learns from tables: call meta_fit or load first")
        return self._parameters

    def meta_fit(self, meta: MetaDataset) -> Self:
        torch = require_torch("meta-training of Dataset2Vec")
        rng = np.random.default_rng(self.seed)
        found = [meta.dataset(task) for task in range(len(meta))]
        tables = [TableArrays.of(dataset, _TRAINING_ROWS, self.seed) for dataset in found if dataset is not None]
        if len(tables) < 2:
            raise NeedsTable(f"Dataset2Vec learns to tell tables apart and needs at least 2, got {len(tables)}")
        order = rng.permutation(len(tables))
        held = max(2, round(_HELD_OUT * len(tables))) if len(tables) >= _LEAST_FOR_HOLDING_OUT else 0
        training = [tables[i] for i in order[held:]]
        validation = [tables[i] for i in order[:held]] or training
        network = self.network

        def loss(tensors: dict[str, Any], batches: tuple[list[Array], list[int]]) -> Any:
            pairs, labels = batches
            vectors = network(tensors, pairs)
            owner = torch.tensor(labels)
            first, second = torch.triu_indices(len(labels), len(labels), offset=1)
            same = owner[first] == owner[second]
            errors = identification_loss(distance(vectors[first], vectors[second]), same)
            return 0.5 * (errors[same].mean() + errors[~same].mean())

        rounds = [self.draw(validation, rng) for _ in range(_VALIDATION_ROUNDS)]
        trained = train_network(
            network.initial(rng),
            lambda tensors, stream: loss(tensors, self.draw(training, stream)),
            lambda tensors: sum(float(loss(tensors, batches)) for batches in rounds) / len(rounds),
            self.steps,
            Training(self.learning_rate, patience=self.patience),
            rng,
            "Dataset2Vec",
        )
        self._parameters = trained.parameters
        digest = hashlib.sha256(b"".join(value.tobytes() for _, value in sorted(trained.parameters.items())))
        self.meta_key = f"{meta.name}-{digest.hexdigest()[:16]}"
        return self

    def draw(self, tables: Sequence[TableArrays], rng: np.random.Generator) -> tuple[list[Array], list[int]]:
        """Two batches, as pairs (q, I, 2), of each of some tables, and the places of these tables."""
        chosen = [int(i) for i in rng.permutation(len(tables))[: self.n_tables] for _ in range(2)]
        return self.network.batches([tables[i] for i in chosen], rng), chosen

    def transform(self, dataset: Dataset | None, metafeatures: Mapping[str, Array] = {}) -> Array:  # noqa: ARG002
        if dataset is None:
            raise NeedsTable("Dataset2Vec describes a table, and the task has none")
        batch = self.network.whole(TableArrays.of(dataset, self.max_rows, self.seed))
        with one_blas_thread():
            return np.asarray(self.network(self.parameters, [batch])[0])
