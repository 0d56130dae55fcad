"""The features of a training table: kinds inferred, columns converted, all of it noted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
from scipy import sparse

from headstart.data.columns import ColumnSpec, Kind, infer_columns
from headstart.data.compact import is_large
from headstart.data.convert import Converted, convert, convert_compactly, finite_or_missing
from headstart.data.errors import TableError, listed
from headstart.data.schema import Schema
from headstart.data.values import blanked

_WHAT = {Kind.NUMERIC: "numbers", Kind.DATE: "dates"}


@dataclass(frozen=True)
class Features:
    """Features made ready.

    Parameters
    ----------
    X
        A DataFrame or a CSR matrix.
    schema
        Its columns.
    notes
        What was inferred.
    concerns
        What a user should be warned of.
    """

    X: Any
    schema: Schema
    notes: tuple[str, ...]
    concerns: tuple[str, ...]


def read_features(
    frame: pd.DataFrame,
    kinds: Mapping[str, Kind | str] | None,
    others: tuple[str, ...],
    missing: tuple[str, ...] = (),
) -> Features:
    """Features from a raw table.

    Parameters
    ----------
    frame
        The raw features, without target and other roles.
    kinds
        Kinds that were declared.
    others
        Columns of the table that are not features.
    missing
        Texts that stand for a missing value, besides the usual ones.
    """
    names = [str(c) for c in frame.columns]
    if not names:
        raise TableError("a table must have at least one feature besides the target, found none")
    if all(isinstance(dtype, pd.SparseDtype) for dtype in frame.dtypes):
        accessor: Any = frame.sparse
        return read_sparse(sparse.csr_matrix(accessor.to_coo()), kinds)
    frame = frame.reset_index(drop=True)
    if missing:
        frame = frame.apply(blanked, markers=missing)
    if all(frame[name].isna().all() for name in names):
        raise TableError(f"features must have values, but all {len(names)} columns are empty in all {len(frame)} rows")
    specs, notes = infer_columns(frame, kinds)
    specs, usable_notes = _with_something_to_learn_from(frame, specs, set(kinds or ()))
    large = is_large(*frame.shape)
    form = convert_compactly if large else convert
    converted = {name: form(frame[name], spec, name) for name, spec in specs.items()}
    values = {name: c.values for name, c in converted.items()}
    X = pd.DataFrame(values, index=pd.RangeIndex(len(frame)), copy=False if large else None)
    made_up = all(n.startswith("x") and n[1:].isdigit() for n in names)
    notes = [*notes, *usable_notes, *_notes(frame, specs, converted, set(kinds or ()))]
    return Features(
        X, Schema(specs, others, by_position=made_up, missing=missing), tuple(notes), tuple(_infinities(converted))
    )


def read_sparse(matrix: Any, kinds: Mapping[str, Kind | str] | None) -> Features:
    """Features from a SciPy sparse matrix; they are all numeric."""
    if kinds:
        raise TableError("kinds cannot be declared for a sparse matrix: its columns are all numeric")
    if matrix.dtype.kind not in "biuf":
        raise TableError(f"a sparse matrix must contain real numbers, found {matrix.dtype}")
    if matrix.shape[1] == 0:
        raise TableError("a matrix must have at least one column, found none")
    data, infinite = finite_or_missing(matrix.data)
    X = sparse.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)
    concerns = (f"{infinite} infinite values in a sparse matrix are treated as missing",) if infinite else ()
    return Features(X, Schema({}, by_position=True, n_sparse=matrix.shape[1]), (), concerns)


def _with_something_to_learn_from(
    frame: pd.DataFrame, specs: dict[str, ColumnSpec], declared: set[str]
) -> tuple[dict[str, ColumnSpec], list[str]]:
    """Where nothing but ids is left, they are features after all; where nothing varies, an error."""
    if any(spec.kind not in (Kind.ID, Kind.CONSTANT) for spec in specs.values()):
        return specs, []
    ids = [name for name, spec in specs.items() if spec.kind is Kind.ID and name not in declared]
    if not ids:
        raise TableError(
            f"features must vary, but all {len(specs)} columns are constants or ids; add columns or declare kinds"
        )
    kinds = {name: Kind.NUMERIC if frame[name].dtype.kind in "iuf" else Kind.CATEGORICAL for name in ids}
    changed = specs | {name: replace(specs[name], kind=kind) for name, kind in kinds.items()}
    return changed, ["every column looked like an id or a constant, so ids were kept as features"]


def _notes(
    frame: pd.DataFrame, specs: Mapping[str, ColumnSpec], converted: Mapping[str, Converted], declared: set[str]
) -> list[str]:
    notes = []
    ids = [n for n, s in specs.items() if s.kind is Kind.ID and n not in declared]
    if ids:
        notes.append(f"columns that look like ids are not used unless their kind is declared: {listed(map(repr, ids))}")
    constants = [n for n, s in specs.items() if s.kind is Kind.CONSTANT and n not in declared]
    if constants:
        notes.append(f"columns with at most one value are not used: {listed(map(repr, constants))}")
    as_text = [n for n, s in specs.items() if s.kind is Kind.NUMERIC and s.format and frame[n].dtype.kind not in "biuf"]
    if as_text:
        notes.append(f"columns with numbers stored as text: {listed(map(repr, as_text))}")
    for name, column in converted.items():
        if column.unread:
            shown = ", ".join(repr(v[:30]) for v in column.unread[:3])
            what = _WHAT[specs[name].kind]
            notes.append(
                f"{len(column.unread)} distinct values of {name!r} are not {what} and are treated as missing: {shown}"
            )
    return notes


def _infinities(converted: Mapping[str, Converted]) -> list[str]:
    found = {name: c.infinite for name, c in converted.items() if c.infinite}
    if not found:
        return []
    return [f"{sum(found.values())} infinite values are treated as missing, in {listed(map(repr, found))}"]
