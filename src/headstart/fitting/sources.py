"""Source text of classes and functions together with all that they need, for a script that stands alone."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

_PACKAGE = "headstart"
_MARKS = re.compile(r"  # (type: ignore|noqa)\S*(: .*)?( # noqa.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class _Module:
    """Lines of a module, and which statement binds each of its names."""

    lines: tuple[str, ...]
    bound: Mapping[str, ast.stmt]


@cache
def _module(name: str) -> _Module:
    source = inspect.getsource(importlib.import_module(name))
    bound: dict[str, ast.stmt] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                bound[alias.asname or alias.name.partition(".")[0]] = node
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                bound |= {n.id: node for n in ast.walk(target) if isinstance(n, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            bound[node.target.id] = node
    return _Module(tuple(source.splitlines()), bound)


class Sources:
    """Collects definitions of this package, each after what it needs, and the imports of all of them.

    Where two modules give one name to different things, the later one gets another name.

    Parameters
    ----------
    replaced
        Names to use instead of definitions, by ``"module:name"``.
    """

    def __init__(self, replaced: Mapping[str, str] | None = None) -> None:
        self._replaced = dict(replaced or {})
        self._names: dict[str, str] = {"annotations": "from __future__ import annotations"}
        self._given: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def reserve(self, name: str) -> None:
        """Keep a name free for the script itself."""
        self._names[name] = f"script:{name}"

    def add(self, module: str, name: str) -> str:
        """Add a definition with what it needs; returns the name that it has in the script."""
        key = f"{module}:{name}"
        if key in self._replaced:
            return self._replaced[key]
        if key in self._given:
            return self._given[key]
        node = _module(module).bound[name]
        if isinstance(node, ast.ImportFrom | ast.Import):
            return self._imported(node, name)
        text = _text(module, node)
        same = next((k for k in self._texts if k.partition(":")[2] == name and _text(*_split(k)) == text), None)
        if same is not None and self._needs(module, node) == self._needs(*_split(same)):
            return self._given[same]
        final = self._free(name, key)
        self._given[key] = final
        for other in _defined(node):
            self._given.setdefault(f"{module}:{other}", other if other != name else final)
        renamed = {name: final} | {used: self.add(module, used) for used in self._needs(module, node) if used != name}
        self._texts[key] = _MARKS.sub("", _text(module, node, {a: b for a, b in renamed.items() if a != b}))
        return final

    def add_import(self, module: str, name: str) -> str:
        """Add ``from module import name``; returns the name that it has in the script."""
        return self._free(name, f"from {module} import {name}")

    def _imported(self, node: ast.Import | ast.ImportFrom, name: str) -> str:
        alias = next(a for a in node.names if (a.asname or a.name.partition(".")[0]) == name)
        if isinstance(node, ast.ImportFrom):
            module = str(node.module)
            if module.partition(".")[0] == _PACKAGE:
                return self.add(module, alias.name)
            return self._free(name, f"from {module} import {alias.name}")
        return self._free(name, f"import {alias.name}")

    def _free(self, name: str, what: str) -> str:
        """A name that no other thing has."""
        final, number = name, 2
        while self._names.get(final, what) != what:
            final, number = f"{name}_{number}", number + 1
        self._names[final] = what
        return final

    @staticmethod
    def _needs(module: str, node: ast.stmt) -> list[str]:
        bound = _module(module).bound
        own = set(_defined(node))
        return list(dict.fromkeys(n for n in _used(node) if n in bound and n not in own))

    def imports(self) -> str:
        """The import statements, sorted; those of one module are one."""
        plain: set[str] = set()
        members: dict[str, set[str]] = {}
        for final, what in self._names.items():
            if what.startswith("import "):
                name = what.removeprefix("import ")
                plain.add(what if name == final else f"{what} as {final}")
            elif what.startswith("from ") and "__future__" not in what:
                _, module, _, name = what.split()
                members.setdefault(module, set()).add(name if name == final else f"{name} as {final}")
        froms = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(members.items())]
        return "\n".join([*sorted(plain), *froms])

    def definitions(self) -> str:
        """The definitions, each after what it needs."""
        parts = ""
        for text in self._texts.values():
            long = text.startswith(("class", "def", "@"))
            parts += ("\n\n" if long or parts.endswith("\n\n") else "") + text + ("\n\n" if long else "\n")
        return re.sub(r"\n{4,}", "\n\n\n", parts).strip("\n")


def _split(key: str) -> tuple[str, ast.stmt]:
    module, _, name = key.partition(":")
    return module, _module(module).bound[name]


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]


def _used(node: ast.stmt) -> list[str]:
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name)]


def _text(module: str, node: ast.stmt, renamed: Mapping[str, str] | None = None) -> str:
    """The lines of a definition, with its decorators and some of its names replaced."""
    lines = list(_module(module).lines)
    places: list[tuple[int, int, str]] = []
    if renamed:
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and n.id in renamed:
                places.append((n.lineno, n.col_offset, n.id))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in renamed:
            keyword = "class " if isinstance(node, ast.ClassDef) else "def "
            places.append((node.lineno, node.col_offset + len(keyword), node.name))
        for line, column, name in sorted(places, reverse=True):
            content = lines[line - 1].encode()  # positions count bytes
            after = column + len(name.encode())
            lines[line - 1] = (content[:column] + renamed[name].encode() + content[after:]).decode()
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    return "\n".join(lines[first - 1 : node.end_lineno])
