"""`render`: a report as one HTML file that needs nothing else.

The page has no script, and its content security policy forbids every request. Jinja2 escapes all that comes from the
table; it is a core dependency (pure Python, half a megabyte) because a report ends every fit. Charts are our own
(`headstart.report.svg`).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from headstart.errors import printable
from headstart.report import charts
from headstart.report.content import Content
from headstart.report.svg import spark

MOST_BYTES = 2_000_000
"""A report stays below."""
TREE_BYTES = 600_000
"""A larger search tree is left to ``headstart tree``."""
_TEMPLATES = Path(__file__).parent / "templates"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def render(content: Content) -> str:
    """The page."""
    verdict, search = content.verdict, content.search
    left_out = {section: list(texts) for section, texts in content.left_out.items()}
    tree = content.tree
    if len(tree.encode()) > TREE_BYTES:
        tree = ""
        left_out.setdefault("tree", []).append(
            "the tree is too large for a report; 'headstart tree' writes it to a file"
        )
    from markupsafe import Markup

    page = _environment().get_template("report.html")
    return plain(
        page.render(
            c=content,
            model=next((score for score in verdict.scores if score.role == "model"), None),
            test=next((score for score in verdict.scores if score.role == "test"), None),
            left_out=left_out,
            tree=Markup(tree),
            verdict_chart=charts.verdict_chart(verdict) if len(verdict.scores) > 1 else None,
            search_chart=None
            if search is None or not len(search.scores)
            else charts.search_chart(search, verdict.metric, verdict.higher_is_better),
            behaviour=charts.behaviour_charts(content.behaviour),
            importance=charts.importance_chart(content.behaviour.importance, verdict.metric, verdict.higher_is_better)
            if content.behaviour.importance
            else None,
            dependences=[(d.feature, charts.dependence_chart(d)) for d in content.behaviour.dependences],
            bounds=[(b.text, charts.bound_chart(b, verdict.metric)) for b in content.bounds if len(b.values)],
        )
    )


@cache
def _environment() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "percent": percent, "cut": cut, "spark": spark}
    return environment


def plain(text: str) -> str:
    """That can be written to any file, without characters that control a terminal or the direction of writing."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", printable(text))


def number(value: float | None) -> str:
    """Four digits; a dash for nothing.

    >>> number(0.123456), number(None)
    ('0.1235', '–')
    """
    return "–" if value is None or value != value else f"{value:.4g}"


def percent(share: float) -> str:
    """As people write shares.

    >>> percent(0.0), percent(0.0004), percent(0.253), percent(1.0)
    ('0 %', '< 0.1 %', '25.3 %', '100 %')
    """
    if 0 < share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.3g} %"


def cut(text: str, most: int = 60) -> str:
    """A text of at most so many letters."""
    return text if len(text) <= most else text[: most - 1] + "…"
