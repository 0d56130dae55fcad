"""`HandCrafted`: meta-features that people thought of, by set."""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import NeedsTable, UnknownName, suggestion
from headstart.metafeatures.base import MetaFeatures
from headstart.metafeatures.handcrafted.sets import FEATURES, SETS
from headstart.metafeatures.handcrafted.table import Table
from headstart.numerics.threads import one_blas_thread

if TYPE_CHECKING:
    from headstart.data import Dataset
    from headstart.metadata.metadataset import MetaDataset

logger = logging.getLogger(__name__)

Array = NDArray[np.float64]
_LARGEST = 1e100
"""What is larger counts as not computed: its square would overflow soon."""


@dataclass(frozen=True)
class Measured:
    """Meta-features of a table as they were computed.

    Parameters
    ----------
    names
        Of the values.
    values
        (k,); NaN where one could not be computed.
    """

    names: tuple[str, ...]
    values: Array

    @property
    def known(self) -> NDArray[np.bool_]:
        """(k,) which could be computed."""
        return np.isfinite(self.values)


class HandCrafted(MetaFeatures):
    """Hand-crafted meta-features of a table: sizes, statistics, landmarks and more.

    `measure` says what could not be computed, such as the ratio of categorical to numeric columns if none is numeric.
    In a vector of `transform` the median over the tables that `meta_fit` has seen stands there, and 0 before `meta_fit`
    or if none of them has it.

    Parameters
    ----------
    set
        Which: see `headstart.metafeatures.handcrafted.sets`.
    seed
        Of which rows and columns stand for a large table, and of models with a random part.
    """

    keeps = ("_medians",)
    _medians: Array | None = None

    def __init__(self, set: str = "mf1", seed: int = 0) -> None:
        if set not in SETS:
            raise UnknownName(f"no set of meta-features is named {set!r}; {suggestion(set, SETS)}")
        self.set = set
        self.seed = seed

    @property
    def learns(self) -> bool:
        """Whether it has medians to keep: it can do without."""
        return self._medians is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the values of a vector."""
        return tuple(column for name in SETS[self.set] for column in FEATURES[name].columns)

    def measure(self, dataset: Dataset | None) -> Measured:
        """Compute the meta-features of a table."""
        if dataset is None:
            raise NeedsTable(f"meta-features {self.set!r} describe a table, and the task has none")
        table = Table.of(dataset, self.seed)
        values: list[float] = []
        with one_blas_thread(), np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # collinear columns, small classes, solvers that are stopped
            for name in SETS[self.set]:
                feature = FEATURES[name]
                try:
                    values += feature.values(table)
                except (ArithmeticError, ValueError, np.linalg.LinAlgError) as error:
                    logger.info("%s of %r cannot be computed: %s", name, dataset.name, error)
                    values += [np.nan] * len(feature.columns)
        found = np.array(values)
        return Measured(self.names, np.where(np.abs(found) < _LARGEST, found, np.nan))

    def meta_fit(self, meta: MetaDataset) -> Self:
        found = [meta.dataset(task) for task in range(len(meta))]
        vectors = [self.measure(dataset).values for dataset in found if dataset is not None]
        matrix = np.array(vectors).reshape(len(vectors), len(self.names))
        known = np.isfinite(matrix).any(axis=0)
        medians = np.zeros(matrix.shape[1])
        medians[known] = np.nanmedian(matrix[:, known], axis=0)
        self._medians = medians
        self.meta_key = f"{meta.name}-{hashlib.sha256(medians.tobytes()).hexdigest()[:16]}"
        return self

    def transform(self, dataset: Dataset | None, metafeatures: Mapping[str, Array] = {}) -> Array:  # noqa: ARG002
        found = self.measure(dataset)
        return np.where(found.known, found.values, 0.0 if self._medians is None else self._medians)
