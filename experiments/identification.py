"""`Identification`: whether networks that read tables tell patches of one table from those of two (Dida's task 1).

==================  ========================================================================================
Algorithm 3         a patch is n rows and d features of a table, drawn with replacement
n, d                drawn anew at each step and the same for all patches of it: size never gives the answer away
training            two patches of each of 8 tables, all pairs of them; half of the loss for those of one table
test                two patches of each test table, over and over: each first one with the second one of its own
                    table, and with that of another test table; half of the pairs are of one table
answer              "of one table" where exp(-distance of the vectors) > ½
==================  ========================================================================================

No table is in two of training, validation and test. Every network gets the same seconds of a processor, with as many
steps as they suffice for by a measurement at the start; of its parameters those with the lowest loss on the validation
tables are kept. What was stopped goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from experiments.patches import BENCHMARKS, Benchmark, network_of
from headstart.learning.monitor import Monitor, monitored
from headstart.learning.networks import Parameters
from headstart.learning.training import Training, train_network
from headstart.metafeatures.base import TableNetwork
from headstart.metafeatures.identification import told_apart
from headstart.metafeatures.set_networks import TableArrays
from headstart.numerics.threads import one_blas_thread
from headstart.replay.results import Saved, half_width, shown

Array = NDArray[np.float64]
Loss = Callable[[dict[str, Any], np.random.Generator], Any]
N_TABLES = 8
_VALIDATION_ROUNDS, _TEST_ROUNDS = 6, 20
_CHECKS, _TIMED = 5, 4


@dataclass
class Identified(Saved):
    """Accuracies of networks.

    Parameters
    ----------
    settings
        Of the experiment.
    runs
        By label and seed: ``accuracy`` by test table, number of ``parameters``, ``steps``, ``seconds`` of a processor.
    steps
        By label and seed, of trainings that were begun.
    """

    holds = "identified patches"
    settings: dict[str, Any]
    runs: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)

    def means(self, label: str) -> Array:
        """Accuracy of each seed, a mean over test tables."""
        return np.array([np.mean(list(run["accuracy"].values())) for run in self.runs[label].values()])

    def table(self) -> Table:
        """Accuracy in %, its standard deviation over seeds, and half the width of the 95 % interval over tables."""
        rows = []
        for label, runs in self.runs.items():
            first = next(iter(runs.values()))
            means = 100.0 * self.means(label)
            over_tables = np.mean(
                [half_width(100.0 * np.array(list(run["accuracy"].values()))) for run in runs.values()]
            )
            spread = shown(float(means.std(ddof=1)), ".1f") if len(means) > 1 else ""
            steps = ", ".join(f"{run['steps']:,}" for run in runs.values())
            seconds = np.mean([run["seconds"] for run in runs.values()])
            cells = [f"{means.mean():.1f}", spread, f"{over_tables:.1f}", str(len(means))]
            rows.append([label, f"{first['parameters']:,}", *cells, steps, f"{seconds:.0f}"])
        columns = ["network", "parameters", "accuracy, %", "sd over seeds", "±, over tables", "seeds", "steps", "s"]
        return Table(f"{self.settings['benchmark']}: patches of one table or of two", columns, rows)


@dataclass(frozen=True)
class Identification:
    """An experiment on patches.

    Parameters
    ----------
    benchmark
        In `experiments.patches.BENCHMARKS`.
    networks
        Seeds by label, see `experiments.patches.network_of`; the first seed of all networks comes first.
    """

    benchmark: str
    networks: Mapping[str, int]

    def run(self, setup: Setup) -> Identified:
        """Train and test what is not in the file yet; saved after each training."""
        settings = {"benchmark": self.benchmark, "seconds": setup.seconds, "tables": N_TABLES, "test": _TEST_ROUNDS}
        found = Identified(settings)
        if setup.out.exists():
            before = Identified.load(setup.out)
            found = before if before.settings == settings else found
        for seed in range(max(self.networks.values())):
            for label, seeds in self.networks.items():
                if seed >= seeds or str(seed) in found.runs.get(label, {}):
                    continue
                benchmark = BENCHMARKS[self.benchmark](setup.data, seed)
                budget = Budget(setup.seconds or 0.0, f"{label}, seed {seed}", found, setup.out)
                with one_blas_thread():
                    found.runs.setdefault(label, {})[str(seed)] = run = identified(label, benchmark, seed, budget)
                found.runs = {name: found.runs[name] for name in self.networks if name in found.runs}
                found.save(setup.out)
                setup.progress.done(f"{label}, seed {seed}: {100 * np.mean(list(run['accuracy'].values())):.1f} %")
        return found

    load = staticmethod(Identified.load)


def identified(label: str, benchmark: Benchmark, seed: int, budget: Budget) -> dict[str, Any]:
    """Train a network on a benchmark and test it."""
    rng = np.random.default_rng(seed)
    network = network_of(label, benchmark, rng)
    training, validation, test = ([benchmark.tables[name] for name in names] for names in benchmark.split)

    def draw(tables: Sequence[TableArrays], stream: np.random.Generator) -> tuple[list[Any], list[int]]:
        chosen = [int(i) for i in stream.permutation(len(tables))[:N_TABLES] for _ in range(2)]
        return [network.whole(patch) for patch in benchmark.draw([tables[i] for i in chosen], stream)], chosen

    def loss(tensors: dict[str, Any], drawn: tuple[list[Any], list[int]]) -> Any:
        return told_apart(network({name: t.float() for name, t in tensors.items()}, drawn[0]), drawn[1])

    rounds = [draw(validation, rng) for _ in range(_VALIDATION_ROUNDS)]
    trained, about = budget.train(
        network.initial(rng),
        lambda tensors, stream: loss(tensors, draw(training, stream)),
        lambda tensors: sum(float(loss(tensors, drawn)) for drawn in rounds) / len(rounds),
        rng,
    )
    right = shares_right(network, trained, test, benchmark, np.random.default_rng(seed + 1000))
    accuracy = {name: round(float(r), 4) for name, r in zip(benchmark.split[2], right, strict=True)}
    return {"accuracy": accuracy, **about}


@dataclass(frozen=True)
class Budget:
    """Seconds of a processor that a training may take, by its name; what is begun is kept with the results."""

    seconds: float
    name: str
    found: Any
    out: Path

    def train(
        self,
        initial: Parameters,
        loss: Loss,
        validate: Callable[[dict[str, Any]], float],
        rng: np.random.Generator,
    ) -> tuple[Parameters, dict[str, Any]]:
        """The parameters with the lowest validation loss, and what there is to tell of the training."""
        if self.name not in self.found.steps:
            self.found.steps[self.name] = self._affordable(initial, loss)
            self.found.save(self.out)
        steps = self.found.steps[self.name]
        schedule = Training(check_every=max(1, steps // _CHECKS), patience=10_000)
        began = time.process_time()
        state = self.out.with_name(f".{self.out.name}.{self.name}")
        with monitored(Monitor(state=state, key=f"{self.name}: {steps}", resume=True)) as monitor:
            trained = train_network(initial, loss, validate, steps, schedule, rng, self.name)
        monitor.remove()
        del self.found.steps[self.name]
        about = {
            "parameters": sum(value.size for value in initial.values()),
            "steps": steps,
            "best_step": trained.step,
            "validation": [round(float(v), 4) for v in trained.checks[:, 1]],
            "seconds": round(time.process_time() - began, 1),
        }
        return trained.parameters, about

    def _affordable(self, initial: Parameters, loss: Loss) -> int:
        """Steps that take about so many seconds, by the fastest of some."""
        few = Training(check_every=_TIMED, patience=10_000)
        times = []
        for seed in range(3):
            start = time.process_time()
            train_network(initial, loss, lambda _: 0.0, _TIMED, few, np.random.default_rng(seed), self.name)
            times.append((time.process_time() - start) / _TIMED)
        return max(_CHECKS, int(self.seconds / min(times)))


def shares_right(
    network: TableNetwork,
    parameters: Parameters,
    tables: Sequence[TableArrays],
    benchmark: Benchmark,
    rng: np.random.Generator,
) -> Array:
    """Share of right answers for each table; half of the pairs are of one table."""
    from headstart.learning.backend import one_torch_thread

    right = np.zeros(len(tables))
    with one_torch_thread("testing") as torch, torch.no_grad():
        tensors = {name: torch.as_tensor(value).float() for name, value in parameters.items()}
        for _ in range(_TEST_ROUNDS):
            patches = [network.whole(patch) for patch in benchmark.draw([*tables, *tables], rng)]
            first, second = network(tensors, patches).double().numpy().reshape(2, len(tables), -1)
            other = (np.arange(len(tables)) + rng.integers(1, len(tables), len(tables))) % len(tables)
            right += np.exp(-np.linalg.norm(first - second, axis=1)) > 0.5
            right += np.exp(-np.linalg.norm(first - second[other], axis=1)) <= 0.5
    return right / (2 * _TEST_ROUNDS)
