"""All experiments by name, and the command that runs one.

>>> "pmf_regret" in EXPERIMENTS
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments import admm, deeppipe, dida, dmfbs, metabu, mosaic, pmf, warm_start
from experiments.experiment import Experiment, Findings, Setup
from headstart.errors import InvalidInput, UnknownName, check_positive, suggestion
from headstart.metadata.metadataset import MetaDataset
from headstart.replay.partition import Partition
from headstart.replay.runner import Jobs, Reporter, check_jobs

EXPERIMENTS: dict[str, Experiment] = {
    **pmf.EXPERIMENTS,
    **deeppipe.EXPERIMENTS,
    **dida.EXPERIMENTS,
    **dmfbs.EXPERIMENTS,
    **metabu.EXPERIMENTS,
    **mosaic.EXPERIMENTS,
    **admm.EXPERIMENTS,
    **warm_start.EXPERIMENTS,
}


def run_experiment(
    name: str,
    meta: MetaDataset,
    folder: Path,
    *,
    tasks: int | None = None,
    evaluations: int | None = None,
    seconds: float | None = None,
    jobs: Jobs = 1,
    progress: Reporter | None = None,
    data: Path | None = None,
) -> tuple[Findings, Path]:
    """Run an experiment, or go on with it; what it found and the file it is in.

    Parameters
    ----------
    name
        In `EXPERIMENTS`.
    meta
        With splits ``train`` and ``test``.
    folder
        Where the JSON file goes. A look at less than the whole experiment gets a file of its own.
    tasks, evaluations, seconds
        So many of the first test tasks (of the tables, where it is on raw ones), and another length of a search,
        instead of what the experiment has.
    jobs
        Runs at a time; results do not depend on it.
    progress
        Is told what is going on.
    data
        Folder with raw tables, for experiments on them.
    """
    experiment = find(name)
    check_jobs(jobs)
    length = {"evaluations": experiment.evaluations, "seconds": experiment.seconds}
    length["tasks"] = experiment.evaluations or experiment.seconds
    for what, value in {"tasks": tasks, "evaluations": evaluations, "seconds": seconds}.items():
        check_positive(what, value, whole=what != "seconds")
        if value is not None and length[what] is None:
            raise InvalidInput(f"{name} has no {what} to choose: {experiment.line}")
    everything = Partition("all", tuple(range(len(meta))), (), ())  # an experiment makes its own folds
    partition = Partition.of(meta, "test") if meta.splits else everything
    if experiment.seconds is None and partition.test:
        known = len(partition.test)
        whole, number = (min(n or known, known) for n in (experiment.tasks, tasks or experiment.tasks))
        if number < known:
            partition = replace(partition, name=f"{partition.name}, first {number}", test=partition.test[:number])
        tasks = None if number == whole else number
    look = [] if tasks is None else [f"first{tasks}"]
    look += [] if evaluations in (None, experiment.evaluations) else [f"{evaluations}evaluations"]
    look += [] if seconds in (None, experiment.seconds) else [f"{seconds:g}seconds"]
    setup = Setup(
        name=name,
        meta=meta,
        partition=partition,
        out=folder / file_name(name, meta.name, look),
        evaluations=evaluations or experiment.evaluations,
        jobs=jobs,
        progress=progress or Reporter(),
        data=data,
        tables=tasks,
        seconds=seconds or experiment.seconds,
    )
    return experiment.kind.run(setup), setup.out


def file_name(name: str, meta: str, look: Sequence[str] = ()) -> str:
    """Of the results of an experiment on a meta-dataset.

    >>> file_name("pmf_regret", "pmf"), file_name("pmf_regret", "zap", ["first2"])
    ('pmf_regret.json', 'pmf_regret_zap_first2.json')
    """
    return "_".join([name, *([] if meta == find(name).meta else [meta]), *look]) + ".json"


def find(name: str) -> Experiment:
    """The experiment of a name; raises `UnknownName` where there is none."""
    if name not in EXPERIMENTS:
        raise UnknownName(f"there is no experiment {name!r}; {suggestion(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
