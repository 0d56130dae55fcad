"""Optuna's TPE over one of our spaces, for comparison: it samples the algorithm of each stage, then what that one has.

T. Akiba et al., *Optuna* (KDD 2019); J. Bergstra et al., *Algorithms for hyper-parameter optimization* (NeurIPS 2011).
The sampler is Optuna's with its defaults.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from headstart.errors import MissingDependency
from headstart.optimizers.base import Optimizer
from headstart.space.parameters import Categorical, Integer, Parameter
from headstart.space.pipeline import Pipeline, Value
from headstart.space.space import PipelineSpace
from headstart.trials import Proposal, Trial


class OptunaSearch(Optimizer):
    """Optuna's search, one pipeline at a time; raises `MissingDependency` without Optuna."""

    _study: Any
    _asked: Any

    def prepare(self) -> None:
        try:
            optuna: Any = import_module("optuna")
        except ImportError as error:
            raise MissingDependency("Optuna is needed: pip install -c constraints.txt optuna") from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self.seed))

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal:  # noqa: ARG002 (Optuna has its own)
        self._asked = self._study.ask()
        return Proposal(number, suggested(self.task.space, self._asked), {"by": "optuna"})

    def observe(self, trial: Trial) -> None:
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
