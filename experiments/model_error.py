"""`ErrorOverTime`: how well a model predicts what it has not seen, as its own search goes on.

==============================  ==================  ==========================================================
quantity                        name in files       of a task, after so many evaluations
==============================  ==================  ==========================================================
mean squared error              error               mean over candidates not tried yet of (µ − y)², y in
                                                    the unit of predictions: `Surrogate.transform_targets`
posterior predictive variance   variance            mean over the same candidates of v
two standard errors             error_2se, …        2 s / √T over the T tasks, as figure 6 of the PMF paper
==============================  ==================  ==========================================================

Unlike a replay the search goes on when the optimum is found, so that every task counts after every evaluation. Beside
the mean over tasks stands the median: a mean squared error is often that of a few tasks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from headstart.errors import Exhausted, InvalidInput
from headstart.evaluation.recorded import Replay, recorded_task
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.base import Optimizer
from headstart.optimizers.bayes import Bayes
from headstart.replay.protocol import Method, initial_ids
from headstart.replay.results import rounded, shown, write_whole
from headstart.replay.runner import Cell, given_to, plain, versions, writing
from headstart.replay.work import Log, each
from headstart.surrogates.base import Surrogate
from headstart.trials import Limits, Trial

Array = NDArray[np.float64]
QUANTITIES = ("error", "variance")


@dataclass
class Errors:
    """What was found.

    Parameters
    ----------
    meta, split
        Names of the meta-dataset and of the tasks' split.
    evaluations
        After which it was looked at the models.
    tasks, names
        Positions of the tasks in the meta-dataset, and their names.
    methods
        By their text: ``error`` and ``variance``, (tasks, evaluations), with means, medians and twice standard errors.
    """

    meta: str
    split: str
    evaluations: list[int]
    tasks: list[int]
    names: list[str]
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, method: str, found: dict[str, Array], **facts: Any) -> None:
        """Take in a method's quantities, each (tasks, evaluations)."""
        entry: dict[str, Any] = dict(facts)
        for name, values in found.items():
            entry[name] = [rounded(row, 4) for row in values]
            entry[f"{name}_mean"] = rounded(values.mean(axis=0))
            entry[f"{name}_median"] = rounded(np.median(values, axis=0))
            error = (
                values.std(axis=0, ddof=1) / np.sqrt(len(values))
                if len(values) > 1
                else np.full(len(values[0]), np.nan)
            )
            entry[f"{name}_2se"] = rounded(2 * error)
        self.methods[method] = entry

    def table(self) -> Table:
        rows = []
        for method, entry in self.methods.items():
            for name in QUANTITIES:
                pairs = zip(entry[f"{name}_mean"], entry[f"{name}_2se"], strict=True)
                rows.append([f"{method}: {name}", *(f"{shown(mean)} ± {shown(width)}" for mean, width in pairs)])
        title = (
            f"{self.meta}, {self.split}: squared error and variance of predictions, mean over {len(self.tasks)} tasks"
        )
        return Table(title, ["", *map(str, self.evaluations)], rows)

    def save(self, path: Path) -> None:
        content = asdict(self)
        methods = content.pop("methods")
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()]
        entries = [
            f"{json.dumps(name)}: {{"
            + ",\n".join(f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in entry.items())
            + "}"
            for name, entry in methods.items()
        ]
        lines.append('"methods": {\n' + ",\n".join(entries) + "}")
        write_whole(path, "{" + ",\n".join(lines) + "}\n")

    @classmethod
    def load(cls, path: Path) -> Errors:
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"{path} must hold errors of models as JSON: {error}") from error


@dataclass(frozen=True)
class ErrorOverTime:
    """An experiment that looks at the model of a search while it goes on.

    Parameters
    ----------
    methods
        Whose searches are `Bayes`, see `headstart.replay.protocol.Method.parse`.
    evaluations
        When to look; those beyond the search are left out.
    """

    methods: Sequence[str]
    evaluations: Sequence[int] = (5, 10, 20, 50, 100, 150, 200)

    def run(self, request: Setup) -> Errors:
        """Measure every method that is not in the file with the same settings yet."""
        meta, partition, out = request.meta, request.partition, request.out
        last = request.evaluations or max(self.evaluations)
        looks = [e for e in self.evaluations if e <= last]
        if not looks:
            raise InvalidInput(f"evaluations must be at least {min(self.evaluations)}, got {last}")
        tasks = list(partition.test)
        fresh = Errors(meta.name, partition.name, looks, tasks, [meta.tasks[i] for i in tasks])
        found = Errors.load(out) if out.exists() else fresh
        if (found.meta, found.split, found.evaluations, found.tasks) != (fresh.meta, fresh.split, looks, tasks):
            found = fresh
        designs = partition.initial_designs(meta)
        given = given_to(meta, partition, designs)
        for method in (Method.parse(text) for text in self.methods):
            template = method.make()
            facts = {"settings": plain(template.describe()), "given": given}
            known = found.methods.get(method.text, {})
            if all(known.get(key) == value for key, value in facts.items()):
                request.progress.done(f"{method.text}: known already")
                continue
            head = {"method": method.text, **facts, "tasks": tasks, "evaluations": looks}
            with Log(out, method.text, head) as log, one_blas_thread():
                kept = {content["task"]: content for content in log.found}
                left = [task for task in tasks if task not in kept]
                if left:
                    request.progress.learning(method.text)
                    with log.learning(partial(request.progress.learning, method.text)):
                        optimizer = template.meta_fit(partition.learning(meta))
                    request.progress.running(method.text, len(kept), len(tasks))
                    for task, values in each(looked_at, (optimizer, meta, looks, designs), left, request.jobs):
                        kept[task] = {"task": task, **values}
                        log.write(kept[task])
                        request.progress.running(method.text, len(kept), len(tasks))
                values = {name: np.array([kept[task][name] for task in tasks]) for name in QUANTITIES}
                with writing(out):
                    if out.exists():  # another process may have added a method in the meantime
                        there = Errors.load(out)
                        same = (there.meta, there.split, there.evaluations, there.tasks)
                        found = there if same == (meta.name, partition.name, looks, tasks) else found
                    found.add(method.text, values, **facts, versions=versions())
                    found.save(out)
                log.close(done=True)
            entry = found.methods[method.text]
            request.progress.done(f"{method.text}: squared error {shown(entry['error_mean'][-1])} after {looks[-1]}")
        return found

    def load(self, path: Path) -> Errors:
        return Errors.load(path)


def model_of(optimizer: Optimizer) -> Surrogate:
    """The surrogate of a search."""
    surrogate = optimizer.surrogate if isinstance(optimizer, Bayes) else None
    if not isinstance(surrogate, Surrogate):
        raise InvalidInput(f"a search with a model is needed, got {optimizer!r}; name a surrogate, such as gp")
    return surrogate


def looked_at(
    optimizer: Optimizer, meta: MetaDataset, looks: Sequence[int], designs: dict[int, tuple[int, ...]], task: int
) -> dict[str, list[float]]:
    """Quantities of the model on one task, after each of `looks` evaluations of its own search."""
    begin = initial_ids(meta, task, task, designs[task])
    described = recorded_task(meta, task, begin)
    run, model = optimizer.start(described, Cell(task, 0).stream), model_of(optimizer).start(described)
    objective, limits = Replay(meta, task), Limits()
    pool = described.candidates.pool
    assert pool is not None
    truth = np.asarray(meta.loss_row(task)[meta.everything.rows(pool.ids)], dtype=np.float64)
    untried = np.isfinite(truth)
    values: dict[str, list[float]] = {name: [] for name in QUANTITIES}
    for step in range(1, max(looks) + 1):
        try:
            (proposal,) = run.ask(1)
        except Exhausted as error:
            raise InvalidInput(
                f"task {meta.tasks[task]!r} has {len(pool)} candidates, too few for {max(looks)} evaluations"
            ) from error
        run.tell(Trial(proposal, objective(proposal.pipeline, limits, 0), 0.0, 0.0))
        untried[pool.ids == proposal.pipeline.id] = False
        if step in looks:
            prediction = model.fit(run.history).predict(pool)
            std = prediction.std if prediction.std is not None else np.zeros(len(pool))
            off = prediction.mean[untried] - model.transform_targets(truth[untried])
            values["error"].append(float(np.mean(off**2)) if len(off) else 0.0)
            values["variance"].append(float(np.mean(std[untried] ** 2)) if len(off) else 0.0)
    return values
