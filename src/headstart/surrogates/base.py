"""`Surrogate` and `Prediction`: what a model of the loss must do."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from headstart.history import History
    from headstart.metadata.metadataset import MetaDataset
    from headstart.space.encoded import Encoded
    from headstart.task import Task

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """Predicted targets of n pipelines.

    Parameters
    ----------
    mean
        (n,), in the unit of the targets the surrogate was fitted to, or rather of `Surrogate.as_predicted` of them.
    std
        (n,), positive; ``None`` for a surrogate that is deterministic.
    """

    mean: Array
    std: Array | None = None

    def __len__(self) -> int:
        return len(self.mean)


class Surrogate(ABC):
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

    sees_all_fidelities: ClassVar[bool] = False
    """Whether `fit` wants trials at low fidelity too."""

    meta_key: str | None = None
    """Names what `meta_fit` learned, such as a hash of it; a stored run is only resumed with the same."""

    revision: ClassVar[int] = 1
    """To be raised when the same settings come to give other results, so that earlier ones are not taken for them."""

    @property
    def needs_metafeatures(self) -> str | None:
        """Name of meta-features without which it does not work; they are made of raw tables where those are known."""
        return None

    task: Task

    def meta_fit(self, meta: MetaDataset) -> Self:  # noqa: ARG002
        """Learn from other tasks; called before `start`, or never. Without meta-learning there is nothing to do."""
        return self

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

    def as_predicted(self, targets: Array) -> Array:
        """Targets (n,) in the unit of predictions: an increasing function; the same unless a surrogate has its own."""
        return targets

    def log_seconds(self, encoded: Encoded) -> Array | None:  # noqa: ARG002
        """Logarithms (n,) of how long these pipelines take, up to a constant; ``None`` unless other tasks have told."""
        return None

    def describe(self) -> dict[str, Any]:
        """Name and settings, for the record: JSON."""
        return describe_part(self)


def describe_part(part: Any) -> dict[str, Any]:
    """Class name and constructor settings of a part, as JSON types; parts inside it are described in turn."""
    import inspect

    settings: dict[str, Any] = {}
    for name in inspect.signature(type(part).__init__).parameters:
        if name in ("self", "args", "kwargs") or not hasattr(part, name):
            continue
        value = getattr(part, name)
        if hasattr(value, "to_dict"):
            value = value.to_dict()
        elif isinstance(value, (list, tuple)):
            value = [v.to_dict() if hasattr(v, "to_dict") else v for v in value]
        elif not isinstance(value, (str, int, float, bool, type(None), dict)):
            value = value.describe() if hasattr(value, "describe") else describe_part(value)
        settings[name] = value
    if getattr(part, "revision", 1) != 1:
        settings["revision"] = part.revision
    if getattr(part, "meta_key", None) is not None:
        settings["meta_key"] = part.meta_key
    return {"name": type(part).__name__, **settings}
