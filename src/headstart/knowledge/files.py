"""Optimizers that begin with what a surrogate learned from other tasks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from headstart.errors import InvalidInput, ModelFileError, warn_user
from headstart.registry import create, names, parsed

if TYPE_CHECKING:
    from headstart.optimizers.bayes import Bayes
    from headstart.surrogates.meta_trained import MetaTrained

_TAKES = "knowledge is a file that 'headstart metatrain' wrote"


def trainable(name: str, /, **settings: Any) -> MetaTrained:
    """A surrogate by its name whose training can be kept in a file; `InvalidInput` names those that there are."""
    from headstart.surrogates.meta_trained import MetaTrained

    if name in names("surrogate"):
        try:
            surrogate = create("surrogate", name, **settings)
        except TypeError as error:
            raise InvalidInput(str(error)) from error
        if isinstance(surrogate, MetaTrained):
            return surrogate
    known = [other for other in names("surrogate") if isinstance(create("surrogate", other), MetaTrained)]
    raise InvalidInput(f"{name!r} is no surrogate whose training is kept in a file; these are: {', '.join(known)}")


def _held(path: str | os.PathLike[str]) -> str:
    """Name of the surrogate whose training is in a file."""
    from headstart.learning.checkpoints import load_arrays

    try:
        told = load_arrays(path)[1].get("surrogate")
    except ModelFileError as error:
        raise InvalidInput(f"{error}; {_TAKES}") from error
    held = told.get("name") if isinstance(told, dict) else None
    for name in names("surrogate"):
        made = create("surrogate", name)
        if type(made).__name__ == held and made.describe() == type(made)().describe():  # which a recipe is not
            return name
    raise InvalidInput(f"{os.fspath(path)!r} holds what no surrogate here has learned; {_TAKES}")


def informed(optimizer: object, path: str | os.PathLike[str], *, per_second: bool = False) -> Bayes:
    """Bayesian optimisation with a trained surrogate, trusted from the first suggestion on.

    Parameters
    ----------
    optimizer
        ``"default"`` for the surrogate in the file, or its name. With settings, ``"deeppipe(fine_tune=kernel)"``, those
        that only count on a new task are taken over; others must be those that it was trained with.
    path
        The file that its `save` wrote.
    per_second
        Weigh improvement by the seconds that a pipeline is expected to take: by those on record, if there are any.
    """
    from headstart.learning.base import describe_part
    from headstart.optimizers.bayes import Bayes

    if not isinstance(optimizer, str):
        raise InvalidInput(
            f"knowledge belongs to an optimizer that is named, such as optimizer='deeppipe', got a "
            f"{type(optimizer).__name__}; an object brings its own: Bayes(DeepPipe.load(file))"
        )
    if optimizer == "default":
        optimizer = _held(path)
    name, settings = parsed(optimizer)
    wanted = trainable(name, **settings)
    usual = describe_part(type(wanted)())  # a recipe, such as deeppipe_paper, asks for what it has another of
    asked = {name: value for name, value in describe_part(wanted).items() if name in settings or value != usual[name]}
    try:
        surrogate = type(wanted).load(path).adjusted(**asked)
    except ModelFileError as error:
        raise InvalidInput(f"{error}; {_TAKES} with --surrogate {name}") from error
    except InvalidInput as error:
        raise type(error)(f"{optimizer} with knowledge {os.fspath(path)!r}: {error}") from error
    if surrogate.needs.metafeatures:
        needed = ", ".join(sorted(surrogate.needs.metafeatures))
        warn_user(
            f"{optimizer} was trained to look at meta-features {needed} of a table, which a fit does not compute: "
            "it goes without"
        )
    return Bayes(surrogate, "log_ei_per_second" if per_second else "log_ei")
