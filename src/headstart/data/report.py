"""A short report on a dataset, for people."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart.data.columns import Kind
from headstart.data.target import default_metric

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset

_SHOWN = 6


def describe(dataset: Dataset) -> str:
    """Size, task, columns by kind, and notes."""
    lines = [f"{dataset.name}: {dataset.n_rows} rows × {dataset.n_features} columns"]
    if dataset.task is None:
        lines.append("no target")
    else:
        lines.append(f"target {dataset.target!r}: {_target(dataset)}; default metric {default_metric(dataset.task)}")
    lines += _kinds(dataset)
    extras = [f for f in ("weights", "groups", "times") if getattr(dataset, f) is not None]
    if extras:
        lines.append(f"with {', '.join(extras)}")
    lines += [f"- {note}" for note in dataset.notes]
    return "\n".join(lines)


def _target(dataset: Dataset) -> str:
    y: Any = dataset.y
    if dataset.classes is None:
        return f"regression, {y.min():.4g} to {y.max():.4g}, mean {y.mean():.4g}"
    counts = np.bincount(y, minlength=len(dataset.classes))
    pairs = [f"{label} {count}" for label, count in zip(dataset.classes, counts, strict=True)]
    shown = ", ".join(pairs[:_SHOWN]) + (f" and {len(pairs) - _SHOWN} more" if len(pairs) > _SHOWN else "")
    return f"{dataset.task} ({shown})"


def _kinds(dataset: Dataset) -> list[str]:
    if dataset.is_sparse:
        density = dataset.X.nnz / max(1, dataset.n_rows * dataset.n_features)
        return [f"  numeric      {dataset.n_features:>5}  sparse, {density:.2%} filled"]
    missing = dataset.X.isna().to_numpy().mean(axis=0)
    by_kind: dict[Kind, list[int]] = defaultdict(list)
    for position, kind in enumerate(dataset.kinds.values()):
        by_kind[kind].append(position)
    lines = []
    for kind in Kind:
        if columns := by_kind.get(kind):
            names = ", ".join(str(dataset.X.columns[c]) for c in columns[:_SHOWN]) + (
                ", …" if len(columns) > _SHOWN else ""
            )
            gaps = f"  {missing[columns].mean():.1%} missing" if missing[columns].any() else ""
            lines.append(f"  {kind:<12} {len(columns):>5}  {names}{gaps}")
    return lines
