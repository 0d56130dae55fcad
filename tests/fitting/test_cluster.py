"""Evaluations on a real Dask scheduler and real workers, which are killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from fakes import divided_meta

from benchmarks.servers import Dask, eventually
from headstart import Algorithm, Float, HeadstartClassifier, PipelineSpace, Sandbox, Stage, Store, Study, Task
from headstart.errors import HeadstartWarning, InvalidInput, SandboxError
from headstart.evaluation import cluster
from headstart.evaluation.cluster import Cluster
from headstart.fitting.progress import Progress
from headstart.replay.partition import Partition
from headstart.replay.runner import replay
from headstart.space.pipeline import Pipeline
from headstart.trials import Limits, Outcome, Status

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are killed and counted by /proc")
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have this file

MB = 10**6
LONG = Limits(60, 500 * MB)
SPACE = PipelineSpace("line", [Stage("s", [Algorithm("a", params=[Float("x", -1, 1)])])])


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Dask]:
    """A scheduler of one test, to be killed."""
    with Dask(tmp_path) as started:
        yield started


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a scheduler with one worker of two threads and 2 GB, for tests that kill nothing."""
    with Dask(tmp_path_factory.mktemp("dask")) as started:
        started.worker("--nthreads", 2, "--memory-limit", "2GB", "--nanny")  # as people start them
        yield started.address


def square(pipeline: Pipeline) -> float:
    return float(pipeline.params[0]["x"]) ** 2


def slow_square(pipeline: Pipeline) -> float:
    time.sleep(0.3)
    return square(pipeline)


def parent(_: Pipeline) -> float:
    """The process that a sandbox on a worker runs in."""
    return float(os.getppid())


def point(x: float = 0.5) -> Pipeline:
    return Pipeline(["a"], [{"x": x}])


class Artefacts:
    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Any) -> Outcome:
        del limits, fidelity
        return Outcome.of(square(pipeline), artefacts={"row": np.arange(3) + seed, "text": b"abc"})


def test_outcomes_limits_and_artefacts(steady: str, tmp_path: Path) -> None:
    def bomb(_: Pipeline) -> float:
        return float(len([np.ones(10**7) for _ in range(100)]))

    def endless(_: Pipeline) -> float:
        while True:
            pass

    def leaves(_: Pipeline) -> float:
        os._exit(3)

    with Cluster(steady) as place:
        assert place.n_jobs == 2
        assert place.bytes == 800 * MB
        with place.sandbox(Artefacts(), spool=tmp_path) as sandbox:
            outcome = sandbox(point(), LONG, 7)
            assert outcome.loss == 0.25
            assert np.array_equal(np.load(outcome.artefacts["row"]), [7, 8, 9])
            assert outcome.artefacts["text"].read_bytes() == b"abc"
        for function, limits, status in (
            (bomb, Limits(60, 300 * MB), Status.MEMORY),
            (bomb, Limits(60), Status.MEMORY),  # the worker's own limit
            (endless, Limits(1), Status.TIMEOUT),
            (endless, Limits(deadline=time.time() + 3), Status.TIMEOUT),
            (leaves, LONG, Status.CRASHED),
        ):
            with place.sandbox(function, spool=tmp_path) as sandbox:
                assert sandbox(point(), limits, 0).status is status
        with place.sandbox(parent, spool=tmp_path) as sandbox:
            processes = {int(sandbox(point(), LONG, 0).loss or 0) for _ in range(3)}
            assert len(processes) == 1  # the objective was sent once, and its sandbox stays
        assert eventually(lambda: not Path(f"/proc/{processes.pop()}").exists() if processes else True)
        with place.sandbox(endless, spool=tmp_path) as sandbox:
            threading.Timer(1, sandbox.interrupt).start()
            assert "interrupted" in str(sandbox(point(), Limits(), 0).error)


def test_a_study_with_the_executor_of_a_client(steady: str, tmp_path: Path) -> None:
    here = Study(Task(SPACE), square, "random").run(evaluations=12, n_jobs=2)
    with (
        distributed.Client(steady) as client,
        Store.open(tmp_path / "store") as store,
        Sandbox(square) as sandbox,
    ):
        study = Study(Task(SPACE), sandbox, "random", store=store)
        there = study.run(evaluations=12, executor=client.get_executor())
        assert [t.outcome.loss for t in there] == [t.outcome.loss for t in here]
        assert [t.pipeline for t in there] == [t.pipeline for t in here]
        assert len(store.read_study("study").trials()) == 12


def test_workers_come_and_go_and_every_trial_counts_once(dask: Dask, tmp_path: Path) -> None:
    first = dask.worker()
    seen: list[int] = []

    def change(study: Study, trial: Any) -> None:
        seen.append(trial.number)
        if len(seen) == 2:
            dask.worker("--nthreads", 2)
        if len(seen) == 6:
            first.send_signal(signal.SIGKILL)  # in the middle of an evaluation

    with distributed.Client(dask.address) as client, Store.open(tmp_path / "store") as store:
        study = Study(Task(SPACE), slow_square, "random", store=store, callbacks=[change])
        history = study.run(evaluations=12, executor=client.get_executor(), ordered=False)
        assert len(history) == 12
        assert all(trial.outcome.ok for trial in history)
        assert sorted(seen) == list(range(12))
        assert sorted(t.number for t in store.read_study("study").trials()) == list(range(12))


def test_all_workers_are_replaced(dask: Dask, tmp_path: Path) -> None:
    only = dask.worker()
    with Cluster(dask.address) as place, place.sandbox(square, spool=tmp_path) as sandbox:
        assert sandbox(point(), LONG, 0).ok
        only.kill()
        assert eventually(lambda: not dask.names())
        threading.Thread(target=dask.worker, daemon=True).start()
        assert sandbox(point(), LONG, 1).ok  # the objective is sent anew


def test_the_scheduler_dies(dask: Dask, tmp_path: Path) -> None:
    dask.worker()

    def end(study: Study, trial: Any) -> None:
        if trial.number == 3:
            dask.scheduler.kill()

    with distributed.Client(dask.address) as client, Store.open(tmp_path / "store") as store:
        study = Study(Task(SPACE), slow_square, "random", store=store, callbacks=[end])
        with pytest.raises(SandboxError, match="scheduler cannot be reached"):
            study.run(evaluations=50, executor=client.get_executor())
        assert 4 <= len(store.read_study("study").trials()) < 50
        again = Study(Task(SPACE), square, "random", store=store, resume=True).run(evaluations=8)
        straight = Study(Task(SPACE), square, "random").run(evaluations=8)
        assert [t.outcome.loss for t in again] == [t.outcome.loss for t in straight]


def settings(**others: Any) -> dict[str, Any]:
    return {"include": ["logistic_regression", "decision_tree", "gaussian_nb"], "splitter": 3, **others}


def test_a_fit_is_the_same_on_a_cluster(steady: str, frame: pd.DataFrame) -> None:
    here = HeadstartClassifier(evaluations=5, n_jobs=2, **settings()).fit(frame, target="label")
    there = HeadstartClassifier(evaluations=5, cluster=steady, **settings()).fit(frame, target="label")
    columns = ["trial", "score", "estimator"]
    assert here.leaderboard_[columns].equals(there.leaderboard_[columns])
    assert np.array_equal(here.predict_proba(frame), there.predict_proba(frame))


def test_a_fit_whose_scheduler_dies_makes_a_model_and_goes_on(dask: Dask, frame: pd.DataFrame, tmp_path: Path) -> None:
    dask.worker("--nthreads", 2)

    class Killer(Progress):
        def trial(self, run: Any, trial: Any) -> None:
            if trial.number == 3:
                dask.scheduler.kill()

    common = settings(store=tmp_path / "store", refit="full")
    fit = HeadstartClassifier(evaluations=10_000, cluster=dask.address, **common)
    with pytest.warns(HeadstartWarning, match="search ended early: the Dask scheduler"):
        fit.fit(frame, target="label", progress=Killer())
    assert fit.predict(frame).shape == (120,)
    assert all(member.rows == 120 for member in fit.model_.members)  # refitted here
    found = len(fit.leaderboard_)
    again = HeadstartClassifier(evaluations=found + 2, n_jobs=2, **common)
    again.fit(frame, target="label", resume=True)
    assert len(again.leaderboard_) == found + 2
    with Store.open(tmp_path / "store") as store:
        (study,) = store.studies()
        assert [t.number for t in store.read_study(study.name).trials()] == list(range(study.n_trials))


def test_what_cannot_be(dask: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    with pytest.raises(InvalidInput, match=r"nobody answers at tcp://127\.0\.0\.1:9"):
        Cluster("tcp://127.0.0.1:9")
    with pytest.raises(InvalidInput, match="nobody answers at nonsense"):
        Cluster("nonsense")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 10.0)
    monkeypatch.setattr(cluster, "WORKERS_SECONDS", 0.5)
    with pytest.raises(InvalidInput, match="must have a worker, it has none; start one with 'dask worker"):
        Cluster(dask.address)
    with pytest.raises(TypeError, match="address of a Dask scheduler"):
        Cluster(3)
    with pytest.raises(InvalidInput, match="limits of memory"):
        HeadstartClassifier(cluster=dask.address, memory_limit=10**9).fit(pd.DataFrame({"a": [1, 2], "y": [0, 1]}), "y")


def test_runs_on_a_cluster_survive_its_workers(dask: Dask) -> None:
    """Each item counts once, also when all workers that have what is shared die; an error of the function is told."""
    first = dask.worker()
    found: list[tuple[str, int]] = []
    with Cluster(dask.address) as place:
        for name, value in place.each(slow_product, (7,), {f"item {i}": i for i in range(6)}):
            if not found:
                first.kill()
                dask.worker()
            found.append((name, value))
        assert sorted(found) == [(f"item {i}", 7 * i) for i in range(6)]
        with pytest.raises(InvalidInput, match="not that one"):
            list(place.each(refuse, (), {"a": 1}))
        under_way = place.each(slow_product, (7,), {f"item {i}": i for i in range(50)})
        next(under_way)
        dask.scheduler.kill()
        with pytest.raises(SandboxError, match="scheduler cannot be reached"):
            list(under_way)


def slow_product(shared: int, item: int) -> int:
    time.sleep(0.2)
    return shared * item


def refuse(item: int) -> int:
    raise InvalidInput(f"not that one: {item}")


def test_replays_are_the_same_on_a_cluster(steady: str, tmp_path: Path) -> None:
    meta = divided_meta("small")
    partition = Partition.of(meta, "test")
    methods = ["random", "linear_factors(rank=2)"]
    here = replay(meta, methods, partition, evaluations=10, seeds=2)
    there = replay(meta, methods, partition, evaluations=10, seeds=2, jobs=steady, out=tmp_path / "found.json")
    for method in methods:
        np.testing.assert_array_equal(here.curves(method), there.curves(method))
