"""Every registered name under the parts of the public contracts that are about bounds, tables and meta-features."""

from functools import cache

import pytest
from quick import quick

from headstart.registry import names
from headstart.testing import MetaFeaturesContract, OptimizerContract, SurrogateContract

CONTRACTS = {"surrogate": SurrogateContract, "optimizer": OptimizerContract, "metafeatures": MetaFeaturesContract}
RECORDED_ONLY = {"linear_factors", "pmf", "pmf_paper"}
"""What knows recorded pipelines alone."""


@cache
def contract(kind, name):
    """The contract of a part: one class for all tests, which then share what it learned."""
    about = {"make": lambda self, *_: quick(kind, name), "live": name not in RECORDED_ONLY, "__test__": False}
    return type(name, (CONTRACTS[kind],), about)()


def every(kind):
    return pytest.mark.parametrize("name", names(kind))


candidates = pytest.mark.parametrize("candidates", ["live", "pool"])


@candidates
@every("surrogate")
def test_a_surrogate_under_a_bound_that_bites(name, candidates):
    tested = contract("surrogate", name)
    task = tested.at_hand(candidates)
    tested.test_a_bound_does_not_change_what_is_predicted(task)
    tested.test_is_searched_under_a_bound_that_bites(task)


@candidates
@every("optimizer")
def test_an_optimizer_under_a_bound_that_bites(name, candidates):
    tested = contract("optimizer", name)
    tested.test_searches_under_a_bound_that_bites(tested.at_hand(candidates))


@candidates
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ("surrogate", "optimizer") for name in names(kind)]
)
def test_a_method_on_a_task_with_a_table(kind, name, candidates):
    tested = contract(kind, name)
    task = tested.at_hand(candidates)
    assert task.dataset is not None
    tested.test_reads_of_a_task_what_it_says_and_no_more(task)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ("surrogate", "optimizer") for name in names(kind)]
)
def test_a_method_that_has_not_learned_or_has_learned_another_space(kind, name):
    tested = contract(kind, name)
    task = tested.at_hand("live")
    tested.test_says_so_where_it_has_not_learned(task)
    tested.test_says_so_in_a_space_that_it_did_not_learn(task)


@every("metafeatures")
def test_meta_features_of_a_task_with_a_bound_and_a_table(name):
    tested = contract("metafeatures", name)
    tested.test_what_it_says_is_known_of_a_task_with_a_bound_and_a_table()
    tested.test_learns_though_a_table_is_missing()
