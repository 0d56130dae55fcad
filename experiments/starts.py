"""`FromStarts`: the same searches from several initial designs; `Blocks`: methods compared block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.comparison import Compared, Comparison, Groups
from experiments.experiment import Setup, Table
from headstart.replay.protocol import Method
from headstart.replay.results import Results, half_width, ranks, shown, wilcoxon
from headstart.replay.variants import Variant

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Blocks(Compared):
    """Results of methods in groups, each a block of rows: compared on the tasks that all of the group ran on.

    Parameters
    ----------
    at
        After how many evaluations mean regrets are shown, beside those at the end, where methods are ranked too. After
        the first and the last of them each is tested against the first of its block: tasks on which it has the lower
        and the higher regret, and p of Wilcoxon's signed-rank test.
    """

    at: Sequence[int] = (25, 50, 100)

    def table(self) -> Table:
        at = [e for e in self.at if e < self.results.evaluations] + [self.results.evaluations]
        tests = [column for e in (at[0], at[-1]) for column in (f"won–lost at {e}", "p")]
        columns = ["", *map(str, at), f"rank at {at[-1]}", *tests, "tasks"]
        rows = [row for name, group in self.groups.items() for row in self._block(name, group, at)]
        return Table(f"{self.results.meta}, {self.results.split}: mean regret", columns, rows)

    def _block(self, block: str, group: Mapping[str, str], at: Sequence[int]) -> list[list[str]]:
        known = {label: name for label, name in group.items() if self._ran(name)}
        if not known:
            return []
        curves = np.stack([self.results.curves(name) for name in known.values()])
        curves = curves[:, np.isfinite(curves).all(axis=(0, 2))]
        places = ranks(list(curves))[:, :, at[-1] - 1].mean(axis=1)
        rows = [[f"**{block}**", *[""] * (len(at) + 6)]]
        for label, curve, place in zip(known, curves, places, strict=True):
            cells = [f"{shown(curve[:, e - 1].mean())} ± {half_width(curve[:, e - 1]):.4f}" for e in at]
            tested = [_tested(curve[:, e - 1], curves[0][:, e - 1]) for e in (at[0], at[-1])] if len(rows) > 1 else []
            shown_tests = [cell for pair in tested for cell in pair] or [""] * 4
            rows.append([label, *cells, f"{place:.2f}", *shown_tests, str(len(curve))])
        return rows

    def _ran(self, name: str) -> bool:
        return bool(self.results.methods.get(name, {}).get("n_tasks"))


def _tested(ours: Array, first: Array) -> tuple[str, str]:
    return f"{(ours < first).sum()}–{(ours > first).sum()}", f"{wilcoxon(ours, first):.2g}"


@dataclass(frozen=True)
class FromStarts:
    """An experiment that replays methods from several initial designs.

    Parameters
    ----------
    runs
        Methods, and the variants that each begins with, in the order they are run; ``None`` for the common pipelines.
    groups, at
        See `Blocks`.
    """

    runs: Sequence[tuple[str | Method, Sequence[Variant | None]]]
    groups: Groups
    at: Sequence[int] = (25, 50, 100)

    def run(self, setup: Setup) -> Blocks:
        for method, variants in self.runs:
            for variant in variants:
                compared = Comparison((method,)) if variant is None else Comparison((), {variant: (method,)})
                compared.run(setup)
        return self.load(setup.out)

    def load(self, path: Path) -> Blocks:
        return Blocks(Results.load(path), self.groups, self.at)
