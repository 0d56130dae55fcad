"""`Pipeline`: one point of a search space."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

Value = str | int | float | bool | None
"""What a hyper-parameter may be: a JSON scalar."""


class Pipeline:
    """An algorithm and its active hyper-parameters for each stage of a space.

    Immutable, hashable, comparable, and exact through JSON.

    Parameters
    ----------
    algorithms
        Name of the chosen algorithm, one per stage.
    params
        Active hyper-parameters, one mapping per stage; none when omitted.
    order
        Positions of the stages in the order they are applied, only where the space lets stages change places.
    id
        Row of a recorded pipeline in its meta-dataset. Two recorded pipelines with the same content and different
        rows are different pipelines: their losses were measured separately.

    Examples
    --------
    >>> Pipeline(["pca", "knn"], [{"n_components": 4}, {"n_neighbors": 7}])
    pca(n_components=4) > knn(n_neighbors=7)
    """

    __slots__ = ("_key", "algorithms", "id", "order", "params")

    algorithms: tuple[str, ...]
    params: tuple[Mapping[str, Value], ...]
    order: tuple[int, ...] | None
    id: int | None
    _key: str | None

    def __init__(
        self,
        algorithms: Iterable[str],
        params: Iterable[Mapping[str, Value]] | None = None,
        order: Iterable[int] | None = None,
        id: int | None = None,
    ) -> None:
        names = tuple(algorithms)
        given = tuple(params) if params is not None else tuple({} for _ in names)
        if len(given) != len(names):
            raise ValueError(f"params must have one mapping per stage: {len(names)} stages, {len(given)} mappings")
        put = object.__setattr__
        put(self, "algorithms", names)
        put(self, "params", tuple(MappingProxyType(dict(sorted(p.items()))) for p in given))
        put(self, "order", None if order is None else tuple(int(i) for i in order))
        put(self, "id", None if id is None else int(id))
        put(self, "_key", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Pipeline cannot be changed; make a new one")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        """Content as JSON types; `from_dict` is its inverse."""
        content: dict[str, Any] = {"algorithms": list(self.algorithms), "params": [dict(p) for p in self.params]}
        if self.order is not None:
            content["order"] = list(self.order)
        if self.id is not None:
            content["id"] = self.id
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Pipeline:
        return cls(content["algorithms"], content["params"], content.get("order"), content.get("id"))

    @property
    def key(self) -> str:
        """Canonical JSON text; equal pipelines have equal keys."""
        if self._key is None:
            text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
            object.__setattr__(self, "_key", text)
            return text
        return self._key

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, Pipeline) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __reduce__(self) -> tuple[Any, ...]:
        return Pipeline.from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        places = self.order if self.order is not None else range(len(self.algorithms))
        parts = []
        for i in places:
            settings = ", ".join(f"{name}={value!r}" for name, value in self.params[i].items())
            parts.append(f"{self.algorithms[i]}({settings})" if settings else self.algorithms[i])
        return " > ".join(parts) + (f" #{self.id}" if self.id is not None else "")
