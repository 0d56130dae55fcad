"""`MetaFeaturesContract`: what every extractor must do."""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from headstart.metafeatures.base import MetaFeatures


class MetaFeaturesContract(ABC):
    """Subclass it in a test file, return your extractor from `make` and some datasets from `datasets`."""

    @abstractmethod
    def make(self) -> MetaFeatures:
        """A new extractor, before `meta_fit`."""

    @abstractmethod
    def datasets(self) -> Sequence[Any]:
        """At least two datasets it can describe."""

    def extractor(self) -> MetaFeatures:
        return self.make().meta_fit(self.datasets())

    def test_gives_finite_vectors_of_one_length(self) -> None:
        extractor = self.extractor()
        vectors = [np.asarray(extractor.transform(d)) for d in self.datasets()]
        assert {v.ndim for v in vectors} == {1}
        assert len({len(v) for v in vectors}) == 1
        assert all(np.isfinite(v).all() for v in vectors)

    def test_is_deterministic(self) -> None:
        for dataset in self.datasets():
            np.testing.assert_array_equal(self.extractor().transform(dataset), self.extractor().transform(dataset))

    def test_tells_datasets_apart(self) -> None:
        extractor = self.extractor()
        first, second, *_ = self.datasets()
        assert not np.array_equal(extractor.transform(first), extractor.transform(second))

    def test_leaves_the_dataset_as_it_is(self) -> None:
        for dataset in self.datasets():
            before = pickle.dumps(copy.deepcopy(dataset))
            self.extractor().transform(dataset)
            assert pickle.dumps(copy.deepcopy(dataset)) == before
