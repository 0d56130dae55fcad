"""What a warm start is worth: the same searches from other initial pipelines."""

from __future__ import annotations

from experiments.experiment import Experiment
from experiments.starts import FromStarts
from headstart.replay.variants import Variant, warm_started

_NEAREST = "nearest(metafeatures=handcrafted{})"
COMMON: dict[str, Variant | None] = {
    "common five": None,
    "nearest, L1": warm_started(_NEAREST.format(""), name="nearest"),
    "nearest, L2": warm_started(_NEAREST.format(", distance=l2"), name="nearest_l2"),
    "random": warm_started("random", name="random"),
}
"""Starts of all methods, by what they are called."""
QUICK: dict[str, Variant | None] = {
    **COMMON,
    "nearest, mean ranks": warm_started(_NEAREST.format(", neighbours=10, order=mean_rank"), name="ranks"),
    "nearest, drawn": warm_started(
        _NEAREST.format(", neighbours=10, distance=l2, order=drawn, depth=20"), name="drawn"
    ),
}
"""Starts of random search, which costs nothing to replay."""
_STARTS = {"random": QUICK, "forest": COMMON, "gp": COMMON}

EXPERIMENTS = {
    "warm_start": Experiment(
        "searches from the common five pipelines and from warm starts",
        FromStarts(
            [(method, list(starts.values())) for method, starts in _STARTS.items()],
            {
                f"`{method}`": {
                    label: method if variant is None else f"{method}-{variant.name}"
                    for label, variant in starts.items()
                }
                for method, starts in _STARTS.items()
            },
            at=(5, 10, 25, 100),
        ),
        "pmf",
        evaluations=100,
    ),
}
