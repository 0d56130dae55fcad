"""Meta-features: how long they take, and whether others compute the same hand-crafted ones.

Run: python benchmarks/metafeatures.py [--data DIR] [--tables N] [--pymfe N]

Times are printed as shares of what a set may take; on a shared machine wall-clock time says little, so beside it stands
the time of the processor. With ``--data``, a folder with ``meta/pmf_metafeatures.csv`` and ``pmf_tables/`` with its
``index.csv``: for each meta-feature of ``mf1``, the share of tables on which the published value and ours differ by at
most 1e-6 and by at most 1 %, relative to the published one. Tables whose rebuilt columns are not the published ones are
left out; in tables with levels, zeros are taken for missing values, as they were in the published ones. Where pymfe is
installed, the same for ``full`` against pymfe on the smaller tables, and how many times longer pymfe takes.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from headstart.data import Dataset
from headstart.data.errors import DataWarning
from headstart.metafeatures.handcrafted import HandCrafted
from headstart.metafeatures.handcrafted.columns import level_columns
from headstart.metafeatures.handcrafted.table import PART_ROWS
from headstart.metafeatures.handcrafted.table import Table as Columns
from headstart.metafeatures.identification import TableIdentification
from headstart.registry import create

console = Console()
LIMITS = {
    (5_000, 20): {"full": 2.0, "mf1": 0.2},
    (50_000, 100): {"full": 10.0, "mf1": 1.0, "dataset2vec": 2.0, "dida": 2.0},
}
"""Seconds that a set may take on a table of so many rows and columns."""
_REPEATS = 3


def timed(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """What it gives, and the least seconds of three runs: on the wall, of the processor."""
    found, best = None, (np.inf, np.inf)
    for _ in range(_REPEATS):
        wall, processor = time.perf_counter(), time.process_time()
        found = function()
        best = (min(best[0], time.perf_counter() - wall), min(best[1], time.process_time() - processor))
    return found, *best


def made(rows: int, columns: int, seed: int = 0) -> Dataset:
    """A table of three classes: half of the columns tell of them, every fifth has levels, some values are missing."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=rows)
    frame = {}
    for c in range(columns):
        values = rng.standard_normal(rows) + (labels * rng.standard_normal() if c % 2 else 0.0)
        if c % 5 == 4:
            frame[f"c{c}"] = pd.Series(np.clip(values, -2, 2).round().astype(int)).astype(str)
        else:
            values[rng.random(rows) < 0.01] = np.nan
            frame[f"c{c}"] = values
    return Dataset.from_arrays(pd.DataFrame(frame), labels.astype(str), name=f"{rows:,} × {columns}")


def measuring(name: str, dataset: Dataset) -> Callable[[], Any]:
    """What describes a table: a hand-crafted set, or a network with random parameters."""
    extractor = create("metafeatures", name)
    if not isinstance(extractor, TableIdentification):
        return lambda: extractor.measure(dataset)
    network, parameters = extractor.network, extractor.network.initial(np.random.default_rng(0))
    return lambda: network(parameters, [network.whole(part) for part in extractor.parts_of(dataset)])


def show_times() -> None:
    """Of sets against what they may take."""
    table = Table(title="Share of the time that a set may take")
    for head in ("table", "set", "seconds allowed", "wall clock", "processor"):
        table.add_column(head, justify="right" if head != "table" else "left")
    for (rows, columns), limits in LIMITS.items():
        dataset = made(rows, columns)
        for name, limit in limits.items():
            _, wall, processor = timed(measuring(name, dataset))
            table.add_row(dataset.name, name, f"{limit:g}", f"{wall / limit:.2f}", f"{processor / limit:.2f}")
    console.print(table)


def rebuilt(data: Path, most: int | None) -> Iterator[tuple[str, Dataset]]:
    """Tables by their OpenML id, the smallest first, with the kinds that columns have at OpenML."""
    with (data / "pmf_tables" / "index.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    same = [r for r in rows if r["n_cat_in_source"] == r["n_cat_openml"] and r["n_missing"] == r["n_missing_openml"]]
    console.print(f"{len(rows)} tables are there, {len(same)} of them with the published kinds and missing values")
    for row in sorted(same, key=lambda r: int(r["n"]) * int(r["p"]))[:most]:
        file = data / "pmf_tables" / f"{row['openml_id']}.csv.gz"
        categorical = set(filter(None, row["categorical"].split(";")))
        names = list(Dataset.from_table(file, "__target__", task="classification").kinds)
        kinds = {n: "categorical" if n in categorical else "numeric" for n in names}
        yield row["openml_id"], Dataset.from_table(file, "__target__", task="classification", kinds=kinds)


def published(data: Path) -> dict[str, dict[str, float]]:
    """PMF's meta-features by OpenML id and name."""
    with (data / "meta" / "pmf_metafeatures.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return {str(int(float(r[""]))): {n: float(v or "nan") for n, v in r.items() if n} for r in rows}


class Agreement:
    """Differences by meta-feature."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.differences: dict[str, list[tuple[float, str]]] = {}
        self.one_sided: dict[str, int] = {}

    def add(self, table: str, theirs: Mapping[str, float], ours: Mapping[str, float]) -> None:
        """Compare what both have."""
        for name in ours.keys() & theirs.keys():
            a, b = ours[name], theirs[name]
            if np.isfinite(a) and np.isfinite(b):
                self.differences.setdefault(name, []).append((abs(a - b) / max(abs(b), 1e-6), table))
            elif np.isfinite(a) != np.isfinite(b):
                self.one_sided[name] = self.one_sided.get(name, 0) + 1

    def show(self) -> None:
        """A line for each meta-feature that does not agree everywhere, and how many do."""
        table = Table(title=self.title)
        for head in ("meta-feature", "tables", "within 1e-6", "within 1 %", "median", "worst (table)", "known to one"):
            table.add_column(head, justify="left" if head == "meta-feature" else "right")
        exact = []
        for name in sorted(self.differences.keys() | self.one_sided.keys()):
            found = self.differences.get(name, [])
            values = np.array([d for d, _ in found])
            alone = self.one_sided.get(name, 0)
            if len(values) and values.max() <= 1e-6 and not alone:
                exact.append(name)
                continue
            worst = max(found, default=(np.nan, "-"))
            shares = [f"{(values <= bound).mean():.0%}" if len(values) else "-" for bound in (1e-6, 1e-2)]
            median = f"{np.median(values):.1e}" if len(values) else "-"
            table.add_row(name, str(len(values)), *shares, median, f"{worst[0]:.1e} ({worst[1]})", str(alone))
        console.print(table)
        console.print(f"within 1e-6 on all tables: {len(exact)}: {', '.join(exact)}")


def measured(name: str, dataset: Dataset) -> dict[str, float]:
    """Our values by name."""
    found = HandCrafted(name).measure(dataset)
    return dict(zip(found.names, found.values.tolist(), strict=True))


def zeros_missing(dataset: Dataset) -> Dataset:
    """The table with its zeros missing, for that is what became of them in the published values if it has levels."""
    numbers = [name for name, column in dataset.X.items() if column.dtype.kind == "f"]
    return replace(dataset, X=dataset.X.assign(**{n: dataset.X[n].replace(0.0, np.nan) for n in numbers}))


def compare_published(data: Path, most: int | None) -> None:
    """With PMF's."""
    theirs = published(data)
    title = "mf1 and what PMF's authors published, on rebuilt tables of"
    small = Agreement(f"{title} at most {PART_ROWS:,} rows")
    large = Agreement(f"{title} more rows, where our landmarks are of a part")
    for number, dataset in rebuilt(data, most):
        ours = measured("mf1", dataset)
        if ours["NumberOfCategoricalFeatures"]:
            computed = measured("mf1", zeros_missing(dataset))
            ours |= {n: v for n, v in computed.items() if n.startswith(("Skewness", "Kurtosis", "PCA", "Landmark"))}
        agreement = small if dataset.n_rows <= PART_ROWS else large
        agreement.add(f"{number}, {dataset.n_rows} rows", theirs[number], ours)
    small.show()
    large.show()


def pymfe_values(dataset: Dataset) -> dict[str, float]:
    """pymfe's values of a table without missing values."""
    from pymfe.mfe import MFE

    columns: list[NDArray[Any]] = []
    categorical = []
    for i, name in enumerate(dataset.kinds):
        column = dataset.X[name]
        if column.dtype.kind == "f":
            columns.append(column.to_numpy())
        else:
            categorical.append(i)
            columns.append(column.astype(str).to_numpy())
    X = np.empty((dataset.n_rows, len(columns)), dtype=object if categorical else np.float64)
    for i, column in enumerate(columns):
        X[:, i] = column
    groups = (
        "landmarking",
        "itemset",
        "complexity",
        "clustering",
        "model-based",
        "statistical",
        "info-theory",
        "concept",
        "general",
    )
    mfe = MFE(groups=groups, summary=("mean", "sd"), random_state=0, suppress_warnings=True)
    mfe.fit(X, np.asarray(dataset.y), cat_cols=categorical, suppress_warnings=True)
    return {n: float(v) for n, v in zip(*mfe.extract(suppress_warnings=True), strict=True)}


def compare_pymfe(data: Path, most: int) -> None:
    """With pymfe, on tables that it can read and that we use whole."""
    agreement = Agreement("full and pymfe")
    ratios: list[float] = []
    for number, dataset in rebuilt(data, None):
        table = Columns.of(dataset)
        if table.part is not table or np.isnan(table.numeric).any() or (table.codes < 0).any():
            continue
        if dataset.n_rows > PART_ROWS // 2 or level_columns(table)[0].shape[1] > 60 or table.label_counts.min() < 2:
            continue
        begun = time.process_time()
        theirs = pymfe_values(dataset)
        between = time.process_time()
        ours = measured("full", dataset)
        ratios.append((between - begun) / (time.process_time() - between))
        agreement.add(f"{number}, {dataset.n_rows} rows", theirs, ours)
        if len(ratios) >= most:
            break
    agreement.show()
    console.print(f"pymfe takes {np.median(ratios):.0f} times as long (median; {min(ratios):.0f} to {max(ratios):.0f})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with PMF's meta-features and tables")
    parser.add_argument("--tables", type=int, help="compare so many tables with what was published; all by default")
    parser.add_argument("--pymfe", type=int, default=40, help="compare so many tables with pymfe")
    parser.add_argument("--no-times", action="store_true", help="compare only")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    warnings.simplefilter("ignore", DataWarning)
    if not options.no_times:
        show_times()
    if options.data is not None:
        compare_published(options.data, options.tables)
        if find_spec("pymfe") is not None and options.pymfe:
            compare_pymfe(options.data, options.pymfe)


if __name__ == "__main__":
    main()
