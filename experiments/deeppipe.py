"""Experiments of S. Pineda Arango and J. Grabocka, *Deep pipeline embeddings for AutoML*.

Run one with ``python -m experiments NAME``. Experiments 1 to 3 are of whole methods. All others are of the network, so
recorded pipelines are not remembered one by one there (``deeppipe_network``), and meta-training has 3,000 steps. In
`NEW_ALGORITHM` networks that have learned from other tasks are tuned at a rate of 0.001, a tenth of the default;
otherwise settings are the defaults.

`LAYERS` and `FACTOR` are of our network, `ABLATIONS` are both with the paper's own: constant mean, shared noise,
accuracies as they are. It is trained in our way (``paper_model``), for in that of the paper a network takes days on one
core, and not fine-tuned.

`ALONE` is DeepPipe without other tasks. Nothing tells it of a prior mean or of noise by pipeline, so it has neither,
and no kernel was learned that it should stay close to (``looseness=None``); all of it is tuned in turn as observations
come in, eight steps at a time and 480 in all over 100 evaluations. The paper has 10,000.

`LIVE` is experiment 3, live searches on raw tables within a time. Sizes are fit for two cores: ten tables, 60 and 300
seconds where the paper has 10 minutes and an hour. ``forest`` stands for SMAC; OBOE and Tensor-OBOE are in their
time-constrained form; PMF has its map for pipelines that are not on record. `LIVE_MINUTE` is once more for four of
them, for 60 seconds, since every pipeline of a space that can be listed is scored; PMF needs no map then.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.cluster import Clusters
from experiments.comparison import Comparison
from experiments.embedding import Embedding
from experiments.experiment import Experiment
from experiments.live import LiveComparison
from experiments.live_tables import TableRule
from experiments.new_algorithm import NewAlgorithm
from experiments.weights import Weights
from headstart.replay.protocol import Method
from headstart.replay.variants import share

_NETWORK = "steps=3000"
_RECIPE = "deeppipe_paper(fine_tune=none)"
"""Without fine-tuning a replay takes a sixth of the time; the authors' checkpoint is as good without."""
_ALONE = (
    "transfer=False, mean=zero, noise=shared, fine_tune=all, fine_tune_steps=8, fine_tune_rate=0.01, looseness=None"
)


def network(label: str, base: str = _NETWORK, **changed: float) -> Method:
    """The network alone, of width 8 and with one encoder layer unless told otherwise, under a name of its own."""
    settings = ", ".join(f"{name}={value}" for name, value in {"factor": 8, "encoder_layers": 1, **changed}.items())
    return Method.called(f"deeppipe-{label}", f"deeppipe_network({base}, {settings})")


def paper_model(label: str, **changed: float) -> Method:
    """The paper's model trained as ours is, of width 8 and without encoders unless told otherwise."""
    training = "steps=3000, training={'learning_rate': 0.01, 'final_rate': 0.01, 'check_every': 100, 'patience': 30, "
    training += "'n_tasks': 24, 'n_pipelines': 96, 'epochs': False}, fine_tune=none"
    settings = ", ".join(f"{name}={value}" for name, value in {"factor": 8, "encoder_layers": 0, **changed}.items())
    return Method.called(f"paper-{label}", f"deeppipe_paper({training}, {settings})")


ALONE = network("alone", _ALONE, factor=6)
ENCODED = {layers: network(f"encoders{layers}", encoder_layers=layers) for layers in (0, 1, 2)}
"""By number of encoder layers; with those of the aggregation there are four."""
_SHARES = {f"{part:.0%}": share(part) for part in (0.01, 0.05, 0.2)}
_BY_SHARE = {
    part: {f"{layers} encoder layers": variant.called(method).text for layers, method in ENCODED.items()}
    for part, variant in _SHARES.items()
} | {"100%": {f"{layers} encoder layers": method.text for layers, method in ENCODED.items()}}
LAYERS = Comparison(
    (
        network("both"),
        network("encoders", aggregation_layers=0),
        network("aggregation", encoder_layers=0),
        network("neither", encoder_layers=0, aggregation_layers=0),
    )
)
FACTOR = Comparison([network(f"factor{factor}", factor=factor) for factor in (4, 6, 8, 10)])
ABLATIONS = Comparison(
    (
        paper_model("both", encoder_layers=1),
        paper_model("encoders", encoder_layers=1, aggregation_layers=0),
        paper_model("aggregation"),
        paper_model("neither", aggregation_layers=0),
        *(paper_model(f"factor{factor}", factor=factor) for factor in (4, 6, 10)),
    )
)
"""The network of width 8 is that with aggregation alone."""
ZAP = Comparison(
    (
        ENCODED[1],
        ENCODED[0],
        network("alone-encoders1", _ALONE),
        network("alone-encoders0", _ALONE, encoder_layers=0),
    )
)
EMBEDDING = Embedding(
    f"deeppipe_network({_NETWORK}, factor=8, encoder_layers=2, aggregation_layers=2)",
    sample=2000,
    dimensions=20,
    flat=True,
    stages=("dim_reducer",),
)
NEW_ALGORITHM = NewAlgorithm(
    {
        "tensor_oboe": ("extra_trees", "gradient_boosting", "logistic_regression", "mlp"),
        "pmf": ("extra_trees", "random_forest", "extreme_gradient_boosting", "k_neighbors"),
    },
    encoded=network("encoders1", fine_tune_rate=0.001),
    plain=network("encoders0", encoder_layers=0, fine_tune_rate=0.001),
    untrained=network("alone", _ALONE),
)
TWINS = {
    "292": "Australian; OpenML 40981, a task of Tensor-OBOE, is the same table",
    "294": "satellite_image; OpenML 182, a task of Tensor-OBOE, is the same table",
}
_PMF = "pmf(unseen=True)"
LIVE = LiveComparison(
    ("deeppipe", _PMF, "forest", "oboe(time_constrained=True)", "tensor_oboe(time_constrained=True)", "tpot", "random"),
    warm=("deeppipe", _PMF, "forest", "random"),
    rule=TableRule(10, (500, 20_000), TWINS),
    about_rule="They are the first ten, by id, of the PMF tables at hand with 500 to 20,000 rows that are no task of "
    "Tensor-OBOE: neither their id is one, nor that of a table with as many rows and columns, nor are they known to be "
    "the same table under another id (292, 294). Nursery, letter and pendigits are there twice, with all their classes "
    "and with two.",
)
_MINUTE = ("deeppipe", "pmf", "oboe(time_constrained=True)", "random")
LIVE_MINUTE = replace(LIVE, methods=_MINUTE, warm=("deeppipe", "pmf", "random"), budgets=(60.0,))

EXPERIMENTS = {
    "deeppipe_alone": Experiment(
        "DeepPipe, figures 2 and 12: without other tasks; also on tensor_oboe and zap",
        Comparison((ALONE, "random", "gp", "dngo", "forest", "skl")),
        "pmf",
        100,
    ),
    "deeppipe_transfer": Experiment(
        "DeepPipe, figures 3 and 13: transfer; also on tensor_oboe and zap",
        Comparison(("deeppipe", _RECIPE, "pmf", "fmlp", "oboe", "tensor_oboe", "rgpe", "linear_factors")),
        "pmf",
        100,
    ),
    "deeppipe_recipe": Experiment(
        "DeepPipe, the paper's recipe with and without fine-tuning, beside its model trained in our way; also on zap",
        Comparison(("deeppipe", paper_model("model"), _RECIPE, "deeppipe_paper")),
        "tensor_oboe",
        100,
    ),
    "deeppipe_autoprognosis": Experiment(
        "DeepPipe, table 2: beside the search of AutoPrognosis, its structured kernel (skl)",
        Comparison(("deeppipe", "skl")),
        "tensor_oboe",
        100,
    ),
    "deeppipe_live": Experiment(
        "DeepPipe, table 1: searches on ten raw tables, after 60 and 300 seconds", LIVE, "tensor_oboe", seconds=300.0
    ),
    "deeppipe_live_minute": Experiment(
        "the same for four methods that score every pipeline, after 60 seconds",
        LIVE_MINUTE,
        "tensor_oboe",
        seconds=60.0,
    ),
    "deeppipe_new_algorithm": Experiment(
        "DeepPipe, tables 3 and 4: an algorithm that other tasks did not have, 20 tasks; also on pmf",
        NEW_ALGORITHM,
        "tensor_oboe",
        50,
        20,
    ),
    "deeppipe_cluster": Experiment("DeepPipe, figure 4: clusters in random embeddings", Clusters(), "tensor_oboe"),
    "deeppipe_few_tasks": Experiment(
        "DeepPipe, figure 5: few training tasks, 50 test tasks",
        Comparison(tuple(ENCODED.values()), dict.fromkeys(_SHARES.values(), tuple(ENCODED.values())), _BY_SHARE),
        "tensor_oboe",
        100,
        50,
    ),
    "deeppipe_layers": Experiment(
        "DeepPipe, figure 8: with and without encoders and aggregation, 50 tasks", LAYERS, "tensor_oboe", 100, 50
    ),
    "deeppipe_factor": Experiment(
        "DeepPipe, figures 10 and 11: width, 50 tasks; also on pmf", FACTOR, "tensor_oboe", 100, 50
    ),
    "deeppipe_ablations": Experiment(
        "DeepPipe, figures 8, 10 and 11 with the paper's own model, 20 tasks", ABLATIONS, "tensor_oboe", 50, 20
    ),
    "deeppipe_weights": Experiment(
        "DeepPipe, figure 15: weights by width and encoder layers; also on pmf and zap", Weights(), "tensor_oboe"
    ),
    "deeppipe_zap": Experiment("DeepPipe, figure 14: transfer and encoders on ZAP", ZAP, "zap", 100),
    "deeppipe_embedding": Experiment(
        "DeepPipe, figures 6 and 7: learned embeddings of the pipelines", EMBEDDING, "tensor_oboe"
    ),
}
