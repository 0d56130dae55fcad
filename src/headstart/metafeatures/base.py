"""`MetaFeatures`: from a dataset to a vector."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from headstart.metadata.metadataset import MetaDataset


class MetaFeatures(ABC):
    """Describes a dataset by a vector of fixed length.

    A plug-in writes `transform`. Extractors that are learned have a `meta_fit` too.
    """

    def meta_fit(self, datasets: Sequence[Any], meta: MetaDataset | None = None) -> Self:  # noqa: ARG002
        """Learn from other datasets, and from what pipelines did on them; called once, or never."""
        return self

    @abstractmethod
    def transform(self, dataset: Any) -> NDArray[np.float64]:
        """The vector (k,) of one dataset: finite, and the same for the same dataset."""
