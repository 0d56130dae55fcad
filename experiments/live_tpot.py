"""TPOT in live experiments: its genetic search over one of our spaces, judged as all other methods are.

R. S. Olson and J. H. Moore, *TPOT: a tree-based pipeline optimization tool for automating machine learning* (2016), as
the package TPOT 1.x has it. What is TPOT's: individuals, mutation, crossover, selection, the generations and their end.
What is ours, so that methods differ in their choice of pipelines alone: the space (a sequence with a choice for each
stage), and the evaluation of a pipeline, in a sandbox with the limits that the others have.

TPOT's own cross-validation cannot end a fit that hangs in compiled code. It evaluates through Dask; here that is one
thread of this process, which waits for the sandbox.
"""

from __future__ import annotations

import logging
import time
import uuid
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from headstart.errors import InvalidInput, MissingDependency, SpaceError
from headstart.evaluation.objective import Objective
from headstart.optimizers.base import evaluation_seed
from headstart.space.candidates import Candidates
from headstart.space.parameters import Categorical, Integer
from headstart.space.pipeline import Pipeline, Value
from headstart.space.space import PipelineSpace
from headstart.trials import Limits

_ALGORITHM = "algorithm"
_RUNS: dict[str, Callable[[Any], float]] = {}
"""Searches under way: what TPOT hands to Dask must be picklable, and an open sandbox is not."""


class Step(NamedTuple):
    """A pipeline that was tried: after how many seconds its result was there, and the loss unless it failed."""

    seconds: float
    loss: float | None
    pipeline: Pipeline
    seed: int


@dataclass(frozen=True)
class Budget:
    """What one search may use: seconds from the first question for a pipeline to the last result, limits of an
    evaluation, and most pipelines, where ``None`` leaves it to the seconds.
    """

    seconds: float
    limits: Limits
    evaluations: int | None = None


@dataclass(frozen=True)
class Tpot:
    """TPOT's genetic search.

    Parameters
    ----------
    population_size
        Pipelines of a generation. TPOT's default is 50; in a few minutes that would be little else than random search.
    """

    population_size: int = 20

    def describe(self) -> dict[str, Any]:
        """Name and settings, for the record: JSON."""
        return {"name": "Tpot", "population_size": self.population_size}

    def search(
        self, candidates: Candidates, objective: Objective, seed: int, budget: Budget, initial: Sequence[Pipeline]
    ) -> list[Step]:
        """Evolve pipelines until the budget is used up; it begins with a population of its own."""
        if initial:
            raise InvalidInput("TPOT begins with a population of its own, it takes no initial pipelines")
        estimator = load_tpot()
        distributed = _quiet_dask()
        steps: list[Step] = []
        deadline: float | None = None

        def score(individual: Any) -> float:
            nonlocal deadline
            deadline = deadline or time.time() + budget.seconds
            if time.time() >= deadline or len(steps) == budget.evaluations:
                return float("nan")
            try:
                pipeline = read_individual(candidates.space, individual)
            except SpaceError:  # a forbidden combination, of which TPOT does not know
                return float("nan")
            own = evaluation_seed(seed, len(steps))
            outcome = objective(pipeline, replace(budget.limits, deadline=deadline), own)
            finished = time.time() - (deadline - budget.seconds)
            if finished >= budget.seconds:  # too late, or cut off
                return float("nan")
            steps.append(Step(finished, outcome.loss, pipeline, own))
            return float("nan") if outcome.loss is None else -outcome.loss

        token = uuid.uuid4().hex
        _RUNS[token] = score
        rows = np.zeros((10, 1)), np.arange(10) % 2  # TPOT wants a table; pipelines are scored on ours
        limit = (budget.limits.seconds or budget.seconds) / 60
        generations = None if budget.evaluations is None else -(-budget.evaluations // self.population_size)
        try:
            with (
                distributed.LocalCluster(
                    n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
                ) as cluster,
                distributed.Client(cluster) as client,
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("ignore")
                estimator(
                    search_space=tpot_space(candidates.space),
                    scorers=[],
                    scorers_weights=[],
                    other_objective_functions=[_Score(token)],
                    other_objective_functions_weights=[1],
                    classification=True,
                    cv=2,
                    population_size=self.population_size,
                    generations=generations,
                    max_time_mins=budget.seconds / 60,
                    max_eval_time_mins=2 * limit,  # the sandbox is stricter
                    client=client,
                    random_state=seed,
                    verbose=0,
                ).fit(*rows)
        except Exception:
            if not steps or any(step.loss is not None for step in steps):
                raise  # where nothing but failures was found TPOT has no pipeline to fit, and only then is it no error
        finally:
            del _RUNS[token]
        return steps


def load_tpot() -> Any:
    """TPOT's estimator; raises `MissingDependency` where it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what it imports
            from tpot import TPOTEstimator
    except ImportError as error:
        raise MissingDependency(f'TPOT is not installed ({error}): pip install "headstart[experiments]"') from error
    return TPOTEstimator


def _quiet_dask() -> Any:
    import distributed

    logging.getLogger("distributed").setLevel(logging.ERROR)
    return distributed


class _Score:
    """TPOT's objective: finds its search by a token, so that a copy of it serves as well."""

    __name__ = "score"

    def __init__(self, token: str) -> None:
        self.token = token

    def __call__(self, individual: Any) -> float:
        return _RUNS[self.token](individual)


class Part(BaseEstimator):  # type: ignore[misc]
    """What a stage of a pipeline is for TPOT: a name and values. Fitting it does nothing.

    Parameters
    ----------
    algorithm
        Of the stage.
    values
        Of each hyper-parameter, by name: a number, or the place of a choice.
    """

    def __init__(self, algorithm: str, values: dict[str, Any]) -> None:
        self.algorithm = algorithm
        self.values = values

    def fit(self, X: Any, y: Any = None) -> Part:  # noqa: ARG002
        return self

    def transform(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return np.zeros(len(X))


def tpot_space(space: PipelineSpace) -> Any:
    """A space in TPOT's terms: a sequence with a choice of algorithms for each stage."""
    from tpot.search_spaces.pipelines import ChoicePipeline, SequentialPipeline

    if space.free_order:
        raise InvalidInput(f"TPOT is given a sequence of stages, and those of space {space.name!r} may change places")
    return SequentialPipeline([ChoicePipeline([_node(algorithm) for algorithm in s.algorithms]) for s in space.stages])


def _node(algorithm: Any) -> Any:
    from ConfigSpace import ConfigurationSpace, Constant
    from tpot.search_spaces.nodes import EstimatorNode

    if not algorithm.params:
        return EstimatorNode(Part, {_ALGORITHM: algorithm.name}, as_part)
    declared = [_hyperparameter(p) for p in algorithm.params]
    return EstimatorNode(
        Part, ConfigurationSpace({p.name: p for p in [Constant(_ALGORITHM, algorithm.name), *declared]}), as_part
    )


def _hyperparameter(parameter: Any) -> Any:
    """In ConfigSpace's terms, without its conditions: a value that does not count is left out when it is read."""
    import ConfigSpace

    if isinstance(parameter, Categorical):
        return ConfigSpace.Categorical(parameter.name, list(range(len(parameter.choices))))
    kind = ConfigSpace.Integer if isinstance(parameter, Integer) else ConfigSpace.Float
    return kind(parameter.name, (parameter.low, parameter.high), log=parameter.log)


def as_part(values: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `Part` for a configuration; the name is one of its values, or TPOT would take `none` for `pca`."""
    numbers = {name: value.item() if hasattr(value, "item") else value for name, value in values.items()}
    return {_ALGORITHM: str(numbers.pop(_ALGORITHM)), "values": numbers}


def read_individual(space: PipelineSpace, individual: Any) -> Pipeline:
    """The pipeline that a sequence of `Part` stands for; raises `SpaceError` for one that is forbidden."""
    parts = [step for _, step in individual.steps]
    params: list[dict[str, Value]] = []
    for stage, part in zip(space.stages, parts, strict=True):
        algorithm = stage.algorithms[stage.position(part.algorithm)]
        chosen: dict[str, Value] = {}
        declared: list[Any] = list(algorithm.params)  # what others depend on comes first
        for p in declared:
            if all(parent in chosen and chosen[parent] in values for parent, values in p.when.items()):
                value = part.values[p.name]
                chosen[p.name] = p.choices[value] if isinstance(p, Categorical) else value
        params.append(chosen)
    return space.encode([Pipeline([part.algorithm for part in parts], params)])[0]
