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

from headstart.space.catalog._parts import OURS, flag, imputer, one_hot, ordinal
from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.space import Forbidden
from headstart.space.stages import Algorithm, Stage

BOOSTERS = ("lightgbm", "catboost", "xgboost", "hist_gradient_boosting")
TREES = (*BOOSTERS, "extra_trees", "random_forest", "decision_tree", "adaboost")
TAKES_MISSING = (*BOOSTERS, "extra_trees", "random_forest", "decision_tree")
NEEDS_SCALING = (
    "logistic_regression",
    "ridge",
    "elastic_net",
    "linear_svm",
    "kernel_svm",
    "knn",
    "mlp",
    "sgd",
    "gaussian_process",
    "bernoulli_nb",
)
HAS_KERNEL = ("kernel_svm", "gaussian_process")
KERNEL_FEATURES = ("nystroem", "kernel_pca", "kitchen_sinks", "random_trees_embedding", "fast_ica")
REDUCTIONS_THAT_NEED_SCALING = ("pca", "feature_agglomeration", "nystroem", "kernel_pca", "kitchen_sinks")


def first_stages(task: str) -> list[Stage]:
    """Imputation, encoding, scaling and preprocessing; `task` is ``"classification"`` or ``"regression"``."""
    indicator = [flag("add_indicator")]
    return [
        Stage(
            "imputation",
            [
                Algorithm("none", weight=15.0, note="for estimators that take missing values"),
                imputer("median", indicator),
                imputer("mean", indicator),
                imputer("most_frequent", indicator, 0.5),
            ],
            columns="numeric",
        ),
        Stage(
            "encoding",
            [
                Algorithm("native", weight=15.0, note="for estimators that take categories"),
                one_hot(params=[Categorical("max_categories", (10, 25, 50, 100), default=25, ordered=True)]),
                ordinal(weight=0.5),
                Algorithm(
                    "target",
                    f"{OURS}.encoders:TargetEncoder",
                    [Float("smooth", 1.0, 100.0, log=True, default=10.0)],
                    {"task": task},
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
        Algorithm("standard", "sklearn.preprocessing:StandardScaler", weight=2.0),
        Algorithm("minmax", "sklearn.preprocessing:MinMaxScaler"),
        Algorithm(
            "robust",
            f"{OURS}.reducers:RobustScaler",
            [Float("q_min", 0.01, 0.3, default=0.25), Float("q_max", 0.7, 0.99, default=0.75)],
        ),
        Algorithm(
            "quantile",
            f"{OURS}.reducers:QuantileTransformer",
            [
                Integer("n_quantiles", 10, 1000, log=True, default=200),
                Categorical("output_distribution", ("normal", "uniform")),
            ],
        ),
        Algorithm("normalize", "sklearn.preprocessing:Normalizer", weight=0.3),
    ]


def _preprocessors(task: str) -> list[Algorithm]:
    reducers, selection = f"{OURS}.reducers", f"{OURS}.selection"
    ending = "classif" if task == "classification" else "regression"
    percentile_scores = Categorical("score_func", (f"f_{ending}", f"mutual_info_{ending}"))
    gamma = Float("gamma", 0.03, 30.0, log=True, default=1.0, when={"kernel": ("rbf", "poly")})
    kernel = Categorical("kernel", ("rbf", "poly", "cosine"))
    degree = Integer("degree", 2, 3, default=2, when={"kernel": ("poly",)})
    return [
        Algorithm("none", weight=10.0),
        Algorithm(
            "pca", f"{reducers}:PCA", [Float("keep_variance", 0.5, 0.9999, default=0.99), flag("whiten")], {}, 2.0
        ),
        Algorithm(
            "polynomial", f"{reducers}:PolynomialFeatures", [flag("interaction_only")], {"degree": 2, "most": 1500}
        ),
        Algorithm(
            "select_percentile",
            f"{selection}:SelectPercentile",
            [Float("percentile", 2.0, 90.0, log=True, default=50.0), percentile_scores],
            {},
            2.0,
        ),
        Algorithm(
            "select_rates",
            f"{selection}:SelectRates",
            [Float("alpha", 0.001, 0.5, log=True, default=0.1), Categorical("mode", ("fpr", "fdr", "fwe"))],
            {"score_func": f"f_{ending}"},
        ),
        Algorithm(
            "feature_agglomeration",
            f"{reducers}:Agglomeration",
            [
                Integer("n_clusters", 2, 200, log=True, default=25),
                Categorical("linkage", ("ward", "complete", "average")),
                Categorical("metric", ("euclidean", "cosine"), when={"linkage": ("complete", "average")}),
                Categorical("pooling_func", ("mean", "median", "max")),
            ],
        ),
        Algorithm(
            "nystroem",
            f"{reducers}:Nystroem",
            [Integer("n_components", 20, 1000, log=True, default=100), kernel, gamma, degree],
            {"relative": True, "coef0": 1.0},
        ),
        Algorithm(
            "random_trees_embedding",
            f"{reducers}:RandomTreesEmbedding",
            [Integer("n_estimators", 10, 50, default=20), Integer("max_depth", 2, 5, default=4)],
            {},
            0.5,
        ),
        Algorithm(
            "kernel_pca",
            f"{reducers}:KernelPCA",
            [Integer("n_components", 5, 300, log=True, default=50), kernel, gamma, degree],
            {"relative": True, "coef0": 1.0},
            0.5,
        ),
        Algorithm(
            "fast_ica",
            f"{reducers}:FastICA",
            [
                Integer("n_components", 2, 200, log=True, default=20),
                Categorical("fun", ("logcosh", "exp", "cube")),
            ],
            {},
            0.5,
        ),
        Algorithm(
            "kitchen_sinks",
            f"{reducers}:KitchenSinks",
            [
                Integer("n_components", 50, 1000, log=True, default=200),
                Float("gamma", 0.03, 30.0, log=True, default=1.0),
            ],
            {"relative": True},
            0.5,
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
        {
            "estimator": trees,
            "scaling": scalers,
            "preprocessing": ["none", *without(REDUCTIONS_THAT_NEED_SCALING, steps)],
        },
        {"estimator": among(NEEDS_SCALING, estimators), "scaling": ["none"]},
        {"preprocessing": among(REDUCTIONS_THAT_NEED_SCALING, steps), "scaling": ["none"]},
        {"estimator": [*trees, *among(HAS_KERNEL, estimators)], "preprocessing": among(KERNEL_FEATURES, steps)},
        {"estimator": trees, "preprocessing": REDUCTIONS_THAT_NEED_SCALING, "scaling": ["normalize"]},
    ]
    if "multinomial_nb" in estimators:
        clauses += [
            {"estimator": ["multinomial_nb"], "scaling": without(("minmax",), scalers)},
            {
                "estimator": ["multinomial_nb"],
                "preprocessing": without(("polynomial", "select_percentile", "select_rates"), steps),
            },
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
    boosting = f"{OURS}.boosting"
    rounds = {"n_estimators": 1500, "early_stopping_rounds": 50}
    rate = Float("learning_rate", 0.01, 0.3, log=True, default=0.06)
    l1 = Float("reg_alpha", 1e-6, 10.0, log=True, default=1e-6)
    l2 = Float("reg_lambda", 1e-6, 100.0, log=True, default=1.0)
    return [
        Algorithm(
            "lightgbm",
            f"{boosting}:LightGBM{ending}",
            [
                rate,
                Integer("num_leaves", 4, 256, log=True, default=31),
                Integer("min_child_samples", 2, 100, log=True, default=20),
                Float("subsample", 0.4, 1.0, default=0.9),
                Float("colsample_bytree", 0.3, 1.0, default=0.8),
                l1,
                l2,
                flag("extra_trees"),
            ],
            rounds,
            3.0,
        ),
        Algorithm(
            "catboost",
            f"{boosting}:CatBoost{ending}",
            [
                rate,
                Integer("depth", 3, 8, default=6),
                Float("l2_leaf_reg", 0.1, 100.0, log=True, default=3.0),
                Float("random_strength", 0.01, 10.0, log=True, default=1.0),
                Float("bagging_temperature", 0.0, 2.0, default=1.0),
                Float("rsm", 0.3, 1.0, default=1.0),
                Categorical("one_hot_max_size", (2, 5, 10, 25), ordered=True),
            ],
            {**rounds, "border_count": 128},
            2.0,
        ),
        Algorithm(
            "xgboost",
            f"{boosting}:XGBoost{ending}",
            [
                rate,
                Integer("max_depth", 2, 10, default=6),
                Float("min_child_weight", 0.1, 100.0, log=True, default=1.0),
                Float("subsample", 0.4, 1.0, default=0.9),
                Float("colsample_bytree", 0.3, 1.0, default=0.8),
                Float("colsample_bylevel", 0.3, 1.0, default=1.0),
                l1,
                l2,
                Float("gamma", 1e-6, 1.0, log=True, default=1e-6),
            ],
            rounds,
            2.0,
        ),
        Algorithm(
            "hist_gradient_boosting",
            f"{boosting}:HistGradientBoosting{ending}",
            [
                rate,
                Integer("max_leaf_nodes", 4, 256, log=True, default=31),
                Integer("min_samples_leaf", 2, 100, log=True, default=20),
                Float("l2_regularization", 1e-6, 100.0, log=True, default=1e-3),
                Float("max_features", 0.3, 1.0, default=1.0),
            ],
            rounds,
            1.5,
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
    fixed = {"n_estimators": 100, "n_jobs": 1}
    return [
        Algorithm("extra_trees", f"sklearn.ensemble:ExtraTrees{ending}", [*params, flag("bootstrap")], fixed, 2.0),
        Algorithm(
            "random_forest", f"sklearn.ensemble:RandomForest{ending}", [*params, flag("bootstrap", True)], fixed, 2.0
        ),
    ]


def mlp(ending: str) -> Algorithm:
    """The multi-layer perceptron."""
    return Algorithm(
        "mlp",
        f"{OURS}.neural:MLP{ending}",
        [
            Integer("n_layers", 1, 4, default=2),
            Integer("width", 16, 256, log=True, default=64),
            Categorical("activation", ("relu", "tanh")),
            Float("alpha", 1e-7, 0.3, log=True, default=1e-4),
            Float("learning_rate_init", 1e-4, 0.03, log=True, default=2e-3),
            Categorical("batch_size", (32, 64, 128, 256), default=128, ordered=True),
            flag("early_stopping", True),
        ],
        {"max_iter": 100},
        1.5,
    )


def knn(ending: str) -> Algorithm:
    """Nearest neighbours."""
    return Algorithm(
        "knn",
        f"{OURS}.neighbours:KNeighbors{ending}",
        [
            Integer("n_neighbors", 1, 100, log=True, default=10),
            Categorical("weights", ("distance", "uniform")),
            Categorical("p", (2, 1)),
        ],
    )
