"""`export_code`: a Python script that builds and fits the best pipeline of an estimator without Headstart."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from headstart.errors import InvalidInput
from headstart.fitting.export_table import quoted, reading_code
from headstart.fitting.model import Model
from headstart.fitting.refit import changes_for_all_rows, last_step
from headstart.fitting.sources import Sources

_WIDTH = 110
_OURS = "headstart.components"
_SCRIPT_NAMES = (
    *("TABLE", "TARGET", "CLASSES", "COLUMNS", "KINDS", "WEIGHTS", "OTHERS", "MISSING", "sys"),
    *("read_table", "load_table", "prepare", "read_target", "build_pipeline", "fit", "main"),
)
_BOOSTERS = {"LightGBM": "lightgbm", "CatBoost": "catboost", "XGBoost": "xgboost"}


def export_code(estimator: Any, table: str = "table.csv") -> str:
    """A script that needs pandas, NumPy, scikit-learn, and the booster's library if there is one.

    It has the functions ``load_table``, ``build_pipeline`` and ``fit``. Run as a program it fits the pipeline to the
    training table and, where a second table is named, writes predictions for that.

    Parameters
    ----------
    table
        Path of the training table, which the script has as its default.
    """
    model: Model = estimator.model_
    pipeline = unfitted(model)
    sources = Sources({"headstart.data.errors:TableError": "ValueError"})
    for name in _SCRIPT_NAMES:
        sources.reserve(name)
    sources.add_import("pathlib", "Path")
    built = _Writer(sources, model.schema.preparation).written(pipeline, 1)
    reading = reading_code(model, table, sources)
    fit = _fit_code(pipeline)
    main = _main_code(model)
    parts = [
        _heading(estimator, pipeline),
        f"from __future__ import annotations\n\nimport sys\n{sources.imports()}",
        sources.definitions(),
        reading,
        f'def build_pipeline():\n    """The pipeline with all its settings, not fitted."""\n    return {built}',
        fit,
        main,
    ]
    return "\n\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def unfitted(model: Model) -> Any:
    """The best member's pipeline for all rows: a booster has as many rounds as it needed when it was stopped early."""
    from sklearn.base import clone

    best = model.best
    pipeline = clone(best.models[0])
    last_step(pipeline).set_params(**changes_for_all_rows(best.models))
    return pipeline


def _heading(estimator: Any, pipeline: Any) -> str:
    needed = ["numpy", "pandas", "scikit-learn", *_libraries(pipeline)]
    versions = ", ".join(f"{name} {version(name)}" for name in needed)
    what = type(last_step(pipeline)).__name__
    simple = "" if estimator.model_.best.number >= 0 else "\nIt is a simple fallback for lack of time.\n"
    return f'''"""The best pipeline that Headstart {version("headstart")} found: {what}.
{simple}
    python script.py                        fits it to the training table
    python script.py table.csv new.csv      fits it to table.csv and writes predictions to new_predictions.csv
    python script.py table.csv new.csv out.csv

Needs {versions}; other versions may work, with slightly different numbers.
"""'''


def _libraries(pipeline: Any) -> list[str]:
    name = type(last_step(pipeline)).__name__
    return [library for start, library in _BOOSTERS.items() if name.startswith(start)]


def _fit_code(pipeline: Any) -> str:
    name, last = pipeline.steps[-1]
    known = inspect.signature(getattr(last, "estimator", last).fit).parameters
    if "sample_weight" in known:
        body = f"""    given = {{}} if weights is None else {{{quoted(f"{name}__sample_weight")}: weights}}
    return build_pipeline().fit(X, y, **given)"""
    else:
        body = "    return build_pipeline().fit(X, y)  # its estimator takes no weights"
    return f'''def fit(X, y, weights=None):
    """The pipeline, fitted."""
{body}'''


def _main_code(model: Model) -> str:
    if model.classes is None:
        predicted = '    result = pd.DataFrame({"prediction": pipeline.predict(X_new)})'
    else:
        predicted = """    result = pd.DataFrame({"prediction": pipeline.predict(X_new)})
    for label, share in zip(pipeline.classes_, pipeline.predict_proba(X_new).T):
        result[f"probability of {label}"] = share"""
    return f"""def main(arguments):
    table, new, out = [*arguments, None, None, None][:3]
    X, y, weights = load_table(table or TABLE)
    pipeline = fit(X, y, weights)
    print(f"fitted to {{X.shape[0]}} rows and {{X.shape[1]}} columns, to predict {{TARGET!r}}: score on them "
          f"{{pipeline.score(X, y):.4g}}")
    if new is None:
        return
    X_new, _, _ = load_table(new, training=False)
{predicted}
    out = out or str(Path(new).with_name(Path(new).name.split(".")[0] + "_predictions.csv"))
    result.to_csv(out, index=False)
    print(f"wrote {{len(result)}} predictions to {{out}}")


if __name__ == "__main__":
    main(sys.argv[1:])"""


class _Writer:
    """Writes objects as Python expressions."""

    def __init__(self, sources: Sources, kinds: Mapping[str, str]) -> None:
        self._sources = sources
        self._kinds = dict(kinds)

    def written(self, value: Any, depth: int = 0) -> str:
        """An expression, on several lines where one is too long; `depth` counts the indentations before it."""
        from sklearn.base import BaseEstimator
        from sklearn.compose import make_column_selector

        if isinstance(value, BaseEstimator):
            return self._estimator(value, depth)
        if isinstance(value, make_column_selector):
            name = self._class(type(value))
            given = {"pattern": value.pattern, "dtype_include": value.dtype_include}
            given["dtype_exclude"] = value.dtype_exclude
            return self._call(name, [], {k: v for k, v in given.items() if v is not None}, depth)
        if isinstance(value, list | tuple):
            ends = "[]" if isinstance(value, list) else "()"
            comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
            return self._joined(ends[0], [self.written(v, depth + 1) for v in value], ends[1], depth, comma)
        if isinstance(value, dict):
            if value == self._kinds and value:
                return "KINDS"
            items = [f"{quoted(k)}: {self.written(v, depth + 1)}" for k, v in value.items()]
            return self._joined("{", items, "}", depth)
        return self._plain(value)

    def _plain(self, value: Any) -> str:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if value is None or isinstance(value, str | int | float | bool):
            return quoted(value)
        if isinstance(value, type):
            return self._class(value)
        raise InvalidInput(f"a setting must be a plain value to be written as code, found {value!r}")

    def _class(self, kind: type) -> str:
        if kind.__module__.startswith(_OURS):
            return self._sources.add(kind.__module__, kind.__name__)
        if kind.__module__ == "builtins":
            return kind.__name__
        parts = kind.__module__.split(".")
        public = ".".join(p for p in parts if not p.startswith("_"))
        home = public if getattr(importlib.import_module(public), kind.__name__, None) is kind else kind.__module__
        return self._sources.add_import(home, kind.__name__)

    def _estimator(self, value: Any, depth: int) -> str:
        kind = type(value)
        name = self._class(kind)
        given = value.get_params(deep=False)
        defaults = {n: p.default for n, p in inspect.signature(kind).parameters.items()}
        positional = [p for p in ("steps", "transformers", "estimator") if p in given and p in list(defaults)[:1]]
        ours = kind.__module__.startswith(_OURS)
        named = {n: given[n] for n in defaults if n not in positional and (ours or not _same(given[n], defaults[n]))}
        written = self._call(name, [given[p] for p in positional], named, depth)
        config = getattr(value, "_sklearn_output_config", {})
        # A column transformer tells its parts.
        if "transformers" in given and config.get("transform") is not None:
            written += f".set_output(transform={quoted(config['transform'])})"
        return written

    def _call(self, name: str, positional: list[Any], named: Mapping[str, Any], depth: int) -> str:
        items = [self.written(v, depth + 1) for v in positional]
        items += [f"{n}={self.written(v, depth + 1)}" for n, v in named.items()]
        return self._joined(f"{name}(", items, ")", depth)

    @staticmethod
    def _joined(start: str, items: list[str], end: str, depth: int, comma: str = "") -> str:
        line = f"{start}{', '.join(items)}{comma}{end}"
        if len(line) + 4 * depth <= _WIDTH - 10 and "\n" not in line:
            return line
        inner = "    " * (depth + 1)
        return f"{start}\n" + "".join(f"{inner}{item},\n" for item in items) + "    " * depth + end


def _same(given: Any, default: Any) -> bool:
    if isinstance(given, float) and isinstance(default, float) and math.isnan(given) and math.isnan(default):
        return True
    try:
        return type(given) is type(default) and bool(given == default)
    except (TypeError, ValueError):
        return False
