"""``tensor_oboe``: the 23,424 pipelines of the Tensor-OBOE meta-dataset, and no others.

Source: stages and hyper-parameters from S. Pineda Arango and J. Grabocka, *Deep pipeline embeddings for AutoML*
(KDD 2023), table 6; the values from the file ``TensorOboe/classification.json`` of the Python package oboe 0.2.0
(C. Yang, J. Fan, Z. Wu, M. Udell, *AutoML pipeline selection: efficiently navigating the combinatorial space*, KDD
2020). All hyper-parameters are grids: 4 imputations × 2 encodings × 2 scalings × 8 reductions × 183 estimators.

In the recorded arrays values on a grid are scaled to (0, 1] in ascending order (0 is "not active"); leaving out an
encoding or scaling is a 0 in its column, leaving out the reduction is a 0 in the column of the variance threshold, and
Gaussian naive Bayes and the perceptron share the last block of columns, one flag each. Algorithms are declared in the
order of the recorded blocks.

Where the source and a current scikit-learn (1.9) differ:

=======================  ===========================================================================================
source                   here
=======================  ===========================================================================================
no encoding              categories as numbers; the recorded tables held them as such
logit ``penalty``        translated to ``l1_ratio``; the table prints the solver saga as sag. liblinear takes two
                         classes only now; more are fitted one against the rest, as it did
adaboost                 SAMME; SAMME.R, its default then, was removed
SVM, perceptron          probabilities by a sigmoid on held-out rows
"25%" and so on          ``share`` of the columns, at least one
neighbours               at most as many as rows
variance threshold       keeps the column that varies most if all are constant
=======================  ===========================================================================================
"""

from __future__ import annotations

from headstart.space.catalog import _parts as p
from headstart.space.parameters import Categorical
from headstart.space.pipeline import Value
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage

_SPLITS = (1e-05, 0.0001, 0.001, 0.01, 0.1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def _grid(name: str, *values: Value, default: Value = None) -> Categorical:
    return Categorical(name, values, values[0] if default is None else default, ordered=True)


def space() -> PipelineSpace:
    """The space; see the module's text."""
    return PipelineSpace(
        "tensor_oboe",
        [
            p.strategy_imputation("imputer", ("mean", "median", "most_frequent", "constant")),
            Stage("encoder", [p.one_hot(), p.ordinal("none", note="categories as numbers")], columns="categorical"),
            Stage("scaler", [p.algorithm("standard", "sklearn.preprocessing:StandardScaler"), Algorithm("none")]),
            Stage(
                "dim_reducer",
                [
                    p.algorithm("pca", ".reducers:SharePCA", _grid("share", 0.25, 0.5, 0.75, default=0.75)),
                    p.algorithm(
                        "select_k_best",
                        ".selection:SelectKBest",
                        _grid("share", 0.25, 0.5, 0.75, default=0.75),
                        score_func="f_classif",
                    ),
                    p.algorithm("variance_threshold", ".selection:VarianceThreshold"),
                    Algorithm("none"),
                ],
            ),
            Stage("estimator", _estimators()),
        ],
    )


def _estimators() -> list[Algorithm]:
    criterion = p.CRITERION
    return [
        p.algorithm(
            "extra_trees",
            "sklearn.ensemble:ExtraTreesClassifier",
            _grid("min_samples_split", *_SPLITS, default=2),
            criterion,
        ),
        p.algorithm(
            "gradient_boosting",
            "sklearn.ensemble:GradientBoostingClassifier",
            _grid("learning_rate", 0.001, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, default=0.1),
            _grid("max_depth", 3, 6),
            Categorical("max_features", (None, "log2")),
        ),
        p.algorithm(
            "logistic_regression",
            ".linear:LogisticRegression",
            _grid("C", 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, default=1),
            p.L2_OR_L1,
            Categorical("solver", ("liblinear", "saga")),
            max_iter=100,
        ),
        p.algorithm(
            "mlp",
            ".neural:MLPClassifier",
            _grid("alpha", 0.0001, 0.01),
            _grid("learning_rate_init", 0.0001, 0.001, 0.01, default=0.001),
            Categorical("learning_rate", ("adaptive",)),
            Categorical("solver", ("adam", "sgd")),
        ),
        p.algorithm(
            "random_forest",
            "sklearn.ensemble:RandomForestClassifier",
            _grid("min_samples_split", *_SPLITS, default=2),
            criterion,
        ),
        p.algorithm("linear_svm", ".svm:LinearSVM", _grid("C", 0.125, 0.25, 0.5, 0.75, 1, 2, 4, 8, 16, default=1)),
        p.algorithm(
            "knn",
            ".neighbours:KNeighborsClassifier",
            _grid("n_neighbors", 1, 3, 5, 7, 9, 11, 13, 15, default=5),
            _grid("p", 1, 2, default=2),
        ),
        p.algorithm(
            "decision_tree",
            "sklearn.tree:DecisionTreeClassifier",
            _grid("min_samples_split", *(s for s in _SPLITS if s != 0.1), default=2),
        ),
        p.algorithm(
            "adaboost",
            ".trees:AdaBoost",
            _grid("learning_rate", 1.0, 1.5, 2.0, 2.5, 3.0),
            _grid("n_estimators", 50, 100),
        ),
        p.algorithm("gaussian_nb", ".generative:GaussianNB"),
        p.algorithm("perceptron", ".svm:Perceptron"),
    ]
