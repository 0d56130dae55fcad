"""Milliseconds per suggestion, model update included. Run: python benchmarks/suggest.py [--method NAME …]

A pool of 20,000 candidates with 82 columns (the width of the PMF meta-dataset), 100 observations; with
``--live tensor_oboe`` a live search of that space, whose every pipeline is recorded. Meta-learned methods learn from
synthetic tasks first, which is timed apart. On a shared machine wall-clock time says little: beside it stands the time
of the processor, and the ratio to the first method of the table, measured in turns with it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table

from headstart.errors import HeadstartError
from headstart.evaluation.objective import Objective
from headstart.evaluation.recorded import Replay, recorded_task
from headstart.metadata import MetaDataset
from headstart.optimizers.base import Optimizer
from headstart.registry import create, names
from headstart.space import Algorithm, Encoded, Float, Pipeline, PipelineSpace, Stage, catalog
from headstart.task import Task
from headstart.trials import FULL, Fidelity, Limits, Outcome, Proposal, Trial

console = Console()
TARGETS = {"gp": 150, "forest": 400}
"""Milliseconds that a suggestion may take on a quiet machine."""


def recorded(n_pipelines: int, n_tasks: int, seed: int = 0) -> MetaDataset:
    """Related tasks over random pipelines with as many stages, algorithms and columns as those of PMF."""
    rng = np.random.default_rng(seed)
    widths = ((3, 5), (4, 9, 8, 6, 10, 9, 8, 10))
    space = PipelineSpace(
        "as_wide_as_pmf",
        [
            Stage(
                f"stage{s}",
                [Algorithm(f"a{a}", params=[Float(f"p{p}", 0, 1) for p in range(n)]) for a, n in enumerate(stage)],
            )
            for s, stage in enumerate(widths)
        ],
    )
    return related(space.sample(rng, n_pipelines), n_tasks, rng)


def related(drawn: Encoded, n_tasks: int, rng: np.random.Generator) -> MetaDataset:
    """Related tasks over these pipelines."""
    pipelines = Encoded(drawn.space, drawn.values, drawn.active, drawn.choice, ids=np.arange(len(drawn)))
    features = pipelines.features()
    hidden = np.tanh(features @ rng.standard_normal((features.shape[1], 12)))
    losses = 0.3 + 0.1 * np.tanh((rng.standard_normal((n_tasks, 12)) + 1.0) @ hidden.T)
    losses += 0.01 * rng.standard_normal(losses.shape)
    metafeatures = {name: rng.standard_normal((n_tasks, 8)) for name in ("example", "dataset2vec")}
    return MetaDataset(pipelines, losses.astype(np.float32), [f"task {t}" for t in range(n_tasks)], metafeatures)


class LiveReplay:
    """Looks up pipelines of a space by what they are."""

    def __init__(self, meta: MetaDataset, task: int) -> None:
        self.pipelines, self.losses = meta.pipelines, meta.loss_row(task)

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:  # noqa: ARG002
        (place,) = self.pipelines.find(self.pipelines.space.encode([pipeline]))
        return Outcome.of(float(self.losses[place]), seconds=1.0)


def begun(optimizer: Optimizer, task: Task, replay: Objective, observations: int) -> Optimizer:
    """A run that has seen so many random candidates."""
    run = optimizer.start(task, 0)
    chosen = task.candidates.sample(np.random.default_rng(1), 2 * observations).unique()[:observations]
    for number, pipeline in enumerate(chosen):
        proposal = Proposal(number, pipeline)
        run.restore(proposal)
        run.tell(Trial(proposal, replay(pipeline, Limits(), 0), 0.0, 0.0))
    return run


def step(run: Optimizer, replay: Objective) -> tuple[float, float]:
    """Seconds on the wall and of the processor for one suggestion; the result is told, so the next model differs."""
    wall, processor = time.perf_counter(), time.process_time()
    (proposal,) = run.ask(1)
    spent = time.perf_counter() - wall, time.process_time() - processor
    run.tell(Trial(proposal, replay(proposal.pipeline, Limits(), 0), 0.0, 0.0))
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--method", action="append", help="name of a surrogate or optimizer; all surrogates when omitted"
    )
    parser.add_argument("--candidates", type=int, default=20_000)
    parser.add_argument("--live", metavar="SPACE", help="search a space that can be listed, instead of a pool")
    parser.add_argument("--observations", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=40, help="that meta-learned methods learn from")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()

    task: Task
    replay: Objective
    if options.live is None:
        meta = recorded(options.candidates, options.tasks + 1)
        task, replay = recorded_task(meta, 0), Replay(meta, 0)
    else:
        space = catalog.load(options.live)
        if space.listed is None:
            raise SystemExit(f"space {space.name!r} cannot be listed; use tensor_oboe")
        meta = related(space.listed, options.tasks + 1, np.random.default_rng(0))
        task, replay = Task(space), LiveReplay(meta, 0)
    learned_from = meta.select(range(1, options.tasks + 1))
    runs: dict[str, Optimizer] = {}
    training: dict[str, float] = {}
    for name in options.method or names("surrogate"):
        started = time.perf_counter()
        try:
            optimizer: Optimizer = create("optimizer", name).meta_fit(learned_from)
            training[name] = time.perf_counter() - started
            runs[name] = begun(optimizer, replace(task), replay, options.observations)
            step(runs[name], replay)  # caches of the pool and imports, once per task
        except HeadstartError as error:
            console.print(f"{name}: left out ({error})")
            runs.pop(name, None)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(options.repeats):
        for name, run in runs.items():
            seconds[name].append(step(run, replay))

    where = "a pool" if options.live is None else f"space {options.live}, live"
    title = f"{len(meta.pipelines):,} candidates of {where}, {options.observations} observations and more"
    table = Table(title=title)
    for column in ("method", "median ms", "processor ms", "ratio", "aim, ms", f"learns {options.tasks} tasks, s"):
        table.add_column(column, justify="left" if column == "method" else "right")
    first = None
    for name, spent in seconds.items():
        wall, processor = (1e3 * statistics.median(column) for column in zip(*spent, strict=True))
        first = first or processor
        table.add_row(
            name,
            f"{wall:.0f}",
            f"{processor:.0f}",
            f"{processor / first:.2f}",
            str(TARGETS.get(name, "")),
            f"{training[name]:.1f}",
        )
    console.print(table)


if __name__ == "__main__":
    main()
