"""`MetaFeaturesContract`: what every extractor must do."""

from __future__ import annotations

import copy
import pickle
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.evaluation.recorded import recorded_task
from headstart.metadata.metadataset import MetaDataset
from headstart.metafeatures.base import MetaFeatures
from headstart.metafeatures.tables import with_metafeatures
from headstart.registry import find_class
from headstart.testing.tables import meta_with_tables


class MetaFeaturesContract(ABC):
    """Subclass it in a test file and return your extractor from `make`."""

    @abstractmethod
    def make(self) -> MetaFeatures:
        """A new extractor, before `meta_fit`."""

    def meta(self) -> MetaDataset:
        """What it learns from and then describes: at least two tasks, with what it needs."""
        return meta_with_tables()

    _shared: ClassVar[dict[type, MetaFeatures]] = {}

    def extractor(self) -> MetaFeatures:
        """One that has learned, the same for all tests."""
        if type(self) not in self._shared:
            self._shared[type(self)] = self.make().meta_fit(self.meta())
        return self._shared[type(self)]

    def vectors(self, extractor: MetaFeatures) -> list[NDArray[np.float64]]:
        """Of all tasks, made of nothing but what it says that it needs."""
        meta, needs = self.meta(), extractor.needs
        return [
            extractor.transform(
                meta.dataset(task) if needs.table else None,
                {name: meta.metafeatures[name][task] for name in needs.metafeatures},
            )
            for task in range(len(meta))
        ]

    def test_gives_finite_vectors_of_one_length(self) -> None:
        vectors = self.vectors(self.extractor())
        assert {vector.ndim for vector in vectors} == {1}
        assert len({len(vector) for vector in vectors}) == 1
        assert all(np.isfinite(vector).all() for vector in vectors)

    def test_is_deterministic(self) -> None:
        anew = self.make().meta_fit(self.meta())
        np.testing.assert_array_equal(self.vectors(anew), self.vectors(self.extractor()))

    def test_tells_datasets_apart(self) -> None:
        first, second, *_ = self.vectors(self.extractor())
        assert not np.array_equal(first, second)

    def test_leaves_the_dataset_as_it_is(self) -> None:
        extractor, meta = self.extractor(), self.meta()
        if extractor.needs.table:
            dataset = meta.dataset(0)
            before = pickle.dumps(copy.deepcopy(dataset))
            extractor.transform(dataset, {name: vectors[0] for name, vectors in meta.metafeatures.items()})
            assert pickle.dumps(copy.deepcopy(dataset)) == before

    def test_what_it_says_is_known_of_a_task_with_a_bound_and_a_table(self) -> None:
        meta, extractor = self.meta(), self.extractor()
        cost = np.tile(np.linspace(0, 1, len(meta.pipelines)), (len(meta), 1))
        described, _ = with_metafeatures(
            meta.changed(constraints={"cost": cost}), {"this": extractor}, range(len(meta))
        )
        task = recorded_task(described, 0, constraints="cost <= 0.3", table=True)
        np.testing.assert_array_equal(task.metafeatures["this"], self.vectors(extractor)[0])

    def test_learns_though_a_table_is_missing(self) -> None:
        meta, extractor = self.meta(), self.make()
        if extractor.needs.table:
            some = meta.changed(tables=[None, *meta.tables[1:]])
            vectors = with_metafeatures(some, {"this": extractor}, range(len(meta)))[0].metafeatures["this"]
            assert np.isnan(vectors[0]).all()
            assert np.isfinite(vectors[1:]).all()

    def test_comes_back_from_a_file(self) -> None:
        extractor = self.extractor()
        assert extractor.learns == (extractor.meta_key is not None)
        if extractor.learns and find_class("metafeatures", type(extractor).__name__) is type(extractor):
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "extractor.npz"
                extractor.save(file)
                again = type(extractor).load(file)
            assert again.describe() == extractor.describe()
            np.testing.assert_array_equal(self.vectors(again), self.vectors(extractor))
