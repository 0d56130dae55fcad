"""`Surrogate` and `Prediction`: what a model of the loss must do."""

from __future__ import annotations

import copy
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headstart.learning.base import Learner
from headstart.registry import Kind

if TYPE_CHECKING:
    from headstart.history import History
    from headstart.space.encoded import Encoded
    from headstart.task import Task

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """Predicted targets of n pipelines.

    Parameters
    ----------
    mean
        (n,), in the unit of `Surrogate.transform_targets` of the targets that the surrogate was fitted to.
    std
        (n,), positive; ``None`` for a surrogate that is deterministic.
    """

    mean: Array
    std: Array | None = None

    def __len__(self) -> int:
        return len(self.mean)


class Surrogate(Learner):
    """Predicts the loss of pipelines from the history of a task, and possibly from other tasks.

    The life of a surrogate::

        surrogate = MySurrogate(settings).meta_fit(meta)   # once, from other tasks
        model = surrogate.start(task)                      # once per task; `surrogate` itself does not change
        model.fit(history)                                 # whenever there is news
        model.predict(encoded)                             # as often as liked

    A plug-in writes `fit` and `predict`. Everything that happens in `fit` must follow from the settings, the
    meta-state and the history alone, never from an earlier `fit`: a run that is resumed fits once where the first one
    fitted many times.
    """

    kind: ClassVar[Kind] = "surrogate"
    sees_all_fidelities: ClassVar[bool] = False
    """Whether `fit` wants trials at low fidelity too."""

    task: Task

    def start(self, task: Task) -> Self:
        """A fresh object for one task, sharing the meta-state; called once per task.

        Raises `NeedsTable` if the task lacks the table the method needs.
        """
        fresh = copy.copy(self)
        fresh.task = task
        return fresh

    @abstractmethod
    def fit(self, history: History) -> Self:
        """Learn from the trials (and proposals under way) of this task; called when there is news."""

    @abstractmethod
    def predict(self, encoded: Encoded) -> Prediction:
        """Predicted targets of these pipelines; called after `fit`, also after one without any trial."""

    def transform_targets(self, targets: Array) -> Array:
        """Targets (n,) in the unit of predictions: an increasing function; the same unless a surrogate has its own."""
        return targets

    def knows(self, encoded: Encoded) -> NDArray[np.bool_]:
        """Which of these pipelines it can predict (n,): all, but for one that knows recorded pipelines alone."""
        return np.ones(len(encoded), dtype=bool)

    def log_seconds(self, encoded: Encoded) -> Array | None:  # noqa: ARG002
        """Logarithms (n,) of how long these pipelines take, up to a constant; ``None`` unless other tasks have told."""
        return None
