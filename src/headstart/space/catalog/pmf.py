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

from headstart.space.catalog import _parts as p
from headstart.space.parameters import Float, Integer
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage


def space() -> PipelineSpace:
    """The space; see the module's text."""
    preprocessors = [p.pca(), p.polynomial("polynomial")]
    return PipelineSpace("pmf", [Stage("preprocessor", preprocessors), Stage("estimator", p.installed(_estimators()))])


def _forest(name: str, kind: str, bootstrap: bool) -> Algorithm:
    return p.algorithm(
        name,
        ".trees:SizedForest",
        p.CRITERION,
        Float("max_features", 0.5, 5.0, default=1.0),
        *p.NODES,
        p.flag("bootstrap", bootstrap),
        kind=kind,
        rule="log",
        n_estimators=100,
    )


def _estimators() -> list[Algorithm]:
    return [
        _forest("random_forest", "random", True),
        _forest("extra_trees", "extra", False),
        p.algorithm(
            "extreme_gradient_boosting",
            ".boosting:XGBoostClassifier",
            p.DEPTH,
            p.RATE,
            p.ROUNDS,
            p.SUBSAMPLE,
            Integer("min_child_weight", 1, 20, default=1),
        ),
        p.algorithm(
            "gradient_boosting",
            ".trees:SizedGradientBoosting",
            p.RATE,
            p.ROUNDS,
            p.DEPTH,
            *p.NODES,
            p.SUBSAMPLE,
            Float("max_features", 0.5, 5.0, default=1.0),
            rule="log",
        ),
        p.algorithm("decision_tree", ".trees:SizedTree", p.CRITERION, p.DEPTH_FACTOR, *p.NODES),
        p.algorithm("k_neighbors", ".neighbours:KNeighborsClassifier", p.NEIGHBOURS, p.WEIGHTS, p.NORM),
        p.algorithm("lda", ".generative:LDA", p.SHRINKAGE, p.LDA_COMPONENTS, p.TOL, p.SHRINKAGE_FACTOR),
        p.algorithm("qda", ".generative:QDA", p.REG_PARAM),
        p.algorithm("bernoulli_nb", "sklearn.naive_bayes:BernoulliNB", *p.BAYES),
        p.algorithm("multinomial_nb", ".generative:MultinomialNB", *p.BAYES),
        p.algorithm("gaussian_nb", ".generative:GaussianNB"),
        p.algorithm("svm", ".svm:KernelSVM", p.C, *p.kernel_params(degree=1), p.flag("shrinking", True), p.SVM_TOL),
    ]
