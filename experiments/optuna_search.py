"""Optuna's TPE over one of our spaces, for comparison: it samples the algorithm of each stage, then what that one has.

T. Akiba et al., *Optuna* (KDD 2019); J. Bergstra et al., *Algorithms for hyper-parameter optimization* (NeurIPS 2011).
The sampler is Optuna's with its defaults.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Self

from headstart.errors import MissingDependency
from headstart.space.parameters import Categorical, Integer, Parameter
from headstart.space.pipeline import Pipeline, Value
from headstart.space.space import PipelineSpace
from headstart.task import Task
from headstart.trials import Proposal, Trial


class OptunaSearch:
    """A search with the face of an optimizer: `start`, then `ask` and `tell` in turns."""

    def start(self, task: Task, seed: int) -> Self:
        """Begin on a task; raises `MissingDependency` without Optuna."""
        try:
            optuna: Any = import_module("optuna")
        except ImportError as error:
            raise MissingDependency("Optuna is needed: pip install -c constraints.txt optuna") from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        fresh = type(self)()
        fresh._space = task.space
        fresh._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        fresh._number = 0
        return fresh

    _space: PipelineSpace
    _study: Any
    _asked: Any
    _number: int

    def ask(self) -> list[Proposal]:
        """The next pipeline."""
        self._asked = self._study.ask()
        proposal = Proposal(self._number, suggested(self._space, self._asked))
        self._number += 1
        return [proposal]

    def tell(self, trial: Trial) -> None:
        """The loss of the last one."""
        self._study.tell(self._asked, trial.outcome.loss)


def suggested(space: PipelineSpace, trial: Any) -> Pipeline:
    """A pipeline as a trial of Optuna suggests it."""
    algorithms, settings = [], []
    for stage in space.stages:
        names = list(stage.names)
        name = trial.suggest_categorical(stage.name, names) if len(names) > 1 else names[0]
        algorithms.append(name)
        values: dict[str, Value] = {}
        for parameter in stage.algorithms[names.index(name)].params:
            if all(values.get(parent) in allowed for parent, allowed in parameter.when.items()):
                values[parameter.name] = _suggested(parameter, f"{stage.name}.{name}.{parameter.name}", trial)
        settings.append(values)
    return Pipeline(algorithms, settings)


def _suggested(parameter: Parameter, name: str, trial: Any) -> Value:
    if isinstance(parameter, Categorical):
        found: Value = trial.suggest_categorical(name, list(parameter.choices))
        return found
    if isinstance(parameter, Integer):
        return int(trial.suggest_int(name, int(parameter.low), int(parameter.high), log=parameter.log))
    return float(trial.suggest_float(name, parameter.low, parameter.high, log=parameter.log))
