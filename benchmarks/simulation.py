"""Many workers in virtual time: `Study`'s own loop on recorded results, with workers that are only counted.

An evaluation takes virtual seconds; what the loop does between two evaluations (tell, ask, hand over) takes the seconds
of the processor that it really took, and the virtual clock goes on by as much. So a search with 1,000 workers can be
looked at on one core, with one assumption: handing an evaluation over takes no longer than here.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.evaluation.recorded import Replay, recorded_task
from headstart.metadata.metadataset import MetaDataset
from headstart.study import Study
from headstart.trials import Outcome

Seconds = Callable[[Outcome], float]
"""How long an evaluation takes in virtual time."""


@dataclass(frozen=True)
class Span:
    """One evaluation: when it began and ended in virtual time, and its loss."""

    begin: float
    end: float
    loss: float


class VirtualWorkers(Executor):
    """An executor whose futures end in virtual time: asking whether one is done lets time pass.

    Parameters
    ----------
    seconds
        Of an evaluation.
    timed
        Whether the clock also goes on by the processor time between evaluations; without it suggestions are free.
    """

    def __init__(self, seconds: Seconds, *, timed: bool = True) -> None:
        self.clock = 0.0
        self.spans: list[Span] = []
        self._seconds = seconds
        self._timed = timed
        self._numbers = itertools.count()
        self._under_way: list[tuple[float, int, _Evaluation, Outcome]] = []
        self._untaken = 0
        self._since = time.process_time()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._pass()
        outcome = fn(*args, **kwargs)
        end = self.clock + self._seconds(outcome)
        future = _Evaluation(self)
        heapq.heappush(self._under_way, (end, next(self._numbers), future, outcome))
        self.spans.append(Span(self.clock, end, np.inf if outcome.loss is None else outcome.loss))
        self._since = time.process_time()
        return future

    def _pass(self) -> None:
        if self._timed:
            self.clock += time.process_time() - self._since

    def advance(self) -> None:
        """Finish what has ended by now; if nothing has, what ends next. Nothing before the last results are taken."""
        if self._untaken:
            return
        self._pass()
        if self._under_way:
            self.clock = max(self.clock, self._under_way[0][0])
        while self._under_way and self._under_way[0][0] <= self.clock:
            _, _, future, outcome = heapq.heappop(self._under_way)
            future.set_result(outcome)
            self._untaken += 1
        self._since = time.process_time()

    def taken(self) -> None:
        """A result was looked at."""
        self._untaken -= 1


class _Evaluation(Future[Any]):
    def __init__(self, workers: VirtualWorkers) -> None:
        super().__init__()
        self._workers = workers

    def done(self) -> bool:
        if not super().done():
            self._workers.advance()
        return super().done()

    def result(self, timeout: float | None = None) -> Any:
        self._workers.taken()
        return super().result(timeout)


@dataclass(frozen=True)
class Simulated:
    """What came of one search.

    Parameters
    ----------
    busy
        Share of the workers' time that went into evaluations, until the last one began.
    suggestions
        Per virtual second, until the last evaluation began.
    transactions
        Of the store, per virtual second: a proposal is one, a result another.
    possible
        Suggestions that one processor can make in a second, with the rest of the loop.
    times, regrets
        Virtual seconds of each result, and the lowest regret by then.
    """

    busy: float
    suggestions: float
    transactions: float
    possible: float
    times: NDArray[np.float64]
    regrets: NDArray[np.float64]

    def time_to(self, regret: float) -> float:
        """Virtual seconds until the regret is as low as this; infinite if it never is."""
        reached = np.flatnonzero(self.regrets <= regret)
        return float(self.times[reached[0]]) if len(reached) else np.inf


def simulate(
    meta: MetaDataset,
    task: int,
    optimizer: Any,
    workers: int,
    evaluations: int,
    seconds: Seconds,
    *,
    seed: int = 0,
    timed: bool = True,
) -> Simulated:
    """Search recorded results of a task with so many workers."""
    virtual = VirtualWorkers(seconds, timed=timed)
    study = Study(recorded_task(meta, task), Replay(meta, task), optimizer, seed=seed)
    started = time.process_time()
    history = study.run(evaluations=evaluations, n_jobs=workers, executor=virtual, ordered=False)
    spent = time.process_time() - started
    spans = virtual.spans
    last = max(span.begin for span in spans)
    busy = sum(min(span.end, last) - span.begin for span in spans) / (workers * last)
    ended = sorted(spans, key=lambda span: span.end)
    lowest = np.minimum.accumulate([span.loss for span in ended])
    began = sum(span.begin < last for span in spans)
    stored = began + sum(span.end <= last for span in spans)
    return Simulated(
        busy,
        began / last,
        stored / last,
        len(history) / spent,
        np.array([span.end for span in ended]),
        lowest - float(np.nanmin(meta.loss_row(task))),
    )
