"""`Comparison`: methods replayed on the same tasks, after they learned from all training tasks or from a variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.catalogue import Request, Table
from headstart.replay.protocol import Method
from headstart.replay.results import Results, evaluations_shown, order_by_regret, shown
from headstart.replay.runner import given_to, plain, replay, writing
from headstart.replay.variants import Variant


@dataclass(frozen=True)
class Arm:
    """Methods that learn from the same.

    Parameters
    ----------
    methods
        See `headstart.replay.protocol.Method`.
    variant
        What they learn from; ``None`` for all training tasks.
    """

    methods: Sequence[str | Method]
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
        Other experiments on the same tasks that may have methods in common, by whatever name, or
        `experiments.catalogue.REPLAY`: what they found is used again.
    """

    arms: Sequence[Arm]
    seeds: int = 1
    beside: Sequence[str] = ()

    def run(self, request: Request) -> Compared:
        """Replay all of it; the file holds `Results`."""
        for other in self.beside:
            self._borrow(request, other)
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

    def _borrow(self, request: Request, other: str) -> None:
        """Take over what another experiment found with the same settings, given the same, in the same runs."""
        path = request.file_of(other)
        if path == request.out or not path.exists():
            return
        found = Results.load(path)
        tasks, evaluations = list(request.partition.test), request.evaluations or 100
        names = [request.meta.tasks[i] for i in tasks]
        here = Results(request.meta.name, request.partition.name, evaluations, self.seeds, tasks, names)
        if not here.same_runs(found):
            return
        given = given_to(request.meta, request.partition, request.partition.initial_designs(request.meta))
        with writing(request.out):
            results = Results.load(request.out) if request.out.exists() else here
            if not results.same_runs(here):
                return  # whether what is in the file fits is for the replay to say
            new: dict[str, dict[str, Any]] = {}
            for method in (Method.of(m) for arm in self.arms if arm.variant is None for m in arm.methods):
                wanted = (plain(method.make().describe()), given, method.per_step)
                if not _is(results.methods.get(method.text), method.text, wanted):
                    same = [entry for name, entry in found.methods.items() if _is(entry, name, wanted)]
                    if same:
                        new[method.text] = dict(same[0])
            if new:
                results.methods.update(new)
                results.summarise()
                results.save(request.out)


def _is(entry: dict[str, Any] | None, name: str, wanted: tuple[object, ...]) -> bool:
    """Whether a method in results has these settings, was given this, and tried so many pipelines at each step."""
    if entry is None:
        return False
    return (entry.get("settings"), entry.get("given"), Method.parse(name).per_step) == wanted
