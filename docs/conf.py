"""The documentation as a site: `make docs` writes it to build/docs. Nothing in it is loaded from elsewhere."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from headstart import __version__, registry

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Headstart"
author = "The Headstart developers"
copyright = author
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["results/notes", "results/data"]
suppress_warnings = ["myst.header"]

myst_heading_anchors = 3
myst_links_external_new_tab = False

default_role = "py:obj"  # docstrings write `Name` for a part of the library
highlight_language = "text"
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"Headstart {version}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["site"]
html_css_files = ["site.css"]


class Registered(SphinxDirective):
    """``.. registered:: surrogate``: every part of a kind by its name, with its settings."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        kind = self.arguments[0]
        found = []
        for name in registry.names(kind):
            place = registry._OWN[kind][name].replace(":", ".")
            maker = registry.find(kind, name)
            directive = "class" if isinstance(maker, type) else "method" if inspect.ismethod(maker) else "function"
            others = [other for other in registry.KINDS if other != kind and name in registry.names(other)]
            title = f"{name} ({kind})" if others else name
            text = f"{title}\n{'-' * len(title)}\n\n.. auto{directive}:: {place}\n"
            found += self.parse_text_to_nodes(text, allow_section_headings=True)
        return found


def _skip(app: Sphinx, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:  # noqa: ARG001
    """Leave out what estimators inherit from scikit-learn, which describes it by links into its own site."""
    return True if str(getattr(obj, "__module__", "")).startswith("sklearn.") else None


def _include(app: Sphinx, docname: str, source: list[str]) -> None:  # noqa: ARG001
    """Put in files from the top of the repository, where links are written from there."""

    def content(found: re.Match[str]) -> str:
        text = (Path(app.srcdir).parent / found[1]).read_text(encoding="utf-8")
        text = re.sub(r"\]\((CONTRIBUTING|SECURITY|CHANGELOG)\.md", lambda name: name[0].lower(), text)
        return text.replace("](docs/", "](").replace("](examples/", "](../examples/")

    source[0] = re.sub(r"```\{include\} \.\./(\w+\.md)\n```", content, source[0])


def _keep_together(app: Sphinx, doctree: nodes.document) -> None:  # noqa: ARG001
    """A number and its interval stay in one line."""
    for text in list(doctree.findall(nodes.Text)):
        if " ± " in text:
            text.parent.replace(text, nodes.Text(text.replace(" ± ", "\u00a0±\u00a0")))


def setup(app: Sphinx) -> None:
    app.connect("autodoc-skip-member", _skip)
    app.connect("source-read", _include)
    app.connect("doctree-read", _keep_together)
    app.add_directive("registered", Registered)
