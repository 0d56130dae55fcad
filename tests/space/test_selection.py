"""Algorithms chosen by name."""

from __future__ import annotations

import numpy as np
import pytest

from headstart.errors import SpaceError
from headstart.space import Algorithm, PipelineSpace, Stage, catalog


@pytest.fixture
def space() -> PipelineSpace:
    stages = [
        Stage("scale", [Algorithm("none"), Algorithm("standard")]),
        Stage("reduce", [Algorithm("none"), Algorithm("pca")]),
        Stage("estimator", [Algorithm("tree"), Algorithm("svm"), Algorithm("knn")]),
    ]
    return PipelineSpace("s", stages, [{"estimator": ["svm"], "scale": ["none"]}])


def names(space: PipelineSpace) -> dict[str, tuple[str, ...]]:
    return {stage.name: stage.names for stage in space.stages}


def test_include_concerns_only_the_stages_of_the_names(space: PipelineSpace) -> None:
    assert names(space.select(include=["svm", "estimator.knn"])) == {
        "scale": ("none", "standard"),
        "reduce": ("none", "pca"),
        "estimator": ("svm", "knn"),
    }


def test_exclude_comes_after_include(space: PipelineSpace) -> None:
    chosen = space.select(include=["svm", "tree"], exclude=["tree", "scale.none"])
    assert names(chosen)["estimator"] == ("svm",)
    assert names(chosen)["scale"] == ("standard",)


def test_nothing_named_is_the_same_space(space: PipelineSpace) -> None:
    assert space.select().to_dict() == space.to_dict()


@pytest.mark.parametrize(
    ("include", "exclude", "message"),
    [
        (["svn"], [], "did you mean 'svm'"),
        ([], ["none"], "'scale.none' or 'reduce.none'"),
        ([], ["tree", "svm", "knn"], "no algorithm left"),
        (["estimatr.svm"], [], "Known: estimator"),
        ("svm", [], r"write \['svm'\]"),
        (["svm", "scale.none"], [], "nothing to sample"),
    ],
)
def test_what_cannot_be_chosen(space: PipelineSpace, include: list[str], exclude: list[str], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        space.select(include, exclude)


def test_the_default_space_by_name() -> None:
    chosen = catalog.load("classification").select(include=["lightgbm", "random_forest"])
    drawn = chosen.sample(np.random.default_rng(0), 50)
    assert {p.algorithms[-1] for p in drawn} == {"lightgbm", "random_forest"}
