"""What a user may choose, checked, and what must stay the same when a fit is resumed."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from headstart import HeadstartClassifier, HeadstartRegressor
from headstart.errors import InvalidInput
from headstart.fitting.settings import BUDGET, PROBLEM, Settings


def test_the_estimators_have_the_settings_as_their_parameters_and_document_each() -> None:
    names = {f.name for f in fields(Settings)}
    classifier, regressor = (set(kind().get_params()) for kind in (HeadstartClassifier, HeadstartRegressor))
    assert classifier == names
    assert names - regressor == {"calibrate", "tune_threshold"}
    for kind, parameters in ((HeadstartClassifier, classifier), (HeadstartRegressor, regressor)):
        assert set(inspect.signature(kind).parameters) == parameters
        section = str(kind.__doc__).partition("Parameters\n----------\n")[2].partition("\n\nAttributes\n")[0]
        heads = [line for line in section.splitlines() if line and not line.startswith(" ")]
        assert sorted(name for head in heads for name in head.split(", ")) == sorted(parameters)
    with pytest.raises(TypeError):
        HeadstartClassifier(60, True)  # type: ignore[misc]


def test_settings_of_an_estimator_do_not_change_with_it() -> None:
    model = HeadstartRegressor(5, random_state=None)
    settings = Settings.of(model)
    model.set_params(time_budget=7)
    assert (settings.time_budget, settings.seed, settings.calibrate) == (5, 0, None)


CHANGES: dict[str, Any] = {
    "metric": "f1",
    "optimizer": "random",
    "warm_start": "random",
    "n_initial": 3,
    "knowledge": "file.npz",
    "space": "regression",
    "include": ["lda"],
    "exclude": ["lda"],
    "splitter": 3,
    "constraints": ["size <= 3"],
    "kinds": {"a": "text"},
    "missing": ["k.A."],
    "random_state": 1,
}


def test_a_resumed_fit_has_the_same_problem() -> None:
    assert set(CHANGES) == {f.name for f in fields(Settings) if f.metadata == PROBLEM}
    for name, value in CHANGES.items():
        with pytest.raises(InvalidInput, match=f"the same --{name}: it was .*, got "):
            Settings().resumed({name: value}, label=lambda name: f"--{name}")
        assert getattr(Settings(**{name: value}).resumed({name: value}), name) == value
    splits = [(np.arange(3), np.arange(3, 6))]
    Settings(splitter=splits).resumed({"splitter": [(a.copy(), b.copy()) for a, b in splits]})
    with pytest.raises(InvalidInput, match="the same splitter"):
        Settings(splitter=splits).resumed({"splitter": [(np.arange(2), np.arange(3, 6))]})


def test_a_new_budget_replaces_the_earlier_ones_and_the_rest_stays() -> None:
    earlier = Settings(60, evaluations=5, patience=2, n_jobs=3, metric="f1")
    assert {f.name for f in fields(Settings) if f.metadata == BUDGET} == {"time_budget", "evaluations", "patience"}
    more = earlier.resumed({"evaluations": 9})
    assert (more.time_budget, more.evaluations, more.patience, more.n_jobs, more.metric) == (None, 9, None, 3, "f1")
    same = earlier.resumed({"n_jobs": 1})
    assert (same.time_budget, same.evaluations, same.patience, same.n_jobs) == (60, 5, 2, 1)


def test_constraints_are_texts_or_a_mapping() -> None:
    texts, mapping = Settings(constraints=["size <= 10"]), Settings(constraints={"size": 10})
    assert texts.bounds == mapping.bounds
    assert Settings().bounds == ()


@pytest.mark.parametrize("name", ["store", "report_file"])
@pytest.mark.parametrize("value", [[], 5, {"a": 1}])
def test_places_are_paths(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"{name} must be a path"):
        Settings(**{name: value})
