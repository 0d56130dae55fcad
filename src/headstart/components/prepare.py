"""`PrepareTable`: from a raw table to columns of numbers and categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer


@dataclass(eq=False, repr=False)
class PrepareTable(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turn the columns of a raw table into numbers and categories.

    ============  ==========================================================================================
    kind          becomes
    ============  ==========================================================================================
    numeric       a number, in single precision if it came in that or as a small integer; infinities and what cannot
                  be read as a number are missing
    boolean       a number, 0 or 1
    categorical   a category; beyond `max_categories` the rarer ones share one, unseen ones are missing
    date          year, month, day of month, day of week, hour, and days since the first date of the training
    text          TF-IDF of words and pairs of words, reduced to `text_components` numbers
    id, constant  nothing
    ============  ==========================================================================================

    Parameters
    ----------
    kinds
        Kind of each column by name; columns that are not named are dropped. A date may have its format behind it, as
        in ``"date %d.%m.%Y"`` (or the unit of a number since 1970, as in ``"date s"``); without one each value is read
        by itself.
    max_categories
        Most categories of a column.
    text_components
        Most numbers that a text becomes.
    random_state
        Of the reduction of texts.
    """

    kinds: dict[str, str]
    max_categories: int = 200
    text_components: int = 30
    random_state: int | None = None

    def fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: pd.DataFrame, y: Any = None) -> pd.DataFrame:  # noqa: ARG002
        """Learn categories, words and first dates, and return the prepared table."""
        self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        self.n_features_in_ = X.shape[1]
        self.categories_: dict[str, list[Any]] = {}
        self.first_dates_: dict[str, float] = {}
        self.texts_: dict[str, tuple[Any, Any] | None] = {}
        for name, kind in self.kinds.items():
            if kind == "categorical":
                self.categories_[name] = self._learn_categories(X[name])
            elif kind.startswith("date"):
                days = self._days(X[name], kind)
                self.first_dates_[name] = float(np.nanmin(days)) if np.isfinite(days).any() else 0.0
            elif kind == "text":
                self.texts_[name] = self._learn_text(X[name])
        return self.transform(X)

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        """The prepared table: float columns and category columns, in the order of `kinds`."""
        columns: dict[str, Any] = {}
        for name, kind in self.kinds.items():
            if kind in ("id", "constant"):
                continue
            column = X[name]
            if kind == "categorical":
                columns[name] = self._categories(name, column)
            elif kind.startswith("date"):
                columns |= self._date_parts(name, column, kind)
            elif kind == "text":
                columns |= self._text_parts(name, column)
            elif kind == "boolean":
                columns[name] = self._booleans(column)
            else:
                columns[name] = self._numbers(column)
        if not columns:
            columns["(nothing)"] = np.zeros(len(X))  # a table of ids and constants still has to be predicted for
        return pd.DataFrame(columns, index=X.index)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:  # noqa: ARG002
        empty = pd.DataFrame({name: pd.Series(dtype=object) for name in self.kinds})
        return np.asarray(self.transform(empty).columns, dtype=object)

    @staticmethod
    def _numbers(column: pd.Series) -> Any:
        if column.dtype.kind in "fiu":
            numbers = column.to_numpy(dtype=_precision(column.dtype), na_value=np.nan)
        else:
            numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        finite = np.isfinite(numbers)
        return numbers if finite.all() else np.where(finite, numbers, numbers.dtype.type(np.nan))

    @staticmethod
    def _booleans(column: pd.Series) -> Any:
        if column.dtype.kind in "bfiu":
            return column.to_numpy(dtype=_precision(column.dtype), na_value=np.nan)
        true, false = ("true", "t", "yes", "y", "1", "1.0", "on"), ("false", "f", "no", "n", "0", "0.0", "off")
        words = column.astype(object).map(lambda value: str(value).strip().lower() if pd.notna(value) else "")
        return np.where(words.isin(true), 1.0, np.where(words.isin(false), 0.0, np.nan))

    @staticmethod
    def _coded(column: pd.Series) -> tuple[Any, list[str]]:
        """Each value's position among the labels, -1 where it is missing, and the labels.

        Labels are texts, so that 1, 1.0 and "1" are one category however a file was read.
        """
        codes, values = pd.factorize(column)
        labels = []
        for value in values.tolist():
            whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
            labels.append(str(int(value)) if whole else str(value))
        return codes, labels

    def _learn_categories(self, column: pd.Series) -> list[Any]:
        codes, labels = self._coded(column)
        counts: dict[str, int] = {}
        for label, count in zip(labels, np.bincount(codes[codes >= 0], minlength=len(labels)).tolist(), strict=True):
            if count:
                counts[label] = counts.get(label, 0) + count
        if len(counts) > self.max_categories:
            commonest = sorted(counts, key=lambda label: -counts[label])
            return [*sorted(commonest[: self.max_categories - 1]), "(other)"]
        return sorted(counts)

    def _categories(self, name: str, column: pd.Series) -> Any:
        codes, labels = self._coded(column)
        known = self.categories_[name]
        places = {label: i for i, label in enumerate(known)}
        unknown = places.get("(other)", -1)
        table = np.array([*(places.get(label, unknown) for label in labels), -1], dtype=np.int64)
        return pd.Categorical.from_codes(table[codes], categories=known)

    @staticmethod
    def _days(column: pd.Series, kind: str) -> Any:
        form = kind.partition(" ")[2] or "mixed"
        if column.dtype.kind in "fiu" and form in ("D", "s", "ms", "us", "ns"):
            column = pd.to_datetime(column, errors="coerce", unit=form, utc=True)
        elif column.dtype.kind in "fiu":
            texts = column.map(lambda number: str(int(number)), na_action="ignore")
            column = pd.to_datetime(texts, errors="coerce", format=form, utc=True)
        elif column.dtype.kind != "M":
            column = pd.to_datetime(column.astype(object), errors="coerce", format=form, utc=True)
        if getattr(column.dtype, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        seconds = (column - pd.Timestamp("1970-01-01")).dt.total_seconds()
        return seconds.to_numpy(dtype=np.float64, na_value=np.nan) / 86400

    def _date_parts(self, name: str, column: pd.Series, kind: str) -> dict[str, Any]:
        days = self._days(column, kind)
        dates = pd.Series(pd.to_datetime(days * 86400, unit="s", errors="coerce"))
        parts = {f"{name} since": days - self.first_dates_[name]}
        for part, of in (
            ("year", dates.dt.year),
            ("month", dates.dt.month),
            ("day", dates.dt.day),
            ("weekday", dates.dt.day_of_week),
            ("hour", dates.dt.hour + dates.dt.minute / 60),
        ):
            parts[f"{name} {part}"] = of.to_numpy(dtype=np.float64, na_value=np.nan)
        return parts

    def _learn_text(self, column: pd.Series) -> tuple[Any, Any] | None:
        words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, max_features=5000, sublinear_tf=True)
        try:
            matrix = words.fit_transform(self._texts(column))
        except ValueError:  # no word occurs twice
            return None
        count = min(self.text_components, matrix.shape[1] - 1)
        if count < 1:
            return None
        return words, TruncatedSVD(count, random_state=self.random_state).fit(matrix)

    def _text_parts(self, name: str, column: pd.Series) -> dict[str, Any]:
        texts = self._texts(column)
        parts: dict[str, Any] = {f"{name} length": np.array([float(len(text)) for text in texts])}
        learned = self.texts_[name]
        if learned is not None and len(texts):
            words, reduction = learned
            numbers = reduction.transform(words.transform(texts))
            parts |= {f"{name} {i}": numbers[:, i] for i in range(numbers.shape[1])}
        elif learned is not None:
            parts |= {f"{name} {i}": np.empty(0) for i in range(learned[1].n_components)}
        return parts

    @staticmethod
    def _texts(column: pd.Series) -> list[str]:
        return [str(value) if pd.notna(value) else "" for value in column.astype(object)]


def _precision(dtype: Any) -> Any:
    """Single precision for what it holds exactly, which is how large tables come; else double."""
    exact = isinstance(dtype, np.dtype) and dtype.kind in "iuf" and np.can_cast(dtype, np.float32)
    return np.float32 if exact else np.float64
