"""``zap``: 525 deep-learning pipelines on 525 image tasks.

E. Öztürk and others, *Zero-shot AutoML with pretrained models* (ICML 2022), in the form that was prepared for DeepPipe
(KDD 2023). Each pipeline was tuned for one task and evaluated on all, says the latter. A task is one of 35 image
datasets, changed in one of 15 ways (the number before its name): such tasks are alike. The file's split keeps each
image dataset on one side.

The columns have names in the file. They are scaled to [0, 1], and flags of optimizers and architectures are kept as a
column of their algorithm, which is 1 wherever that was chosen.
"""

from __future__ import annotations

from pathlib import Path

from headstart.errors import MetaDataError
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.sources.deeppipe import PAPER, DeepPipeFile, Progress, read_deeppipe, recorded

STAGES = ("training", "optimizer", "architecture")


def convert(wheels: list[Path], progress: Progress) -> MetaDataset:
    """Make the meta-dataset of the wheel of DeepPipe."""
    file = read_deeppipe(wheels[0], "zap", progress)
    tasks = file.others["pipelines_names"]
    validation, test, train = file.splits
    splits = {"train": train, "validation": validation, "test": test}
    bases = {name: sorted({base_dataset(tasks[t]) for t in positions}) for name, positions in splits.items()}
    counts = ", ".join(f"{len(splits[name])} {name} tasks of {len(found)}" for name, found in bases.items())
    mixed = sum(map(len, bases.values())) - len(set().union(*bases.values()))
    return MetaDataset(
        recorded(file, "zap_recorded", STAGES, _algorithms(file)),
        file.losses,
        tasks,
        initial=file.initial,
        splits=splits,
        name="zap",
        about={
            "title": "ZAP: deep-learning pipelines on image datasets, as prepared for DeepPipe",
            "loss": "as in the file; lower is better",
            "ids": "number of the change, and name of the image dataset",
            "splits": f"those of the file: {counts} image datasets; {mixed or 'no'} image dataset"
            f"{'s are' if mixed > 1 else ' is'} in more than one split. The paper says 315 training tasks",
            "initial": "five for each task",
            "pipelines": "each was tuned for one of the tasks; replayed, not rebuilt",
            "paper": f"E. Öztürk and others, Zero-shot AutoML with pretrained models (ICML 2022); {PAPER}",
        },
    )


def base_dataset(task: str) -> str:
    """The image dataset that a task was made of.

    >>> base_dataset("0-cars196")
    'cars196'
    """
    return task.partition("-")[2]


def _algorithms(file: DeepPipeFile) -> list[tuple[str, list[str]]]:
    """Name and columns of each algorithm, from the names in the file.

    Those are such as ``common.autocv.optimizer.lr`` and ``architecture.autocv.model.architecture_ResNet18``.
    """
    names = [str(name).partition(".autocv.")[2] for name in file.others["variable_names"]]
    if not all(names) or len(names) != file.domains[-1]:
        raise MetaDataError(f"the columns of zap are not those expected: {file.others['variable_names']}")
    blocks = [names[a:b] for a, b in zip(file.domains, file.domains[1:], strict=False)]
    common = [("common", [name.replace(".", "_") for name in blocks[0]])]
    return common + [(block[0].rpartition("_")[2].lower(), ["chosen"]) for block in blocks[1:]]
