"""`Race`: optimizers on the artificial objective of Liu et al. (AAAI 2020, appendix 15), by seconds and evaluations.

The objective costs nothing, so seconds are those that an optimizer takes to decide: processor time of one thread, which
other work on the machine does not lengthen. Run r of each method has the objective and the random numbers of seed r.

==========  =================  ==============================================================================
symbol      name in code       meaning
==========  =================  ==============================================================================
S           `speed_up`         cost at which a run of the reference found its final value, by that at which
                               the run of a method with the same seed had found one as good; or all that the
                               reference had, as the paper seems to count
I           `improvement`      1 − final value of the method / final value of the reference
==========  =================  ==============================================================================
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from experiments.optuna_search import OptunaSearch
from headstart.errors import MissingDependency
from headstart.evaluation.synthetic import Artificial
from headstart.optimizers.base import Optimizer
from headstart.registry import create
from headstart.replay.results import MethodResults, half_width, rounded, shown
from headstart.replay.runner import run_method
from headstart.space import catalog
from headstart.space.space import PipelineSpace
from headstart.study import Study
from headstart.task import Task
from headstart.trials import Trial

Array = NDArray[np.float64]
Run = dict[str, Any]
Cost = Literal["seconds", "evaluations"]
_MORE = 1_000_000


def searched_space() -> PipelineSpace:
    """`admm_large` in its usual order, without the stages that leave no choice: those add a value nobody can change."""
    whole = catalog.load("admm_large")
    return PipelineSpace("admm_large, stages with a choice", [s for s in whole.stages if len(s.algorithms) > 1])


def cost_to(run: Run, value: float, cost: Cost) -> float:
    """What it took a run to find a loss of at most `value`; infinite if it did not.

    >>> run = {"evaluations": [1, 4], "seconds": [0.1, 0.9], "losses": [3.0, 2.0]}
    >>> cost_to(run, 2.5, "evaluations"), cost_to(run, 1.0, "seconds")
    (4.0, inf)
    """
    reached = np.flatnonzero(np.array(run["losses"]) <= value)
    return float(run[cost][reached[0]]) if len(reached) else np.inf


def speed_up(reference: Run, run: Run, cost: Cost, whole: bool = False) -> tuple[float, bool]:
    """How many times cheaper a run had found the final value of another, and whether it did.

    If it did not, the ratio is what it would be had it found it with its last evaluation: more than is true.

    Parameters
    ----------
    whole
        Whether all of the reference's run counts, instead of what it took until it found that value.
    """
    needed = cost_to(run, reference["losses"][-1], cost)
    taken = reference["total"][cost] if whole else reference[cost][-1]
    reached = bool(np.isfinite(needed))
    return float(taken / (needed if reached else run["total"][cost])), reached


def improvement(reference: Run, run: Run) -> float:
    """By what share of the reference's final value a run's is lower."""
    return float(1 - run["losses"][-1] / reference["losses"][-1])


@dataclass
class Raced(MethodResults):
    """Improvements of each method on the same objectives: after which evaluation and second, and the loss.

    Parameters
    ----------
    space
        Name of the space.
    seconds, evaluations
        When a run ends.
    labels
        Names of the methods for people, in the order of the table, and the optimizers that they are; the first is what
        the others are compared with.
    """

    holds, rows = "runs on the artificial objective", "runs"
    space: str
    seconds: float | None
    evaluations: int | None
    labels: dict[str, str]

    def add_runs(self, method: str, runs: list[Any], **facts: Any) -> None:
        self.methods[method] = {"runs": runs, **facts}

    def ran(self) -> dict[str, list[Run]]:
        """Runs of the methods that were run, by their labels."""
        known = {label: self.methods.get(text, {}) for label, text in self.labels.items()}
        return {label: m["runs"] for label, m in known.items() if m.get("runs") and None not in m["runs"]}

    def finals(self, label: str) -> Array:
        return np.array([run["losses"][-1] for run in self.ran()[label]])

    def line(self, method: str) -> str:
        entry = self.methods[method]
        if "left_out" in entry:
            return f"{method} is left out: {entry['left_out']}"
        finals = [run["losses"][-1] for run in entry["runs"]]
        return f"{method}: median loss {np.median(finals):.3f} over {len(finals)} runs"

    def table(self) -> Table:
        """Final losses, and speed-up and improvement against the first method: geometric means with 95 % intervals."""
        runs = self.ran()
        reference = next(iter(runs), "")
        columns = ["", "evaluations", "median loss", "quartiles", "improvement", "lower–higher"]
        columns += ["speed-up in time", "in evaluations", "in time, of its whole run", "reached"]
        rows = []
        for label, own in runs.items():
            finals = np.array([run["losses"][-1] for run in own])
            low, middle, high = np.quantile(finals, (0.25, 0.5, 0.75))
            cells = [f"{np.median([run['total']['evaluations'] for run in own]):.0f}", f"{middle:.3f}"]
            cells += [f"{low:.3f} to {high:.3f}"]
            rows.append([label, *cells, *(self._against(runs[reference], own) if label != reference else [""] * 6)])
        ends = f"{self.seconds:g} s" if self.seconds else f"{self.evaluations} evaluations"
        number = max(map(len, runs.values()), default=0)
        return Table(f"Artificial objective, {number} runs of {ends}", columns, rows)

    def _against(self, reference: list[Run], own: list[Run]) -> list[str]:
        gains = np.array([improvement(r, o) for r, o in zip(reference, own, strict=True)])
        cells = [f"{100 * np.median(gains):.0f} %", f"{(gains > 0).sum()}–{(gains < 0).sum()}"]
        counts: tuple[tuple[Cost, bool], ...] = (("seconds", False), ("evaluations", False), ("seconds", True))
        for cost, whole in counts:
            found = [speed_up(r, o, cost, whole) for r, o in zip(reference, own, strict=True)]
            logs = np.log([ratio for ratio, _ in found])
            mean, width = logs.mean(), float(half_width(logs))
            cells.append(f"{_times(mean)} ({_times(mean - width)} to {_times(mean + width)})")
        return [*cells, f"{sum(reached for _, reached in found)} of {len(found)}"]


def _times(log: float) -> str:
    ratio = float(np.exp(log))
    return f"{shown(ratio, '.0f' if ratio >= 9.95 else '.1f')}×"


@dataclass(frozen=True)
class Race:
    """An experiment on the artificial objective.

    Parameters
    ----------
    methods
        Optimizers by the names that tables have for them, the one that others are compared with first; ``optuna`` is
        Optuna's TPE.
    seeds
        Runs of each.
    """

    methods: Mapping[str, str]
    seeds: int = 10

    def run(self, setup: Setup) -> Raced:
        seeds = setup.tables or self.seeds
        results = Raced(searched_space().name, setup.seconds, setup.evaluations, dict(self.methods))
        results = results.in_file(setup.out)
        for text in self.methods.values():
            results = run_method(
                results,
                text,
                {"optimizer": text} if text == "optuna" else create("optimizer", text).describe(),
                searched_space().key,
                {f"seed {seed}": seed for seed in range(seeds)},
                partial(_ready, text, setup.seconds, setup.evaluations),
                run_once,
                out=setup.out,
                jobs=setup.jobs,
                progress=setup.progress,
                skipped=MissingDependency,
            )
        return results

    load = staticmethod(Raced.load)

    @staticmethod
    def make(text: str) -> Optimizer:
        """A method as its text says."""
        return OptunaSearch() if text == "optuna" else create("optimizer", text)


def _ready(text: str, seconds: float | None, evaluations: int | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (Race.make(text), seconds, evaluations), {}


def run_once(method: Optimizer, seconds: float | None, evaluations: int | None, seed: int) -> Run:
    """One run: each improvement with the evaluation and the second that it came at."""
    space = searched_space()
    found: Run = {"evaluations": [], "seconds": [], "losses": []}
    begun, spent = time.process_time(), 0.0

    def note(study: Study, trial: Trial) -> None:
        nonlocal spent
        spent = time.process_time() - begun
        if study.history.best is trial:
            found["evaluations"].append(len(study.history))
            found["seconds"].append(spent)
            found["losses"].append(trial.outcome.loss)
        if spent >= (seconds or _MORE):
            study.stop()

    study = Study(Task(space), Artificial(space, seed), method, seed=seed, callbacks=[note])
    history = study.run(evaluations=evaluations or _MORE)
    found["seconds"], found["losses"] = rounded(np.array(found["seconds"]), 4), rounded(np.array(found["losses"]), 5)
    return {**found, "total": {"evaluations": len(history), "seconds": round(spent, 3)}}
