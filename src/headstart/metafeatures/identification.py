"""`TableIdentification`: meta-features that a network learns by telling tables apart.

Batch identification: of two batches, each of some rows, features and targets of a table, say whether they are of the
same table. Loss and distance are in `headstart.metafeatures.set_networks`.

Decided here. (1) Every step takes two batches of each of some tables. Pairs of one table are the positives, all pairs
of different tables the negatives, and both kinds count half: a negative is never of the same table, and one pass
through the network gives many. (2) A whole table is described with all its rows and columns up to some bounds; below
these the vector does not depend on the order of rows, columns or classes. Beyond them it is the mean of the vectors of
several random parts, always the same.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, NeedsTable, check_positive
from headstart.learning.backend import require_torch
from headstart.learning.networks import Parameters
from headstart.learning.training import Training, train_network
from headstart.metadata.metadataset import MetaDataset
from headstart.metafeatures.base import MetaFeatures, TableNetwork
from headstart.metafeatures.set_networks import TableArrays, distance, identification_loss
from headstart.numerics.threads import one_blas_thread

if TYPE_CHECKING:
    from headstart.data import Dataset

Array = NDArray[np.float64]

_TRAINING_ROWS = 20_000
_HELD_OUT, _LEAST_FOR_HOLDING_OUT = 0.15, 10
_VALIDATION_ROUNDS = 6


class PartNetwork(TableNetwork, Protocol):
    """A `TableNetwork` that says which part of a large table it takes for the whole."""

    def part(self, table: TableArrays, draw: int = 0) -> TableArrays:
        """The table itself, or of a large one one of several random parts."""
        ...


class TableIdentification(MetaFeatures):
    """Base of extractors that learn by batch identification; a subclass has a `network` and these settings.

    `meta_fit` needs torch; `transform` NumPy alone.
    """

    keeps = ("_parameters",)
    _parameters: Parameters | None = None

    def __init__(
        self,
        outputs: int,
        units: int,
        steps: int,
        learning_rate: float,
        patience: int,
        n_tables: int,
        draws: int,
        seed: int,
    ) -> None:
        for name, value in {"outputs": outputs, "units": units, "draws": draws}.items():
            check_positive(name, value, whole=True)
        if n_tables < 2:
            raise InvalidInput(f"n_tables must be at least 2, for there is nothing to tell apart, got {n_tables!r}")
        self.outputs = outputs
        self.units = units
        self.steps = steps
        self.learning_rate = learning_rate
        self.patience = patience
        self.n_tables = n_tables
        self.draws = draws
        self.seed = seed

    max_rows: int
    """Most rows of a part."""

    @property
    @abstractmethod
    def network(self) -> PartNetwork:
        """The architecture; a method that trains it further adds its parameters to its own."""

    @property
    def parameters(self) -> Parameters:
        """What was learned."""
        if self._parameters is None:
            raise InvalidInput(f"{type(self).__name__} learns from tables: call meta_fit or load first")
        return self._parameters

    def meta_fit(self, meta: MetaDataset) -> Self:
        name = type(self).__name__
        require_torch(f"meta-training of {name}")
        rng = np.random.default_rng(self.seed)
        found = [meta.dataset(task) for task in range(len(meta))]
        tables = [TableArrays.of(dataset, _TRAINING_ROWS, self.seed) for dataset in found if dataset is not None]
        if len(tables) < 2:
            raise NeedsTable(f"{name} learns to tell tables apart and needs at least 2, got {len(tables)}")
        order = rng.permutation(len(tables))
        held = max(2, round(_HELD_OUT * len(tables))) if len(tables) >= _LEAST_FOR_HOLDING_OUT else 0
        training = [tables[i] for i in order[held:]]
        validation = [tables[i] for i in order[:held]] or training
        network = self.network
        rounds = [self.draw(validation, rng) for _ in range(_VALIDATION_ROUNDS)]

        def loss(tensors: dict[str, Any], drawn: tuple[list[Any], list[int]]) -> Any:
            single = {key: tensor.float() for key, tensor in tensors.items()}  # twice as fast
            return told_apart(network(single, drawn[0]), drawn[1])

        trained = train_network(
            network.initial(rng),
            lambda tensors, stream: loss(tensors, self.draw(training, stream)),
            lambda tensors: sum(float(loss(tensors, drawn)) for drawn in rounds) / len(rounds),
            self.steps,
            Training(self.learning_rate, patience=self.patience),
            rng,
            name,
        )
        self._parameters = trained.parameters
        digest = hashlib.sha256(b"".join(value.tobytes() for _, value in sorted(trained.parameters.items())))
        self.meta_key = f"{meta.name}-{digest.hexdigest()[:16]}"
        return self

    def draw(self, tables: Sequence[TableArrays], rng: np.random.Generator) -> tuple[list[Any], list[int]]:
        """Two batches of each of some tables, and the places of these tables."""
        chosen = [int(i) for i in rng.permutation(len(tables))[: self.n_tables] for _ in range(2)]
        return self.network.batches([tables[i] for i in chosen], rng), chosen

    def transform(self, dataset: Dataset | None, metafeatures: Mapping[str, Array] = {}) -> Array:  # noqa: ARG002
        if dataset is None:
            raise NeedsTable(f"{type(self).__name__} describes a table, and the task has none")
        network = self.network
        with one_blas_thread():
            vectors: Array = network(self.parameters, [network.whole(part) for part in self.parts_of(dataset)])
        return np.asarray(vectors.mean(axis=0))

    def parts_of(self, dataset: Dataset) -> list[TableArrays]:
        """The table itself, or random parts of a large one."""
        parts: list[TableArrays] = []
        for draw in range(self.draws):
            arrays = TableArrays.of(dataset, self.max_rows, self.seed + draw)
            parts.append(self.network.part(arrays, draw))
            if parts[-1] is arrays and dataset.n_rows <= self.max_rows:  # all of it
                break
        return parts


def told_apart(vectors: Any, owners: Sequence[int]) -> Any:
    """Loss of all pairs of batches (n, V) by their tables (n,): half for those of one table, half for the others."""
    torch = require_torch("batch identification")
    owner = torch.tensor(owners)
    first, second = torch.triu_indices(len(owners), len(owners), offset=1)
    same = owner[first] == owner[second]
    errors = identification_loss(distance(vectors[first], vectors[second]), same)
    return 0.5 * (errors[same].mean() + errors[~same].mean())
