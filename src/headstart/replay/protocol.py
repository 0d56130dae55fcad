"""The protocol of a replay: one method on one recorded task.

- Candidates are the pipelines observed on the task.
- Every method begins with the task's initial pipelines. One without a value spends an evaluation, as a crash. If none
  of them has a value, one random candidate follows, the same for all methods.
- Regret is the lowest loss found so far minus the lowest recorded for the task; before the first success the highest
  recorded one stands for what was found.
- A run ends when the optimum is found: its regret is 0 from there on.
- What is recorded was measured at full fidelity; a proposal at a lower one costs an evaluation and gets the same loss.
- A method may try several pipelines at each step (`per_step`), as multi-budget random search does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.evaluation.recorded import Replay, recorded_task
from headstart.metadata.metadataset import MetaDataset
from headstart.optimizers.base import Optimizer
from headstart.registry import create, parsed
from headstart.study import Study
from headstart.trials import Trial

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Method:
    """What is replayed: an optimizer by its name and settings, and how many pipelines it tries at each step.

    >>> Method.parse("gp")
    Method(text='gp', name='gp', settings={}, per_step=1)
    >>> Method.parse("gp(kernel=linear, ard=False)").settings
    {'kernel': 'linear', 'ard': False}
    >>> Method.parse("random4x").per_step
    4
    """

    text: str
    name: str
    settings: dict[str, Any]
    per_step: int = 1

    @classmethod
    def parse(cls, text: str) -> Method:
        """From ``NAME`` or ``NAME(setting=value, …)``; ``randomKx`` tries K pipelines at each step."""
        called, settings = parsed(text)
        several = re.fullmatch(r"random([1-9]\d*)x", called)
        name = "random" if several else called
        return cls(text.strip(), name, settings, int(several[1]) if several else 1)

    @classmethod
    def called(cls, label: str, text: str) -> Method:
        """A method by its text, that goes by another name in results.

        >>> Method.called("gp-linear", "gp(kernel=linear)")
        Method(text='gp-linear', name='gp', settings={'kernel': 'linear'}, per_step=1)
        """
        return replace(cls.parse(text), text=cls.parse(label).text)

    @classmethod
    def of(cls, method: str | Method) -> Method:
        """From its text, or as it is."""
        return method if isinstance(method, Method) else cls.parse(method)

    def make(self) -> Optimizer:
        """A new optimizer, before `meta_fit`."""
        return create("optimizer", self.name, **self.settings)  # type: ignore[no-any-return]

    @property
    def written(self) -> str:
        """The name as it stands in the text: ``random4x`` for what is `random` by name.

        >>> Method.parse("random4x").written
        'random4x'
        """
        return self.text.partition("(")[0].strip()

    @property
    def ranked(self) -> bool:
        """Whether it is compared by rank, which needs one evaluation for each step."""
        return self.per_step == 1


@dataclass(frozen=True)
class TaskRun:
    """One run on one task.

    Parameters
    ----------
    regrets
        (evaluations,), after each step.
    chosen
        Ids of the pipelines tried, in order.
    seconds
        What the suggestions took together, initial pipelines left out.
    suggestions
        How many there were.
    """

    regrets: Array
    chosen: tuple[int, ...]
    seconds: float
    suggestions: int


def initial_ids(meta: MetaDataset, task: int, prescribed: Sequence[int] | None = None) -> tuple[int, ...]:
    """Ids of the pipelines that every method begins with on this task: those `prescribed`, or by the meta-dataset."""
    begin = tuple(meta.initial[task] if prescribed is None else prescribed)
    losses = meta.loss_row(task)
    if begin and np.isfinite(losses[meta.everything.rows(begin)]).any():
        return begin
    known = np.flatnonzero(np.isfinite(losses))
    if len(known) == 0:
        raise InvalidInput(f"task {meta.tasks[task]!r} of meta-dataset {meta.name!r} has no loss at all")
    drawn = np.random.default_rng(task).choice(known)
    return (*begin, int(meta.pipelines.ids[drawn]))


def run_task(
    optimizer: Optimizer,
    meta: MetaDataset,
    task: int,
    evaluations: int = 100,
    seed: int = 0,
    *,
    per_step: int = 1,
    initial: Sequence[int] | None = None,
) -> TaskRun:
    """Replay a method, meta-trained if it is to be, on one task.

    Parameters
    ----------
    optimizer
        Is not changed.
    meta, task
        The meta-dataset and the position of the task in it.
    evaluations
        Steps, the initial pipelines included.
    seed
        Of the run.
    per_step
        Pipelines tried at each step after the initial ones.
    initial
        Ids to begin with instead of those of the meta-dataset.
    """
    begin = initial_ids(meta, task, initial)
    losses = meta.loss_row(task)
    optimum, worst = float(np.nanmin(losses)), float(np.nanmax(losses))

    def stop_at_optimum(study: Study, trial: Trial) -> None:
        if trial.outcome.loss is not None and trial.outcome.loss <= optimum:
            study.stop("optimum")

    described = recorded_task(meta, task, begin, table=optimizer.needs.table)
    study = Study(described, Replay(meta, task), optimizer, seed=seed, callbacks=[stop_at_optimum])
    steps = np.arange(1, evaluations + 1)
    trials = steps + (per_step - 1) * np.maximum(steps - len(begin), 0)
    history = study.run(evaluations=int(trials[-1]))
    found = np.minimum.accumulate([worst, *(worst if t.outcome.loss is None else t.outcome.loss for t in history)])
    return TaskRun(
        found[np.minimum(trials, len(history))] - optimum,
        tuple(int(trial.pipeline.id or 0) for trial in history),
        study.ask_seconds,
        max(0, len(history) - len(study.optimizer.task.initial)),
    )


def expected_random(meta: MetaDataset, task: int, evaluations: int = 100, *, per_step: int = 1) -> Array:
    """Mean regret (evaluations,) of random search on a task, in closed form.

    The initial pipelines come before and are not drawn again.
    """
    begin = initial_ids(meta, task)
    losses = np.asarray(meta.loss_row(task), dtype=np.float64)
    tried = losses[meta.everything.rows(begin)]
    rest = np.delete(losses, meta.everything.rows(begin))
    found = np.fmin.accumulate([np.nanmax(losses), *tried])[1:]
    ordered = np.sort(np.minimum(rest[np.isfinite(rest)], found[-1]))
    drawn = range(per_step, per_step * (evaluations - len(begin)) + 1, per_step)
    regrets: Array = np.array([*found, *(expected_lowest(ordered, k) for k in drawn)])[:evaluations]
    return regrets - np.nanmin(losses)


def expected_lowest(ordered: Array, drawn: int) -> float:
    """Mean of the lowest of so many values drawn without replacement from these n, which are in ascending order.

    The lowest of k is the i-th lowest of all with probability C(n − i, k − 1) / C(n, k).

    >>> round(expected_lowest(np.array([0.0, 1.0, 2.0]), 2), 4)  # the pairs' lowest are 0, 0 and 1
    0.3333
    """
    from scipy.special import gammaln

    n = len(ordered)
    k = min(drawn, n)
    places = np.arange(1, n - k + 2)
    log_share = (
        gammaln(n - places + 1)
        - gammaln(n - places - k + 2)
        - gammaln(k)
        - (gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
    )
    return float(np.exp(log_share) @ ordered[: n - k + 1])
