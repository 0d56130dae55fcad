"""``admm_small``: the space in which ADMM was compared with auto-sklearn and TPOT.

Source: S. Liu, P. Ram, D. Vijaykeerthy, D. Bouneffouf, G. Bramble, H. Samulowitz, D. Wang, A. Conn, A. Gray, *An ADMM
based framework for AutoML pipeline configuration* (AAAI 2020), table A3: 6 scalers × 3 transformers × 6 estimators, in
a fixed order. The table gives numbers of hyper-parameters ("2c, 2d": continuous, discrete); which ones and their ranges
are auto-sklearn's, as the paper says, where it has them. Our choice, to come to the printed numbers, are the forests'
``n_estimators`` (auto-sklearn fixes 100), ``max_leaf_nodes`` of gradient boosting and the two switches of the robust
scaler. The first of each stage makes the pipeline that ADMM tries first: naive Bayes.

Where the table and a current scikit-learn (1.9), or this space, differ:

==============================  ====================================================================================
table                           here
==============================  ====================================================================================
gradient boosting 3c, 6d        3c, 5d: ``criterion`` is deprecated; the loss is a constant
polynomial features 1c, 2d      1 integer (the degree), 2 switches
column of numbers               printed one row off for the scalers; read as 2d for quantiles, 2c + 2d for the robust
                                scaler, none for the others
polynomial features             refuse to make more than 10,000 columns
QDA                             own: scikit-learn's refuses classes with fewer rows than columns
forests: ``max_features``       an exponent of the number of columns, as in auto-sklearn
sizes                           clipped to the rows and columns of a table instead of failing
==============================  ====================================================================================
"""

from __future__ import annotations

from headstart.space.catalog import _parts as p
from headstart.space.parameters import Categorical, Float, Integer
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage


def space() -> PipelineSpace:
    """The space; see the module's text."""
    return PipelineSpace(
        "admm_small",
        [
            *preparation(),
            Stage("scaler", scalers()),
            Stage("transformer", [Algorithm("none"), p.pca(), p.polynomial("polynomial_features")]),
            Stage("estimator", estimators()),
        ],
    )


def preparation() -> list[Stage]:
    """Missing values and categories, always handled."""
    return [
        p.strategy_imputation("imputer", ("mean", "median", "most_frequent")),
        Stage("encoder", [p.one_hot()], columns="categorical"),
    ]


def scalers() -> list[Algorithm]:
    return [
        Algorithm("none"),
        p.algorithm("normalizer", "sklearn.preprocessing:Normalizer"),
        p.algorithm(
            "quantile_transformer",
            ".reducers:QuantileTransformer",
            Integer("n_quantiles", 10, 2000, default=1000),
            Categorical("output_distribution", ("uniform", "normal")),
        ),
        p.algorithm("minmax_scaler", "sklearn.preprocessing:MinMaxScaler"),
        p.algorithm("standard_scaler", "sklearn.preprocessing:StandardScaler"),
        p.algorithm(
            "robust_scaler",
            ".reducers:RobustScaler",
            Float("q_min", 0.001, 0.3, default=0.25),
            Float("q_max", 0.7, 0.999, default=0.75),
            p.flag("with_centering", True),
            p.flag("with_scaling", True),
        ),
    ]


def _forest(name: str, kind: str, bootstrap: bool) -> Algorithm:
    return p.algorithm(
        name,
        ".trees:SizedForest",
        p.EXPONENT_OF_FEATURES,
        p.ROUNDS,
        p.CRITERION,
        *p.NODES,
        p.flag("bootstrap", bootstrap),
        kind=kind,
        rule="power",
    )


def estimators() -> list[Algorithm]:
    return [
        p.algorithm("gaussian_nb", ".generative:GaussianNB"),
        p.algorithm("qda", ".generative:QDA", p.REG_PARAM),
        p.algorithm(
            "gradient_boosting",
            "sklearn.ensemble:GradientBoostingClassifier",
            p.RATE,
            p.SUBSAMPLE,
            p.SHARE_OF_FEATURES,
            p.ROUNDS,
            p.DEPTH,
            *p.NODES,
            Categorical("max_leaf_nodes", (None, 8, 16, 32, 64)),
        ),
        p.algorithm("k_neighbors", ".neighbours:KNeighborsClassifier", p.NEIGHBOURS, p.WEIGHTS, p.NORM),
        _forest("random_forest", "random", True),
        _forest("extra_trees", "extra", False),
    ]
