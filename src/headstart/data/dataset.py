"""`Dataset`: a table with its target, made ready for pipelines."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from headstart.data.columns import Kind
from headstart.data.errors import DataWarning, TableError, listed
from headstart.data.features import Features, read_features, read_sparse
from headstart.data.hashing import ContentHash
from headstart.data.read import read_table
from headstart.data.roles import Roles, as_column, read_groups, read_times, read_weights
from headstart.data.schema import Schema
from headstart.data.target import Target, TaskKind, default_metric, read_target

logger = logging.getLogger(__name__)

MINIMUM_ROWS = 4
"""Fewest rows with a target: two to learn from and two to judge by."""
_SHOWN = 6
_PROBE_ROWS = 1000
"""A look at these rows for columns that give the target away spares nearly every column the rest."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table with its target, made ready for pipelines. Build one with `from_table` or `from_arrays`.

    Parameters
    ----------
    X
        The features: a DataFrame in the forms of `headstart.data.convert`, of a large table those of
        `headstart.data.compact`, rows numbered from 0; or a CSR matrix.
    y
        One value per row: codes from 0 for a classification, float64 for a regression, None without a target.
    classes
        The labels that the codes stand for, sorted: numbers by size, text by the alphabet. None for a regression.
    task
        ``"binary"``, ``"multiclass"`` or ``"regression"``; None without a target.
    schema
        What a table to predict must look like.
    weights, groups, times
        One value per row, or None: how much a row counts, what it belongs to, when it was.
    name
        For people.
    target
        Name of the target.
    notes
        Plain sentences: what was inferred, changed and left out, and what looks suspicious.
    origin
        How the table was read, in JSON types, so that it can be read so again: the ``suffix`` of its file, the
        ``dialect`` of delimited text, the names of ``columns``, and which of them held ``weights``.
    """

    X: Any
    y: NDArray[Any] | None
    classes: NDArray[Any] | None
    task: TaskKind | None
    schema: Schema
    weights: NDArray[np.float64] | None = None
    groups: NDArray[Any] | None = None
    times: NDArray[Any] | None = None
    name: str = "table"
    target: str = "target"
    notes: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_table(
        cls,
        source: Any,
        target: str | ArrayLike | None,
        *,
        task: str | None = None,
        kinds: Mapping[str, Kind | str] | None = None,
        weights: str | ArrayLike | None = None,
        groups: str | ArrayLike | None = None,
        times: str | ArrayLike | None = None,
        missing: Iterable[str] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """A dataset from a file or an object.

        Rows without a target are left out. Infinities count as missing.

        Parameters
        ----------
        source
            Anything that `headstart.data.read.read_table` takes.
        target
            Name of a column, or one value per row. None where there is none.
        task
            ``"binary"``, ``"multiclass"``, ``"classification"`` or ``"regression"``; inferred from the target where it
            is None, see `headstart.data.target`.
        kinds
            Kinds of columns that are known better than `headstart.data.columns` can tell.
        weights, groups, times
            Name of a column, which is then no feature, or one value per row.
        missing
            Texts that stand for a missing value, besides the usual ones: ``["k.A.", "-999"]``.
        name
            For people; the file's name by default.

        Raises
        ------
        TableError
            The table has nothing to learn from; the message says what is wrong.

        Warns
        -----
        DataWarning
            Rows were left out, infinities found, a class has a single row, or a column gives the target away.
        """
        if name is None:
            name = Path(source).name.split(".")[0] if isinstance(source, str | PathLike) else "table"
        matrix = sparse.csr_matrix(source) if sparse.issparse(source) else None
        frame = pd.DataFrame(index=range(matrix.shape[0])) if matrix is not None else _read(source, target)
        markers = _markers(missing)
        roles = Roles(frame, markers)
        y_column, target_name = roles.claim("target", target)
        w_column, _ = roles.claim("weights", weights)
        g_column, _ = roles.claim("groups", groups)
        t_column, _ = roles.claim("times", times)

        y = None if y_column is None else read_target(y_column, target_name, task)
        kept = np.ones(len(frame), dtype=bool) if y is None else y.kept
        if (known := int(kept.sum())) < MINIMUM_ROWS:
            raise TableError(
                f"a table must have at least {MINIMUM_ROWS} rows with a target, found {known} in {len(frame)}"
            )
        if matrix is None:
            raw = frame.drop(columns=list(roles.claimed))  # which copies nothing
            features = read_features(raw if kept.all() else raw.loc[kept], kinds, roles.claimed, markers)
        else:
            features = read_sparse(matrix[kept], kinds)
        concerns = [*features.concerns, *(_concerns(y, features) if y is not None else ())]
        for concern in concerns:
            warnings.warn(concern, DataWarning, stacklevel=2)
        dataset = cls(
            features.X,
            None if y is None else y.values,
            None if y is None else y.classes,
            None if y is None else y.task,
            features.schema,
            None if w_column is None else read_weights(w_column[kept]),
            None if g_column is None else read_groups(g_column[kept]),
            None if t_column is None else read_times(t_column[kept]),
            name,
            target_name,
            tuple(dict.fromkeys([*(y.notes if y is not None else ()), *features.notes, *concerns])),
            _origin(source, frame, weights),
        )
        logger.info("%r", dataset)
        return dataset

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: ArrayLike | None,
        *,
        task: str | None = None,
        kinds: Mapping[str, Kind | str] | None = None,
        weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        times: ArrayLike | None = None,
        missing: Iterable[str] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """A dataset from features and target, as scikit-learn's estimators take them; see `from_table`.

        >>> X = np.random.default_rng(0).normal(size=(20, 2))
        >>> dataset = Dataset.from_arrays(X, ["yes", "no"] * 10)
        >>> dataset.task, dataset.classes.tolist(), dataset.y[:3].tolist()
        ('binary', ['no', 'yes'], [1, 0, 1])
        """
        given = {"y": y, "weights": weights, "groups": groups, "times": times}
        columns: dict[str, Any] = {role: None if v is None else as_column(v, role) for role, v in given.items()}
        return cls.from_table(X, columns.pop("y"), task=task, kinds=kinds, missing=missing, name=name, **columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns of `X`."""
        return int(self.X.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes that features and target take in memory."""
        if self.is_sparse:
            held = int(self.X.data.nbytes + self.X.indices.nbytes + self.X.indptr.nbytes)
        else:
            held = int(self.X.memory_usage(index=False, deep=True).sum())
        return held + (0 if self.y is None else self.y.nbytes)

    @property
    def kinds(self) -> dict[str, Kind]:
        """Kind of each column; empty for a sparse matrix, whose columns are all numeric."""
        return self.schema.kinds

    @property
    def preparation(self) -> dict[str, str]:
        """What pipelines are told of the columns; see `headstart.data.schema.Schema.preparation`."""
        return self.schema.preparation

    @property
    def is_sparse(self) -> bool:
        """Whether `X` is a CSR matrix."""
        return self.schema.n_sparse is not None

    @cached_property
    def key(self) -> str:
        """A hash of everything that a pipeline's result may depend on; the same in every process."""
        content = ContentHash()
        content.plain([self.task, self.schema.to_dict()["columns"]])
        content.table(self.X)
        for array in (self.y, self.classes, self.weights, self.groups, self.times):
            content.array(array)
        return content.key()

    def take(self, rows: ArrayLike) -> Dataset:
        """Some of the rows: positions in the wanted order, or a boolean per row. Classes and kinds stay."""
        chosen = np.asarray(rows)
        if chosen.dtype == bool:
            if chosen.shape != (self.n_rows,):
                raise TableError(f"a mask must have one value per row, {self.n_rows}, got shape {chosen.shape}")
            chosen = np.flatnonzero(chosen)
        chosen = chosen.astype(np.int64)
        if len(chosen) and not (chosen.min() >= 0 and chosen.max() < self.n_rows):
            raise TableError(f"rows must be between 0 and {self.n_rows - 1}, got {chosen.min()} to {chosen.max()}")
        X = self.X[chosen] if self.is_sparse else self.X.iloc[chosen].reset_index(drop=True)
        arrays: dict[str, Any] = {
            field: None if (array := getattr(self, field)) is None else array[chosen]
            for field in ("y", "weights", "groups", "times")
        }
        return replace(self, X=X, **arrays)

    def describe(self) -> str:
        """A short report for people: size, task, columns by kind, and notes."""
        lines = [f"{self.name}: {self.n_rows} rows × {self.n_features} columns"]
        if self.task is None:
            lines.append("no target")
        else:
            lines.append(
                f"target {self.target!r}: {self._describe_target()}; default metric {default_metric(self.task)}"
            )
        lines += self._describe_kinds()
        extras = [f for f in ("weights", "groups", "times") if getattr(self, f) is not None]
        if extras:
            lines.append(f"with {', '.join(extras)}")
        return "\n".join([*lines, *(f"- {note}" for note in self.notes)])

    def _describe_target(self) -> str:
        y: Any = self.y
        if self.classes is None:
            return f"regression, {y.min():.4g} to {y.max():.4g}, mean {y.mean():.4g}"
        counts = np.bincount(y, minlength=len(self.classes))
        shown = listed((f"{label} {n}" for label, n in zip(self.classes, counts, strict=True)), _SHOWN)
        return f"{self.task} ({shown})"

    def _describe_kinds(self) -> list[str]:
        if self.is_sparse:
            density = self.X.nnz / max(1, self.n_rows * self.n_features)
            return [f"  numeric      {self.n_features:>5}  sparse, {density:.2%} filled"]
        missing = pd.Series({name: self.X[name].isna().mean() for name in self.kinds})
        lines = []
        for kind in Kind:
            if columns := [str(name) for name, held in self.kinds.items() if held is kind]:
                names = ", ".join(columns[:_SHOWN]) + (", …" if len(columns) > _SHOWN else "")
                gaps = f"  {missing[columns].mean():.1%} missing" if missing[columns].any() else ""
                lines.append(f"  {kind:<12} {len(columns):>5}  {names}{gaps}")
        return lines

    def __repr__(self) -> str:
        return f"Dataset {self.name!r}: {self.task or 'no target'}, {self.n_rows} rows × {self.n_features} columns"


def _markers(missing: Iterable[str] | None) -> tuple[str, ...]:
    given = (missing,) if isinstance(missing, str) else tuple(missing or ())
    for marker in given:
        if not isinstance(marker, str):
            raise TableError(f"missing must be texts, such as ['k.A.', '-999'], got {marker!r}")
    return given


def _read(source: Any, target: Any) -> pd.DataFrame:
    """The table; where its first row was taken for data and has the target's name, that row is the header."""
    frame = read_table(source)
    from_file = isinstance(source, str | PathLike) and frame.columns[0] == "x0"
    if from_file and isinstance(target, str) and target in [str(cell) for cell in frame.iloc[0]]:
        return read_table(source, dialect={"header": True})
    return frame


def _origin(source: Any, frame: pd.DataFrame, weights: Any) -> dict[str, Any]:
    """How the table was read; see `Dataset`."""
    origin: dict[str, Any] = {}
    if isinstance(source, str | PathLike):
        origin["suffix"] = "".join(Path(source).suffixes[-2:]).lower()
        if "dialect" in frame.attrs:
            origin |= {"dialect": frame.attrs["dialect"], "columns": list(frame.columns)}
    if weights is not None:
        origin["weights"] = weights if isinstance(weights, str) else None
    return origin


def _concerns(target: Target, features: Features) -> list[str]:
    """What a user should hear of, not only find in the notes."""
    concerns = [note for note in target.notes if note.endswith("were left out")]
    if target.classes is not None:
        counts = np.bincount(target.values, minlength=len(target.classes))
        single = [str(label) for label, count in zip(target.classes, counts, strict=True) if count == 1]
        if single:
            concerns.append(f"classes with a single row are trained on but never validated: {listed(single, 3)}")
    if features.schema.n_sparse is None:
        n_classes = None if target.classes is None else len(target.classes)
        for name in _likely_leaks(features.X, features.schema.kinds, target.values, n_classes):
            concerns.append(
                f"column {name!r} maps one to one to the target; leave it out unless it is known at prediction time"
            )
    return concerns


def _likely_leaks(frame: pd.DataFrame, kinds: Mapping[str, Kind], y: NDArray[Any], n_classes: int | None) -> list[str]:
    """Columns that stand one to one for the target.

    For a classification: every class has one value of the column and every value one class. For a regression: the
    column is the target, or a linear function of it.
    """
    names = [name for name in frame.columns if kinds[name] not in (Kind.ID, Kind.CONSTANT)]
    if n_classes is None:
        return [n for n in names if frame[n].dtype.kind == "f" and _is_linear(frame[n].to_numpy(), y)]
    return [n for n in names if _match(frame[n].iloc[:_PROBE_ROWS], y[:_PROBE_ROWS]) and _match(frame[n], y, n_classes)]


def _match(column: pd.Series[Any], y: NDArray[Any], n_classes: int | None = None) -> bool:
    codes = pd.factorize(column)[0].astype(np.int64) + 1  # missing is a value as any other
    width = int(y.max()) + 1
    pairs, values = len(pd.unique(codes * width + y)), len(pd.unique(codes))
    return pairs == values == (len(pd.unique(y)) if n_classes is None else n_classes)


def _is_linear(values: NDArray[np.float64], y: NDArray[np.float64]) -> bool:
    known = ~np.isnan(values)
    if known.sum() < max(4, 0.5 * len(y)):
        return False
    a, b = values[known], y[known]
    return _correlated(a[:_PROBE_ROWS], b[:_PROBE_ROWS]) and _correlated(a, b)


def _correlated(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return scale > 0 and abs(float(a @ b)) > (1 - 1e-10) * scale
