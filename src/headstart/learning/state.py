"""What a learner was made with and what it learned, as JSON and arrays; no code.

Every value is written as JSON as it is, or as a mapping with one entry that says what it is:

============  =========================================================================================
entry         value
============  =========================================================================================
``array``     name of an array in the file
``ragged``    name of an array in the file, and the lengths of the one-dimensional parts that it is made of
``list``      values
``tuple``     values
``dict``      values by text
``space``     a `PipelineSpace`
``encoded``   pipelines as arrays
``pipeline``  a `Pipeline`
``fidelity``  a `Fidelity`
``training``  a `Training`
``learner``   a learner: kind, class, settings, parts, what it learned
``part``      another part of the registry, such as an acquisition: kind, class, settings
``number``    a float that JSON lacks
============  =========================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, ModelFileError
from headstart.learning.base import Learner, settings_of
from headstart.learning.checkpoints import load_arrays, save_arrays
from headstart.learning.training import Training
from headstart.registry import KINDS, find_class
from headstart.space.encoded import Encoded
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace
from headstart.trials import Fidelity

FORMAT = 3
"""Of files of learners; 2 held surrogates alone."""

Arrays = dict[str, NDArray[Any]]
_ENCODED = ("values", "active", "choice", "order", "ids")


def write(path: str | os.PathLike[str], learner: Learner, extractors: Mapping[str, Learner] | None = None) -> None:
    """Write a learner, and the extractors of meta-features that it reads, to a file without code."""
    if learner.meta_key is None:
        raise InvalidInput(f"{type(learner).__name__} has learned nothing yet: call meta_fit before save")
    arrays: Arrays = {}
    about = {"format": FORMAT, "headstart": version("headstart"), "learner": pack(learner, arrays)}
    kept = {name: pack(made, arrays, f"{name}/") for name, made in (extractors or {}).items()}
    save_arrays(path, arrays, {**about, "extractors": kept})


def read(path: str | os.PathLike[str]) -> tuple[Learner, dict[str, Learner]]:
    """What `write` wrote; nothing in the file is run."""
    arrays, about = load_arrays(path)
    if about.get("format") != FORMAT:
        raise ModelFileError(
            f"{os.fspath(path)!r} must have format {FORMAT}, got {about.get('format')!r}; it was written by "
            f"Headstart {about.get('headstart', 'of an earlier version')}: train it again with 'headstart metatrain'"
        )
    try:
        extractors = {name: unpack(content, arrays) for name, content in about["extractors"].items()}
        return unpack(about["learner"], arrays), extractors
    except ModelFileError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{os.fspath(path)!r} holds no learner that can be read: {error}") from error


def pack(learner: Learner, arrays: Arrays, name: str = "") -> dict[str, Any]:
    """A learner as JSON; its arrays are added to `arrays` under names that begin with `name`."""
    made = find_class(learner.kind, type(learner).__name__)
    if made is not type(learner):
        raise ModelFileError(
            f"{type(learner).__name__} must be registered as a {learner.kind} to be saved: see headstart.registry"
        )
    held = {part: getattr(learner, part) for part in learner.parts}
    settings = {key: value for key, value in settings_of(learner).items() if key not in held}
    content: dict[str, Any] = {"kind": learner.kind, "name": type(learner).__name__, "meta_key": learner.meta_key}
    groups = {
        "settings": settings,
        "parts": held,
        "learned": {key: getattr(learner, key, None) for key in learner.keeps},
    }
    for group, values in groups.items():
        content[group] = {key: _packed(value, arrays, f"{name}{key}") for key, value in values.items()}
    return content


def unpack(content: dict[str, Any], arrays: Arrays) -> Learner:
    """What `pack` wrote."""
    made = find_class(content["kind"], content["name"])
    if made is None:
        raise ModelFileError(f"no {content['kind']} of class {content['name']!r} is installed, which the file holds")
    learner = made(**{key: _unpacked(value, arrays) for key, value in content["settings"].items()})
    if not isinstance(learner, Learner):
        raise ModelFileError(f"{content['name']} is no learner")
    for key in learner.parts:
        setattr(learner, key, _unpacked(content["parts"][key], arrays))
    for key in learner.keeps:
        setattr(learner, key, _unpacked(content["learned"][key], arrays))
    learner.meta_key = content["meta_key"]
    learner.restored()
    return learner


def _packed(value: Any, arrays: Arrays, name: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"number": str(value)}
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, Learner):
        return {"learner": pack(value, arrays, f"{name}.")}
    if isinstance(value, PipelineSpace):
        return {"space": value.to_dict()}
    if isinstance(value, Encoded):
        known = {key: getattr(value, key) for key in _ENCODED if key != "ids" or value.recorded}
        return {"encoded": {"space": value.space.to_dict(), **_items(known, arrays, name)}}
    if isinstance(value, Pipeline):
        return {"pipeline": value.to_dict()}
    if isinstance(value, Fidelity):
        return {"fidelity": asdict(value)}
    if isinstance(value, Training):
        return {"training": asdict(value)}
    if isinstance(value, dict):
        return {"dict": _items(value, arrays, name)}
    if isinstance(value, list | tuple):
        if value and all(isinstance(v, np.ndarray) and v.ndim == 1 and v.dtype == value[0].dtype for v in value):
            arrays[name] = np.concatenate(value)
            return {"ragged": [name, [len(v) for v in value]]}
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_packed(v, arrays, f"{name}.{i}") for i, v in enumerate(value)]}
    for kind in KINDS:
        if find_class(kind, type(value).__name__) is type(value):
            settings = _items(settings_of(value), arrays, name)
            return {"part": {"kind": kind, "name": type(value).__name__, "settings": settings}}
    raise ModelFileError(f"{name!r} is a {type(value).__name__}, which cannot be kept in a file")


def _items(values: dict[str, Any], arrays: Arrays, name: str) -> dict[str, Any]:
    return {key: _packed(value, arrays, f"{name}.{key}") for key, value in values.items()}


def _unpacked(content: Any, arrays: Arrays) -> Any:
    if not isinstance(content, dict):
        return content
    ((kind, value),) = content.items()
    if kind == "array":
        return arrays[value]
    if kind == "ragged":
        return np.split(arrays[value[0]], np.cumsum(value[1])[:-1])
    if kind in ("list", "tuple"):
        found = [_unpacked(v, arrays) for v in value]
        return found if kind == "list" else tuple(found)
    if kind == "dict":
        return {key: _unpacked(v, arrays) for key, v in value.items()}
    if kind == "space":
        return PipelineSpace.from_dict(value)
    if kind == "encoded":
        held = {key: _unpacked(v, arrays) for key, v in value.items() if key != "space"}
        return Encoded(PipelineSpace.from_dict(value["space"]), **held)
    if kind == "pipeline":
        return Pipeline.from_dict(value)
    if kind == "fidelity":
        return Fidelity(**value)
    if kind == "training":
        return Training(**value)
    if kind == "learner":
        return unpack(value, arrays)
    if kind == "part":
        made = find_class(value["kind"], value["name"])
        if made is None:
            raise ModelFileError(f"no {value['kind']} of class {value['name']!r} is installed, which the file holds")
        return made(**{key: _unpacked(v, arrays) for key, v in value["settings"].items()})
    if kind == "number":
        return float(value)
    raise ModelFileError(f"a file of a learner has no values of kind {kind!r}")
