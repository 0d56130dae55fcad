"""``auto_sklearn``: the space of auto-sklearn, as Mosaic used it.

Source: H. Rakotoarison, *Some contributions to AutoML: hyper-parameter optimization and meta-learning* (thesis, 2022),
appendix A, tables A.1 (components), A.2 (preprocessors), A.3 and A.4 (classifiers); the components are those of
auto-sklearn (Feurer et al., 2015), which also gives the meaning of relative sizes: see `headstart.components.trees`.

The first algorithm of each stage is auto-sklearn's default. Constants of the tables that are also scikit-learn's
defaults are left out. Of rescaling the tables give no hyper-parameters, so it has none.

Where the tables and a current scikit-learn (1.9) differ:

==========================  ========================================================================================
table                       here
==========================  ========================================================================================
``no_encoding``             categories as numbers; they reached auto-sklearn as such
adaboost ``algorithm``      gone (SAMME.R was removed); SAMME
gradient_boosting
``criterion``               gone (deprecated; ``mae`` was removed); ``loss="deviance"`` is called ``log_loss``
passive_aggressive          a schedule of stochastic gradient descent; the class is to be removed
sgd ``loss="log"``          ``log_loss``
sgd ``epsilon``             kept for ``modified_huber`` as in auto-sklearn, although scikit-learn reads it for
                            regression losses only
liblinear ``multi_class``   gone; it was always one against the rest. Hinge with L2 is solved in the dual (the table
                            fixes ``dual=False``, which has no hinge); hinge with L1 does not exist and is forbidden
liblinear preprocessor
``loss``                    squared hinge only, for the same reason
decision_tree ``max_depth``  ``max_depth_factor``: times the number of columns
feature_agglomeration
``affinity``                ``metric``; other than Euclidean is forbidden with Ward's linkage
random_trees_embedding
``bootstrap``               gone; its ``min_weight_fraction_leaf`` of 1.0 is a misprint of 0
kitchen_sinks default
of ``n_components``         printed as 1.0, outside of its range; 100
pca ``keep_variance``       the share of the variance that is kept
polynomial                  refuses to make more than 10,000 columns
kernel_pca                  learns from at most 1,000 rows; of sigmoids and polynomials that are no kernels, by their
                            Nystroem features
fast_ica ``whiten=False``   whitens where columns depend on each other or it does not converge to finite numbers
qda                         own: scikit-learn's refuses classes with fewer rows than columns
lda ``n_components``        kept, without effect on predictions; ``tol`` matters without shrinkage only
sizes                       clipped to the rows and columns of a table instead of failing
xgradient_boosting          needs the package xgboost
probabilities               of margin classifiers by a sigmoid on held-out rows (``probability=True`` is deprecated)
==========================  ========================================================================================
"""

from __future__ import annotations

from headstart.space.catalog._parts import KERNEL_GAMMA, OURS, flag, imputer, installed, kernel_params, one_hot, ordinal
from headstart.space.catalog._parts import tree_params as _tree
from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage


def space() -> PipelineSpace:
    """The space; see the module's text."""
    return PipelineSpace(
        "auto_sklearn",
        [
            Stage(
                "categorical_encoding",
                [one_hot("one_hot_encoding"), ordinal("no_encoding", note="categories as numbers")],
                columns="categorical",
            ),
            Stage("imputation", [imputer(s) for s in ("mean", "median", "most_frequent")], columns="numeric"),
            Stage("rescaling", _rescaling()),
            Stage(
                "balancing",
                [Algorithm("none"), Algorithm("weighting", fixed={"class_weight": "balanced"})],
                kind="fit_option",
            ),
            Stage("preprocessor", _preprocessors()),
            Stage("classifier", installed(_classifiers())),
        ],
        forbidden=[
            {
                "preprocessor": ["feature_agglomeration"],
                "preprocessor.linkage": ["ward"],
                "preprocessor.metric": ["manhattan", "cosine"],
            },
            {"classifier": ["liblinear_svc"], "classifier.penalty": ["l1"], "classifier.loss": ["hinge"]},
        ],
    )


def _rescaling() -> list[Algorithm]:
    return [
        Algorithm("standardize", "sklearn.preprocessing:StandardScaler"),
        Algorithm("none"),
        Algorithm("minmax", "sklearn.preprocessing:MinMaxScaler"),
        Algorithm("normalize", "sklearn.preprocessing:Normalizer"),
        Algorithm("quantile_transformer", f"{OURS}.reducers:QuantileTransformer"),
        Algorithm("robust_scaler", f"{OURS}.reducers:RobustScaler"),
    ]


def _preprocessors() -> list[Algorithm]:
    reducers, selection = f"{OURS}.reducers", f"{OURS}.selection"
    kernels = ("rbf", "poly", "sigmoid", "cosine")
    return [
        Algorithm("no_preprocessing"),
        Algorithm(
            "extra_trees_preproc_for_classification",
            f"{selection}:SelectFromTrees",
            [
                flag("bootstrap"),
                Categorical("criterion", ("gini", "entropy")),
                Float("max_features", 0.0, 1.0, default=0.5),
                *_tree(),
            ],
        ),
        Algorithm(
            "fast_ica",
            f"{reducers}:FastICA",
            [
                Categorical("algorithm", ("parallel", "deflation")),
                Categorical("fun", ("logcosh", "exp", "cube")),
                flag("whiten"),
                Integer("n_components", 10, 2000, default=100, when={"whiten": (True,)}),
            ],
        ),
        Algorithm(
            "feature_agglomeration",
            f"{reducers}:Agglomeration",
            [
                Categorical("metric", ("euclidean", "manhattan", "cosine")),
                Categorical("linkage", ("ward", "complete", "average")),
                Integer("n_clusters", 2, 400, default=25),
                Categorical("pooling_func", ("mean", "median", "max")),
            ],
        ),
        Algorithm(
            "kernel_pca",
            f"{reducers}:KernelPCA",
            [Integer("n_components", 10, 2000, default=100), *kernel_params(kernels, default=1.0)],
        ),
        Algorithm(
            "kitchen_sinks",
            f"{reducers}:KitchenSinks",
            [
                Float("gamma", *KERNEL_GAMMA, log=True, default=1.0),
                Integer("n_components", 50, 10000, log=True, default=100),
            ],
        ),
        Algorithm(
            "liblinear_svc_preprocessor",
            f"{selection}:SelectFromLinearSVM",
            [Float("C", 0.03125, 32768.0, log=True, default=1.0), Float("tol", 1e-5, 0.1, log=True, default=1e-4)],
        ),
        Algorithm(
            "nystroem_sampler",
            f"{reducers}:Nystroem",
            [Integer("n_components", 50, 10000, log=True, default=100), *kernel_params(kernels)],
        ),
        Algorithm("pca", f"{reducers}:PCA", [Float("keep_variance", 0.5, 0.9999, default=0.9999), flag("whiten")]),
        Algorithm(
            "polynomial",
            f"{reducers}:PolynomialFeatures",
            [Integer("degree", 2, 3, default=2), flag("include_bias", True), flag("interaction_only")],
            {"most": 10_000},
        ),
        Algorithm(
            "random_trees_embedding",
            f"{reducers}:RandomTreesEmbedding",
            [Integer("n_estimators", 10, 100, default=10), Integer("max_depth", 2, 10, default=5), *_tree()],
        ),
        Algorithm(
            "select_percentile_classification",
            f"{selection}:SelectPercentile",
            [
                Float("percentile", 1.0, 99.0, default=50.0),
                Categorical("score_func", ("chi2", "f_classif", "mutual_info_classif")),
            ],
        ),
        Algorithm(
            "select_rates",
            f"{selection}:SelectRates",
            [
                Float("alpha", 0.01, 0.5, default=0.1),
                Categorical("mode", ("fpr", "fdr", "fwe")),
                Categorical("score_func", ("chi2", "f_classif")),
            ],
        ),
    ]


def _classifiers() -> list[Algorithm]:
    return [*_tree_classifiers(), *_other_classifiers()]


def _tree_classifiers() -> list[Algorithm]:
    trees = f"{OURS}.trees"

    def forest(name: str, kind: str, bootstrap: bool) -> Algorithm:
        return Algorithm(
            name,
            f"{trees}:SizedForest",
            [
                flag("bootstrap", bootstrap),
                Categorical("criterion", ("gini", "entropy")),
                Float("max_features", 0.0, 1.0, default=0.5),
                *_tree(),
            ],
            {"kind": kind, "rule": "power", "n_estimators": 100},
        )

    return [
        forest("random_forest", "random", True),
        Algorithm(
            "adaboost",
            f"{trees}:AdaBoost",
            [
                Float("learning_rate", 0.01, 2.0, log=True, default=0.1),
                Integer("max_depth", 1, 10, default=1),
                Integer("n_estimators", 50, 500, default=50),
            ],
        ),
        Algorithm(
            "decision_tree",
            f"{trees}:SizedTree",
            [
                Categorical("criterion", ("gini", "entropy")),
                Float("max_depth_factor", 0.0, 2.0, default=0.5),
                *_tree(),
            ],
        ),
        forest("extra_trees", "extra", False),
        Algorithm(
            "gradient_boosting",
            "sklearn.ensemble:GradientBoostingClassifier",
            [
                Float("learning_rate", 0.01, 1.0, log=True, default=0.1),
                Integer("max_depth", 1, 10, default=3),
                Float("max_features", 0.1, 1.0, default=1.0),
                *_tree(),
                Integer("n_estimators", 50, 500, default=100),
                Float("subsample", 0.01, 1.0, default=1.0),
            ],
        ),
        Algorithm(
            "xgradient_boosting",
            f"{OURS}.boosting:XGBoostClassifier",
            [
                Categorical("booster", ("gbtree", "dart")),
                Float("colsample_bylevel", 0.1, 1.0, default=1.0),
                Float("colsample_bytree", 0.1, 1.0, default=1.0),
                Float("learning_rate", 0.001, 1.0, log=True, default=0.1),
                Integer("max_depth", 1, 20, default=3),
                Integer("min_child_weight", 0, 20, default=1),
                Float("reg_alpha", 1e-10, 0.1, log=True, default=1e-10),
                Float("reg_lambda", 1e-10, 0.1, log=True, default=1e-10),
                Float("subsample", 0.01, 1.0, default=1.0),
                Categorical("sample_type", ("uniform", "weighted"), when={"booster": ("dart",)}),
                Categorical("normalize_type", ("tree", "forest"), when={"booster": ("dart",)}),
                Float("rate_drop", 1e-10, 0.9999999999, default=0.5, when={"booster": ("dart",)}),
            ],
            {"n_estimators": 512},
        ),
    ]


def _other_classifiers() -> list[Algorithm]:
    tol = Float("tol", 1e-5, 0.1, log=True, default=1e-4)
    bayes: list[Parameter] = [Float("alpha", 0.01, 100.0, log=True, default=1.0), flag("fit_prior", True)]
    return [
        Algorithm("bernoulli_nb", "sklearn.naive_bayes:BernoulliNB", bayes),
        Algorithm("gaussian_nb", f"{OURS}.generative:GaussianNB"),
        Algorithm(
            "k_nearest_neighbors",
            f"{OURS}.neighbours:KNeighborsClassifier",
            [
                Integer("n_neighbors", 1, 100, log=True, default=1),
                Categorical("p", (2, 1)),
                Categorical("weights", ("uniform", "distance")),
            ],
        ),
        Algorithm(
            "lda",
            f"{OURS}.generative:LDA",
            [
                Integer("n_components", 1, 250, default=10),
                Categorical("shrinkage", (None, "auto", "manual")),
                tol,
                Float("shrinkage_factor", 0.0, 1.0, default=0.5, when={"shrinkage": ("manual",)}),
            ],
        ),
        Algorithm(
            "liblinear_svc",
            f"{OURS}.svm:LinearSVM",
            [
                Float("C", 0.03125, 32768.0, log=True, default=1.0),
                Categorical("loss", ("squared_hinge", "hinge")),
                Categorical("penalty", ("l2", "l1")),
                tol,
            ],
        ),
        Algorithm(
            "libsvm_svc",
            f"{OURS}.svm:KernelSVM",
            [
                Float("C", 0.03125, 32768.0, log=True, default=1.0),
                *kernel_params(("rbf", "poly", "sigmoid")),
                flag("shrinking", True),
                Float("tol", 1e-5, 0.1, log=True, default=1e-3),
            ],
        ),
        Algorithm(
            "multinomial_nb", f"{OURS}.generative:MultinomialNB", bayes, note="columns are shifted to start at 0"
        ),
        Algorithm(
            "passive_aggressive",
            f"{OURS}.svm:PassiveAggressive",
            [
                Float("C", 1e-5, 10.0, log=True, default=1.0),
                flag("average"),
                Categorical("loss", ("hinge", "squared_hinge")),
                tol,
            ],
        ),
        Algorithm("qda", f"{OURS}.generative:QDA", [Float("reg_param", 0.0, 1.0, default=0.0)]),
        Algorithm(
            "sgd",
            f"{OURS}.svm:SGD",
            [
                Float("alpha", 1e-7, 0.1, log=True, default=1e-4),
                flag("average"),
                Categorical("learning_rate", ("invscaling", "optimal", "constant")),
                Categorical("loss", ("log_loss", "hinge", "modified_huber", "squared_hinge", "perceptron")),
                Categorical("penalty", ("l2", "l1", "elasticnet")),
                tol,
                Float("epsilon", 1e-5, 0.1, log=True, default=1e-4, when={"loss": ("modified_huber",)}),
                Float("eta0", 1e-7, 0.1, log=True, default=0.01, when={"learning_rate": ("invscaling", "constant")}),
                Float("l1_ratio", 1e-9, 1.0, log=True, default=0.15, when={"penalty": ("elasticnet",)}),
                Float("power_t", 1e-5, 1.0, default=0.5, when={"learning_rate": ("invscaling",)}),
            ],
        ),
    ]
