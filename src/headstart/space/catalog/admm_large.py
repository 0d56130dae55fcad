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

from headstart.space.catalog import _parts as p
from headstart.space.catalog import admm_small
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
            Stage("transformer", [Algorithm("none"), *_transformers(), p.pca(), p.polynomial("polynomial_features")]),
            Stage("selector", _selectors()),
            Stage("estimator", [*admm_small.estimators(), *_more_estimators()]),
        ],
        free_order=True,
    )


def _more_scalers() -> list[Algorithm]:
    return [
        p.algorithm("binarizer", "sklearn.preprocessing:Binarizer"),
        p.algorithm(
            "k_bins_discretizer",
            ".reducers:KBinsDiscretizer",
            Integer("n_bins", 2, 20, default=5),
            Categorical("strategy", ("quantile", "uniform", "kmeans")),
        ),
    ]


def _transformers() -> list[Algorithm]:
    components = Integer("n_components", 10, 256, default=100)
    return [
        p.algorithm(
            "sparse_random_projection",
            ".reducers:RandomProjection",
            Float("density", 0.01, 1.0, log=True, default=0.3),
            components,
        ),
        p.algorithm("gaussian_random_projection", ".reducers:RandomProjection", components),
        p.algorithm("rbf_sampler", ".reducers:KitchenSinks", p.WIDTH_OF_SINKS, p.SAMPLES),
        p.algorithm("nystroem", ".reducers:Nystroem", p.SAMPLES, *p.kernel_params("cosine")),
        p.algorithm(
            "truncated_svd",
            ".reducers:TruncatedSVD",
            Integer("n_components", 10, 256, default=128),
            Integer("n_iter", 2, 10, default=5),
        ),
        p.algorithm(
            "kernel_pca",
            ".reducers:KernelPCA",
            p.KERNEL_COMPONENTS,
            *p.kernel_params("cosine", default=1.0),
            Categorical("eigen_solver", ("auto", "randomized")),
        ),
        p.algorithm(
            "fast_ica",
            ".reducers:FastICA",
            p.ICA_ALGORITHM,
            p.ICA_FUN,
            p.flag("whiten", True),
            p.ICA_COMPONENTS,
            Integer("max_iter", 100, 500, default=200),
        ),
        p.algorithm(
            "factor_analysis",
            ".reducers:FactorAnalysis",
            Integer("n_components", 10, 256, default=100),
            Categorical("svd_method", ("randomized", "lapack")),
            Integer("max_iter", 100, 1000, default=1000),
        ),
    ]


def _selectors() -> list[Algorithm]:
    return [
        Algorithm("none"),
        p.algorithm("select_percentile", ".selection:SelectPercentile", Integer("percentile", 1, 99, default=50)),
        p.algorithm("select_fpr", ".selection:SelectRates", p.SELECTION_ALPHA, mode="fpr"),
        p.algorithm("select_fdr", ".selection:SelectRates", p.SELECTION_ALPHA, mode="fdr"),
        p.algorithm("select_fwe", ".selection:SelectRates", p.SELECTION_ALPHA, mode="fwe"),
        p.algorithm("variance_threshold", ".selection:VarianceThreshold", Float("threshold", 0.0, 0.2, default=0.0)),
    ]


def _more_estimators() -> list[Algorithm]:
    return [
        p.algorithm("adaboost", ".trees:AdaBoost", p.STUMP_RATE, p.STUMPS, p.STUMP_DEPTH),
        p.algorithm(
            "decision_tree",
            ".trees:SizedTree",
            p.DEPTH_FACTOR,
            Float("min_weight_fraction_leaf", 0.0, 0.2, default=0.0),
            Float("min_impurity_decrease", 0.0, 0.2, default=0.0),
            p.CRITERION,
            *p.NODES,
        ),
        p.algorithm(
            "gaussian_process",
            ".small:GaussianProcessClassifier",
            p.GP_KERNEL,
            Integer("max_iter_predict", 50, 200, default=100),
        ),
        p.algorithm(
            "logistic_regression",
            ".linear:LogisticRegression",
            p.C,
            p.TOL,
            p.PENALTIES,
            p.flag("fit_intercept", True),
            Float("l1_ratio", 0.01, 0.99, default=0.5, when={"penalty": ("elasticnet",)}),
        ),
        p.algorithm(
            "mlp",
            ".neural:MLPClassifier",
            p.SGD_ALPHA,
            Float("learning_rate_init", 1e-4, 0.5, log=True, default=1e-3),
            Integer("n_layers", 1, 3, default=1),
            Integer("width", 16, 264, log=True, default=100),
            Categorical("activation", ("relu", "tanh")),
            Categorical("solver", ("adam", "sgd")),
            p.flag("early_stopping"),
        ),
    ]
