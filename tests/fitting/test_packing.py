"""Models as a few arrays: what comes back is what went in, and the number of parts does not follow that of trees."""

import io
import zipfile

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
)
from sklearn.feature_extraction.text import TfidfVectorizer

from headstart.components.boosting import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from headstart.fitting.packing import pack, unpack
from headstart.fitting.trusted import dump_models, load_models

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(200, 3)), columns=["a", "b", "c"])
X["k"] = pd.Categorical(RNG.choice(["u", "v", "w", "x"], 200))
LABELS = (X["a"] > 0).astype(int).to_numpy() + X["k"].isin(["u", "v"]).to_numpy()


def files(model):
    with zipfile.ZipFile(io.BytesIO(dump_models([[model]]))) as archive:
        return len(archive.namelist())


def boosted(rounds, kind=HistGradientBoostingClassifier):
    return kind(n_estimators=rounds).fit(X, LABELS)


@pytest.mark.parametrize(
    "model",
    [
        boosted(5),
        boosted(5, HistGradientBoostingRegressor),
        ExtraTreesClassifier(5, random_state=0).fit(X[["a", "b", "c"]], LABELS),
        GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X[["a", "b", "c"]], LABELS),
        GradientBoostingClassifier(n_estimators=5, subsample=0.5).fit(X[["a", "b", "c"]], LABELS > 0),
        GradientBoostingRegressor(n_estimators=5, random_state=0).fit(X[["a", "b", "c"]], LABELS),
        AdaBoostClassifier(n_estimators=5, random_state=0).fit(X[["a", "b", "c"]], LABELS),
    ],
    ids=lambda model: type(model).__name__,
)
def test_forests_and_boosters_predict_the_same_afterwards(model):
    rows = X.iloc[:, : model.n_features_in_]
    predict = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    before = getattr(model, predict)(rows)
    again = load_models(dump_models([[model]]))[0][0]
    np.testing.assert_array_equal(getattr(again, predict)(rows), before)
    np.testing.assert_array_equal(getattr(model, predict)(rows), before)


def test_the_number_of_files_does_not_follow_the_number_of_trees_or_words():
    assert files(boosted(40)) == files(boosted(4))
    few, many = (GradientBoostingClassifier(n_estimators=n).fit(X[["a", "b"]], LABELS) for n in (4, 40))
    assert files(many) == files(few)
    few, many = (TfidfVectorizer().fit([" ".join(f"word{i}" for i in range(n))]) for n in (30, 300))
    assert files(many) == files(few)


def test_a_vocabulary_comes_back():
    texts = ["the quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs"]
    vectorizer = TfidfVectorizer(ngram_range=(1, 2)).fit(texts)
    again = load_models(dump_models([[vectorizer]]))[0][0]
    assert again.vocabulary_ == vectorizer.vocabulary_
    assert (again.transform(texts) != vectorizer.transform(texts)).nnz == 0


@pytest.mark.parametrize(
    "held",
    [
        {f"w{i}": i + 1 for i in range(30)},
        {f"w{i}": float(i) for i in range(30)},
        {f"w{i}\n": i for i in range(30)},
        {i: i for i in range(30)},
        {f"w{i}": i for i in range(3)},
        {"w": True},
    ],
)
def test_other_dictionaries_stay_as_they_are(held):
    assert pack([held])[0] is held


@pytest.mark.parametrize("name", ["trees", "nodes of each", "raw_left_cat_bitsets of each"])
def test_counts_that_do_not_fit_together_are_an_error(name):
    packed = pack(boosted(3).model_._predictors)
    packed[name] = packed[name] + 1
    with pytest.raises(ValueError, match="do not fit together"):
        unpack(packed)


def test_a_word_twice_is_an_error():
    packed = pack({f"w{i}": i for i in range(30)})
    packed["words"] += "\nw3"
    with pytest.raises(ValueError, match="not all different"):
        unpack(packed)
