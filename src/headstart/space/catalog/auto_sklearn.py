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

from headstart.space.catalog import _parts as p
from headstart.space.parameters import Categorical, Float, Integer
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage


def space() -> PipelineSpace:
    """The space; see the module's text."""
    return PipelineSpace(
        "auto_sklearn",
        [
            Stage(
                "categorical_encoding",
                [p.one_hot("one_hot_encoding"), p.ordinal("no_encoding", note="categories as numbers")],
                columns="categorical",
            ),
            Stage("imputation", [p.imputer(s) for s in ("mean", "median", "most_frequent")], columns="numeric"),
            Stage("rescaling", _rescaling()),
            Stage(
                "balancing",
                [Algorithm("none"), Algorithm("weighting", fixed={"class_weight": "balanced"})],
                kind="fit_option",
            ),
            Stage("preprocessor", _preprocessors()),
            Stage("classifier", p.installed(_classifiers())),
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
        p.algorithm("standardize", "sklearn.preprocessing:StandardScaler"),
        Algorithm("none"),
        p.algorithm("minmax", "sklearn.preprocessing:MinMaxScaler"),
        p.algorithm("normalize", "sklearn.preprocessing:Normalizer"),
        p.algorithm("quantile_transformer", ".reducers:QuantileTransformer"),
        p.algorithm("robust_scaler", ".reducers:RobustScaler"),
    ]


def _preprocessors() -> list[Algorithm]:
    return [
        Algorithm("no_preprocessing"),
        p.algorithm(
            "extra_trees_preproc_for_classification",
            ".selection:SelectFromTrees",
            p.flag("bootstrap"),
            p.CRITERION,
            p.EXPONENT_OF_FEATURES,
            *p.NODES,
        ),
        p.algorithm("fast_ica", ".reducers:FastICA", p.ICA_ALGORITHM, p.ICA_FUN, p.flag("whiten"), p.ICA_COMPONENTS),
        p.algorithm(
            "feature_agglomeration",
            ".reducers:Agglomeration",
            Categorical("metric", ("euclidean", "manhattan", "cosine")),
            p.LINKAGE,
            Integer("n_clusters", 2, 400, default=25),
            p.POOLING,
        ),
        p.algorithm("kernel_pca", ".reducers:KernelPCA", p.KERNEL_COMPONENTS, *p.kernel_params("cosine", default=1.0)),
        p.algorithm("kitchen_sinks", ".reducers:KitchenSinks", p.WIDTH_OF_SINKS, p.SAMPLES),
        p.algorithm("liblinear_svc_preprocessor", ".selection:SelectFromLinearSVM", p.C, p.TOL),
        p.algorithm("nystroem_sampler", ".reducers:Nystroem", p.SAMPLES, *p.kernel_params("cosine")),
        p.pca(),
        p.algorithm(
            "polynomial",
            ".reducers:PolynomialFeatures",
            p.DEGREE_OF_PRODUCTS,
            p.flag("include_bias", True),
            p.flag("interaction_only"),
            most=10_000,
        ),
        p.algorithm(
            "random_trees_embedding",
            ".reducers:RandomTreesEmbedding",
            Integer("n_estimators", 10, 100, default=10),
            Integer("max_depth", 2, 10, default=5),
            *p.NODES,
        ),
        p.algorithm(
            "select_percentile_classification",
            ".selection:SelectPercentile",
            Float("percentile", 1.0, 99.0, default=50.0),
            Categorical("score_func", ("chi2", "f_classif", "mutual_info_classif")),
        ),
        p.algorithm(
            "select_rates",
            ".selection:SelectRates",
            p.SELECTION_ALPHA,
            p.MODE,
            Categorical("score_func", ("chi2", "f_classif")),
        ),
    ]


def _classifiers() -> list[Algorithm]:
    return [*_tree_classifiers(), *_other_classifiers()]


def _tree_classifiers() -> list[Algorithm]:
    def forest(name: str, kind: str, bootstrap: bool) -> Algorithm:
        return p.algorithm(
            name,
            ".trees:SizedForest",
            p.flag("bootstrap", bootstrap),
            p.CRITERION,
            p.EXPONENT_OF_FEATURES,
            *p.NODES,
            kind=kind,
            rule="power",
            n_estimators=100,
        )

    return [
        forest("random_forest", "random", True),
        p.algorithm("adaboost", ".trees:AdaBoost", p.STUMP_RATE, p.STUMP_DEPTH, p.STUMPS),
        p.algorithm("decision_tree", ".trees:SizedTree", p.CRITERION, p.DEPTH_FACTOR, *p.NODES),
        forest("extra_trees", "extra", False),
        p.algorithm(
            "gradient_boosting",
            "sklearn.ensemble:GradientBoostingClassifier",
            p.RATE,
            p.DEPTH,
            p.SHARE_OF_FEATURES,
            *p.NODES,
            p.ROUNDS,
            p.SUBSAMPLE,
        ),
        p.algorithm(
            "xgradient_boosting",
            ".boosting:XGBoostClassifier",
            Categorical("booster", ("gbtree", "dart")),
            Float("colsample_bylevel", 0.1, 1.0, default=1.0),
            Float("colsample_bytree", 0.1, 1.0, default=1.0),
            Float("learning_rate", 0.001, 1.0, log=True, default=0.1),
            Integer("max_depth", 1, 20, default=3),
            Integer("min_child_weight", 0, 20, default=1),
            Float("reg_alpha", 1e-10, 0.1, log=True, default=1e-10),
            Float("reg_lambda", 1e-10, 0.1, log=True, default=1e-10),
            p.SUBSAMPLE,
            Categorical("sample_type", ("uniform", "weighted"), when={"booster": ("dart",)}),
            Categorical("normalize_type", ("tree", "forest"), when={"booster": ("dart",)}),
            Float("rate_drop", 1e-10, 0.9999999999, default=0.5, when={"booster": ("dart",)}),
            n_estimators=512,
        ),
    ]


def _other_classifiers() -> list[Algorithm]:
    return [
        p.algorithm("bernoulli_nb", "sklearn.naive_bayes:BernoulliNB", *p.BAYES),
        p.algorithm("gaussian_nb", ".generative:GaussianNB"),
        p.algorithm(
            "k_nearest_neighbors",
            ".neighbours:KNeighborsClassifier",
            Integer("n_neighbors", 1, 100, log=True, default=1),
            p.NORM,
            p.WEIGHTS,
        ),
        p.algorithm("lda", ".generative:LDA", p.LDA_COMPONENTS, p.SHRINKAGE, p.TOL, p.SHRINKAGE_FACTOR),
        p.algorithm(
            "liblinear_svc", ".svm:LinearSVM", p.C, Categorical("loss", ("squared_hinge", "hinge")), p.L2_OR_L1, p.TOL
        ),
        p.algorithm("libsvm_svc", ".svm:KernelSVM", p.C, *p.kernel_params(), p.flag("shrinking", True), p.SVM_TOL),
        p.algorithm("multinomial_nb", ".generative:MultinomialNB", *p.BAYES, note="columns are shifted to start at 0"),
        p.algorithm(
            "passive_aggressive",
            ".svm:PassiveAggressive",
            Float("C", 1e-5, 10.0, log=True, default=1.0),
            p.flag("average"),
            Categorical("loss", ("hinge", "squared_hinge")),
            p.TOL,
        ),
        p.algorithm("qda", ".generative:QDA", p.REG_PARAM),
        p.algorithm(
            "sgd",
            ".svm:SGD",
            p.SGD_ALPHA,
            p.flag("average"),
            Categorical("learning_rate", ("invscaling", "optimal", "constant")),
            Categorical("loss", ("log_loss", "hinge", "modified_huber", "squared_hinge", "perceptron")),
            p.PENALTIES,
            p.TOL,
            Float("epsilon", 1e-5, 0.1, log=True, default=1e-4, when={"loss": ("modified_huber",)}),
            Float("eta0", 1e-7, 0.1, log=True, default=0.01, when={"learning_rate": ("invscaling", "constant")}),
            Float("l1_ratio", 1e-9, 1.0, log=True, default=0.15, when={"penalty": ("elasticnet",)}),
            Float("power_t", 1e-5, 1.0, default=0.5, when={"learning_rate": ("invscaling",)}),
        ),
    ]
