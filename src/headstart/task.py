"""`Task`: what a method may know of the problem at hand."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.constraints import Constraint
from headstart.space.pipeline import Pipeline

if TYPE_CHECKING:
    from headstart.space.candidates import Candidates
    from headstart.space.space import PipelineSpace


@dataclass(frozen=True)
class Task:
    """What a method may know of the problem at hand.

    Parameters
    ----------
    candidates
        Where pipelines may come from: a `PipelineSpace` (live) or a `Pool` (replay).
    key
        Names the problem in a store: equal for the same table, target, metric, splits and space. A run can be
        resumed only under the same key. A hash of what is known here when omitted.
    metric
        What the loss is made of; for people.
    dataset
        The table, where there is one. A method that needs it raises `NeedsTable` from its ``start`` otherwise.
    metafeatures
        Vectors that describe the dataset, by the name of their extractor.
    constraints
        Bounds that a solution must satisfy; `headstart.constraints.parse_constraints` reads them from text.
    initial
        Pipelines to try before anything else, whatever the optimizer.
    """

    candidates: Candidates
    key: str = ""
    metric: str = "loss"
    dataset: Any | None = None
    metafeatures: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    constraints: Sequence[Constraint] = ()
    initial: Sequence[Pipeline] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "constraints", tuple(self.constraints))
        # Decoded again, for a user's 1/3 is not a value of the space's grid; raises for one that is not a candidate.
        object.__setattr__(self, "initial", tuple(self.candidates.encode(self.initial)))
        if not self.key:
            object.__setattr__(self, "key", self._hash())

    @property
    def space(self) -> PipelineSpace:
        return self.candidates.space

    def _hash(self) -> str:
        content: dict[str, Any] = self._defining()
        if self.candidates.pool is not None:
            content["pool"] = hashlib.sha256(self.candidates.pool.ids.tobytes()).hexdigest()
        text = json.dumps(content, sort_keys=True)
        return f"task-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def describe(self) -> dict[str, Any]:
        """What a store keeps of it: JSON."""
        return {**self._defining(), "table": self._table()} if self.dataset is not None else self._defining()

    def _table(self) -> dict[str, Any]:
        """The table, for people who look at a store."""
        names = {"name": "name", "target": "target", "rows": "n_rows", "columns": "n_features"}
        found = {name: getattr(self.dataset, attribute, None) for name, attribute in names.items()}
        return {name: value for name, value in found.items() if isinstance(value, str | int)}

    def _defining(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "space": self.space.to_dict(),
            "constraints": {c.name: c.upper for c in self.constraints},
            "metafeatures": {name: np.asarray(v, dtype=float).tolist() for name, v in self.metafeatures.items()},
        }
