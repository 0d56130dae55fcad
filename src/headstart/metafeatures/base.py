"""`MetaFeatures`: from a dataset to a vector; `TableNetwork`: a network that does so, to be trained by others too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from headstart.learning.base import Learner, Needs
from headstart.registry import Kind

if TYPE_CHECKING:
    from headstart.data import Dataset
    from headstart.learning.networks import Parameters
    from headstart.metafeatures.set_networks import TableArrays

Array = NDArray[np.float64]


class MetaFeatures(Learner):
    """Describes a dataset by a vector of fixed length.

    A plug-in writes `transform`. One that is learned writes `meta_fit` too, which has tables and results side by side:
    ``meta.dataset(t)`` and ``meta.loss_row(t)`` are of the same task, as is ``meta.metafeatures[name][t]``. One that
    reads other meta-features instead of a table says so: its `needs` are ``Needs(metafeatures=frozenset({name}))``.
    """

    kind: ClassVar[Kind] = "metafeatures"

    @property
    def needs(self) -> Needs:
        """What it reads: a table, unless a subclass says otherwise."""
        return super().needs | Needs(table=True)

    @abstractmethod
    def transform(self, dataset: Dataset | None, metafeatures: Mapping[str, Array] = {}) -> Array:
        """The vector (k,) of one dataset: finite, and the same for the same dataset.

        Parameters
        ----------
        dataset
            The table; ``None`` only where `needs` does not ask for it.
        metafeatures
            Vectors by name: those that `needs` asks for, maybe others.
        """


class TableNetwork(Protocol):
    """A network that describes tables by vectors.

    A method can train one further as a part of its own: it adds `initial` parameters, or those that an extractor has
    learned, to its own (all names begin with the network's), and calls the network in its loss. What a batch is made of
    is the network's affair.
    """

    @property
    def outputs(self) -> int:
        """Length of a vector."""
        ...

    def initial(self, rng: np.random.Generator) -> Parameters:
        """Random parameters."""
        ...

    def batches(self, tables: Sequence[TableArrays], rng: np.random.Generator) -> list[Any]:
        """A batch of each table: random rows and columns, to be trained on."""
        ...

    def whole(self, table: TableArrays) -> Any:
        """All of a table as a batch, but for what is too much of a large one; always the same."""
        ...

    def __call__(self, parameters: Mapping[str, Any], batches: Sequence[Any]) -> Any:
        """Vectors (n, outputs) of n batches: an array if the parameters are arrays, a tensor if they are tensors."""
        ...
