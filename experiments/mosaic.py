"""Mosaic (Rakotoarison, 2022, chapter 4): variants and flat search from the same starts, and what its settings do.

=====================  ======================================================================================
figure 4.2, table 4.1  `mosaic_live`: on raw tables, against flat search, SMAC3, TPOT and random search
figures 4.3, 4.4       `mosaic_variants`: the tree and flat searches, from the common five pipelines, from
                       Mosaic.Vanilla's initialisation and from 25 pipelines of the nearest datasets
figure 4.5             the same, the variants among themselves
figure 4.5             `mosaic_ensembles`: fits on raw tables, the ensemble beside the best pipeline
ablation               `mosaic_parts`: without the policy, with playouts A and B, with another surrogate
figures 4.6, 4.7       `mosaic_settings`: C_ucb, PW, n_s and the temperature, one at a time, on validation tasks
=====================  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.comparison import Comparison
from experiments.ensembles import FitDuels
from experiments.experiment import Experiment, Setup
from experiments.live_duels import LiveDuels
from experiments.starts import Blocks, FromStarts
from headstart.replay.partition import Partition
from headstart.replay.protocol import Method
from headstart.replay.results import Results
from headstart.replay.variants import Variant, warm_started

TREE = "mosaic(defaults=no, random_starts=0)"
"""Without an initialisation of its own."""
N_VANILLA = 44
"""Default pipeline and three random ones of each of Tensor-OBOE's eleven estimators."""
VANILLA = warm_started("mosaic", N_VANILLA, name="vanilla")
NEAREST = warm_started("nearest(metafeatures=handcrafted)", 25, name="nearest25")
_ALL: tuple[Variant | None, ...] = (None, VANILLA, NEAREST)

VARIANTS = FromStarts(
    [
        ("random", _ALL),
        (Method.called("mosaic", TREE), _ALL),
        ("forest", _ALL),
        ("gp", _ALL),
        (Method.called("mosaic_vanilla", "mosaic"), (None, NEAREST)),
    ],
    {
        "from the common five": {f"`{name}`": name for name in ("mosaic", "forest", "gp", "random")},
        "from Mosaic.Vanilla's initialisation": {
            f"`{name}`": f"{name}-vanilla" for name in ("mosaic", "forest", "gp", "random")
        },
        "from 25 pipelines of the nearest datasets": {
            f"`{name}`": f"{name}-nearest25" for name in ("mosaic", "forest", "gp", "random")
        },
        "variants of Mosaic": {
            "common five, then the tree": "mosaic",
            "Vanilla: initialisation, then the tree": "mosaic-vanilla",
            "common five, initialisation, then the tree": "mosaic_vanilla",
            "nearest 25, then the tree": "mosaic-nearest25",
            "MetaLearning: nearest 25, initialisation, then the tree": "mosaic_vanilla-nearest25",
        },
    },
)


def _setting(name: str, value: float) -> str:
    return f"mosaic(defaults=no, random_starts=0, {name}={value})"


_USUAL = {"exploration": 1.3, "widening": 0.6, "policy_samples": 100, "temperature": 0.1}
_TRIED: Mapping[str, tuple[float, ...]] = {
    "exploration": (0.1, 0.3, 0.6, 1.0, 1.3, 1.6),
    "widening": (1.0, 0.8, 0.7, 0.6, 0.5),
    "policy_samples": (50, 100, 500, 1000),
    "temperature": (0.03, 0.1, 0.3, 1.0),
}


@dataclass(frozen=True)
class Sensitivity:
    """Settings one at a time, the others as they are by default, on validation tasks that are not learned from.

    Parameters
    ----------
    usual, tried
        Default values, and those that are tried.
    tasks
        How many of the first validation tasks.
    """

    usual: Mapping[str, float]
    tried: Mapping[str, tuple[float, ...]]
    tasks: int = 15

    def _name(self, name: str, value: float) -> str:
        return TREE if value == self.usual[name] else _setting(name, value)

    @property
    def methods(self) -> list[str]:
        """All that are replayed, each once."""
        tried = [self._name(name, value) for name, values in self.tried.items() for value in values]
        return list(dict.fromkeys(["forest", TREE, *tried]))

    def run(self, setup: Setup) -> Blocks:
        whole = Partition.of(setup.meta, "validation")
        partition = replace(whole, name=f"validation, first {self.tasks}", test=whole.test[: self.tasks])
        Comparison(self.methods).run(replace(setup, partition=partition))
        return self.load(setup.out)

    def load(self, path: Path) -> Blocks:
        groups = {
            f"{name}, usually {self.usual[name]:g}": {
                "`forest`": "forest",
                **{f"{value:g}": self._name(name, value) for value in values},
            }
            for name, values in self.tried.items()
        }
        return Blocks(Results.load(path), groups)


def _part(label: str, settings: str) -> Method:
    return Method.called(label, f"{TREE[:-1]}, {settings})")


PARTS = FromStarts(
    [
        (Method.called("mosaic", TREE), (None,)),
        ("forest", (None,)),
        ("gp", (None,)),
        (_part("mosaic_gp", "surrogate=gp"), (None,)),
        (_part("mosaic_local", "playout=local"), (None,)),
        (_part("mosaic_random", "playout=random"), (None,)),
        (_part("mosaic_uniform", "temperature=1000"), (None,)),
    ],
    {
        "with a forest": {
            "the tree": "mosaic",
            "without the tree: `forest`": "forest",
            "without the policy: all choices alike": "mosaic_uniform",
            "playout by local search (B)": "mosaic_local",
            "playout at random (A)": "mosaic_random",
        },
        "with a Gaussian process": {"the tree": "mosaic_gp", "without the tree: `gp`": "gp"},
    },
)

LIVE = LiveDuels(("mosaic", TREE, "forest", "smac", "tpot", "random"))
ENSEMBLES = FitDuels(("mosaic",), LIVE)

EXPERIMENTS = {
    "mosaic_variants": Experiment(
        "the tree and flat searches from the same starts (figures 4.3 to 4.5)", VARIANTS, "tensor_oboe", 100
    ),
    "mosaic_parts": Experiment(
        "the tree without its policy, with other playouts and with another surrogate", PARTS, "tensor_oboe", 100
    ),
    "mosaic_settings": Experiment(
        "C_ucb, PW, n_s and the temperature on validation tasks (figures 4.6 and 4.7)",
        Sensitivity(_USUAL, _TRIED),
        "tensor_oboe",
        100,
    ),
    "mosaic_live": Experiment(
        "searches on six raw tables with five seeds, 60 seconds each (figure 4.2, table 4.1)",
        LIVE,
        "tensor_oboe",
        seconds=LIVE.seconds,
    ),
    "mosaic_ensembles": Experiment(
        "fits on the same tables: the ensemble beside the best pipeline (figure 4.5)",
        ENSEMBLES,
        "tensor_oboe",
        seconds=LIVE.seconds,
    ),
}
