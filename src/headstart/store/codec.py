"""Strict, exact JSON text for what a store keeps.

Columns hold JSON as plain text in ASCII, so every database gives back the same characters: no dialect's JSON type
reorders keys, rounds numbers or refuses ``\\u0000``. Numbers keep every bit (Python writes the shortest text that reads
back to the same float). JSON has no word for NaN and the infinities; they become ``{"$float": "nan"}``, and a key of
the caller that begins with ``$`` gets a second one, so that nothing is mistaken for them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from headstart.errors import InvalidInput, StoreError
from headstart.trials import Outcome, Proposal, Trial

_NON_FINITE = "$float"


def encode(value: object, what: str) -> str:
    """JSON text of a value made of mappings, sequences, texts, numbers, booleans and None.

    Parameters
    ----------
    value
        Tuples come back as lists and NumPy scalars as Python's.
    what
        Name of the value in error messages.

    Examples
    --------
    >>> encode({"latency": float("inf"), "rows": (1, 0.1)}, "origin")
    '{"latency":{"$float":"inf"},"rows":[1,0.1]}'
    """
    return json.dumps(_plain(value, what), separators=(",", ":"), allow_nan=False)


def decode(text: str) -> Any:
    """Inverse of `encode`.

    >>> decode('{"latency":{"$float":"inf"},"rows":[1,0.1]}')
    {'latency': inf, 'rows': [1, 0.1]}
    """
    return json.loads(text, object_hook=_restored if '"$' in text else None)


def decode_proposal(text: str) -> Proposal:
    with reading("a stored proposal"):
        return Proposal.from_dict(decode(text))


def encode_trial(trial: Trial) -> str:
    """All of a trial but its proposal and its artefacts, which are stored by themselves."""
    # Times too: a column of numbers would lose the sign of -0.0 in SQLite.
    content = {"outcome": trial.outcome.to_dict(), "started": trial.started, "finished": trial.finished}
    return encode(content, f"trial {trial.number}")


def decode_trial(text: str, proposal: Proposal, artefacts: Mapping[str, Any]) -> Trial:
    with reading(f"stored trial {proposal.number}"):
        content = decode(text)
        outcome = Outcome.from_dict(content["outcome"], artefacts)
        if not isinstance(outcome.error, str | None):
            raise TypeError("the error of an outcome must be a text")
        numbers = (outcome.seconds, outcome.bytes, content["started"], content["finished"], *outcome.fold_losses)
        for number in (*numbers, *outcome.constraints.values()):
            float(number)
        return Trial(proposal, outcome, content["started"], content["finished"])


def decode_mapping(text: str, what: str) -> dict[str, Any]:
    """A mapping that `encode` wrote; `StoreError` for anything else."""
    with reading(what):
        content = decode(text)
        if not isinstance(content, dict):
            raise TypeError(f"it must be a mapping, found {type(content).__name__}")
        return content


@contextmanager
def reading(what: str) -> Iterator[None]:
    """What goes wrong inside the block is a `StoreError` about `what`."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        said = str(error).replace("got an unexpected keyword argument", "has no field")
        raise StoreError(f"{what} cannot be read, the store is damaged ({said}); restore it from a backup") from error


def _plain(value: object, where: str) -> Any:
    """`value` in the types that `json` writes without loss."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.float32 | np.float16):
        number = float(value)
        return number if math.isfinite(number) else {_NON_FINITE: repr(number)}
    if isinstance(value, Mapping):
        content = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidInput(f"{where} must be JSON, whose keys are strings, got the key {key!r}")
            content["$" + key if key.startswith("$") else str(key)] = _plain(item, f"{where}[{key!r}]")
        return content
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    raise InvalidInput(
        f"{where} must be JSON (mappings, lists, strings, numbers, booleans, None), got {type(value).__name__}; "
        "convert it first, an array with .tolist()"
    )


def _restored(content: dict[str, Any]) -> Any:
    if len(content) == 1 and _NON_FINITE in content:
        return float(content[_NON_FINITE])
    return {key.removeprefix("$"): item for key, item in content.items()}
