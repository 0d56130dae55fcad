"""What several spaces of the catalog share."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.pipeline import Value
from headstart.space.stages import Algorithm, Stage

OURS = "headstart.components"
KERNEL_GAMMA = (3.0517578125e-05, 8.0)
"""2^-15 to 2^3, auto-sklearn's range of kernel widths."""


def installed(algorithms: Iterable[Algorithm]) -> list[Algorithm]:
    """Those whose package can be imported; boosters of other libraries are named after them."""
    packages = {"LightGBM": "lightgbm", "CatBoost": "catboost", "XGBoost": "xgboost"}
    kept = []
    for algorithm in algorithms:
        needed = [package for name, package in packages.items() if algorithm.path and f":{name}" in algorithm.path]
        if all(find_spec(package) is not None for package in needed):
            kept.append(algorithm)
    return kept


def flag(name: str, default: bool = False) -> Categorical:
    """A switch."""
    return Categorical(name, (default, not default))


def imputer(strategy: str, params: Iterable[Parameter] = (), weight: float = 1.0) -> Algorithm:
    """Missing numbers become a mean, median, … of their column."""
    return Algorithm(
        strategy,
        "sklearn.impute:SimpleImputer",
        list(params),
        {"strategy": strategy, "keep_empty_features": True},
        weight,
    )


def one_hot(name: str = "one_hot", params: Iterable[Parameter] = (), weight: float = 1.0) -> Algorithm:
    """A column per category; categories of a single row share one."""
    fixed: dict[str, Value] = {"handle_unknown": "infrequent_if_exist", "min_frequency": 2, "sparse_output": False}
    declared = list(params)
    if not declared:
        fixed["max_categories"] = 100
    return Algorithm(name, "sklearn.preprocessing:OneHotEncoder", declared, fixed, weight)


def ordinal(name: str = "ordinal", weight: float = 1.0, note: str = "") -> Algorithm:
    """Categories become their number; missing and unseen ones -1."""
    fixed: dict[str, Value] = {"handle_unknown": "use_encoded_value", "unknown_value": -1, "encoded_missing_value": -1}
    return Algorithm(name, "sklearn.preprocessing:OrdinalEncoder", (), fixed, weight, note)


def strategy_imputation(name: str, strategies: Iterable[str]) -> Stage:
    """One imputer whose strategy is a hyper-parameter."""
    imputation = Algorithm(
        "simple",
        "sklearn.impute:SimpleImputer",
        [Categorical("strategy", tuple(strategies))],
        {"keep_empty_features": True},
    )
    return Stage(name, [imputation], columns="numeric")


def kernel_params(
    kernels: Iterable[str], gamma: tuple[float, float] = KERNEL_GAMMA, default: float = 0.1, degree: int = 2
) -> list[Parameter]:
    """Kernel, and the parameters of those kernels that have them."""
    names = tuple(kernels)
    with_gamma = tuple(k for k in names if k != "cosine")
    return [
        Categorical("kernel", names),
        Float("gamma", *gamma, log=True, default=default, when={"kernel": with_gamma}),
        Integer("degree", degree, 5, default=3, when={"kernel": ("poly",)}),
        Float("coef0", -1.0, 1.0, default=0.0, when={"kernel": tuple(k for k in names if k in ("poly", "sigmoid"))}),
    ]


def tree_params(low_split: int = 2) -> list[Parameter]:
    """Sizes of nodes, as in auto-sklearn."""
    return [
        Integer("min_samples_split", low_split, 20, default=2),
        Integer("min_samples_leaf", 1, 20, default=1),
    ]
