"""`Knowledge`: what was learned from other tasks, in a file, and the optimizer that begins with it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headstart.errors import InvalidInput, ModelFileError
from headstart.learning.base import Learner
from headstart.metafeatures.base import MetaFeatures
from headstart.registry import Kind, create, is_nearest, names, parsed

if TYPE_CHECKING:
    from headstart.metadata.metadataset import MetaDataset
    from headstart.optimizers.base import Optimizer

_KINDS: tuple[Kind, ...] = ("optimizer", "surrogate")


def learner(text: str) -> Learner:
    """A method that learns, by its name and settings; `InvalidInput` names those that there are."""
    name, _ = parsed(text)
    for kind in _KINDS:
        if name in names(kind):
            made: Learner = create(kind, text)
            if made.learns:
                return made
    if is_nearest(name):
        return create("optimizer", text)  # type: ignore[no-any-return]
    known = [other for kind in _KINDS for other in names(kind) if create(kind, other).learns]
    raise InvalidInput(
        f"{name!r} is no method that learns from other tasks; these are: {', '.join(sorted(known))}"
        if name in [*names("optimizer"), *names("surrogate")]
        else f"no method is named {name!r}; these learn from other tasks: {', '.join(sorted(known))}"
    )


def optimizer_in(files: Sequence[Knowledge], asked: str) -> tuple[Optimizer, Knowledge]:
    """The optimizer of this name and settings that one of the files holds, and that file's content.

    Raises `InvalidInput`, with what each of them holds, if none does.
    """
    reasons = []
    for known in files:
        try:
            return known.optimizer(asked), known
        except InvalidInput as error:
            reasons.append(str(error))
    raise InvalidInput(
        "; ".join(reasons)
        or f"{asked} learns from other tables: give what it learned as knowledge (--knowledge FILE), which "
        f"'headstart metatrain META --method {asked!r}' writes"
    )


@dataclass(frozen=True)
class Knowledge:
    """A method that has learned from other tasks, with what it takes to tell it of a new one.

    Parameters
    ----------
    learner
        A surrogate or an optimizer.
    extractors
        Of the meta-features that it reads, by name.
    """

    learner: Learner
    extractors: Mapping[str, MetaFeatures] = field(default_factory=dict)

    @classmethod
    def learn(cls, method: Learner, meta: MetaDataset, train: Sequence[int], validation: Sequence[int]) -> Knowledge:
        """Let a method learn from some tasks, after meta-features that it needs have been learned from them too.

        Parameters
        ----------
        method
            Is changed.
        meta, train, validation
            Positions of the tasks to learn from, and of those that tell when to stop.
        """
        from headstart.metafeatures.tables import with_metafeatures

        part = meta.select([*train, *validation])
        places = range(len(train))
        part, extractors = with_metafeatures(part, method.needs.metafeatures, places)
        return cls(method.meta_fit(part.learning(places, range(len(train), len(part)))), extractors)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file without code; `load` reads it."""
        from headstart.learning.state import write

        write(path, self.learner, self.extractors)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Knowledge:
        """What `save` wrote, or that of a learner; `InvalidInput` for anything else."""
        from headstart.learning.state import read

        try:
            held, extractors = read(path)
        except ModelFileError as error:
            raise InvalidInput(f"{error}; knowledge is a file that 'headstart metatrain' wrote") from error
        return cls(held, {name: made for name, made in extractors.items() if isinstance(made, MetaFeatures)})

    def optimizer(self, asked: object = "default", *, per_second: bool = False) -> Optimizer:
        """The optimizer that begins with what was learned; a surrogate is trusted from the first suggestion on.

        Parameters
        ----------
        asked
            ``"default"`` for what was trained, or its name. With settings, ``"deeppipe(fine_tune=kernel)"``, those that
            only count on a new task are taken over; others must be those that it was trained with.
        per_second
            Of a surrogate: weigh improvement by the seconds that a pipeline is expected to take, by those on record
            if there are any.
        """
        if not isinstance(asked, str):
            raise InvalidInput(
                f"knowledge belongs to an optimizer that is named, such as optimizer='deeppipe', got a "
                f"{type(asked).__name__}; an object brings its own: Bayes(DeepPipe.load(file))"
            )
        try:
            held: Any = self.learner if asked == "default" else self.learner.like(asked)
        except InvalidInput as error:
            raise InvalidInput(f"{asked} with this knowledge: {error}") from error
        if held.kind == "optimizer":
            return held  # type: ignore[no-any-return]
        acquisition = "log_ei_per_second" if per_second else "log_ei"
        return create("optimizer", "bayes", surrogate=held, acquisition=acquisition)  # type: ignore[no-any-return]
