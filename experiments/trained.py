"""Methods that have learned, kept between experiments: those of one paper train the same network for several tables."""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar

from headstart.learning.base import Learner, settings_of
from headstart.learning.monitor import Monitor, monitored
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.sources import cache_directory
from headstart.optimizers.base import Optimizer
from headstart.replay.protocol import Method

Held = TypeVar("Held", bound=Learner)


def learned(method: Method, learning: MetaDataset) -> Optimizer:
    """A method that has learned from these tasks: now, or earlier with the same settings of training.

    What was learned is in the user's cache directory; a training that was stopped goes on. Settings that only count on
    a new task are those of the method.
    """
    made = method.make()
    key = hashlib.sha256(json.dumps([_of_training(made), learning.key], sort_keys=True).encode()).hexdigest()
    file = cache_directory() / "experiments" / f"{key[:32]}.npz"
    if file.exists():
        return _with_settings_of(Optimizer.load(file), made)
    file.parent.mkdir(parents=True, exist_ok=True)
    with monitored(Monitor(state=file.with_suffix(".part"), key=key, resume=True)) as monitor:
        made = made.meta_fit(learning)
    made.save(file)
    monitor.remove()
    return made


def _with_settings_of(found: Held, made: Learner) -> Held:
    """What was learned, with the other one's settings that only count on a new task, parts included."""
    for name in found.adjustable:
        setattr(found, name, getattr(made, name))
    for name in found.parts:
        held, asked = found.part(name), made.part(name)
        if held is not None and asked is not None:
            _with_settings_of(held, asked)
    return found


def _of_training(learner: Learner) -> dict[str, Any]:
    """Settings that count for what is learned, parts included; without their names."""
    new_task_only = learner.adjustable | set(learner.parts)
    settings = {name: value for name, value in settings_of(learner).items() if name not in new_task_only}
    parts = {name: learner.part(name) for name in learner.parts}
    nested = {name: None if part is None else _of_training(part) for name, part in parts.items()}
    return {"class": type(learner).__name__, **{name: repr(value) for name, value in settings.items()}, **nested}
