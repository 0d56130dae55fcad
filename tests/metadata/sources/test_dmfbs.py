"""Neural networks on UCI, from files of the form that was released."""

import numpy as np
import pandas as pd
import pytest

from headstart.errors import InvalidInput, MetaDataError
from headstart.metadata import sources
from headstart.metadata.sources.dmfbs import layout

NUMBERS = ["DROPOUT", "LAYERS", "NEURONS"]
LAYOUT = [*NUMBERS, "ACTIVATION_ReLU", "ACTIVATION_SeLU", *(f"ARCHITECTURE_{a}" for a in ("ASC", "ENC", "EXDES"))]
LAYOUT += ["ARCHITECTURE_SQU", "ARCHITECTURE_SYM"]
REGULARIZATION = [*NUMBERS, "NORMALIZATION", *(f"ACTIVATION_{a}" for a in ("LeakyReLU", "ReLU", "SeLU"))]
DATASETS = ["iris", "adult", "wine"]


def recorded(path, columns, configurations):
    configs = np.array([[given.get(column, 0.0) for column in columns] for given in configurations], dtype=np.float32)
    accuracy = np.linspace(0, 1, len(DATASETS) * len(configs)).reshape(len(DATASETS), -1).astype(np.float32)
    vectors = np.arange(len(DATASETS) * 10, dtype=np.float32).reshape(len(DATASETS), 5, 2)
    np.savez(path, configs=configs, columns=columns, accuracy=accuracy, datasets=np.array(DATASETS), d2v=vectors)


@pytest.fixture
def folder(tmp_path):
    meta = tmp_path / "meta"
    meta.mkdir()
    square, ascending = {"ARCHITECTURE_SQU": 1.0}, {"ARCHITECTURE_ASC": 1.0}
    one_layer, deep = {"LAYERS": 0.0, "ACTIVATION_ReLU": 1.0}, {"LAYERS": 1 / 3, "ACTIVATION_SeLU": 1.0}
    given = [one_layer | ascending, one_layer | square, deep | ascending | {"NEURONS": 1 / 7, "DROPOUT": 1.0}]
    recorded(meta / "dmfbs_layout.npz", LAYOUT, given)
    given = [{"LAYERS": 1.0, "NEURONS": 1.0, "DROPOUT": 0.4, "NORMALIZATION": 1.0, "ACTIVATION_LeakyReLU": 1.0}]
    recorded(meta / "dmfbs_regularization.npz", REGULARIZATION, given)
    splits = {f"{part}-{k}": [""] for part in ("train", "valid", "test") for k in range(5)}
    for k, order in enumerate([(0, 1, 2), (1, 2, 0)]):
        for part, i in zip(("train", "valid", "test"), order, strict=True):
            splits[f"{part}-{k}"] = [DATASETS[i]]
    pd.DataFrame(splits).to_csv(meta / "dmfbs_splits.csv")
    for name, width in (("mf1", 3), ("mf2", 2)):
        rows = pd.DataFrame(np.arange(3 * width).reshape(3, width), index=["wine", "iris", "adult"])
        rows.to_csv(meta / f"dmfbs_{name}.csv")
    (tmp_path / "uci_tables").mkdir()
    np.savez(tmp_path / "uci_tables/iris.npz", X=np.random.default_rng(0).random((20, 4)), y=np.arange(20) % 3)
    return tmp_path


def test_layouts_that_make_no_difference_are_left_out(folder):
    meta = sources.load("dmfbs_layout", folder)
    square, deep = (dict(pipeline.params[0]) for pipeline in meta.pipelines)
    assert square == {"activation": "relu", "neurons": 4, "layers": 1, "dropout": 0.0, "layout": "square"}
    assert deep == {"activation": "selu", "neurons": 8, "layers": 3, "dropout": 0.5, "layout": "ascending"}
    np.testing.assert_allclose(meta.losses, 1 - np.linspace(0, 1, 9).reshape(3, 3)[:, 1:], atol=1e-6)


def test_what_is_known_of_a_dataset_is_found_by_its_name(folder):
    meta = sources.load("dmfbs_layout", folder)
    np.testing.assert_array_equal(meta.metafeatures["mf1"], [[3, 4, 5], [6, 7, 8], [0, 1, 2]])
    np.testing.assert_array_equal(meta.metafeatures["dataset2vec"], [[0, 1], [10, 11], [20, 21]])
    assert {part: rows.tolist() for part, rows in meta.splits.items()} == {"train": [0], "validation": [1], "test": [2]}
    assert meta.dataset(0).n_features == 4
    assert meta.dataset(1) is None
    other = layout(folder, 1)
    assert {part: rows.tolist() for part, rows in other.splits.items()} == {
        "train": [1],
        "validation": [2],
        "test": [0],
    }
    np.testing.assert_array_equal(other.metafeatures["dataset2vec"], [[2, 3], [12, 13], [22, 23]])


def test_every_task_begins_with_one_configuration_of_its_own(folder):
    for name in ("dmfbs_layout", "dmfbs_regularization"):
        meta = sources.load(name, folder)
        assert all(len(begin) == 1 for begin in meta.initial)
        assert meta.initial == sources.load(name, folder).initial


def test_regularization(folder):
    (pipeline,) = sources.load("dmfbs_regularization", folder).pipelines
    expected = {"activation": "leaky_relu", "neurons": 32, "layers": 7, "dropout": 0.2, "normalization": True}
    assert dict(pipeline.params[0]) == expected


def test_what_is_missing_or_of_another_form_is_told(folder, tmp_path):
    with pytest.raises(InvalidInput, match="is not there"):
        sources.load("dmfbs_layout", tmp_path / "elsewhere")
    (folder / "meta/dmfbs_mf1.csv").write_text(",a\nwine,1\n")
    with pytest.raises(MetaDataError, match="iris"):
        sources.load("dmfbs_layout", folder)
