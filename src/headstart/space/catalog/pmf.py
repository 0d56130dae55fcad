"""``pmf``: the space behind the PMF meta-dataset.

Source: N. Fusi, R. Sheth, M. Elibol, *Probabilistic matrix factorization for automated machine learning* (2018),
supplementary table 1. Gaussian naive Bayes has no hyper-parameters and so is not in that table, but the recorded
pipelines hold it (DeepPipe, table 5); the support vector machine is in the table and not among the recorded pipelines.

The table says nothing of missing values and categories; the median and a one-hot encoding stand in. It states no scales
and no defaults either: what spans orders of magnitude is logarithmic, and defaults are auto-sklearn's.

Where the table and a current scikit-learn (1.9) differ:

===========================  =======================================================================================
table                        here
===========================  =======================================================================================
``max_features`` [0.5, 5]    factor of (log d + 1) for d columns, as in the auto-sklearn of that time
decision tree ``max_depth``  ``max_depth_factor``: times the number of columns
QDA ``reg_param`` [0, 10]    [0, 1], a share; own, since scikit-learn's refuses classes with fewer rows than columns
LDA ``n_components``         kept, without effect on predictions
polynomial features          refuses to make more than 10,000 columns
support vector machine       probabilities by a sigmoid on held-out rows
multinomial naive Bayes      columns are shifted to start at 0; it takes no negative numbers
extreme gradient boosting    needs the package xgboost
sizes                        clipped to the rows and columns of a table instead of failing
===========================  =======================================================================================
"""

from __future__ import annotations

from headstart.space.catalog._parts import OURS, flag, installed, kernel_params, tree_params
from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage


def space() -> PipelineSpace:
    """The space; see the module's text."""
    return PipelineSpace("pmf", [Stage("preprocessor", _preprocessors()), Stage("estimator", installed(_estimators()))])


def _preprocessors() -> list[Algorithm]:
    return [
        Algorithm("pca", f"{OURS}.reducers:PCA", [Float("keep_variance", 0.5, 0.9999, default=0.9999), flag("whiten")]),
        Algorithm(
            "polynomial",
            f"{OURS}.reducers:PolynomialFeatures",
            [Integer("degree", 2, 3, default=2), flag("interaction_only"), flag("include_bias", True)],
            {"most": 10_000},
        ),
    ]


def _forest(name: str, kind: str, bootstrap: bool) -> Algorithm:
    return Algorithm(
        name,
        f"{OURS}.trees:SizedForest",
        [
            Categorical("criterion", ("gini", "entropy")),
            Float("max_features", 0.5, 5.0, default=1.0),
            *tree_params(),
            flag("bootstrap", bootstrap),
        ],
        {"kind": kind, "rule": "log", "n_estimators": 100},
    )


def _estimators() -> list[Algorithm]:
    bayes: list[Parameter] = [Float("alpha", 0.01, 100.0, log=True, default=1.0), flag("fit_prior", True)]
    return [
        _forest("random_forest", "random", True),
        _forest("extra_trees", "extra", False),
        Algorithm(
            "extreme_gradient_boosting",
            f"{OURS}.boosting:XGBoostClassifier",
            [
                Integer("max_depth", 1, 10, default=3),
                Float("learning_rate", 0.01, 1.0, log=True, default=0.1),
                Integer("n_estimators", 50, 500, default=100),
                Float("subsample", 0.01, 1.0, default=1.0),
                Integer("min_child_weight", 1, 20, default=1),
            ],
        ),
        Algorithm(
            "gradient_boosting",
            f"{OURS}.trees:SizedGradientBoosting",
            [
                Float("learning_rate", 0.01, 1.0, log=True, default=0.1),
                Integer("n_estimators", 50, 500, default=100),
                Integer("max_depth", 1, 10, default=3),
                *tree_params(),
                Float("subsample", 0.01, 1.0, default=1.0),
                Float("max_features", 0.5, 5.0, default=1.0),
            ],
            {"rule": "log"},
        ),
        Algorithm(
            "decision_tree",
            f"{OURS}.trees:SizedTree",
            [
                Categorical("criterion", ("gini", "entropy")),
                Float("max_depth_factor", 0.0, 2.0, default=0.5),
                *tree_params(),
            ],
        ),
        Algorithm(
            "k_neighbors",
            f"{OURS}.neighbours:KNeighborsClassifier",
            [
                Integer("n_neighbors", 1, 100, log=True, default=5),
                Categorical("weights", ("uniform", "distance")),
                Categorical("p", (2, 1)),
            ],
        ),
        Algorithm(
            "lda",
            f"{OURS}.generative:LDA",
            [
                Categorical("shrinkage", (None, "auto", "manual")),
                Integer("n_components", 1, 250, default=10),
                Float("tol", 1e-5, 0.1, log=True, default=1e-4),
                Float("shrinkage_factor", 0.0, 1.0, default=0.5, when={"shrinkage": ("manual",)}),
            ],
        ),
        Algorithm("qda", f"{OURS}.generative:QDA", [Float("reg_param", 0.0, 1.0, default=0.0)]),
        Algorithm("bernoulli_nb", "sklearn.naive_bayes:BernoulliNB", bayes),
        Algorithm("multinomial_nb", f"{OURS}.generative:MultinomialNB", bayes),
        Algorithm("gaussian_nb", f"{OURS}.generative:GaussianNB"),
        Algorithm(
            "svm",
            f"{OURS}.svm:KernelSVM",
            [
                Float("C", 0.03125, 32768.0, log=True, default=1.0),
                *kernel_params(("rbf", "poly", "sigmoid"), degree=1),
                flag("shrinking", True),
                Float("tol", 1e-5, 0.1, log=True, default=1e-3),
            ],
        ),
    ]
