"""What the default spaces for classification and regression share: everything before the estimator.

Forbidden is what cannot work or has no use:

- categories as they are, only for boosters that take them, and only if nothing comes in between;
- missing numbers as they are, only for estimators that take them, and only if nothing comes in between;
- scaling for trees, which do not see it (unless a reduction that does comes in between), and no scaling for
  estimators and reductions that need it;
- features of kernels for trees and for estimators that have kernels themselves.

Weights make half of the sampled pipelines go without feature preprocessing, and boosters mostly take the table as it
is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headstart.space.catalog import _parts as p
from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.space import Forbidden
from headstart.space.stages import Algorithm, Stage

BOOSTERS = ("lightgbm", "catboost", "xgboost", "hist_gradient_boosting")
TREES = (*BOOSTERS, "extra_trees", "random_forest", "decision_tree", "adaboost")
TAKES_MISSING = (*BOOSTERS, "extra_trees", "random_forest", "decision_tree")
LINEAR = ("logistic_regression", "ridge", "elastic_net", "linear_svm", "sgd", "bernoulli_nb")
HAS_KERNEL = ("kernel_svm", "gaussian_process")
KEEPS_SIGN = ("polynomial", "select_percentile", "select_rates")
KERNEL_FEATURES = ("nystroem", "kernel_pca", "kitchen_sinks", "random_trees_embedding", "fast_ica")
REDUCTIONS = ("pca", "feature_agglomeration", "nystroem", "kernel_pca", "kitchen_sinks")
NEEDS_SCALING = (*LINEAR, *HAS_KERNEL, "knn", "mlp", *REDUCTIONS)

SVM_KERNEL = (
    Categorical("kernel", ("rbf", "poly", "sigmoid")),
    Float("gamma", 0.01, 30.0, log=True, default=1.0),
    Integer("degree", 2, 4, default=3, when={"kernel": ("poly",)}),
    Float("coef0", -1.0, 1.0, default=0.0, when={"kernel": ("poly", "sigmoid")}),
)
SGD_L1_RATIO = Float("l1_ratio", 0.01, 0.99, default=0.15, when={"penalty": ("elasticnet",)})


def first_stages(task: str) -> list[Stage]:
    """Imputation, encoding, scaling and preprocessing; `task` is ``"classification"`` or ``"regression"``."""
    indicator = p.flag("add_indicator")
    return [
        Stage(
            "imputation",
            [
                Algorithm("none", weight=15.0, note="for estimators that take missing values"),
                p.imputer("median", indicator),
                p.imputer("mean", indicator),
                p.imputer("most_frequent", indicator, weight=0.5),
            ],
            columns="numeric",
        ),
        Stage(
            "encoding",
            [
                Algorithm("native", weight=15.0, note="for estimators that take categories"),
                p.one_hot("one_hot", Categorical("max_categories", (10, 25, 50, 100), default=25, ordered=True)),
                p.ordinal(weight=0.5),
                p.algorithm(
                    "target", ".encoders:TargetEncoder", Float("smooth", 1.0, 100.0, log=True, default=10.0), task=task
                ),
            ],
            columns="categorical",
        ),
        Stage("scaling", _scalers()),
        Stage("preprocessing", _preprocessors(task)),
    ]


def _scalers() -> list[Algorithm]:
    return [
        Algorithm("none", weight=2.0),
        p.algorithm("standard", "sklearn.preprocessing:StandardScaler", weight=2.0),
        p.algorithm("minmax", "sklearn.preprocessing:MinMaxScaler"),
        p.algorithm(
            "robust",
            ".reducers:RobustScaler",
            Float("q_min", 0.01, 0.3, default=0.25),
            Float("q_max", 0.7, 0.99, default=0.75),
        ),
        p.algorithm(
            "quantile",
            ".reducers:QuantileTransformer",
            Integer("n_quantiles", 10, 1000, log=True, default=200),
            Categorical("output_distribution", ("normal", "uniform")),
        ),
        p.algorithm("normalize", "sklearn.preprocessing:Normalizer", weight=0.3),
    ]


def _preprocessors(task: str) -> list[Algorithm]:
    ending = "classif" if task == "classification" else "regression"
    kernel = (
        Categorical("kernel", ("rbf", "poly", "cosine")),
        Float("gamma", 0.03, 30.0, log=True, default=1.0, when={"kernel": ("rbf", "poly")}),
        Integer("degree", 2, 3, default=2, when={"kernel": ("poly",)}),
    )
    return [
        Algorithm("none", weight=10.0),
        p.algorithm(
            "pca", ".reducers:PCA", Float("keep_variance", 0.5, 0.9999, default=0.99), p.flag("whiten"), weight=2.0
        ),
        p.algorithm("polynomial", ".reducers:PolynomialFeatures", p.flag("interaction_only"), degree=2, most=1500),
        p.algorithm(
            "select_percentile",
            ".selection:SelectPercentile",
            Float("percentile", 2.0, 90.0, log=True, default=50.0),
            Categorical("score_func", (f"f_{ending}", f"mutual_info_{ending}")),
            weight=2.0,
        ),
        p.algorithm(
            "select_rates",
            ".selection:SelectRates",
            Float("alpha", 0.001, 0.5, log=True, default=0.1),
            p.MODE,
            score_func=f"f_{ending}",
        ),
        p.algorithm(
            "feature_agglomeration",
            ".reducers:Agglomeration",
            Integer("n_clusters", 2, 200, log=True, default=25),
            p.LINKAGE,
            Categorical("metric", ("euclidean", "cosine"), when={"linkage": ("complete", "average")}),
            p.POOLING,
        ),
        p.algorithm(
            "nystroem",
            ".reducers:Nystroem",
            Integer("n_components", 20, 1000, log=True, default=100),
            *kernel,
            relative=True,
            coef0=1.0,
        ),
        p.algorithm(
            "random_trees_embedding",
            ".reducers:RandomTreesEmbedding",
            Integer("n_estimators", 10, 50, default=20),
            Integer("max_depth", 2, 5, default=4),
            weight=0.5,
        ),
        p.algorithm(
            "kernel_pca",
            ".reducers:KernelPCA",
            Integer("n_components", 5, 300, log=True, default=50),
            *kernel,
            weight=0.5,
            relative=True,
            coef0=1.0,
        ),
        p.algorithm(
            "fast_ica",
            ".reducers:FastICA",
            Integer("n_components", 2, 200, log=True, default=20),
            p.ICA_FUN,
            weight=0.5,
        ),
        p.algorithm(
            "kitchen_sinks",
            ".reducers:KitchenSinks",
            Integer("n_components", 50, 1000, log=True, default=200),
            Float("gamma", 0.03, 30.0, log=True, default=1.0),
            weight=0.5,
            relative=True,
        ),
    ]


def forbidden(stages: Sequence[Stage]) -> list[Forbidden]:
    """What the module's text says, for the algorithms that a space has."""
    names = {stage.name: stage.names for stage in stages}
    estimators, scalers, steps = names["estimator"], names["scaling"][1:], names["preprocessing"][1:]

    def among(wanted: Sequence[str], there: Sequence[str]) -> list[str]:
        return [name for name in there if name in wanted]

    def without(wanted: Sequence[str], there: Sequence[str]) -> list[str]:
        return [name for name in there if name not in wanted]

    trees = among(TREES, estimators)
    clauses: list[Forbidden] = [
        {"encoding": ["native"], "estimator": without(BOOSTERS, estimators)},
        {"encoding": ["native"], "scaling": scalers},
        {"encoding": ["native"], "preprocessing": steps},
        {"imputation": ["none"], "estimator": without(TAKES_MISSING, estimators)},
        {"imputation": ["none"], "scaling": scalers},
        {"imputation": ["none"], "preprocessing": steps},
        {"estimator": trees, "scaling": scalers, "preprocessing": ["none", *without(NEEDS_SCALING, steps)]},
        {"estimator": among(NEEDS_SCALING, estimators), "scaling": ["none"]},
        {"preprocessing": among(NEEDS_SCALING, steps), "scaling": ["none"]},
        {"estimator": [*trees, *among(HAS_KERNEL, estimators)], "preprocessing": among(KERNEL_FEATURES, steps)},
        {"estimator": trees, "preprocessing": REDUCTIONS, "scaling": ["normalize"]},
    ]
    if "multinomial_nb" in estimators:
        clauses += [
            {"estimator": ["multinomial_nb"], "scaling": without(("minmax",), scalers)},
            {"estimator": ["multinomial_nb"], "preprocessing": without(KEEPS_SIGN, steps)},
        ]
    if "bernoulli_nb" in estimators:
        clauses += [
            {"estimator": ["bernoulli_nb"], "scaling": ["minmax", "normalize"]},
            {"estimator": ["bernoulli_nb"], "scaling.output_distribution": ["uniform"]},
        ]
    if "balancing" in names:
        unweighted = ("knn", "lda", "qda", "gaussian_process")
        clauses.append({"balancing": ["balanced"], "estimator": among(unweighted, estimators)})
    return [clause for clause in clauses if all(clause.values())]


def boosters(ending: str) -> list[Algorithm]:
    """The boosters, their number of rounds left to early stopping; `ending` is ``"Classifier"`` or ``"Regressor"``."""
    rounds: dict[str, Any] = {"n_estimators": 3000, "early_stopping_rounds": 50}
    rate = Float("learning_rate", 0.01, 0.3, log=True, default=0.06)
    shares = (Float("subsample", 0.4, 1.0, default=0.9), Float("colsample_bytree", 0.3, 1.0, default=0.8))
    penalties = (
        Float("reg_alpha", 1e-6, 10.0, log=True, default=1e-6),
        Float("reg_lambda", 1e-6, 100.0, log=True, default=1.0),
    )
    return [
        p.algorithm(
            "lightgbm",
            f".boosting:LightGBM{ending}",
            rate,
            Integer("num_leaves", 4, 256, log=True, default=31),
            Integer("min_child_samples", 2, 100, log=True, default=20),
            *shares,
            *penalties,
            p.flag("extra_trees"),
            weight=3.0,
            **rounds,
        ),
        p.algorithm(
            "catboost",
            f".boosting:CatBoost{ending}",
            rate,
            Integer("depth", 3, 8, default=6),
            Float("l2_leaf_reg", 0.1, 100.0, log=True, default=3.0),
            Float("random_strength", 0.01, 10.0, log=True, default=1.0),
            Float("bagging_temperature", 0.0, 2.0, default=1.0),
            Float("rsm", 0.3, 1.0, default=1.0),
            Categorical("one_hot_max_size", (2, 5, 10, 25), ordered=True),
            weight=2.0,
            **rounds,
            border_count=128,
        ),
        p.algorithm(
            "xgboost",
            f".boosting:XGBoost{ending}",
            rate,
            Integer("max_depth", 2, 10, default=6),
            Float("min_child_weight", 0.1, 100.0, log=True, default=1.0),
            *shares,
            Float("colsample_bylevel", 0.3, 1.0, default=1.0),
            *penalties,
            Float("gamma", 1e-6, 1.0, log=True, default=1e-6),
            weight=2.0,
            **rounds,
        ),
        p.algorithm(
            "hist_gradient_boosting",
            f".boosting:HistGradientBoosting{ending}",
            rate,
            Integer("max_leaf_nodes", 4, 256, log=True, default=31),
            Integer("min_samples_leaf", 2, 100, log=True, default=20),
            Float("l2_regularization", 1e-6, 100.0, log=True, default=1e-3),
            Float("max_features", 0.3, 1.0, default=1.0),
            weight=1.5,
            **rounds,
        ),
    ]


def forests(ending: str, criteria: Sequence[str]) -> list[Algorithm]:
    """Random forest and extremely randomised trees."""
    params: list[Parameter] = [
        Categorical("criterion", tuple(criteria)),
        Float("max_features", 0.05, 1.0, log=True, default=0.3 if ending == "Classifier" else 0.7),
        Integer("min_samples_leaf", 1, 50, log=True, default=1),
        Integer("min_samples_split", 2, 20, log=True, default=2),
    ]
    return [
        p.algorithm(name, path, *params, p.flag("bootstrap", bootstrap), weight=2.0, n_estimators=100, n_jobs=1)
        for name, path, bootstrap in (
            ("extra_trees", f"sklearn.ensemble:ExtraTrees{ending}", False),
            ("random_forest", f"sklearn.ensemble:RandomForest{ending}", True),
        )
    ]


def mlp(ending: str) -> Algorithm:
    """The multi-layer perceptron."""
    return p.algorithm(
        "mlp",
        f".neural:MLP{ending}",
        Integer("n_layers", 1, 4, default=2),
        Integer("width", 16, 256, log=True, default=64),
        Categorical("activation", ("relu", "tanh")),
        Float("alpha", 1e-7, 0.3, log=True, default=1e-4),
        Float("learning_rate_init", 1e-4, 0.03, log=True, default=2e-3),
        Categorical("batch_size", (32, 64, 128, 256), default=128, ordered=True),
        p.flag("early_stopping", True),
        weight=1.5,
        max_iter=100,
    )


def knn(ending: str) -> Algorithm:
    """Nearest neighbours."""
    return p.algorithm(
        "knn",
        f".neighbours:KNeighbors{ending}",
        Integer("n_neighbors", 1, 100, log=True, default=10),
        Categorical("weights", ("distance", "uniform")),
        p.NORM,
    )
