"""Headstart: AutoML with a head start.

>>> import headstart
>>> headstart.__version__.count(".") >= 2
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headstart.constraints import Constraint
    from headstart.errors import HeadstartError, HeadstartWarning
    from headstart.estimators import HeadstartClassifier, HeadstartRegressor
    from headstart.evaluation.objective import FunctionObjective
    from headstart.evaluation.sandbox import Sandbox
    from headstart.history import History
    from headstart.metadata.metadataset import MetaDataset
    from headstart.space import Algorithm, Categorical, Float, Integer, Pipeline, PipelineSpace, Pool, Stage
    from headstart.store import Store
    from headstart.study import Study
    from headstart.task import Task
    from headstart.trials import Fidelity, Limits, Outcome, Proposal, Trial

_HOME = {
    "Algorithm": "headstart.space",
    "Categorical": "headstart.space",
    "Constraint": "headstart.constraints",
    "Fidelity": "headstart.trials",
    "Float": "headstart.space",
    "FunctionObjective": "headstart.evaluation.objective",
    "HeadstartClassifier": "headstart.estimators",
    "HeadstartError": "headstart.errors",
    "HeadstartRegressor": "headstart.estimators",
    "HeadstartWarning": "headstart.errors",
    "History": "headstart.history",
    "Integer": "headstart.space",
    "Limits": "headstart.trials",
    "MetaDataset": "headstart.metadata.metadataset",
    "Outcome": "headstart.trials",
    "Pipeline": "headstart.space",
    "PipelineSpace": "headstart.space",
    "Pool": "headstart.space",
    "Proposal": "headstart.trials",
    "Sandbox": "headstart.evaluation.sandbox",
    "Stage": "headstart.space",
    "Store": "headstart.store",
    "Study": "headstart.study",
    "Task": "headstart.task",
    "Trial": "headstart.trials",
}
"""Where each public name lives; imported when it is first used, so that ``import headstart`` stays light."""

__all__ = [
    "Algorithm",
    "Categorical",
    "Constraint",
    "Fidelity",
    "Float",
    "FunctionObjective",
    "HeadstartClassifier",
    "HeadstartError",
    "HeadstartRegressor",
    "HeadstartWarning",
    "History",
    "Integer",
    "Limits",
    "MetaDataset",
    "Outcome",
    "Pipeline",
    "PipelineSpace",
    "Pool",
    "Proposal",
    "Sandbox",
    "Stage",
    "Store",
    "Study",
    "Task",
    "Trial",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("headstart")
    if name in _HOME:
        from importlib import import_module

        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'headstart' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
