"""Experiments of S. Pineda Arango and J. Grabocka, *Deep pipeline embeddings for AutoML*.

Run one with ``headstart experiment NAME``; experiment 3, on live tables, is in `experiments.deeppipe_live`.
Experiments 1 and 2 are of whole methods. All others are of the network, so recorded pipelines are not remembered one by
one there (``deeppipe_network``), and meta-training has 3,000 steps. In `NEW_ALGORITHM` networks that have learned from
other tasks are tuned at a rate of 0.001, a tenth of the default; otherwise settings are the defaults.

`ALONE` is DeepPipe without other tasks. Nothing tells it of a prior mean or of noise by pipeline, so it has neither,
and no kernel was learned that it should stay close to (``looseness=None``); all of it is tuned in turn as observations
come in, eight steps at a time and 480 in all over 100 evaluations. The paper has 10,000.
"""

from __future__ import annotations

from experiments.catalogue import REPLAY
from experiments.cluster import Clusters
from experiments.comparison import Arm, Comparison
from experiments.embedding import Embedding
from experiments.new_algorithm import NewAlgorithm
from experiments.rankings import Rankings
from headstart.replay.protocol import Method
from headstart.replay.variants import share

_NETWORK = "steps=3000"
_ALONE = (
    "transfer=False, mean=zero, noise=shared, fine_tune=all, fine_tune_steps=8, fine_tune_rate=0.01, looseness=None"
)


def network(label: str, **settings: float) -> Method:
    """The network alone, with some settings changed, under a name of its own."""
    changed = "".join(f", {name}={value}" for name, value in settings.items())
    return Method.called(f"deeppipe-{label}", f"deeppipe_network({_NETWORK}{changed})")


def alone(label: str, **settings: float) -> Method:
    """Without other tasks."""
    changed = "".join(f", {name}={value}" for name, value in settings.items())
    return Method.called(f"deeppipe-{label}", f"deeppipe_network({_ALONE}{changed})")


ALONE = alone("alone", factor=6, encoder_layers=1)
STANDARD = Comparison((Arm((ALONE, "random", "gp", "dngo", "forest", "skl")),), beside=(REPLAY,))
TRANSFER = Comparison(
    (Arm(("deeppipe", "deeppipe_paper", "pmf", "fmlp", "oboe", "tensor_oboe", "rgpe", "linear_factors")),),
    beside=(REPLAY,),
)

ENCODED = {layers: network(f"encoders{layers}", factor=8, encoder_layers=layers) for layers in (0, 1, 2)}
"""By number of encoder layers; with those of the aggregation there are four."""
NEW_ALGORITHM = NewAlgorithm(
    {
        "tensor_oboe": ("extra_trees", "gradient_boosting", "logistic_regression", "mlp"),
        "pmf": ("extra_trees", "random_forest", "extreme_gradient_boosting", "k_neighbors"),
    },
    encoded=network("encoders1", factor=8, encoder_layers=1, fine_tune_rate=0.001),
    plain=network("encoders0", factor=8, encoder_layers=0, fine_tune_rate=0.001),
    untrained=alone("alone", factor=8, encoder_layers=1),
)
CLUSTER = Clusters()

_ABLATIONS = ("deeppipe_few_tasks", "deeppipe_layers", "deeppipe_factor")
"""On the same tasks; each has a method of another."""
SHARES = (0.01, 0.05, 0.2)
_FEW = {part: share(part) for part in SHARES}
FEW_TASKS = Rankings(
    (Arm(tuple(ENCODED.values())), *(Arm(tuple(ENCODED.values()), variant) for variant in _FEW.values())),
    beside=_ABLATIONS,
    groups={
        f"{part:.0%}": {
            f"{layers} encoder layers": (method if part == 1 else _FEW[part].called(method)).text
            for layers, method in ENCODED.items()
        }
        for part in (*SHARES, 1.0)
    },
)

LAYERS = Comparison(
    (
        Arm(
            (
                network("both", factor=8, encoder_layers=1),
                network("encoders", factor=8, encoder_layers=1, aggregation_layers=0),
                network("aggregation", factor=8, encoder_layers=0),
                network("neither", factor=8, encoder_layers=0, aggregation_layers=0),
            )
        ),
    ),
    beside=_ABLATIONS,
)
FACTORS = (4, 6, 8, 10)
FACTOR = Comparison(
    (Arm(tuple(network(f"factor{factor}", factor=factor, encoder_layers=1) for factor in FACTORS)),),
    beside=_ABLATIONS,
)
ZAP = Comparison(
    (
        Arm(
            (
                ENCODED[1],
                ENCODED[0],
                *(alone(f"alone-encoders{layers}", factor=8, encoder_layers=layers) for layers in (1, 0)),
            )
        ),
    ),
)
EMBEDDING = Embedding(
    f"deeppipe_network({_NETWORK}, factor=8, encoder_layers=2, aggregation_layers=2)",
    sample=2000,
    dimensions=20,
    flat=True,
    stages=("dim_reducer",),
)
