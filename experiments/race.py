"""`Race`: optimizers on the artificial objective of Liu et al. (AAAI 2020, appendix 15), by seconds and evaluations.

The objective costs nothing, so seconds are those that an optimizer takes to decide: processor time of one thread, which
other work on the machine does not lengthen. Run r of each method has the objective and the random numbers of seed r.
`LiveRace` is the same on raw tables (appendix 14), where seconds are those of the clock and the loss is one minus the
area under the ROC curve on a fifth of the rows.

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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from experiments.live_duels import LiveDuels
from experiments.live_tables import RawTable, read_table
from experiments.optuna_search import OptunaSearch
from headstart.errors import InvalidInput, MissingDependency
from headstart.evaluation.live import LiveObjective
from headstart.evaluation.objective import Objective
from headstart.evaluation.sandbox import Sandbox
from headstart.evaluation.synthetic import Artificial
from headstart.optimizers.base import Optimizer
from headstart.registry import create
from headstart.replay.results import MethodResults, half_width, rounded, shown
from headstart.replay.runner import run_method
from headstart.space import catalog
from headstart.space.space import PipelineSpace
from headstart.study import Study
from headstart.task import Task
from headstart.trials import Limits, Trial

Array = NDArray[np.float64]
Run = dict[str, Any]
Cost = Literal["seconds", "evaluations"]
_MORE = 1_000_000
HOLDOUT, METRIC = 0.2, "roc_auc"
"""By which pipelines are judged on raw tables."""
CONSTANT = 0.5
"""Loss of a constant by that metric."""


def searched_space() -> PipelineSpace:
    """`admm_large` in its usual order, without the stages that leave no choice: those add a value nobody can change."""
    whole = catalog.load("admm_large")
    return PipelineSpace("admm_large, stages with a choice", [s for s in whole.stages if len(s.algorithms) > 1])


def live_space() -> PipelineSpace:
    """`admm_large` in its usual order, as in the paper's experiments."""
    whole = catalog.load("admm_large")
    return PipelineSpace("admm_large, usual order", whole.stages, whole.forbidden)


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
        """Final losses, and speed-up and improvement against the first method: geometric means with 95 % intervals.

        Where several methods are searches of all variables, ADMM is compared with each of them.
        """
        runs = self.ran()
        reference, *others = [label for label in runs if not self.labels[label].startswith("admm")] or list(runs)[:1]
        columns = ["", "evaluations", "median loss", "quartiles", "improvement", "lower–higher"]
        columns += ["speed-up in time", "in evaluations", "in time, of its whole run", "reached"]
        rows = []
        for label, own in runs.items():
            finals = np.array([run["losses"][-1] for run in own])
            low, middle, high = np.quantile(finals, (0.25, 0.5, 0.75))
            cells = [f"{np.median([run['total']['evaluations'] for run in own]):.0f}", f"{middle:.3f}"]
            cells += [f"{low:.3f} to {high:.3f}"]
            rows.append([label, *cells, *(self._against(runs[reference], own) if label != reference else [""] * 6)])
        for other in others:
            ours = [label for label in runs if label not in (reference, *others)]
            rows += [[f"{o}, against {other}", "", "", "", *self._against(runs[other], runs[o])] for o in ours]
        ends = f"{self.seconds:g} s" if self.seconds else f"{self.evaluations} evaluations"
        number = max(map(len, runs.values()), default=0)
        return Table(f"{self.space}: {number} runs of {ends}", columns, rows)

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
class ArtificialRound:
    """A run on the artificial objective of this seed."""

    seed: int
    limits: ClassVar[Limits] = Limits()

    @property
    def space(self) -> PipelineSpace:
        return searched_space()

    def clock(self) -> float:
        return time.process_time()

    @contextmanager
    def objective(self) -> Iterator[Objective]:
        yield Artificial(self.space, self.seed)


@dataclass(frozen=True)
class TableRound:
    """A run on a raw table, judged on a fifth of its rows: the same ones for all seeds."""

    table: RawTable
    seed: int
    limits: Limits

    @property
    def space(self) -> PipelineSpace:
        return live_space()

    def clock(self) -> float:
        return time.monotonic()

    @contextmanager
    def objective(self) -> Iterator[Objective]:
        ready = read_table(self.table, max_rows=_MORE, test=0.0, holdout=HOLDOUT, seed=0)
        with Sandbox(LiveObjective(self.space, ready.dataset, ready.splits, METRIC)) as sandbox:
            sandbox.warm()
            yield sandbox


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

    def rounds(self, setup: Setup) -> Mapping[str, ArtificialRound | TableRound]:
        """What is run, by its name."""
        return {f"seed {seed}": ArtificialRound(seed) for seed in range(setup.tables or self.seeds)}

    def run(self, setup: Setup) -> Raced:
        rounds = self.rounds(setup)
        space = next(iter(rounds.values())).space
        results = Raced(space.name, setup.seconds, setup.evaluations, dict(self.methods))
        results = results.in_file(setup.out)
        for text in self.methods.values():
            results = run_method(
                results,
                text,
                {"optimizer": text} if text == "optuna" else create("optimizer", text).describe(),
                space.key,
                rounds,
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


@dataclass(frozen=True)
class LiveRace(Race):
    """The same on raw tables with two classes, by the clock.

    Parameters
    ----------
    tables
        How many of the folder ``tables`` in the data: the largest below 2,000 rows, by `LiveDuels`' rule.
    """

    seeds: int = 3
    tables: int = 4

    def rounds(self, setup: Setup) -> Mapping[str, ArtificialRound | TableRound]:
        if setup.data is None:
            raise InvalidInput(f"{setup.name} is on raw tables: give --data DIR, a folder with tables/")
        found = LiveDuels((), tables=self.tables, classes=2).choose(setup.data / "tables")[: setup.tables]
        limits = Limits(None if setup.seconds is None else setup.seconds / 12, 3_000_000_000)
        return {f"{t.name}, seed {seed}": TableRound(t, seed, limits) for t in found for seed in range(self.seeds)}


def _ready(text: str, seconds: float | None, evaluations: int | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (Race.make(text), seconds, evaluations), {}


def run_once(
    method: Optimizer, seconds: float | None, evaluations: int | None, on: ArtificialRound | TableRound
) -> Run:
    """One run: each improvement with the evaluation and the second that it came at."""
    found: Run = {"evaluations": [], "seconds": [], "losses": []}
    with on.objective() as objective:
        begun, spent = on.clock(), 0.0

        def note(study: Study, trial: Trial) -> None:
            nonlocal spent
            spent = on.clock() - begun
            if study.history.best is trial:
                found["evaluations"].append(len(study.history))
                found["seconds"].append(spent)
                found["losses"].append(trial.outcome.loss)
            if spent >= (seconds or _MORE):
                study.stop()

        study = Study(Task(on.space), objective, method, seed=on.seed, limits=on.limits, callbacks=[note])
        history = study.run(evaluations=evaluations or _MORE)
    if not found["losses"]:  # nothing but failures: a constant is left
        found |= {"evaluations": [len(history)], "seconds": [spent], "losses": [CONSTANT]}
    found["seconds"], found["losses"] = rounded(np.array(found["seconds"]), 4), rounded(np.array(found["losses"]), 5)
    return {**found, "total": {"evaluations": len(history), "seconds": round(spent, 3)}}
