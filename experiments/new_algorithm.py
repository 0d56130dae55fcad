"""`NewAlgorithm`: a surrogate that never saw an algorithm meets it on a new task (DeepPipe's experiment 4).

==========================  ===========================================================================================
row                         what it is
==========================  ===========================================================================================
left out                    meta-trained without the algorithm; the new tasks do not have it either
not trained                 no meta-training; the network is fitted to the new task alone
known                       meta-trained with the algorithm
new, without encoders       meta-trained without it; on the new task the whole network is fine-tuned
new, with encoders          meta-trained without it; on the new task its new encoder is fine-tuned, and nothing else
==========================  ===========================================================================================

Decided where the paper is silent: "left out" on a new task means that pipelines with the algorithm are neither among
the candidates nor among the initial pipelines; where those would have stood, the surrogate suggests already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from experiments.comparison import Compared, Comparison
from experiments.experiment import Setup
from experiments.model_error import model_of
from headstart.errors import InvalidInput
from headstart.history import History
from headstart.metadata.metadataset import MetaDataset
from headstart.methods.deeppipe import DeepPipe
from headstart.methods.deeppipe.surrogate import FineTune
from headstart.optimizers.base import Optimizer
from headstart.optimizers.bayes import Bayes
from headstart.replay.partition import Partition
from headstart.replay.protocol import Method
from headstart.replay.results import Results
from headstart.replay.variants import Variant
from headstart.space.candidates import Pool
from headstart.space.space import PipelineSpace
from headstart.task import Task
from headstart.trials import Proposal

ROWS = ("left out", "not trained", "known", "new, without encoders", "new, with encoders")


@dataclass(frozen=True)
class NewAlgorithm:
    """An experiment that leaves out one algorithm after another.

    Parameters
    ----------
    estimators
        Names of the algorithms by meta-dataset.
    encoded, plain, untrained
        `DeepPipe` with encoders, without any, and without meta-training.
    """

    estimators: Mapping[str, Sequence[str]]
    encoded: Method
    plain: Method
    untrained: Method

    def run(self, setup: Setup) -> Compared:
        return self.comparison(setup.meta.name).run(setup)

    def load(self, path: Path) -> Compared:
        return self.comparison(Results.load(path).meta).load(path)

    def comparison(self, meta: str) -> Comparison:
        """What is replayed on a meta-dataset: the five rows for each estimator."""
        if meta not in self.estimators:
            raise InvalidInput(
                f"it is not said which estimators of {meta!r} are left out; known are {', '.join(self.estimators)}"
            )
        variants: dict[Variant, Sequence[Method]] = {}
        groups = {}
        for estimator in self.estimators[meta]:
            left_out, is_new = without(estimator), new(estimator)
            variants |= {left_out: (self.encoded,), is_new: (self.plain, self.encoded)}
            methods = (
                left_out.called(self.encoded),
                self.untrained,
                self.encoded,
                is_new.called(self.plain),
                is_new.called(self.encoded),
            )
            groups[estimator] = dict(zip(ROWS, (method.text for method in methods), strict=True))
        return Comparison((self.untrained, self.encoded), variants, groups)


def without(algorithm: str) -> Variant:
    """Meta-training without an algorithm of the last stage, and new tasks that do not have it."""
    return Variant(f"without.{algorithm}", _learning(algorithm), _without)


def new(algorithm: str) -> Variant:
    """Meta-training without an algorithm of the last stage; on new tasks it is there."""
    return Variant(f"new.{algorithm}", _learning(algorithm), _extended)


def _learning(algorithm: str) -> Callable[[MetaDataset, Partition], MetaDataset]:
    """What is learned from where there is no such algorithm: pipelines of a smaller space."""

    def learning(meta: MetaDataset, partition: Partition) -> MetaDataset:
        space = meta.pipelines.space
        kept = np.flatnonzero(meta.pipelines.choice[:, -1] != space.stages[-1].position(algorithm))
        pipelines = meta.pipelines.take(kept).to(space.select(exclude=[f"{space.stages[-1].name}.{algorithm}"]))

        fewer = MetaDataset(
            pipelines, meta.losses[:, kept], meta.tasks, meta.metafeatures, name=meta.name, ids=meta.ids
        )
        return partition.learning(fewer)

    return learning


def _extended(optimizer: Optimizer, meta: MetaDataset) -> Optimizer:
    surrogate = model_of(optimizer)
    if not isinstance(surrogate, DeepPipe) or not isinstance(optimizer, Bayes):
        raise InvalidInput(f"only DeepPipe can be extended, got {type(surrogate).__name__}")
    fine_tune: FineTune = "encoder" if surrogate.encoder_layers else "all"
    optimizer.surrogate = surrogate.extended(meta.pipelines.space, fine_tune)
    return optimizer


def _without(optimizer: Optimizer, meta: MetaDataset) -> Optimizer:
    del meta
    surrogate = model_of(optimizer)
    assert isinstance(surrogate, DeepPipe)
    return _InSmaller(optimizer, surrogate.space)


class _InSmaller(Optimizer):
    """A search that takes part in tasks of a larger space with what a smaller one has of them."""

    def __init__(self, optimizer: Optimizer, space: PipelineSpace) -> None:
        self.optimizer = optimizer
        self.space = space
        self.meta_key = optimizer.meta_key

    def start(self, task: Task, seed: int = 0, history: History | None = None) -> Self:
        assert history is None
        pool = task.candidates.pool
        assert pool is not None
        names = pool.space.stages[-1].names
        known = [names.index(name) for name in self.space.stages[-1].names]
        left = pool.take(np.isin(pool.choice[:, -1], known)).to(self.space)
        begin = [pipeline for pipeline in task.initial if pipeline.algorithms[-1] in self.space.stages[-1].names]
        reduced = replace(task, candidates=Pool(left), initial=tuple(begin))
        return self.optimizer.start(reduced, seed)  # type: ignore[return-value]

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        return self.optimizer.suggest(number, rng)
