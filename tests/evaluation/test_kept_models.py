"""Fitted models that leave an evaluation have been read back and used once."""

from __future__ import annotations

import io
from typing import Any

import pytest
from sklearn.tree import DecisionTreeClassifier

from headstart.evaluation.kept_models import UnusableModel, keep, loading_seconds, restore


class Own:
    """A class of a user's."""


class Unreadable(Own):
    def __setstate__(self, state: Any) -> None:
        raise OSError("the licence server is away")

    def __getstate__(self) -> dict[str, int]:
        return {"some": 1}


class Unpicklable(Own):
    def __reduce__(self) -> Any:
        raise TypeError("holds a lock")


def fitted() -> DecisionTreeClassifier:
    return DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1])


def test_models_come_back() -> None:
    kept = keep([fitted(), fitted()], lambda _: None)
    assert [m.predict([[1.0]]).tolist() for m in restore(io.BytesIO(kept))] == [[1], [1]]
    assert 0 < loading_seconds(io.BytesIO(kept)) < 60


def test_those_of_known_libraries_are_not_tried_out() -> None:
    tried: list[Any] = []
    keep([fitted()], tried.append)
    assert tried == []


def test_those_of_the_user_are_tried_out_after_they_were_read_back() -> None:
    own, tried = Own(), []
    keep([own, fitted()], tried.append)
    assert [type(model).__name__ for model in tried] == ["Own", "DecisionTreeClassifier"]
    assert tried[0] is not own


@pytest.mark.parametrize(
    ("model", "message"),
    [(Unreadable(), "cannot be unpickled: OSError: the licence server"), (Unpicklable(), "cannot be pickled")],
)
def test_those_that_do_not_survive_are_refused(model: Any, message: str) -> None:
    with pytest.raises(UnusableModel, match=message):
        keep([model], lambda _: None)


def test_those_that_do_not_predict_afterwards_are_refused() -> None:
    def predict(model: Any) -> None:
        raise AttributeError("no coefficients")

    with pytest.raises(UnusableModel, match=r"cannot be used after it was pickled.*no coefficients"):
        keep([Own()], predict)
