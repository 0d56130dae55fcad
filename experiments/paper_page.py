"""`PaperPage`: a page about a paper's method, from replays and from the paper's experiments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.catalogue import file_name, find
from experiments.markdown import TITLES, notes, whole
from experiments.sections import Section
from experiments.to_beat import ToBeat, title
from headstart.replay.results import Results

_GLANCE = """\
`{method}` on all replays: mean regret after so many evaluations, in brackets the lowest of the other ranked methods,
and the place by mean rank among all of them. Bold is best.
"""


@dataclass(frozen=True)
class PaperPage:
    """A page.

    Parameters
    ----------
    name
        Of the page; ``data/NAME_notes.md`` stands at its end.
    title, introduction
        What it begins with.
    to_beat, about_to_beat
        What is said of replays, and what stands before it.
    sections
        The paper's experiments.
    """

    name: str
    title: str
    introduction: str
    to_beat: ToBeat
    about_to_beat: str
    sections: Sequence[Section]

    def lines(self, folder: Path) -> Iterator[str] | None:
        """The page, where there is a replay of the method or one of the experiments."""
        replays = [found for found in _replays(folder) if whole(found[1], self.to_beat.method)]
        there = any(path.exists() for section in self.sections for path in _files(folder, section).values())
        return self._lines(folder, replays) if replays or there else None

    def _lines(self, folder: Path, replays: Sequence[tuple[str, Results]]) -> Iterator[str]:
        yield f"# {self.title}\n"
        yield self.introduction
        if replays:
            yield "## At a glance\n"
            yield _GLANCE.format(method=self.to_beat.method)
            yield from self.to_beat.summary(replays)
            yield "## To beat\n"
            yield self.about_to_beat
            for name, results in replays:
                yield from self.to_beat.lines(folder, name, results)
            absent = [name for name in _NAMES if name not in dict(replays)]
            if absent:
                yield f"`{self.to_beat.method}` not replayed yet: {'; '.join(map(title, absent))}.\n"
        missing = []
        for section in self.sections:
            files = _files(folder, section)
            own = find(section.name).meta
            missing += [
                f"`headstart experiment {section.name}{'' if meta == own else f' --meta {meta}'}`"
                for meta, path in files.items()
                if not path.exists()
            ]
            found = {meta: path for meta, path in files.items() if path.exists()}
            if not found:
                continue
            yield f"## {section.title}\n"
            yield f"The paper: {section.paper}\n"
            for meta, path in found.items():
                if section.also:
                    yield f"### {TITLES.get(meta, meta)}\n"
                yield from section.lines(folder, path)
        if missing:
            yield f"Not run yet: {', '.join(missing)}.\n"
        yield from notes(folder, self.name)


_NAMES = (*TITLES, *(f"{name}_partition{k}" for name in TITLES for k in (1, 2)))
"""Of replays, the meta-datasets' own splits first."""


def _replays(folder: Path) -> Iterator[tuple[str, Results]]:
    """Replays with the names of their files."""
    for name in _NAMES:
        path = folder / "data" / f"replay_{name}.json"
        if path.exists():
            yield name, Results.load(path)


def _files(folder: Path, section: Section) -> dict[str, Path]:
    """Where the results of an experiment are, by meta-dataset."""
    metas = (find(section.name).meta, *section.also)
    return {meta: folder / "data" / file_name(section.name, meta) for meta in metas}
