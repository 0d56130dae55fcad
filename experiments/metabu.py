"""Experiments of the Metabu paper (chapter 6 and appendix C of the thesis), by name."""

from __future__ import annotations

from experiments.draws import Draws
from experiments.experiment import Experiment
from experiments.landscape import Augmented, Dimension, Importance
from experiments.starts import FromStarts
from experiments.topology import Topology
from headstart.replay.variants import Variant, warm_started

_SETS = {"auto_sklearn": "auto_sklearn", "landmark": "landmark", "scot": "scot", "all meta-features": "all"}
_MAIN = {"metabu": "metabu", "metabu, fgw": "metabu(coupling=fgw)", **_SETS}
_GRID = {
    f"α {alpha:g}, λ {penalty:g}": f"metabu(alpha={alpha}, penalty={penalty})"
    for alpha in (0.1, 0.3, 0.5, 0.7, 0.99)
    for penalty in (1e-1, 1e-2, 1e-3, 1e-4)
}
_LENGTHS = {f"d {d}": f"metabu(dimensions={d})" for d in (2, 5, 10, 15, 20, 25)}

_SAMPLERS = {name: method for name, method in _MAIN.items() if name != "metabu, fgw"}

_NEAREST = "nearest(metafeatures={}, neighbours=10, distance=l2, standardise={})"
_STARTS: dict[str, Variant | None] = {
    "common five": None,
    "nearest by handcrafted": warm_started(_NEAREST.format("handcrafted", "yes"), name="handcrafted"),
    "nearest by metabu": warm_started(_NEAREST.format("'metabu(metafeatures=handcrafted)'", "no"), name="metabu"),
}
_STARTED = ("random", "forest", "pmf")

EXPERIMENTS = {
    "metabu_topology": Experiment(
        "Metabu, task 1: do meta-features find the tasks with similar best pipelines",
        Topology(_MAIN),
        "metabu_adaboost",
    ),
    "metabu_draws": Experiment(
        "Metabu, task 2: pipelines drawn from those of the nearest tasks", Draws(_SAMPLERS), "metabu_adaboost"
    ),
    "metabu_start": Experiment(
        "Metabu, task 3: searches that begin with the best pipelines of the nearest tasks",
        FromStarts(
            [("random2x", [None]), ("random4x", [None]), *((method, list(_STARTS.values())) for method in _STARTED)],
            {
                f"`{method}`": {
                    label: method if variant is None else f"{method}-{variant.name}"
                    for label, variant in _STARTS.items()
                }
                | ({f"{method}2x": f"{method}2x", f"{method}4x": f"{method}4x"} if method == "random" else {})
                for method in _STARTED
            },
            at=(5, 10, 25, 50),
        ),
        "pmf",
        evaluations=50,
    ),
    "metabu_released": Experiment(
        "the same for what was released as targets: without the ten best results",
        Topology(_MAIN, 10),
        "metabu_adaboost",
    ),
    "metabu_sensitivity": Experiment(
        "Metabu, figure 6.5: sensitivity to α and λ",
        Topology({"auto_sklearn": "auto_sklearn", **_GRID}, folds=16),
        "metabu_adaboost",
    ),
    "metabu_dimensions": Experiment(
        "Metabu, table C.9: sensitivity to the number of meta-features",
        Topology({"intrinsic": "metabu", **_LENGTHS}, folds=16),
        "metabu_adaboost",
    ),
    "metabu_intrinsic": Experiment("Metabu, table C.5: intrinsic dimension", Dimension(), "metabu_adaboost"),
    "metabu_importance": Experiment(
        "Metabu, figure 6.6: what counts for AdaBoost and for PMF's random forests", Importance(), "pmf"
    ),
    "metabu_augmented": Experiment("Metabu, figures 6.2 and C.1: bootstraps, and seconds", Augmented(), "pmf"),
}
