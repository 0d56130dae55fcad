"""Runs of AdaBoost, from files of the form that was released."""

import numpy as np
import pandas as pd
import pytest

from headstart.errors import InvalidInput, MetaDataError
from headstart.metadata import sources
from headstart.metadata.sources.metabu_adaboost import feature_names

DEPTHS, RATES, SIZES = np.array([1, 10, 4, 7]), np.array([0.01, 0.5, 2.0, 1.0]), np.array([500, 50, 60, 333])


def standardised(values):
    return (values - values.mean()) / values.std()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "meta").mkdir()
    runs = pd.DataFrame(
        {
            "num__classifier__base_estimator__max_depth": standardised(DEPTHS),
            "num__classifier__learning_rate": standardised(RATES),
            "num__classifier__n_estimators": standardised(SIZES),
            "cat__x0_SAMME": [1.0, 0, 0, 1],
            "cat__x0_SAMME.R": [0.0, 1, 1, 0],
            "cat__x1_mean": [0.0, 1, 0, 0],
            "cat__x1_median": [1.0, 0, 0, 0],
            "cat__x1_most_frequent": [0.0, 0, 1, 1],
            "task_id": [31, 3, 31, 3],
            "num__predictive_accuracy": [0.9, 0.75, 0.5, 1.0],
        }
    )
    runs.to_csv(tmp_path / "meta" / "metabu_adaboost_runs.csv", index=False)
    features = pd.DataFrame({"one.mean": [1.0, 2, 3], "task_id": [31, 99, 3], "two": [np.nan, 5, 6]})
    features.to_csv(tmp_path / "meta" / "metabu_basic_representations.csv", index=False)
    return tmp_path


def test_runs_become_pipelines_in_their_ranges(folder):
    meta = sources.load("metabu_adaboost", folder)
    assert meta.ids == ("3", "31")
    np.testing.assert_allclose(meta.losses, [[np.nan, 0.25, np.nan, 0.0], [0.1, np.nan, 0.5, np.nan]], atol=1e-7)
    np.testing.assert_array_equal(meta.metafeatures["pymfe"], [[3, 6], [1, np.nan]])
    assert feature_names(folder) == ["one.mean", "two"]
    strategies, versions = (
        ("median", "mean", "most_frequent", "most_frequent"),
        ("SAMME", "SAMME.R", "SAMME.R", "SAMME"),
    )
    for i, pipeline in enumerate(meta.pipelines):
        assert dict(pipeline.params[0]) == {"strategy": strategies[i]}
        expected = {"algorithm": versions[i], "max_depth": DEPTHS[i], "n_estimators": SIZES[i]}
        found = dict(pipeline.params[1])
        assert found.pop("learning_rate") == pytest.approx(RATES[i], rel=1e-6)
        assert found == expected


def test_a_folder_is_needed_and_must_have_the_files(folder, tmp_path):
    with pytest.raises(InvalidInput, match="--data DIR"):
        sources.load("metabu_adaboost")
    with pytest.raises(InvalidInput, match="has no meta/metabu_adaboost_runs"):
        sources.load("metabu_adaboost", tmp_path / "elsewhere")


def test_files_of_another_form(folder):
    (folder / "meta" / "metabu_basic_representations.csv").write_text("task_id,one\n3,1.0\n")
    with pytest.raises(MetaDataError, match="31"):
        sources.load("metabu_adaboost", folder)
