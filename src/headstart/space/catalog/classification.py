"""``classification``: the default space for classification.

Ours: the ranges and weights are our choice, wide around the libraries' defaults, and have no source in a paper.
Boosters have many rounds and are stopped early on validation rows. What is forbidden, and why: see
`headstart.space.catalog._live`.

scikit-learn 1.9 warns about parts that later versions remove; this space uses what stays: ``l1_ratio`` instead of
``penalty`` in logistic regression, calibrated margins instead of ``SVC(probability=True)``.
"""

from __future__ import annotations

from headstart.space.catalog import _parts as p
from headstart.space.catalog._live import SGD_L1_RATIO, SVM_KERNEL, boosters, first_stages, forbidden, forests, knn, mlp
from headstart.space.parameters import Categorical, Float, Integer
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage


def space() -> PipelineSpace:
    """The space; see the module's text."""
    start = [*boosters("Classifier"), *forests("Classifier", ("gini", "entropy"))]
    estimators = [*start, *_linear(), knn("Classifier"), mlp("Classifier"), *_generative(), *_others()]
    stages = [
        *first_stages("classification"),
        Stage(
            "balancing",
            [Algorithm("none", weight=2.0), Algorithm("balanced", fixed={"class_weight": "balanced"})],
            kind="fit_option",
        ),
        Stage("estimator", p.installed(estimators)),
    ]
    return PipelineSpace("classification", stages, forbidden(stages))


def _linear() -> list[Algorithm]:
    return [
        p.algorithm(
            "logistic_regression",
            ".linear:LogisticRegression",
            Float("C", 1e-4, 1e4, log=True, default=1.0),
            Categorical("penalty", ("l2", "elasticnet")),
            Float("l1_ratio", 0.0, 1.0, default=0.5, when={"penalty": ("elasticnet",)}),
            weight=1.5,
            max_iter=200,
        ),
        p.algorithm("linear_svm", ".svm:LinearSVM", Float("C", 1e-4, 1e3, log=True, default=1.0), p.L2_OR_L1),
        p.algorithm(
            "kernel_svm",
            ".svm:KernelSVM",
            Float("C", 0.01, 1e4, log=True, default=1.0),
            *SVM_KERNEL,
            relative=True,
            max_iter=100_000,
        ),
        p.algorithm(
            "sgd",
            ".svm:SGD",
            Categorical("loss", ("log_loss", "modified_huber", "hinge", "squared_hinge")),
            p.PENALTIES,
            p.SGD_ALPHA,
            SGD_L1_RATIO,
            Categorical("learning_rate", ("optimal", "invscaling", "adaptive")),
            Float("eta0", 1e-3, 0.3, log=True, default=0.03, when={"learning_rate": ("invscaling", "adaptive")}),
            p.flag("average"),
            weight=0.7,
        ),
    ]


def _generative() -> list[Algorithm]:
    return [
        p.algorithm("lda", ".generative:LDA", p.SHRINKAGE, p.SHRINKAGE_FACTOR, weight=0.7),
        p.algorithm("qda", ".generative:QDA", Float("reg_param", 1e-4, 1.0, log=True, default=1e-2), weight=0.5),
        p.algorithm(
            "gaussian_nb",
            ".generative:GaussianNB",
            Float("var_smoothing", 1e-10, 0.1, log=True, default=1e-9),
            weight=0.5,
        ),
        p.algorithm("bernoulli_nb", "sklearn.naive_bayes:BernoulliNB", *p.BAYES, weight=0.3),
        p.algorithm(
            "multinomial_nb",
            ".generative:MultinomialNB",
            *p.BAYES,
            weight=0.3,
            note="columns are shifted to start at 0",
        ),
    ]


def _others() -> list[Algorithm]:
    return [
        p.algorithm(
            "adaboost",
            ".trees:AdaBoost",
            Integer("n_estimators", 20, 300, log=True, default=50),
            Float("learning_rate", 0.01, 2.0, log=True, default=0.5),
            Integer("max_depth", 1, 8, default=2),
            weight=0.5,
        ),
        p.algorithm(
            "decision_tree",
            "sklearn.tree:DecisionTreeClassifier",
            p.CRITERION,
            Integer("max_depth", 2, 30, log=True, default=8),
            Integer("min_samples_leaf", 1, 50, log=True, default=5),
            Float("ccp_alpha", 1e-6, 0.05, log=True, default=1e-4),
            weight=0.7,
        ),
        p.algorithm(
            "gaussian_process",
            ".small:GaussianProcessClassifier",
            p.GP_KERNEL,
            weight=0.5,
            note="learns from at most 300 rows",
        ),
    ]
