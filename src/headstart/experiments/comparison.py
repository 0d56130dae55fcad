"""`Comparison`: methods replayed on the same tasks, after they learned from all training tasks or from a variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headstart.experiments.catalogue import Request, Table
from headstart.experiments.results import Results, evaluations_shown, order_by_regret, shown
from headstart.experiments.runner import replay, writing
from headstart.experiments.variants import Variant


@dataclass(frozen=True)
class Arm:
    """Methods that learn from the same.

    Parameters
    ----------
    methods
        See `headstart.experiments.replay.Method.parse`.
    variant
        What they learn from; ``None`` for all training tasks.
    """

    methods: Sequence[str]
    variant: Variant | None = None


@dataclass(frozen=True)
class Compared:
    """Results of a comparison."""

    results: Results

    def table(self) -> Table:
        results = self.results
        evaluations = evaluations_shown(results)
        rows = []
        for name in order_by_regret(results, results.evaluations):
            entry = results.methods[name]
            cells = [f"{shown(entry['regret_mean'][e - 1])} ± {shown(entry['regret_ci'][e - 1])}" for e in evaluations]
            rank = "" if entry["rank_mean"] is None else shown(entry["rank_mean"][-1], ".2f")
            rows.append([name, *cells, rank])
        title = f"{results.meta}, {results.split}: mean regret over {len(results.tasks)} tasks"
        return Table(title, ["method", *map(str, evaluations), f"rank at {results.evaluations}"], rows)


@dataclass(frozen=True)
class Comparison:
    """An experiment that replays methods.

    Parameters
    ----------
    arms
        What is compared.
    seeds
        Runs for each task.
    beside
        Another experiment on the same tasks, if it has methods in common: what it found is used again.
    """

    arms: Sequence[Arm]
    seeds: int = 1
    beside: str | None = None

    def run(self, request: Request) -> Compared:
        """Replay all of it; the file holds `Results`."""
        self._borrow(request)
        results: Results | None = None
        for arm in self.arms:
            results = replay(
                request.meta,
                arm.methods,
                request.partition,
                evaluations=request.evaluations or 100,
                seeds=self.seeds,
                jobs=request.jobs,
                out=request.out,
                progress=request.progress,
                variant=arm.variant,
            )
        assert results is not None
        return Compared(results)

    def _borrow(self, request: Request) -> None:
        """Take over what the other experiment found; whether that fits is for the replay to decide."""
        path = None if self.beside is None else request.file_of(self.beside)
        if path is None or not path.exists():
            return
        other = Results.load(path)
        wanted = {name for arm in self.arms if arm.variant is None for name in arm.methods}
        with writing(request.out):
            results = Results.load(request.out) if request.out.exists() else replace(other, methods={})
            new = {n: e for n, e in other.methods.items() if n in wanted and n not in results.methods}
            if new and results.same_runs(other):
                results.methods.update(new)
                results.summarise()
                results.save(request.out)
