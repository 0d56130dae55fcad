"""Locations of stores as they may be shown and written down: without passwords."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode

_SECRETS = ("password", "sslpassword")


def shown_location(location: str, instead: str | None = None) -> str:
    """A location without its password, or with `instead` in its place; the path of a directory as it is.

    >>> shown_location("postgresql://ann:secret@db.example.com/team?sslmode=require&password=secret")
    'postgresql://ann@db.example.com/team?sslmode=require'
    >>> shown_location("postgresql://ann:secret@db.example.com/team", "***")
    'postgresql://ann:***@db.example.com/team'
    """
    scheme, mark, rest = location.partition("://")
    if not mark:
        return location
    rest, question, query = rest.partition("?")
    user, at, place = rest.rpartition("@")
    if at and ":" in user:
        user = user.partition(":")[0] + ("" if instead is None else f":{instead}")
    if re.search("|".join(_SECRETS), query):
        pairs = [(key, value if key not in _SECRETS else instead) for key, value in parse_qsl(query)]
        query = urlencode([(key, value) for key, value in pairs if value is not None], safe="*")
    return f"{scheme}://{user}{at}{place}" + (question + query if query else "")
