"""`Dida`: meta-features by invariant layers, learned by telling patches of tables apart (Algorithm 3).

Network and notation are in `headstart.methods.dida.network`, training in `headstart.metafeatures.identification`.
Equation 5.8 lacks its minus. The paper calls two patches alike only if they have the same size too, which would give
the answer away by the size; here all patches of a step have the same.
"""

from __future__ import annotations

from headstart.errors import InvalidInput, check_positive
from headstart.metafeatures.identification import TableIdentification
from headstart.methods.dida.network import PATCH_ROWS, DidaNetwork


class Dida(TableIdentification):
    """Learned meta-features of a table, seen as a distribution of rows whose neighbours are compared (De Bie,
    Rakotoarison, Peyré & Sebag, 2020).

    `meta_fit` needs torch; `transform` NumPy alone.

    Parameters
    ----------
    outputs
        Length of the vector.
    layers, pair_units, units, neighbours
        Of the network, see `headstart.methods.dida.network.DidaNetwork`.
    steps, learning_rate, patience
        Of training: most steps, Adam's rate, checks (every 100 steps) without improvement before it ends.
    n_tables
        Of a step.
    draws
        A table of more than 500 rows or 15 features is described by the mean of the vectors of so many parts of it.
    seed
        Of initial parameters, of patches and of which parts of large tables are taken.
    """

    revision = 2
    max_rows = PATCH_ROWS[1]

    def __init__(
        self,
        outputs: int = 32,
        layers: int = 2,
        pair_units: int = 32,
        units: int = 64,
        neighbours: int | None = 10,
        steps: int = 600,
        learning_rate: float = 1e-3,
        patience: int = 10,
        n_tables: int = 16,
        draws: int = 8,
        seed: int = 0,
    ) -> None:
        super().__init__(outputs, units, steps, learning_rate, patience, n_tables, draws, seed)
        check_positive("pair_units", pair_units, whole=True)
        if layers not in (1, 2):
            raise InvalidInput(f"layers must be 1 or 2, got {layers!r}")
        if neighbours is not None:
            check_positive("neighbours", neighbours, whole=True)
        self.layers = layers
        self.pair_units = pair_units
        self.neighbours = neighbours

    @property
    def network(self) -> DidaNetwork:
        """The architecture; a method that trains it further adds its parameters to its own."""
        return DidaNetwork(self.layers, self.pair_units, self.units, self.outputs, self.neighbours)
