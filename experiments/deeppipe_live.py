"""Experiment 3 of S. Pineda Arango and J. Grabocka, *Deep pipeline embeddings for AutoML* (KDD 2023), table 1.

Live searches on raw tables within a time. Sizes are fit for two cores: ten tables, 60 and 300 seconds where the paper
has 10 minutes and an hour. ``forest`` stands for SMAC; OBOE and Tensor-OBOE are in their time-constrained form; PMF has
its map for pipelines that are not on record.
"""

from __future__ import annotations

from experiments.live import LiveComparison
from experiments.live_tables import TableRule

TWINS = {
    "292": "Australian; OpenML 40981, a task of Tensor-OBOE, is the same table",
    "294": "satellite_image; OpenML 182, a task of Tensor-OBOE, is the same table",
}
_PMF = "pmf(unseen=True)"
LIVE = LiveComparison(
    ("deeppipe", _PMF, "forest", "oboe(time_constrained=True)", "tensor_oboe(time_constrained=True)", "tpot", "random"),
    warm=("deeppipe", _PMF, "forest", "random"),
    rule=TableRule(10, (500, 20_000), TWINS),
    about_rule="They are the first ten, by id, of the PMF tables at hand with 500 to 20,000 rows that are no task of "
    "Tensor-OBOE: neither their id is one, nor that of a table with as many rows and columns, nor are they known to be "
    "the same table under another id (292, 294). Nursery, letter and pendigits are there twice, with all their classes "
    "and with two.",
)
