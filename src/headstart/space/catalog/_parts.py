"""What several spaces of the catalog share."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.pipeline import Value
from headstart.space.stages import Algorithm, Stage

KERNEL_GAMMA = (3.0517578125e-05, 8.0)
"""2^-15 to 2^3, auto-sklearn's range of kernel widths."""


def algorithm(
    name: str, path: str, *params: Parameter, weight: float = 1.0, note: str = "", **fixed: Value
) -> Algorithm:
    """An algorithm with these hyper-parameters and fixed settings; a path such as ``.svm:SGD`` is in our components."""
    return Algorithm(name, f"headstart.components{path}" if path[0] == "." else path, params, fixed, weight, note)


def installed(algorithms: Iterable[Algorithm]) -> list[Algorithm]:
    """Those whose package can be imported; boosters of other libraries are named after them."""
    packages = {"LightGBM": "lightgbm", "CatBoost": "catboost", "XGBoost": "xgboost"}
    missing = tuple(f":{name}" for name, package in packages.items() if find_spec(package) is None)
    return [a for a in algorithms if not any(name in (a.path or "") for name in missing)]


def flag(name: str, default: bool = False) -> Categorical:
    """A switch."""
    return Categorical(name, (default, not default))


def imputer(strategy: str, *params: Parameter, weight: float = 1.0) -> Algorithm:
    """Missing numbers become a mean, median, … of their column."""
    return algorithm(
        strategy, "sklearn.impute:SimpleImputer", *params, weight=weight, strategy=strategy, keep_empty_features=True
    )


def one_hot(name: str = "one_hot", *params: Parameter) -> Algorithm:
    """A column per category; categories of a single row share one."""
    fixed: dict[str, Any] = {"handle_unknown": "infrequent_if_exist", "min_frequency": 2, "sparse_output": False}
    if not params:
        fixed["max_categories"] = 100
    return algorithm(name, "sklearn.preprocessing:OneHotEncoder", *params, **fixed)


def ordinal(name: str = "ordinal", weight: float = 1.0, note: str = "") -> Algorithm:
    """Categories become their number; missing and unseen ones -1."""
    fixed: dict[str, Any] = {"handle_unknown": "use_encoded_value", "unknown_value": -1, "encoded_missing_value": -1}
    return algorithm(name, "sklearn.preprocessing:OrdinalEncoder", weight=weight, note=note, **fixed)


def strategy_imputation(name: str, strategies: Iterable[str]) -> Stage:
    """One imputer whose strategy is a hyper-parameter."""
    imputation = algorithm(
        "simple", "sklearn.impute:SimpleImputer", Categorical("strategy", tuple(strategies)), keep_empty_features=True
    )
    return Stage(name, [imputation], columns="numeric")


def pca() -> Algorithm:
    """Principal components by the share of the variance that they keep."""
    return algorithm("pca", ".reducers:PCA", KEPT_VARIANCE, flag("whiten"))


def polynomial(name: str) -> Algorithm:
    """Products of columns."""
    params = (DEGREE_OF_PRODUCTS, flag("interaction_only"), flag("include_bias", True))
    return algorithm(name, ".reducers:PolynomialFeatures", *params, most=10_000)


def kernel_params(*more: str, default: float = 0.1, degree: int = 2) -> list[Parameter]:
    """Kernel, and the parameters of those kernels that have them; the kernels besides the usual ones have none."""
    usual = ("rbf", "poly", "sigmoid")
    return [
        Categorical("kernel", (*usual, *more)),
        Float("gamma", *KERNEL_GAMMA, log=True, default=default, when={"kernel": usual}),
        Integer("degree", degree, 5, default=3, when={"kernel": ("poly",)}),
        Float("coef0", -1.0, 1.0, default=0.0, when={"kernel": ("poly", "sigmoid")}),
    ]


# Hyper-parameters that several spaces have alike, most of them auto-sklearn's.
CRITERION = Categorical("criterion", ("gini", "entropy"))
ROUNDS = Integer("n_estimators", 50, 500, default=100)
SUBSAMPLE = Float("subsample", 0.01, 1.0, default=1.0)
RATE = Float("learning_rate", 0.01, 1.0, log=True, default=0.1)
DEPTH = Integer("max_depth", 1, 10, default=3)
DEPTH_FACTOR = Float("max_depth_factor", 0.0, 2.0, default=0.5)
SHARE_OF_FEATURES = Float("max_features", 0.1, 1.0, default=1.0)
EXPONENT_OF_FEATURES = Float("max_features", 0.0, 1.0, default=0.5)
C = Float("C", 0.03125, 32768.0, log=True, default=1.0)
TOL = Float("tol", 1e-5, 0.1, log=True, default=1e-4)
SVM_TOL = Float("tol", 1e-5, 0.1, log=True, default=1e-3)
PENALTIES = Categorical("penalty", ("l2", "l1", "elasticnet"))
L2_OR_L1 = Categorical("penalty", ("l2", "l1"))
SHRINKAGE = Categorical("shrinkage", (None, "auto", "manual"))
SHRINKAGE_FACTOR = Float("shrinkage_factor", 0.0, 1.0, default=0.5, when={"shrinkage": ("manual",)})
LDA_COMPONENTS = Integer("n_components", 1, 250, default=10)
NORM = Categorical("p", (2, 1))
WEIGHTS = Categorical("weights", ("uniform", "distance"))
NEIGHBOURS = Integer("n_neighbors", 1, 100, log=True, default=5)
SGD_ALPHA = Float("alpha", 1e-7, 0.1, log=True, default=1e-4)
SAMPLES = Integer("n_components", 50, 10000, log=True, default=100)
KERNEL_COMPONENTS = Integer("n_components", 10, 2000, default=100)
GP_KERNEL = Categorical("kernel", ("rbf", "matern32", "matern52", "rational_quadratic"))
ICA_FUN = Categorical("fun", ("logcosh", "exp", "cube"))
ICA_ALGORITHM = Categorical("algorithm", ("parallel", "deflation"))
ICA_COMPONENTS = Integer("n_components", 10, 2000, default=100, when={"whiten": (True,)})
KEPT_VARIANCE = Float("keep_variance", 0.5, 0.9999, default=0.9999)
REG_PARAM = Float("reg_param", 0.0, 1.0, default=0.0)
MODE = Categorical("mode", ("fpr", "fdr", "fwe"))
LINKAGE = Categorical("linkage", ("ward", "complete", "average"))
POOLING = Categorical("pooling_func", ("mean", "median", "max"))
WIDTH_OF_SINKS = Float("gamma", *KERNEL_GAMMA, log=True, default=1.0)
DEGREE_OF_PRODUCTS = Integer("degree", 2, 3, default=2)
SELECTION_ALPHA = Float("alpha", 0.01, 0.5, default=0.1)
STUMP_RATE = Float("learning_rate", 0.01, 2.0, log=True, default=0.1)
STUMPS = Integer("n_estimators", 50, 500, default=50)
STUMP_DEPTH = Integer("max_depth", 1, 10, default=1)
BAYES = (Float("alpha", 0.01, 100.0, log=True, default=1.0), flag("fit_prior", True))
NODES = (Integer("min_samples_split", 2, 20, default=2), Integer("min_samples_leaf", 1, 20, default=1))
