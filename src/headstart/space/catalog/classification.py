"""``classification``: the default space for classification.

Ours: the ranges and weights are our choice, wide around the libraries' defaults, and have no source in a paper.
Boosters have many rounds and are stopped early on validation rows. What is forbidden, and why: see
`headstart.space.catalog._live`.

scikit-learn 1.9 warns about parts that later versions remove; this space uses what stays: ``l1_ratio`` instead of
``penalty`` in logistic regression, calibrated margins instead of ``SVC(probability=True)``.
"""

from __future__ import annotations

from headstart.space.catalog._live import boosters, first_stages, forbidden, forests, knn, mlp
from headstart.space.catalog._parts import OURS, flag, installed
from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage


def space() -> PipelineSpace:
    """The space; see the module's text."""
    stages = [
        *first_stages("classification"),
        Stage(
            "balancing",
            [Algorithm("none", weight=2.0), Algorithm("balanced", fixed={"class_weight": "balanced"})],
            kind="fit_option",
        ),
        Stage(
            "estimator",
            installed(
                [
                    *boosters("Classifier"),
                    *forests("Classifier", ("gini", "entropy")),
                    *_linear(),
                    knn("Classifier"),
                    mlp("Classifier"),
                    *_generative(),
                    *_others(),
                ]
            ),
        ),
    ]
    return PipelineSpace("classification", stages, forbidden(stages))


def _linear() -> list[Algorithm]:
    return [
        Algorithm(
            "logistic_regression",
            f"{OURS}.linear:LogisticRegression",
            [
                Float("C", 1e-4, 1e4, log=True, default=1.0),
                Categorical("penalty", ("l2", "elasticnet")),
                Float("l1_ratio", 0.0, 1.0, default=0.5, when={"penalty": ("elasticnet",)}),
            ],
            {"max_iter": 200},
            1.5,
        ),
        Algorithm(
            "linear_svm",
            f"{OURS}.svm:LinearSVM",
            [Float("C", 1e-4, 1e3, log=True, default=1.0), Categorical("penalty", ("l2", "l1"))],
        ),
        Algorithm(
            "kernel_svm",
            f"{OURS}.svm:KernelSVM",
            [
                Float("C", 0.01, 1e4, log=True, default=1.0),
                Categorical("kernel", ("rbf", "poly", "sigmoid")),
                Float("gamma", 0.01, 30.0, log=True, default=1.0),
                Integer("degree", 2, 4, default=3, when={"kernel": ("poly",)}),
                Float("coef0", -1.0, 1.0, default=0.0, when={"kernel": ("poly", "sigmoid")}),
            ],
            {"relative": True, "max_iter": 100_000},
        ),
        Algorithm(
            "sgd",
            f"{OURS}.svm:SGD",
            [
                Categorical("loss", ("log_loss", "modified_huber", "hinge", "squared_hinge")),
                Categorical("penalty", ("l2", "l1", "elasticnet")),
                Float("alpha", 1e-7, 0.1, log=True, default=1e-4),
                Float("l1_ratio", 0.01, 0.99, default=0.15, when={"penalty": ("elasticnet",)}),
                Categorical("learning_rate", ("optimal", "invscaling", "adaptive")),
                Float("eta0", 1e-3, 0.3, log=True, default=0.03, when={"learning_rate": ("invscaling", "adaptive")}),
                flag("average"),
            ],
            {},
            0.7,
        ),
    ]


def _generative() -> list[Algorithm]:
    bayes: list[Parameter] = [Float("alpha", 0.01, 100.0, log=True, default=1.0), flag("fit_prior", True)]
    return [
        Algorithm(
            "lda",
            f"{OURS}.generative:LDA",
            [
                Categorical("shrinkage", (None, "auto", "manual")),
                Float("shrinkage_factor", 0.0, 1.0, default=0.5, when={"shrinkage": ("manual",)}),
            ],
            {},
            0.7,
        ),
        Algorithm("qda", f"{OURS}.generative:QDA", [Float("reg_param", 1e-4, 1.0, log=True, default=1e-2)], {}, 0.5),
        Algorithm(
            "gaussian_nb",
            f"{OURS}.generative:GaussianNB",
            [Float("var_smoothing", 1e-10, 0.1, log=True, default=1e-9)],
            {},
            0.5,
        ),
        Algorithm("bernoulli_nb", "sklearn.naive_bayes:BernoulliNB", bayes, {}, 0.3),
        Algorithm(
            "multinomial_nb",
            f"{OURS}.generative:MultinomialNB",
            bayes,
            {},
            0.3,
            "columns are shifted to start at 0",
        ),
    ]


def _others() -> list[Algorithm]:
    return [
        Algorithm(
            "adaboost",
            f"{OURS}.trees:AdaBoost",
            [
                Integer("n_estimators", 20, 300, log=True, default=50),
                Float("learning_rate", 0.01, 2.0, log=True, default=0.5),
                Integer("max_depth", 1, 8, default=2),
            ],
            {},
            0.5,
        ),
        Algorithm(
            "decision_tree",
            "sklearn.tree:DecisionTreeClassifier",
            [
                Categorical("criterion", ("gini", "entropy")),
                Integer("max_depth", 2, 30, log=True, default=8),
                Integer("min_samples_leaf", 1, 50, log=True, default=5),
                Float("ccp_alpha", 1e-6, 0.05, log=True, default=1e-4),
            ],
            {},
            0.7,
        ),
        Algorithm(
            "gaussian_process",
            f"{OURS}.small:GaussianProcessClassifier",
            [Categorical("kernel", ("rbf", "matern32", "matern52", "rational_quadratic"))],
            {},
            0.5,
            "learns from at most 300 rows",
        ),
    ]
