"""A warm start: what one optimizer would try first, as the initial pipelines of a task that any other goes on with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headstart.errors import check_positive

if TYPE_CHECKING:
    from headstart.optimizers.base import Optimizer
    from headstart.task import Task

N_INITIAL = 5
"""How many pipelines a search begins with unless told otherwise, as in the papers on PMF and DeepPipe."""


def with_warm_start(task: Task, optimizer: Optimizer, n_initial: int = N_INITIAL, seed: int = 0) -> Task:
    """The task with the first pipelines of an optimizer as its initial ones.

    They are what the optimizer asks for before it knows any result; there are fewer if it has no more.

    Parameters
    ----------
    task
        With the meta-features that the optimizer needs.
    optimizer
        Meta-trained if it is to be: `Nearest`, a portfolio, …
    n_initial
        How many pipelines.
    seed
        Of what is random in their choice.
    """
    check_positive("n_initial", n_initial, whole=True)
    proposals = optimizer.start(replace(task, initial=()), seed).ask(n_initial)
    return replace(task, initial=tuple(proposal.pipeline for proposal in proposals))
