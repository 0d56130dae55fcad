"""What is in the files, and what becomes of it."""

import io
import itertools
import json
import pickle

import numpy as np
import pytest
from small_wheels import (
    DATA,
    OBOE_SETTINGS,
    array,
    oboe_columns,
    oboe_contents,
    pmf_content,
    write_oboe,
    write_wheel,
    zap_content,
)

from headstart.errors import MetaDataError
from headstart.metadata.sources import pmf, tensor_oboe, zap
from headstart.metadata.sources.wheels import DEEPPIPE, OBOE
from headstart.space import catalog
from headstart.space.pipeline import Pipeline


def silent(doing, share):
    pass


def deeppipe(folder, name, content):
    """A wheel with one meta-dataset."""
    write_wheel(folder, DEEPPIPE, {f"{DATA}{name}_meta_dataset.json": json.dumps(content)})
    return folder / DEEPPIPE.file


def test_pmf(tmp_path):
    content = pmf_content()
    meta = pmf.convert([deeppipe(tmp_path, "pmf", content)], silent)
    np.testing.assert_array_equal(meta.losses, np.array(content["error"], dtype=np.float32))
    assert {k: v.tolist() for k, v in meta.splits.items()} == {"train": [0, 1, 2], "validation": [3], "test": [4, 5]}
    assert meta.initial == ((), (), (), (), (1, 2), (3,))
    assert meta.ids == ("31", "1464", "3", "6", "12", "50")
    assert meta.pipelines.space.width == 72
    columns, domains = np.array(content["pipelines"]), content["algorithm_domain"]
    for i, (first, second) in enumerate(content["list_for_selector"]):
        chosen = [*range(domains[first], domains[first + 1]), *range(domains[2 + second], domains[3 + second])]
        assert np.flatnonzero(meta.pipelines.active[i]).tolist() == chosen
        np.testing.assert_array_equal(meta.pipelines.values[i, chosen], columns[i, chosen])
        assert meta.pipelines.values[i].sum() == pytest.approx(columns[i, chosen].sum())  # 0 elsewhere
        pipeline = meta.pipelines[i]
        assert pipeline.algorithms == (pmf.ALGORITHMS[first][0], pmf.ALGORITHMS[2 + second][0])
        assert pipeline.id == i
        name, value = pmf.ALGORITHMS[2 + second][1][0], columns[i, domains[2 + second]]
        assert pipeline.params[1][name] == pytest.approx(value, abs=1e-7)


def test_zap(tmp_path):
    content = zap_content()
    meta = zap.convert([deeppipe(tmp_path, "zap", content)], silent)
    assert meta.tasks == ("0-cars196", "0-mnist", "0-svhn-cropped", "1-svhn-cropped")
    assert "2 train tasks of 1, 1 validation tasks of 1, 1 test tasks of 1 image" in meta.about["splits"]
    assert "no image dataset is in more than one split" in meta.about["splits"]
    space = meta.pipelines.space
    names = [tuple(stage.names) for stage in space.stages]
    assert names == [("common",), ("adam", "adamw", "sgd"), ("resnet18", "efficientnetb0")]
    assert [p.name for p in space.stages[0].algorithms[0].params] == ["optimizer_lr", "dataset_batch_size"]
    np.testing.assert_array_equal(meta.pipelines.values, np.minimum(content["pipelines"], 1.0))
    assert meta.pipelines.active.sum(axis=1).tolist() == [4] * 4
    content["pipelines_names"][0] = "3-mnist"
    mixed = zap.convert([deeppipe(tmp_path, "zap", content)], silent)
    assert "1 image dataset is in more than one split" in mixed.about["splits"]


@pytest.mark.parametrize(
    ("name", "member", "value"),
    [
        ("pmf", "algorithm_domain", [0, 3, 5]),
        ("pmf", "pipelines", [[0.0] * 72, [0.0]]),
        ("pmf", "error", [[0.5], [0.5, 0.5]]),
        ("pmf", "error", []),
        ("pmf", "tasks_index", None),
        ("pmf", "init_ids", [[1, 2]]),
        ("pmf", "init_ids", [{"99": [1]}]),
        ("zap", "variable_names", ["a.autocv.b"]),
        ("zap", "variable_names", ["no prefix"] * 7),
    ],
)
def test_a_file_of_another_form(tmp_path, name, member, value):
    content = {"pmf": pmf_content, "zap": zap_content}[name]() | {member: value}
    if value is None:
        del content[member]
    with pytest.raises(MetaDataError, match=r"expected"):
        {"pmf": pmf, "zap": zap}[name].convert([deeppipe(tmp_path, name, content)], silent)


def test_a_wheel_without_the_file(tmp_path):
    with pytest.raises(MetaDataError, match=r"holds no readable .*zap_meta_dataset\.json"):
        zap.convert([deeppipe(tmp_path, "pmf", {})], silent)


# -- Tensor-OBOE ---------------------------------------------------------------------------------------------------


def test_recorded_columns_become_pipelines_of_the_catalog():
    columns, cases = oboe_columns()
    encoded = tensor_oboe.decode_pipelines(columns)
    assert encoded.space == catalog.load("tensor_oboe")
    assert {case[4] for case in cases} == set(encoded.space.stages[-1].names)
    for found, (strategy, encoder, scaler, reducer, estimator, params) in zip(encoded, cases, strict=True):
        name, share = reducer if isinstance(reducer, tuple) else (reducer, None)
        reduction = {} if share is None else {"share": share}
        wanted = Pipeline(
            ["simple", encoder, scaler, name, estimator], [{"strategy": strategy}, {}, {}, reduction, params]
        )
        assert found.to_dict() | {"id": None} == wanted.to_dict() | {"id": None}
    assert encoded.ids.tolist() == list(range(len(cases)))


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({30: 0.1}, "n_neighbors .* not on its grid"),
        ({35: 1.0}, "two algorithms of one stage"),
        ({1: 0.0}, "no imputer"),
        ({0: 1.0}, "strategy .* one flag"),
        ({30: 0.0, 31: 0.0}, "no estimator"),
        ({9: 1.0, 10: 1.0}, "two algorithms"),
    ],
)
def test_columns_that_cannot_be_read(cells, message):
    columns = oboe_columns()[0][:1]
    for column, value in cells.items():
        columns[0, column] = value
    with pytest.raises(MetaDataError, match=message):
        tensor_oboe.decode_pipelines(columns)


def test_pipelines_that_read_alike():
    with pytest.raises(MetaDataError, match="read alike"):
        tensor_oboe.decode_pipelines(oboe_columns()[0][[0, 1, 0]])
    with pytest.raises(MetaDataError, match="37 columns"):
        tensor_oboe.decode_pipelines(np.zeros((3, 36)))


def convert_oboe(folder, **changed):
    write_oboe(folder, **changed)
    return tensor_oboe.convert([deeppipe(folder, "tensor_oboe", oboe_contents()[0]), folder / OBOE.file], silent)


def test_tensor_oboe(tmp_path):
    content, _ = oboe_contents()
    meta = convert_oboe(tmp_path)
    np.testing.assert_array_equal(meta.losses, np.array(content["error"], dtype=np.float32))
    assert meta.ids == ("31", "1464", "3", "6", "12", "40000")
    assert {k: v.tolist() for k, v in meta.splits.items()} == {"train": [0, 3, 4], "validation": [5], "test": [1]}
    assert "(2) are in no split" in meta.about["splits"]
    np.testing.assert_array_equal(np.isfinite(meta.seconds), np.isfinite(meta.losses))
    assert np.nanmin(meta.seconds) > 0
    assert meta.initial[5] == (0, 1)


def test_columns_of_tensor_oboe_are_named_as_they_were_recorded(tmp_path):
    meta = convert_oboe(tmp_path)
    # By the texts of the settings: constant before mean, the scaler before None; DT, GNB, KNN, lSVM; 256} before 2}.
    estimators = ["decision_tree", "decision_tree", "gaussian_nb", "knn", "linear_svm"]
    found = [(p.params[0]["strategy"], p.algorithms[2], p.algorithms[4]) for p in meta.pipelines]
    assert found == list(itertools.product(["constant", "mean"], ["standard", "none"], estimators))
    assert [p.params[4]["min_samples_split"] for p in list(meta.pipelines)[:2]] == [256, 2]
    assert meta.pipelines.ids.tolist() == list(range(20))
    for content in ("{", "[]", json.dumps({"imputer": {}})):
        with pytest.raises(MetaDataError, match=r"classification\.json .* not of the expected form"):
            convert_oboe(tmp_path, **{"classification.json": content})
    fewer = OBOE_SETTINGS | {"imputer": OBOE_SETTINGS["encoder"]}
    with pytest.raises(MetaDataError, match="has 10 pipelines, expected 20"):
        convert_oboe(tmp_path, **{"classification.json": json.dumps(fewer)})


def test_runtimes_of_other_pipelines_are_not_taken(tmp_path):
    _, files = oboe_contents()
    name = "error_tensor_imputed_20-4-2-2-8-20_f16_compressed.npz"
    with np.load(io.BytesIO(files[name])) as archive:
        errors = archive["a"]
    with pytest.raises(MetaDataError, match="cannot be aligned"):
        convert_oboe(tmp_path, **{name: array(np.roll(errors, 1, axis=1))})
    with pytest.raises(MetaDataError, match="has the shape"):
        convert_oboe(tmp_path, **{name: array(errors[:, 1:])})
    with pytest.raises(MetaDataError, match="not of the expected form"):
        convert_oboe(tmp_path, **{name: b"PK no archive"})


class Evil:
    """Would write a file if it were unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_pickles_are_not_run(tmp_path):
    proof = tmp_path / "proof"
    for content in (pickle.dumps([1, Evil(proof)], protocol=3), pickle.dumps(np.arange(6)), b"", b"\x80\x03]q\x00("):
        with pytest.raises(MetaDataError, match="must be a pickled list of whole numbers"):
            convert_oboe(tmp_path, **{"training_index.pkl": content})
    assert not proof.exists()
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        ids = [2, 300, 70_000, 4, 5, 6]
        meta = convert_oboe(tmp_path, **{"training_index.pkl": pickle.dumps(ids, protocol)})
        assert meta.ids == tuple(map(str, ids))
    with pytest.raises(MetaDataError, match="ids of 2 tasks"):
        convert_oboe(tmp_path, **{"training_index.pkl": pickle.dumps([2, 300])})
