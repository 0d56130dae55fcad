"""From a `Pipeline` to a scikit-learn pipeline."""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from headstart.errors import MissingDependency, SpaceError
from headstart.space.pipeline import Pipeline
from headstart.space.stages import Algorithm

if TYPE_CHECKING:
    from headstart.space.space import PipelineSpace


def load(path: str) -> Any:
    """The object at ``"module:attribute"``."""
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise MissingDependency(f"{path} needs a package that is not installed: {error}") from error
    except AttributeError:
        raise SpaceError(f"module {module!r} has no {attribute!r}") from None


def build(space: PipelineSpace, pipeline: Pipeline, seed: int | None = None) -> Any:
    """An unfitted ``sklearn.pipeline.Pipeline`` with a step for each stage that does something.

    Parameters
    ----------
    seed
        Given to every step that takes a ``random_state``.
    """
    from sklearn.pipeline import Pipeline as SklearnPipeline

    space.encode([pipeline])  # raises if it does not belong to the space
    options: dict[str, Any] = {}
    steps = []
    for i in pipeline.order or range(len(space.stages)):
        stage = space.stages[i]
        algorithm = stage.algorithms[stage.position(pipeline.algorithms[i])]
        settings = {**algorithm.fixed, **pipeline.params[i]}
        if stage.kind == "fit_option":
            options |= settings
        elif algorithm.path is not None:
            steps.append((stage.name, algorithm, settings))
    if not steps:
        raise SpaceError(f"{pipeline!r} has no step that does anything")
    built = []
    for name, algorithm, settings in steps:
        last = name == steps[-1][0]
        built.append((name, _make(algorithm, {**settings, **options} if last else settings, seed)))
    return SklearnPipeline(built)


def _make(algorithm: Algorithm, settings: dict[str, Any], seed: int | None) -> Any:
    assert algorithm.path is not None
    maker = load(algorithm.path)
    if seed is not None and "random_state" not in settings and "random_state" in inspect.signature(maker).parameters:
        settings = {**settings, "random_state": seed}
    try:
        return maker(**settings)
    except TypeError as error:
        raise SpaceError(f"algorithm {algorithm.name!r} cannot be made with {settings!r}: {error}") from error
