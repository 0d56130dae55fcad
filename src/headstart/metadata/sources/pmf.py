"""``pmf``: 38,151 pipelines on 553 OpenML datasets.

The losses come from N. Fusi, R. Sheth, M. Elibol, *Probabilistic matrix factorization for automated machine learning*
(2018), in the form that was prepared for DeepPipe (KDD 2023). The file does not name its 72 columns. The names here are
those of DeepPipe's table 5, and what the columns hold fits them: which of them are flags, which are constant, and how
many values there are. They are scaled to [0, 1], some after a logarithm, and an exact inversion is not certain: these
pipelines are replayed and not rebuilt.

QDA and the naive Bayes family share one block in the file. In the columns of an algorithm that was not chosen the file
has constants; here they are 0.
"""

from __future__ import annotations

from pathlib import Path

from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.sources.deeppipe import PAPER, Progress, read_deeppipe, recorded

STAGES = ("preprocessor", "estimator")
_LEAVES = "min_weight_fraction_leaf min_samples_split max_depth"
_CRITERION = "criterion_entropy criterion_gini"
_BOOSTING = (
    "reg_alpha colsample_bytree colsample_bylevel scale_pos_weight learning_rate max_delta_step base_score "
    "n_estimators subsample reg_lambda min_child_weight max_depth gamma"
)
_GRADIENT = (
    "max_leaf_nodes learning_rate min_samples_leaf n_estimators subsample min_weight_fraction_leaf max_features "
    "min_samples_split max_depth loss_deviance"
)
_BAYES = "qda_reg_param bernoulli_alpha bernoulli_fit_prior multinomial_alpha multinomial_fit_prior gaussian"
_COLUMNS = {
    "polynomial": "include_bias interaction_only degree",
    "pca": "keep_variance whiten",
    "extra_trees": f"bootstrap min_samples_leaf n_estimators max_features {_LEAVES} {_CRITERION}",
    "random_forest": f"bootstrap max_leaf_nodes min_samples_leaf n_estimators max_features {_LEAVES} {_CRITERION}",
    "extreme_gradient_boosting": _BOOSTING,
    "k_neighbors": "p n_neighbors weights_distance weights_uniform",
    "gradient_boosting": _GRADIENT,
    "decision_tree": f"max_leaf_nodes min_samples_leaf max_features {_LEAVES} splitter_best {_CRITERION}",
    "lda": "shrinkage_factor n_components tol shrinkage_none shrinkage_auto shrinkage_manual",
    "qda_naive_bayes": _BAYES,
}
ALGORITHMS = tuple((name, tuple(columns.split())) for name, columns in _COLUMNS.items())


def convert(wheels: list[Path], progress: Progress) -> MetaDataset:
    """Make the meta-dataset of the wheel of DeepPipe."""
    file = read_deeppipe(wheels[0], "pmf", progress)
    validation, test, train = file.splits
    ids = [str(i) for i in file.others["original_dataset_id"]]
    return MetaDataset(
        recorded(file, "pmf_recorded", STAGES, ALGORITHMS),
        file.losses,
        [f"openml-{i}" for i in ids],
        initial=file.initial,
        splits={"train": train, "validation": validation, "test": test},
        name="pmf",
        ids=ids,
        about={
            "title": "PMF: pipelines on OpenML datasets, as prepared for DeepPipe",
            "loss": "1 - chance-normalised balanced accuracy",
            "ids": "OpenML datasets",
            "splits": "those of the file, which are the paper's: 449 training tasks, 15 validation tasks that its "
            "authors took from the training tasks of the PMF paper, 89 test tasks",
            "initial": "five for each test task; training and validation tasks have none",
            "pipelines": "names of columns are inferred; replayed, not rebuilt",
            "paper": f"N. Fusi, R. Sheth, M. Elibol, Probabilistic matrix factorization for automated machine learning "
            f"(2018); {PAPER}",
        },
    )
