"""``regression``: the default space for regression.

Ours; as `headstart.space.catalog.classification`, with the matching regressors. Those whose penalties, tolerances or
step lengths are in units of the target see it scaled to mean 0 and standard deviation 1. Discriminant analysis and
naive Bayes have no counterpart.
"""

from __future__ import annotations

from headstart.space.catalog import _parts as p
from headstart.space.catalog._live import SGD_L1_RATIO, SVM_KERNEL, boosters, first_stages, forbidden, forests, knn, mlp
from headstart.space.parameters import Categorical, Float, Integer
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage


def space() -> PipelineSpace:
    """The space; see the module's text."""
    start = [*boosters("Regressor"), *forests("Regressor", ("squared_error",))]
    estimators = [*start, *_linear(), knn("Regressor"), mlp("Regressor"), *_others()]
    stages = [*first_stages("regression"), Stage("estimator", p.installed(estimators))]
    return PipelineSpace("regression", stages, forbidden(stages))


def _linear() -> list[Algorithm]:
    epsilon = Float("epsilon", 1e-3, 1.0, log=True, default=0.1)
    return [
        p.algorithm(
            "ridge", "sklearn.linear_model:Ridge", Float("alpha", 1e-5, 1e5, log=True, default=1.0), weight=1.5
        ),
        p.algorithm(
            "elastic_net",
            ".linear:ElasticNet",
            Float("alpha", 1e-5, 1.0, log=True, default=0.01),
            Float("l1_ratio", 0.01, 1.0, default=0.5),
        ),
        p.algorithm("linear_svm", ".linear:LinearSVR", Float("C", 1e-4, 1e3, log=True, default=1.0), epsilon),
        p.algorithm(
            "kernel_svm",
            ".linear:KernelSVR",
            Float("C", 0.01, 1e3, log=True, default=1.0),
            epsilon,
            *SVM_KERNEL,
            max_iter=100_000,
        ),
        p.algorithm(
            "sgd",
            ".linear:SGDRegressor",
            Categorical("loss", ("squared_error", "huber", "epsilon_insensitive")),
            Float("epsilon", 1e-3, 1.0, log=True, default=0.1, when={"loss": ("huber", "epsilon_insensitive")}),
            p.PENALTIES,
            p.SGD_ALPHA,
            SGD_L1_RATIO,
            Categorical("learning_rate", ("invscaling", "adaptive")),
            Float("eta0", 1e-4, 0.03, log=True, default=0.01),
            p.flag("average"),
            weight=0.7,
        ),
    ]


def _others() -> list[Algorithm]:
    return [
        p.algorithm(
            "adaboost",
            ".trees:AdaBoostRegressor",
            Integer("n_estimators", 20, 300, log=True, default=50),
            Float("learning_rate", 0.01, 2.0, log=True, default=0.5),
            Integer("max_depth", 1, 10, default=4),
            Categorical("loss", ("linear", "square", "exponential")),
            weight=0.5,
        ),
        p.algorithm(
            "decision_tree",
            "sklearn.tree:DecisionTreeRegressor",
            Integer("max_depth", 2, 30, log=True, default=8),
            Integer("min_samples_leaf", 1, 50, log=True, default=5),
            Integer("min_samples_split", 2, 50, log=True, default=2),
            weight=0.7,
        ),
        p.algorithm(
            "gaussian_process",
            ".small:GaussianProcessRegressor",
            p.GP_KERNEL,
            weight=0.5,
            note="learns from at most 500 rows",
        ),
    ]
