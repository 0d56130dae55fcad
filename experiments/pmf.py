"""Experiments of N. Fusi, R. Sheth and M. Elibol, *Probabilistic matrix factorization for automated machine learning*.

Run one with ``python -m experiments NAME``. All methods begin with the meta-dataset's five initial pipelines of a task,
which were chosen by what was good on other tasks. So ``forest`` with them stands in for auto-sklearn, which the paper
compares with: Bayesian optimisation with a random forest and a meta-learned start. It is not auto-sklearn.
"""

from __future__ import annotations

from experiments.comparison import Comparison
from experiments.embedding import Embedding
from experiments.experiment import Experiment
from experiments.model_error import ErrorOverTime
from headstart.replay.variants import only, sparse

_LISTED = """
3 6 12 14 16 18 21 22 26 28 30 31 32 36 44 46 50 60 155 162 180 181 182 184 300 310 389 391 392 395 401 450 457 462
476 679 685 715 718 720 721 722 723 727 728 734 735 737 740 741 743 747 751 752 758 761 772 776 796 797 803 807 811
813 814 816 819 821 823 824 827 833 837 843 845 846 847 849 853 866 871 875 878 881 890 900 901 903 910 912 913 914
917 923 934 952 953 958 959 962 971 976 977 978 979 980 988 991 995 1014 1015 1019 1020 1021 1022 1040 1041 1043 1056
1068 1069 1079 1116 1120 1127 1132 1145 1236 1237 1446 1449 1459 1482 1496 1529 1541 1546 1562 4135 40478
"""
LISTED = tuple(_LISTED.split())
"""OpenML ids of the datasets that the supplement's second experiment trains on."""
_MAIN = ("pmf", "pmf_paper", "random", "random2x", "random4x", "forest")

EXPERIMENTS = {
    "pmf_regret": Experiment(
        "PMF, figures 4 and 5: rank and regret over 200 evaluations", Comparison(_MAIN), "pmf", 200
    ),
    "pmf_error": Experiment(
        "PMF, figure 6: error and variance of the predictions over evaluations",
        ErrorOverTime(("pmf(logarithmic=False)", "pmf_paper")),
        "pmf",
        200,
    ),
    "pmf_missing": Experiment(
        "PMF, supplement 1 and 2: 90 % of the training matrix missing",
        Comparison((*_MAIN, "fmlp"), {sparse(0.9): ("pmf", "pmf_paper(latent=5, training={'learning_rate': 0.01})")}),
        "pmf",
        200,
    ),
    "pmf_few_tasks": Experiment(
        "PMF, supplement 3 and 4: training on 140 datasets",
        Comparison(_MAIN, {only(LISTED): ("pmf", "pmf_paper")}),
        "pmf",
        200,
    ),
    "pmf_ablation": Experiment(
        "PMF, section 4.3 and supplement: without ξ, with metadata of pipelines and of datasets, and without",
        Comparison(
            (
                *("pmf_paper", "pmf_paper(xi=0.0)", "pmf_paper(encodings=True)"),
                *("pmf", "pmf(encodings=False)", "pmf(metafeatures=None)"),
            )
        ),
        "pmf",
        100,
    ),
    "pmf_embedding": Experiment(
        "PMF, figures 1 to 3: latent points of the pipelines",
        Embedding("pmf_paper", task="943", algorithm="pca"),
        "pmf",
    ),
}
