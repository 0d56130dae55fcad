"""Boosters of files from elsewhere."""

import os
import pickle
import threading

import numpy as np
import pytest

from headstart.components.boosting import CatBoostClassifier, LightGBMRegressor
from headstart.errors import ModelFileError
from headstart.fitting import rehearsal
from headstart.fitting.booster_text import check_lightgbm


def tables():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 3)), rng.normal(size=200)


@pytest.fixture(scope="module")
def catboost():
    X, y = tables()
    return pickle.loads(pickle.dumps(CatBoostClassifier(n_estimators=5).fit(X, y > 0)))


class Hanging:
    """A booster that does what its name says when it is used."""

    n_features_in_ = 2
    _n_classes = 0

    def __init__(self, how):
        self.how = how
        self.categories_ = {}

    def _raw(self, table):
        if self.how == "hangs":
            threading.Event().wait()
        elif self.how == "crashes":
            os.abort()
        elif self.how == "allocates":
            return np.ones(10**10)
        return np.zeros(7)


def test_a_booster_stays_packed_until_it_is_used(catboost):
    assert "packed_" in vars(catboost)
    rehearsal.rehearse([catboost])
    assert "packed_" in vars(catboost)
    X, y = tables()
    assert ((catboost.predict(X)) == (y > 0)).mean() > 0.6
    assert "packed_" not in vars(catboost)


@pytest.mark.parametrize("how", ["hangs", "crashes", "allocates", "answers with other rows"])
def test_harm_is_done_to_another_process(how, monkeypatch):
    monkeypatch.setattr(rehearsal, "SECONDS", 1.0)
    monkeypatch.setattr(rehearsal.pickle, "dumps", lambda boosters: boosters[0].how.encode())
    monkeypatch.setattr(rehearsal.pickle, "loads", lambda packed: [Hanging(packed.decode())])
    with pytest.raises(ModelFileError, match=r"to load it and predict 50 rows (took too long|crashed|failed)"):
        rehearsal.rehearse([Hanging(how)])


def test_damaged_bytes_with_and_without_threads(catboost):
    damaged = pickle.loads(pickle.dumps(catboost))
    damaged.__dict__.pop("model_", None)
    damaged.packed_ = b"CBM1" + b"\xff" * 500
    with pytest.raises(ModelFileError, match="a booster cannot be used"):
        rehearsal.rehearse([damaged])
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        rehearsal.rehearse([catboost])
        with pytest.raises(ModelFileError, match="a booster cannot be used"):
            rehearsal.rehearse([damaged])
    finally:
        stop.set()
        thread.join()


def test_every_index_of_a_lightgbm_text_is_checked():
    """Whatever one number of the structure becomes, the text is refused or LightGBM gives a finite answer."""
    X, y = tables()
    model = LightGBMRegressor(n_estimators=2, num_leaves=4).fit(X, y)
    text = model._packed()
    check_lightgbm(text, 3, 0)
    for columns, classes in ((4, 0), (2, 0), (3, 2), (3, 3)):
        with pytest.raises(ModelFileError):
            check_lightgbm(text, columns, classes)
    lines = text.split(b"\n")
    refused = 0
    for place, line in enumerate(lines):
        key = line.partition(b"=")[0]
        if key not in (b"left_child", b"right_child", b"split_feature", b"decision_type", b"num_leaves", b"num_cat"):
            continue
        for value in (b"0", b"1", b"2", b"3", b"-1", b"-2", b"-4", b"-5", b"99", b"-99", b"4294967296", b"x", b"1.5"):
            for i in range(line.count(b" ") + 1):
                numbers = line.partition(b"=")[2].split(b" ")
                numbers[i] = value
                changed = b"\n".join([*lines[:place], key + b"=" + b" ".join(numbers), *lines[place + 1 :]])
                grown = len(changed) - len(text)
                sizes = next(each for each in lines if each.startswith(b"tree_sizes="))
                first, second = map(int, sizes.partition(b"=")[2].split())
                in_first = changed.index(b"Tree=1") > changed.index(key + b"=" + b" ".join(numbers))
                new = b"tree_sizes=%d %d" % (first + grown * in_first, second + grown * (not in_first))
                changed = changed.replace(sizes, new)
                try:
                    check_lightgbm(changed, 3, 0)
                except ModelFileError:
                    refused += 1
                else:
                    assert np.isfinite(model._unpacked(changed).predict(X)).all()
    assert refused > 100
