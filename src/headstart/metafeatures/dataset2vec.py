"""`Dataset2Vec`: meta-features that are learned by telling tables apart.

Network, loss and notation are in `headstart.metafeatures.set_networks`, training in
`headstart.metafeatures.identification`. Networks are half as deep as the published ones by default; ``blocks=8,
depth=4`` are those of DMFBS, ``architecture="dida", units=128, blocks=1, depth=3, outputs=128`` those of Dida's rival.
"""

from __future__ import annotations

from headstart.errors import InvalidInput, check_positive
from headstart.metafeatures.identification import TableIdentification
from headstart.metafeatures.set_networks import Architecture, Dataset2VecNetwork


class Dataset2Vec(TableIdentification):
    """Learned meta-features of a table: a deep set over its (feature, target) pairs (Jomaa, Schmidt-Thieme & Grabocka,
    Data Mining and Knowledge Discovery 2021).

    `meta_fit` needs torch; `transform` NumPy alone.

    Parameters
    ----------
    outputs
        Length of the vector.
    units, blocks, depth, architecture
        Of the network, see `headstart.metafeatures.set_networks.Dataset2VecNetwork`.
    steps, learning_rate, patience
        Of training: most steps, Adam's rate, checks (every 100 steps) without improvement before it ends.
    n_tables
        Of a step.
    max_rows, max_pairs, draws
        Most rows and most (feature, target) pairs that a table is described with at once, and of how many random parts
        the mean is taken where a table has more.
    seed
        Of initial parameters, of batches and of which parts of large tables are taken.
    """

    revision = 2

    def __init__(
        self,
        outputs: int = 32,
        units: int = 32,
        blocks: int = 2,
        depth: int = 2,
        architecture: Architecture = "dmfbs",
        steps: int = 2000,
        learning_rate: float = 1e-3,
        patience: int = 10,
        n_tables: int = 16,
        max_rows: int = 1000,
        max_pairs: int = 100,
        draws: int = 4,
        seed: int = 0,
    ) -> None:
        super().__init__(outputs, units, steps, learning_rate, patience, n_tables, draws, seed)
        for name, value in {"max_rows": max_rows, "max_pairs": max_pairs}.items():
            check_positive(name, value, whole=True)
        if architecture not in ("dmfbs", "dida"):
            raise InvalidInput(f"architecture must be 'dmfbs' or 'dida', got {architecture!r}")
        self.blocks = blocks
        self.depth = depth
        self.architecture = architecture
        self.max_rows = max_rows
        self.max_pairs = max_pairs

    @property
    def network(self) -> Dataset2VecNetwork:
        """The architecture; a method that trains it further adds its parameters to its own."""
        return Dataset2VecNetwork(
            self.units, self.outputs, self.blocks, self.depth, self.max_pairs, architecture=self.architecture
        )
