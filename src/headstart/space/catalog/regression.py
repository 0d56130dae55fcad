"""``regression``: the default space for regression.

Ours; as `headstart.space.catalog.classification`, with the matching regressors. Those whose penalties, tolerances or
step lengths are in units of the target see it scaled to mean 0 and standard deviation 1. Discriminant analysis and
naive Bayes have no counterpart.
"""

from __future__ import annotations

from headstart.space.catalog._live import boosters, first_stages, forbidden, forests, knn, mlp
from headstart.space.catalog._parts import OURS, flag, installed
from headstart.space.parameters import Categorical, Float, Integer
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage


def space() -> PipelineSpace:
    """The space; see the module's text."""
    estimators = [
        *boosters("Regressor"),
        *forests("Regressor", ("squared_error",)),
        *_linear(),
        knn("Regressor"),
        mlp("Regressor"),
        *_others(),
    ]
    stages = [*first_stages("regression"), Stage("estimator", installed(estimators))]
    return PipelineSpace("regression", stages, forbidden(stages))


def _linear() -> list[Algorithm]:
    epsilon = Float("epsilon", 1e-3, 1.0, log=True, default=0.1)
    return [
        Algorithm("ridge", "sklearn.linear_model:Ridge", [Float("alpha", 1e-5, 1e5, log=True, default=1.0)], {}, 1.5),
        Algorithm(
            "elastic_net",
            f"{OURS}.linear:ElasticNet",
            [Float("alpha", 1e-5, 1.0, log=True, default=0.01), Float("l1_ratio", 0.01, 1.0, default=0.5)],
        ),
        Algorithm("linear_svm", f"{OURS}.linear:LinearSVR", [Float("C", 1e-4, 1e3, log=True, default=1.0), epsilon]),
        Algorithm(
            "kernel_svm",
            f"{OURS}.linear:KernelSVR",
            [
                Float("C", 0.01, 1e3, log=True, default=1.0),
                epsilon,
                Categorical("kernel", ("rbf", "poly", "sigmoid")),
                Float("gamma", 0.01, 30.0, log=True, default=1.0),
                Integer("degree", 2, 4, default=3, when={"kernel": ("poly",)}),
                Float("coef0", -1.0, 1.0, default=0.0, when={"kernel": ("poly", "sigmoid")}),
            ],
            {"max_iter": 100_000},
        ),
        Algorithm(
            "sgd",
            f"{OURS}.linear:SGDRegressor",
            [
                Categorical("loss", ("squared_error", "huber", "epsilon_insensitive")),
                Float("epsilon", 1e-3, 1.0, log=True, default=0.1, when={"loss": ("huber", "epsilon_insensitive")}),
                Categorical("penalty", ("l2", "l1", "elasticnet")),
                Float("alpha", 1e-7, 0.1, log=True, default=1e-4),
                Float("l1_ratio", 0.01, 0.99, default=0.15, when={"penalty": ("elasticnet",)}),
                Categorical("learning_rate", ("invscaling", "adaptive")),
                Float("eta0", 1e-4, 0.03, log=True, default=0.01),
                flag("average"),
            ],
            {},
            0.7,
        ),
    ]


def _others() -> list[Algorithm]:
    return [
        Algorithm(
            "adaboost",
            f"{OURS}.trees:AdaBoostRegressor",
            [
                Integer("n_estimators", 20, 300, log=True, default=50),
                Float("learning_rate", 0.01, 2.0, log=True, default=0.5),
                Integer("max_depth", 1, 10, default=4),
                Categorical("loss", ("linear", "square", "exponential")),
            ],
            {},
            0.5,
        ),
        Algorithm(
            "decision_tree",
            "sklearn.tree:DecisionTreeRegressor",
            [
                Integer("max_depth", 2, 30, log=True, default=8),
                Integer("min_samples_leaf", 1, 50, log=True, default=5),
                Integer("min_samples_split", 2, 50, log=True, default=2),
            ],
            {},
            0.7,
        ),
        Algorithm(
            "gaussian_process",
            f"{OURS}.small:GaussianProcessRegressor",
            [Categorical("kernel", ("rbf", "matern32", "matern52", "rational_quadratic"))],
            {},
            0.5,
            "learns from at most 500 rows",
        ),
    ]
