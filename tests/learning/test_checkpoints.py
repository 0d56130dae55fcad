import numpy as np
import pytest

from headstart.errors import ModelFileError
from headstart.learning.checkpoints import load_arrays, save_arrays


def test_arrays_and_text_come_back(tmp_path):
    arrays = {
        "net.0.weight": np.arange(6.0).reshape(2, 3),
        "scalar": np.full((), -2.5),
        "mask": np.array([True, False]),
    }
    save_arrays(tmp_path / "a.npz", arrays, {"name": "Ä", "sizes": [1, 2]})
    found, about = load_arrays(tmp_path / "a.npz")
    assert about == {"name": "Ä", "sizes": [1, 2]}
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape


def test_what_would_need_a_pickle_is_not_written(tmp_path):
    with pytest.raises(ModelFileError, match="array of numbers"):
        save_arrays(tmp_path / "a.npz", {"objects": np.array([{}], dtype=object)}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_what_was_there(tmp_path):
    save_arrays(tmp_path / "a.npz", {"x": np.ones(2)}, {})
    with pytest.raises(TypeError):
        save_arrays(tmp_path / "a.npz", {"x": np.zeros(2)}, {"no json": object()})
    np.testing.assert_array_equal(load_arrays(tmp_path / "a.npz")[0]["x"], 1.0)
    assert [f.name for f in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04half"])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ModelFileError, match="holds no trained parameters"):
        load_arrays(tmp_path / "a.npz")


def test_pickles_are_not_opened(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([print], dtype=object))
    with pytest.raises(ModelFileError, match="holds no trained parameters"):
        load_arrays(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=np.ones(1))
    with pytest.raises(ModelFileError, match="holds no trained parameters"):
        load_arrays(tmp_path / "b.npz")
    with pytest.raises(ModelFileError, match="no file of trained parameters"):
        load_arrays(tmp_path / "c.npz")


def test_a_file_that_was_changed_is_not_taken_for_what_it_was(tmp_path):
    path = tmp_path / "kept.npz"
    save_arrays(path, {"x": np.arange(3.0)}, {"what": "numbers"})
    with np.load(path) as file:
        entries = {name: file[name] for name in file.files}
    entries["x"][1] = 7.0
    np.savez(path, **entries)
    with pytest.raises(ModelFileError, match="damaged or changed"):
        load_arrays(path)


def test_no_single_byte_can_be_changed_unnoticed(tmp_path):
    path = tmp_path / "kept.npz"
    arrays = {"x": np.random.default_rng(0).standard_normal((40, 3)), "y": np.arange(5)}
    save_arrays(path, arrays, {"what": "numbers"})
    content = path.read_bytes()
    refused = 0
    for place in range(0, len(content), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x5A]) + content[place + 1 :])
        try:
            found, about = load_arrays(path)
        except ModelFileError:
            refused += 1
            continue
        assert about == {"what": "numbers"}  # a date in the zip file's header, or the like
        assert found.keys() == arrays.keys()
        for name, value in arrays.items():
            np.testing.assert_array_equal(found[name], value)
    assert refused > 0.8 * len(range(0, len(content), 3))
