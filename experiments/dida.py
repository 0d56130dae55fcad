"""Experiments of the Dida paper (chapter 5 of the thesis), by name."""

from __future__ import annotations

from experiments.experiment import Experiment
from experiments.identification import Identification
from experiments.ranking import Ranking

_MAIN = ("Dida, 2 layers", "Dataset2Vec", "hand-crafted")
_OTHERS = ("Dida, 1 layer", "DSS, linear", "DSS, non-linear", "DSS, equivariant", "No-FInv-DSS")

_CONTROL = "class shares alone"

EXPERIMENTS = {
    "dida_uci": Experiment(
        "Dida, table 5.2: patches of one UCI table or of two",
        Identification("uci", {**dict.fromkeys(_MAIN, 3), **dict.fromkeys((_CONTROL, *_OTHERS), 1)}),
        "metabu_adaboost",
        seconds=100,
    ),
    "dida_uci_even": Experiment(
        "Dida, table 5.2: the same with patches of two classes of one size",
        Identification("uci_even", {**dict.fromkeys(_MAIN, 3), **dict.fromkeys((_CONTROL, *_OTHERS), 1)}),
        "metabu_adaboost",
        seconds=100,
    ),
    "dida_toy": Experiment(
        "Dida, table 5.2: patches of one generated table or of two",
        Identification("toy", dict.fromkeys((*_MAIN, *_OTHERS), 1)),
        "metabu_adaboost",
        seconds=100,
    ),
    **{
        f"dida_{name}": Experiment(
            f"Dida, table 5.3: which of two configurations of {algorithm} is better",
            Ranking(algorithm, dict.fromkeys((*_MAIN, *_OTHERS[:-1]), 1)),
            "metabu_adaboost",
            seconds=100,
        )
        for name, algorithm in (("sgd", "SGD"), ("knn", "k-NN"))
    },
}
