"""Sets of hand-crafted meta-features by name.

================  ===========================================================================================  =======
set               what                                                                                         columns
================  ===========================================================================================  =======
``mf1``           Feurer et al. (2015), in the order in which PMF's values are published                            46
``mf2``           Wistuba et al. (2016)                                                                             22
``auto_sklearn``  what the thesis on Metabu calls auto-sklearn's: ``mf1`` without landmarks and components          36
``landmark``      Pfahringer et al. (2000)                                                                           8
``scot``          Bardenet et al. (2013)                                                                             4
``byu``           the thesis' table B.2, from BYU's Metalearn                                                       43
``full``          all that the thesis' tables C.3 and C.4 name: pymfe's and ``mf1``                                210
================  ===========================================================================================  =======
"""

from __future__ import annotations

from collections.abc import Mapping

from headstart.metafeatures.handcrafted import (
    clusters,
    complexity,
    information,
    landmarks,
    simple,
    statistical,
    trees,
)
from headstart.metafeatures.handcrafted.declare import Feature

FAMILIES = (simple, statistical, information, landmarks, trees, clusters, complexity)
FEATURES: Mapping[str, Feature] = {f.name: f for family in FAMILIES for f in family.FEATURES}
"""All that are declared, by name."""

_CLASS_PROBABILITY = tuple(f"ClassProbability{s}" for s in ("Max", "Mean", "Min", "STD"))
_SKEWNESS = tuple(f"Skewness{s}" for s in ("Max", "Mean", "Min", "STD"))
_KURTOSIS = tuple(f"Kurtosis{s}" for s in ("Max", "Mean", "Min", "STD"))
_COMPONENTS = ("PCAFractionOfComponentsFor95PercentVariance", "PCAKurtosisFirstPC", "PCASkewnessFirstPC")
_LANDMARKS = (
    "Landmark1NN",
    "LandmarkDecisionNodeLearner",
    "LandmarkDecisionTree",
    "LandmarkLDA",
    "LandmarkNaiveBayes",
    "LandmarkRandomNodeLearner",
)

_MF1 = (
    "ClassEntropy",
    *_CLASS_PROBABILITY,
    "DatasetRatio",
    "InverseDatasetRatio",
    *_KURTOSIS,
    *_LANDMARKS,
    "LogDatasetRatio",
    "LogInverseDatasetRatio",
    "LogNumberOfFeatures",
    "LogNumberOfInstances",
    "NumberOfCategoricalFeatures",
    "NumberOfClasses",
    "NumberOfFeatures",
    "NumberOfFeaturesWithMissingValues",
    "NumberOfInstances",
    "NumberOfInstancesWithMissingValues",
    "NumberOfMissingValues",
    "NumberOfNumericFeatures",
    *_COMPONENTS,
    "PercentageOfFeaturesWithMissingValues",
    "PercentageOfInstancesWithMissingValues",
    "PercentageOfMissingValues",
    "RatioNominalToNumerical",
    "RatioNumericalToNominal",
    *_SKEWNESS,
    "SymbolsMax",
    "SymbolsMean",
    "SymbolsMin",
    "SymbolsSTD",
    "SymbolsSum",
)

_NINE = ("Mean", "Stdev", "Skew", "Kurtosis", "Min", "Quartile1", "Quartile2", "Quartile3", "Max")

_BYU = (
    "NumberOfInstances",
    "NumberOfFeatures",
    "NumberOfClasses",
    "Dimensionality",
    "NumberOfNumericFeatures",
    "NumberOfCategoricalFeatures",
    "RatioOfNumericFeatures",
    "RatioOfCategoricalFeatures",
    "NumberOfMissingValues",
    "RatioOfMissingValues",
    "NumberOfInstancesWithMissingValues",
    "RatioOfInstancesWithMissingValues",
    "NumberOfFeaturesWithMissingValues",
    "RatioOfFeaturesWithMissingValues",
    "MajorityClassSize",
    "MinorityClassSize",
    *(f"{s}ClassProbability" for s in _NINE),
    *(f"{s}CardinalityOfNumericFeatures" for s in _NINE),
    *(f"{s}CardinalityOfCategoricalFeatures" for s in _NINE),
)

_PYMFE = tuple(name for name in FEATURES if name[0].islower())
"""Names of pymfe are in lower case, all others begin with a capital letter."""

SETS: Mapping[str, tuple[str, ...]] = {
    "mf1": _MF1,
    "mf2": (
        "NumberOfInstances",
        "LogNumberOfInstances",
        "NumberOfClasses",
        "NumberOfFeatures",
        "LogNumberOfFeatures",
        "DatasetRatio",
        "LogDatasetRatio",
        "InverseDatasetRatio",
        "LogInverseDatasetRatio",
        "ClassEntropy",
        *_CLASS_PROBABILITY,
        *_KURTOSIS,
        *_SKEWNESS,
    ),
    "auto_sklearn": tuple(n for n in _MF1 if n not in (*_LANDMARKS, *_COMPONENTS, "ClassEntropy")),
    "landmark": (
        "NumberOfFeatures",
        "NumberOfNumericFeatures",
        "NumberOfCategoricalFeatures",
        "NumberOfClasses",
        "ClassProbabilityMax",
        "LandmarkLDA",
        "LandmarkNaiveBayes",
        "LandmarkDecisionTree",
    ),
    "scot": (
        "NumberOfClasses",
        "LogNumberOfFeatures",
        "LogInverseDatasetRatio",
        "PCAFractionOfComponentsFor95PercentVariance",
    ),
    "byu": _BYU,
    "full": (*_PYMFE, *(n for n in _MF1 if n != "ClassEntropy")),
}
"""Names of features by set."""
