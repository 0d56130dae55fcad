"""Tables that patches are drawn from, and the networks that read them, for the experiments of Dida.

==============  ===============================================================================================
``toy``         generated (appendix B.4.1): mixtures of Gaussians, intertwined moons and rings in the plane with 2
                to 7 classes; patches of 200 rows
``uci``         ``uci_tables`` of the data folder, ``NAME.npz`` with X and y; patches of 200 to 500 rows and 2 to 15
                features; training, validation and test tables are those of ``meta/dmfbs_splits.csv``
``uci_even``    the same, but a patch has two classes of its table and half of its rows of each: how many classes
                there are and how large they are tells nothing
``openml``      48 classification tables of at least 1,000 rows in ``tables``, one of a group, in the place of
                OpenML-CC18; patches of 700 to 900 rows and 3 to 10 features
==============  ===============================================================================================

Columns are standardised over the whole table.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.data import Dataset
from headstart.data.errors import DataWarning
from headstart.errors import InvalidInput
from headstart.learning.networks import MLP, Parameters
from headstart.metafeatures.base import TableNetwork
from headstart.metafeatures.handcrafted import HandCrafted
from headstart.metafeatures.set_networks import Dataset2VecNetwork, TableArrays
from headstart.methods.dida.deep_sets import DSSNetwork, OrderedFeaturesNetwork
from headstart.methods.dida.network import PATCH_FEATURES, PATCH_ROWS, DidaNetwork, patches_of

Array = NDArray[np.float64]
_TOY_TABLES, _TOY_ROWS = 2000, 2048
_OPENML_TABLES = 48
_CLASSES = 10
OUTPUTS = 32


@dataclass(frozen=True)
class Benchmark:
    """Tables by name; names of those to train on, to validate and to test on; least and most rows and features of a
    patch; whether it has two classes, as many rows of each."""

    tables: Mapping[str, TableArrays]
    split: tuple[list[str], list[str], list[str]]
    rows: tuple[int, int] = PATCH_ROWS
    features: tuple[int, int] = PATCH_FEATURES
    even: bool = False

    def draw(self, tables: Sequence[TableArrays], rng: np.random.Generator) -> list[TableArrays]:
        """A patch of each table, all of one size."""
        drawn = [of_two_classes(table, rng, self.rows[1]) for table in tables] if self.even else tables
        return patches_of(drawn, rng, self.rows, self.features)


def of_two_classes(table: TableArrays, rng: np.random.Generator, rows: int) -> TableArrays:
    """So many rows of each of two random classes of a table, drawn with replacement."""
    two = rng.permutation(table.targets.shape[1])[:2]
    chosen = np.concatenate([rng.choice(np.flatnonzero(table.targets[:, c]), rows) for c in two])
    return TableArrays(table.features[chosen], table.targets[np.ix_(chosen, two)])


def standardised(features: NDArray[Any], classes: NDArray[Any]) -> TableArrays:
    """A table of numbers (n, d) and classes (n,)."""
    x = np.nan_to_num(np.asarray(features, dtype=np.float64))
    spread = x.std(axis=0)
    varies = spread > 1e-9 * np.maximum(1.0, np.abs(x).max(axis=0))
    scaled = np.where(varies, (x - x.mean(axis=0)) / np.where(varies, spread, 1.0), 0.0)
    one_hot = np.asarray(classes)[:, None] == np.unique(classes)
    return TableArrays(np.clip(scaled, -8.0, 8.0).astype(np.float32), one_hot.astype(np.float32))


def uci(data: Path | None, seed: int) -> Benchmark:
    """UCI tables, with one of five splits."""
    if data is None or not (data / "uci_tables").is_dir():
        raise InvalidInput(f"there must be a folder uci_tables with tables NAME.npz in --data DIR, got {data}")
    tables = {}
    for file in sorted((data / "uci_tables").glob("*.npz")):
        with np.load(file, allow_pickle=False) as held:
            tables[file.stem] = standardised(held["X"], held["y"])
    with (data / "meta" / "dmfbs_splits.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    training, validation, test = (
        [row[f"{part}-{seed % 5}"] for row in rows if row[f"{part}-{seed % 5}"] in tables]
        for part in ("train", "valid", "test")
    )
    return Benchmark(tables, (training, validation, test))


def uci_even(data: Path | None, seed: int) -> Benchmark:
    """UCI tables, and patches with two classes of one size."""
    return replace(uci(data, seed), even=True)


def openml(data: Path | None, seed: int) -> Benchmark:
    """Tables in the place of OpenML-CC18; a sixth of the groups validates and a quarter tests."""
    if data is None or not (data / "tables" / "index.csv").exists():
        raise InvalidInput(f"there must be a folder tables with an index.csv in --data DIR, got {data}")
    with (data / "tables" / "index.csv").open(encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["task"] == "classification" and int(row["rows"]) >= 1000]
    rng = np.random.default_rng([seed, 43])
    groups = sorted({row["group"] for row in rows})
    chosen = [groups[i] for i in rng.permutation(len(groups))[:_OPENML_TABLES]]
    named = {row["group"]: row["name"] for row in rows}  # one table of each group
    tables = {}
    for group in chosen:
        dataset = Dataset.from_table(data / "tables" / "classification" / f"{named[group]}.parquet", "target")
        tables[named[group]] = TableArrays.of(dataset, 5000)
    names, first, last = list(tables), len(chosen) // 6, 5 * len(chosen) // 12
    return Benchmark(tables, (names[last:], names[:first], names[first:last]), (700, 900), (3, 10))


def toy(data: Path | None, seed: int) -> Benchmark:  # noqa: ARG001
    """Generated tables in the plane; a tenth of them validates and a fifth tests."""
    rng = np.random.default_rng([seed, 41])
    tables = {f"toy{i}": standardised(*toy_table(rng)) for i in range(_TOY_TABLES)}
    names, first, last = list(tables), _TOY_TABLES // 10, 3 * _TOY_TABLES // 10
    return Benchmark(tables, (names[last:], names[:first], names[first:last]), (200, 200), (2, 2))


def toy_table(rng: np.random.Generator, rows: int = _TOY_ROWS) -> tuple[Array, NDArray[np.int64]]:
    """Points (rows, 2) and classes (rows,) of one table: Gaussians, moons or rings, turned and stretched."""
    n_classes = int(rng.integers(2, 8))
    classes = rng.choice(n_classes, rows, p=rng.dirichlet(np.full(n_classes, 3.0)))
    noise = rng.standard_normal((rows, 2))
    kind = int(rng.integers(3))
    if kind == 0:
        centres, roots = rng.uniform(-4.0, 4.0, (n_classes, 2)), rng.standard_normal((n_classes, 2, 2))
        points = centres[classes] + np.einsum("nij,nj->ni", roots[classes], noise)
    elif kind == 1:
        angle = np.pi * (rng.random(rows) + classes % 2)
        points = np.stack([np.cos(angle) + classes, np.sin(angle) + 0.5 * (classes % 2)], axis=1)
        points = points + rng.uniform(0.05, 0.3) * noise
    else:
        angle, radius = 2.0 * np.pi * rng.random(rows), np.cumsum(rng.uniform(0.5, 1.5, n_classes))[classes]
        points = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1) + rng.uniform(0.05, 0.3) * noise
    return points @ rng.standard_normal((2, 2)), classes


BENCHMARKS: Mapping[str, Callable[[Path | None, int], Benchmark]] = {
    "openml": openml,
    "toy": toy,
    "uci": uci,
    "uci_even": uci_even,
}


@dataclass(frozen=True)
class HandCraftedNetwork:
    """A trained function of hand-crafted meta-features.

    Parameters
    ----------
    describe
        From a table to its meta-features (k,).
    center, scale
        (k,), by which they are standardised.
    units
        Of hidden layers.
    """

    describe: Callable[[TableArrays], Array]
    center: Array
    scale: Array
    units: int = 128
    outputs: int = OUTPUTS

    @property
    def layers(self) -> MLP:
        return MLP("handcrafted", (len(self.center), self.units, self.units, self.outputs))

    def initial(self, rng: np.random.Generator) -> Parameters:
        return self.layers.initial(rng)

    def whole(self, table: TableArrays) -> Array:
        return np.clip((self.describe(table) - self.center) / self.scale, -5.0, 5.0)

    def batches(self, tables: Any, rng: np.random.Generator) -> list[Array]:
        return [self.whole(patch) for patch in patches_of(tables, rng)]

    def __call__(self, parameters: Mapping[str, Any], batches: Any) -> Any:
        found, weight = np.stack(batches), parameters["handcrafted.0.weight"]
        if isinstance(weight, np.ndarray):
            return self.layers(parameters, found)
        return self.layers(parameters, weight.new_tensor(found))


def class_shares(table: TableArrays) -> Array:
    """The shares of the ten largest classes, and how many there are."""
    shares = np.sort(table.targets.mean(axis=0))[::-1]
    return np.append(np.pad(shares, (0, _CLASSES))[:_CLASSES], np.count_nonzero(shares))


def byu(table: TableArrays) -> Array:
    """The meta-features of table B.2, of a table of numbers and classes; 0 where there is none."""
    return HandCrafted("byu").transform(dataset_of(table))


def dataset_of(table: TableArrays) -> Dataset:
    """A table of numbers and classes as a dataset."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # such as of columns that are constant in a patch
        varies = bool((table.features != table.features[0]).any())
        kinds = None if varies else {f"x{k}": "numeric" for k in range(table.features.shape[1])}
        classes = table.targets.argmax(axis=1).astype(str)
        return Dataset.from_arrays(table.features, classes, task="classification", kinds=kinds)


def network_of(label: str, benchmark: Benchmark, rng: np.random.Generator) -> TableNetwork:
    """A network by the label of its row in the tables of the paper."""
    known: dict[str, Callable[[], TableNetwork]] = {
        "Dida, 2 layers": lambda: DidaNetwork(2, outputs=OUTPUTS),
        "Dida, 1 layer": lambda: DidaNetwork(1, outputs=OUTPUTS),
        "Dataset2Vec": lambda: Dataset2VecNetwork(32, OUTPUTS, max_pairs=32),
        "DSS, linear": lambda: DSSNetwork("linear", outputs=OUTPUTS),
        "DSS, non-linear": lambda: DSSNetwork("nonlinear", outputs=OUTPUTS),
        "DSS, equivariant": lambda: DSSNetwork("equivariant", outputs=OUTPUTS),
        "No-FInv-DSS": lambda: OrderedFeaturesNetwork(outputs=OUTPUTS),
    }
    if label in known:
        return known[label]()
    described = {"hand-crafted": byu, "class shares alone": class_shares}
    if label not in described:
        raise InvalidInput(f"there is no network {label!r}; there are {', '.join([*known, *described])}")
    names, describe = benchmark.split[0], described[label]
    chosen = [benchmark.tables[names[int(rng.integers(len(names)))]] for _ in range(400)]
    drawn = [patch for table in chosen for patch in benchmark.draw([table], rng)]
    values = np.stack([describe(table) for table in drawn])
    spread = values.std(axis=0)
    return HandCraftedNetwork(describe, values.mean(axis=0), np.where(spread > 1e-12, spread, 1.0))
