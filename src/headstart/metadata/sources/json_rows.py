"""Large JSON files, a row at a time.

The files hold one object whose large members are lists of lists of numbers. Read whole, a quarter of a gigabyte of text
becomes several of Python objects; read by rows, one row is the most that is there at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import IO, Any

_CHUNK = 1 << 20


class _Text:
    """A stream as text that can be looked at before it is taken."""

    def __init__(self, stream: IO[bytes], read: Callable[[int], None]) -> None:
        self._stream = stream
        self._read = read
        self._text = ""
        self._start = 0

    def more(self) -> bool:
        """Get more of the stream; whether there was any."""
        chunk = self._stream.read(_CHUNK)
        self._read(len(chunk))
        self._text = self._text[self._start :] + chunk.decode("ascii")
        self._start = 0
        return bool(chunk)

    def peek(self) -> str:
        """The next character that is not white space."""
        while True:
            while self._start < len(self._text) and self._text[self._start].isspace():
                self._start += 1
            if self._start < len(self._text):
                return self._text[self._start]
            if not self.more():
                raise ValueError("the text ends in the middle")

    def expect(self, characters: str) -> str:
        """Take the next character, which must be one of these."""
        found = self.peek()
        if found not in characters:
            raise ValueError(f"expected one of {characters!r}, got {found!r}")
        self._start += 1
        return found

    def value(self) -> Any:
        """Take a text, a list or an object."""
        if self.peek() not in '"[{':
            raise ValueError(f"expected a text, a list or an object, got {self.peek()!r}")
        while True:
            try:
                value, self._start = json.JSONDecoder().raw_decode(self._text, self._start)
                return value
            except ValueError:
                if not self.more():
                    raise


def read_rows(
    stream: IO[bytes],
    rows: Collection[str],
    take: Callable[[str, list[Any]], None],
    read: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Read an object from a stream of JSON in ASCII.

    Parameters
    ----------
    rows
        Members that are lists of lists of numbers.
    take
        Called with the name of such a member and each of its rows in turn.
    read
        Called with the number of bytes, whenever some were read.

    Returns
    -------
    dict
        The other members: texts, lists and objects.

    Raises
    ------
    ValueError
        The text is cut off or something else.
    """
    text = _Text(stream, read)
    found: dict[str, Any] = {}
    text.expect("{")
    while True:
        name = text.value()
        text.expect(":")
        if name in rows:
            text.expect("[")
            while text.peek() == "[":
                take(name, text.value())
                if text.peek() == ",":
                    text.expect(",")
            text.expect("]")
        else:
            found[name] = text.value()
        if text.expect(",}") == "}":
            return found
