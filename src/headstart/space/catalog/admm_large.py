"""``admm_large``: the space of ADMM's experiments with constraints and of flexible pipelines.

Source: Liu et al., *An ADMM based framework for AutoML pipeline configuration* (AAAI 2020), table A2; section 3 lets
the modules between preparation and estimator change places, and so does this space (its experiments keep the order).
As in `admm_small`, the table gives numbers of hyper-parameters, and which ones and their ranges are auto-sklearn's as
far as it has them; for the others they are common ones that give the printed numbers, without a source of their own.

Where the table and a current scikit-learn (1.9), or this space, differ:

==============================  ====================================================================================
table                           here
==============================  ====================================================================================
7 selectors (6,776 pipelines)   6: the table prints no seventh one. The 92 hyper-parameters that the paper counts are
                                those of the printed rows without the imputer's
gradient boosting 3c, 6d        3c, 5d: ``criterion`` is deprecated
column of numbers               printed one row off for the scalers; read as in `admm_small`, none for the binarizer
logistic regression             ``penalty`` and ``solver`` are one choice now (each penalty has its solver), and
                                ``l1_ratio`` exists for the elastic net only; 3c (C, tol, l1_ratio), 2d
adaboost 1c, 2d                 learning rate; number and depth of trees (``algorithm`` was removed)
random projections              numbers of components up to that of the columns
k bins                          one-hot, dense
kernel PCA                      learns from at most 1,000 rows
Gaussian process                learns from at most 300 rows; its cost is cubic
MLP                             number and width of layers instead of a tuple of sizes
sizes                           clipped to the rows and columns of a table instead of failing
==============================  ====================================================================================
"""

from __future__ import annotations

from headstart.space.catalog import admm_small
from headstart.space.catalog._parts import KERNEL_GAMMA, OURS, flag, kernel_params, tree_params
from headstart.space.parameters import Categorical, Float, Integer
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage


def space() -> PipelineSpace:
    """The space; see the module's text."""
    return PipelineSpace(
        "admm_large",
        [
            *admm_small.preparation(),
            Stage("scaler", [*admm_small.scalers(), *_more_scalers()]),
            Stage("transformer", [Algorithm("none"), *_transformers(), admm_small.pca(), admm_small.polynomial()]),
            Stage("selector", _selectors()),
            Stage("estimator", [*admm_small.estimators(), *_more_estimators()]),
        ],
        free_order=True,
    )


def _more_scalers() -> list[Algorithm]:
    return [
        Algorithm("binarizer", "sklearn.preprocessing:Binarizer"),
        Algorithm(
            "k_bins_discretizer",
            f"{OURS}.reducers:KBinsDiscretizer",
            [Integer("n_bins", 2, 20, default=5), Categorical("strategy", ("quantile", "uniform", "kmeans"))],
        ),
    ]


def _transformers() -> list[Algorithm]:
    reducers = f"{OURS}.reducers"
    kernels = ("rbf", "poly", "sigmoid", "cosine")
    components = Integer("n_components", 10, 256, default=100)
    return [
        Algorithm(
            "sparse_random_projection",
            f"{reducers}:RandomProjection",
            [Float("density", 0.01, 1.0, log=True, default=0.3), components],
        ),
        Algorithm("gaussian_random_projection", f"{reducers}:RandomProjection", [components]),
        Algorithm(
            "rbf_sampler",
            f"{reducers}:KitchenSinks",
            [
                Float("gamma", *KERNEL_GAMMA, log=True, default=1.0),
                Integer("n_components", 50, 10000, log=True, default=100),
            ],
        ),
        Algorithm(
            "nystroem",
            f"{reducers}:Nystroem",
            [Integer("n_components", 50, 10000, log=True, default=100), *kernel_params(kernels)],
        ),
        Algorithm(
            "truncated_svd",
            f"{reducers}:TruncatedSVD",
            [Integer("n_components", 10, 256, default=128), Integer("n_iter", 2, 10, default=5)],
        ),
        Algorithm(
            "kernel_pca",
            f"{reducers}:KernelPCA",
            [
                Integer("n_components", 10, 2000, default=100),
                *kernel_params(kernels, default=1.0),
                Categorical("eigen_solver", ("auto", "randomized")),
            ],
        ),
        Algorithm(
            "fast_ica",
            f"{reducers}:FastICA",
            [
                Categorical("algorithm", ("parallel", "deflation")),
                Categorical("fun", ("logcosh", "exp", "cube")),
                flag("whiten", True),
                Integer("n_components", 10, 2000, default=100, when={"whiten": (True,)}),
                Integer("max_iter", 100, 500, default=200),
            ],
        ),
        Algorithm(
            "factor_analysis",
            f"{reducers}:FactorAnalysis",
            [
                Integer("n_components", 10, 256, default=100),
                Categorical("svd_method", ("randomized", "lapack")),
                Integer("max_iter", 100, 1000, default=1000),
            ],
        ),
    ]


def _selectors() -> list[Algorithm]:
    selection = f"{OURS}.selection"
    alpha = Float("alpha", 0.01, 0.5, default=0.1)
    return [
        Algorithm("none"),
        Algorithm("select_percentile", f"{selection}:SelectPercentile", [Integer("percentile", 1, 99, default=50)]),
        Algorithm("select_fpr", f"{selection}:SelectRates", [alpha], {"mode": "fpr"}),
        Algorithm("select_fdr", f"{selection}:SelectRates", [alpha], {"mode": "fdr"}),
        Algorithm("select_fwe", f"{selection}:SelectRates", [alpha], {"mode": "fwe"}),
        Algorithm("variance_threshold", f"{selection}:VarianceThreshold", [Float("threshold", 0.0, 0.2, default=0.0)]),
    ]


def _more_estimators() -> list[Algorithm]:
    return [
        Algorithm(
            "adaboost",
            f"{OURS}.trees:AdaBoost",
            [
                Float("learning_rate", 0.01, 2.0, log=True, default=0.1),
                Integer("n_estimators", 50, 500, default=50),
                Integer("max_depth", 1, 10, default=1),
            ],
        ),
        Algorithm(
            "decision_tree",
            f"{OURS}.trees:SizedTree",
            [
                Float("max_depth_factor", 0.0, 2.0, default=0.5),
                Float("min_weight_fraction_leaf", 0.0, 0.2, default=0.0),
                Float("min_impurity_decrease", 0.0, 0.2, default=0.0),
                Categorical("criterion", ("gini", "entropy")),
                *tree_params(),
            ],
        ),
        Algorithm(
            "gaussian_process",
            f"{OURS}.small:GaussianProcessClassifier",
            [
                Categorical("kernel", ("rbf", "matern32", "matern52", "rational_quadratic")),
                Integer("max_iter_predict", 50, 200, default=100),
            ],
        ),
        Algorithm(
            "logistic_regression",
            f"{OURS}.linear:LogisticRegression",
            [
                Float("C", 0.03125, 32768.0, log=True, default=1.0),
                Float("tol", 1e-5, 0.1, log=True, default=1e-4),
                Categorical("penalty", ("l2", "l1", "elasticnet")),
                flag("fit_intercept", True),
                Float("l1_ratio", 0.01, 0.99, default=0.5, when={"penalty": ("elasticnet",)}),
            ],
        ),
        Algorithm(
            "mlp",
            f"{OURS}.neural:MLPClassifier",
            [
                Float("alpha", 1e-7, 0.1, log=True, default=1e-4),
                Float("learning_rate_init", 1e-4, 0.5, log=True, default=1e-3),
                Integer("n_layers", 1, 3, default=1),
                Integer("width", 16, 264, log=True, default=100),
                Categorical("activation", ("relu", "tanh")),
                Categorical("solver", ("adam", "sgd")),
                flag("early_stopping"),
            ],
        ),
    ]
