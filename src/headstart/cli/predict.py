"""`headstart predict` and `headstart export`: what a model is used for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headstart.cli.folder import find_model, load_model, read_json, using
from headstart.errors import InvalidInput
from headstart.files import replace_file, writable_file

if TYPE_CHECKING:
    import pandas as pd

_TEXT = (".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip")
_PARQUET = (".parquet", ".pq")


def predict(
    model: Path, table: Path, proba: bool, coverage: float | None, ids: Sequence[str], out: Path | None
) -> None:
    """Write predictions, one row per row of the table, after the columns that are to be carried along."""
    if out is not None:
        _check_out(out, (table, find_model(model)))
    if proba and coverage is not None:
        raise InvalidInput("give --proba or --coverage, not both")
    estimator = load_model(model)
    import pandas as pd

    from headstart.estimators import HeadstartClassifier

    with using(model):
        classes = [str(c) for c in estimator.classes_] if isinstance(estimator, HeadstartClassifier) else None
    if proba and classes is None:
        raise InvalidInput("a regression has no probabilities; leave --proba out")
    names = [] if proba else ["prediction"]
    if coverage is not None or proba:
        names += classes or ["lower", "upper"]
    carried = _carried(table, ids, names)
    with using(model):
        columns = [] if proba else [estimator.predict(table)]
        if proba:
            columns += [*estimator.predict_proba(table).T]
        elif coverage is not None and classes is None:
            columns += [*estimator.predict_interval(table, coverage).T]
        elif coverage is not None:
            columns += [*estimator.predict_set(table, coverage).T]
    found = pd.concat([pd.Series(values, name=name) for name, values in zip(names, columns, strict=True)], axis=1)
    if carried is not None:
        found = pd.concat([carried, found], axis=1)
    if out is None:
        typer.echo(found.to_csv(index=False, lineterminator="\n"), nl=False)
    else:
        _write(found, out)


def _carried(table: Path, ids: Sequence[str], predicted: Sequence[str]) -> pd.DataFrame | None:
    """Columns of the table as they are written there; None if none are wanted."""
    if not ids:
        return None
    from headstart.data.errors import column_hint
    from headstart.data.read import read_table

    frame = read_table(table, as_text=ids)
    for name in ids:
        if name not in frame.columns:
            raise InvalidInput(f"--id: column {name!r} not found; {column_hint(name, frame.columns)}")
        if name in predicted:
            raise InvalidInput(f"--id: a column of the predictions is also called {name!r}; rename it in the table")
    return frame[list(dict.fromkeys(ids))]


def _check_out(out: Path, others: tuple[Path, ...]) -> None:
    name = out.name.lower()
    if not name.endswith((*_TEXT, *_PARQUET)):
        raise InvalidInput(f"--out must end in .csv or .parquet, got {out.name!r}; leave it out to print CSV")
    check_apart(out, others)


def check_apart(out: Path, others: tuple[Path, ...], option: str = "--out") -> None:
    """Raise `InvalidInput` if `out` cannot be written, or that would overwrite one of the others."""
    writable_file(out)
    for other in others:
        if out.exists() and other.exists() and out.samefile(other):
            raise InvalidInput(f"{option} would overwrite {other}; choose another file")


def _write(found: pd.DataFrame, out: Path) -> None:
    if out.name.lower().endswith(_PARQUET):
        replace_file(out, lambda new: found.to_parquet(new, index=False))
    else:
        replace_file(out, lambda new: found.to_csv(new, index=False, lineterminator="\n"))


def export_onnx(model: Path, path: Path, best: bool, out: Path | None) -> None:
    """Write the fitted model as an ONNX file."""
    if out is not None:
        raise InvalidInput("give --onnx or --out, not both")
    check_apart(path, (find_model(model),), "--onnx")
    estimator = load_model(model)
    with using(model):
        estimator.export_onnx(path, best=best)
    typer.echo(f"{path} predicts {estimator.model_.target} from raw columns and needs only onnxruntime")


def export(model: Path, out: Path | None, best: bool = False) -> None:
    """Write the script that builds and fits the best pipeline without Headstart."""
    if best:
        raise InvalidInput("--best is for --onnx; the script is always of the best pipeline")
    file = find_model(model)
    report = file.with_name("report.json")
    table = str(read_json(report).get("table", "table.csv")) if report.exists() else "table.csv"
    if out is not None:
        check_apart(out, (file, Path(table)))
    with using(model):
        script = load_model(model).export_code(table)
    if out is None:
        typer.echo(script, nl=False)
    else:
        replace_file(out, lambda new: new.write_text(script, encoding="utf-8"))
