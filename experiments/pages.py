"""Pages of results, written from the JSON files that replays and experiments leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from experiments.deeppipe_page import deeppipe_page
from experiments.markdown import TITLES, notes, partial_lines, table
from experiments.pmf_page import pmf_page
from headstart.errors import InvalidInput
from headstart.replay.reference import EVALUATIONS, INDEPENDENT, RELEASED
from headstart.replay.results import Results, write_whole

_INTRODUCTION = """\
Written by `headstart results docs/results` from `docs/results/data/replay_*.json`, which `headstart replay` made.
Regret is the lowest error found so far minus the lowest recorded for the task. Every method begins with the same five
pipelines; candidates are the pipelines observed on the task; methods that learn from other tasks do so on the training
tasks only; settings are the defaults, which no test task has decided. ± is the half width of a 95 % interval over
tasks. p: Wilcoxon signed-rank test against the method with the lowest mean regret after 100 evaluations, differences
paired by task. `random2x` and `random4x` try two and four pipelines at each step and are not ranked.
"""
FIELD = (
    *("random", "random2x", "random4x", "average_rank", "portfolio", "smfo", "nearest", "gp", "forest", "dngo", "rgpe"),
    *("oboe", "tensor_oboe", "fmlp", "ablr", "tst_r", "tst_d2v", "taf_r", "fsbo", "ellipsoid", "skl", "linear_factors"),
    *("pmf", "pmf_paper", "deeppipe", "deeppipe_paper"),
)
"""Methods that the page is about; it says which of them have not been run."""


def write_pages(folder: Path) -> list[Path]:
    """Write every page whose data is there; returns what was written.

    Parameters
    ----------
    folder
        Pages and plots go here; ``data`` inside it holds the JSON files. What ``data/notice.md`` says, if there is
        one, stands below the title of every page.
    """
    if not (folder / "data").is_dir():
        raise InvalidInput(f"{folder / 'data'} must be a directory with the JSON files of replays; there is none")
    pages: dict[str, Callable[[Path], Iterator[str] | None]] = {
        "replay.md": replay_page,
        "pmf.md": pmf_page,
        "deeppipe.md": deeppipe_page,
    }
    written = []
    for name, page in pages.items():
        lines = page(folder)
        if lines is not None:
            path = folder / name
            title, *rest = lines
            write_whole(path, "\n".join([title, *_notice(folder), *rest]) + "\n")
            written.append(path)
    if not written:
        raise InvalidInput(f"{folder / 'data'} must hold results such as replay_pmf.json; there are none")
    return written


def _notice(folder: Path) -> list[str]:
    path = folder / "data" / "notice.md"
    return [path.read_text(encoding="utf-8")] if path.exists() else []


def replay_page(folder: Path) -> Iterator[str] | None:
    """All methods on all meta-datasets, and how they compare with figures of others."""
    found = [path for name in TITLES if (path := folder / "data" / f"replay_{name}.json").exists()]
    return _replay_lines(folder, [Results.load(path) for path in found]) if found else None


def _replay_lines(folder: Path, all_results: list[Results]) -> Iterator[str]:
    yield "# Methods on recorded results\n"
    yield _INTRODUCTION
    for results in all_results:
        yield from _meta_lines(folder, results)
    yield from notes(folder, "replay")


def _meta_lines(folder: Path, results: Results) -> Iterator[str]:
    from headstart.report.curves import plot_results

    title = TITLES.get(results.meta, results.meta)
    picture = f"replay_{results.meta}.svg"
    plot_results(results, folder / picture)
    yield f"## {title}\n"
    yield f"{len(results.tasks)} test tasks, {results.evaluations} evaluations, runs for each task: {results.seeds}.\n"
    yield f"![Mean rank and mean regret on {title}]({picture})\n"
    yield from table(results)
    yield ""
    yield from partial_lines(results)
    missing = [name for name in FIELD if name not in results.methods]
    if missing:
        yield "Not run yet: " + ", ".join(f"`{name}`" for name in missing) + ".\n"
    yield from comparison(results)


def comparison(results: Results) -> Iterator[str]:
    """Ours beside figures of others, with how many half widths of our interval they differ by."""
    others = INDEPENDENT.get(results.meta, {})
    both = [name for name in others if name in results.methods and results.complete(name)]
    if not both or results.evaluations < EVALUATIONS[-1]:
        return
    yield "Beside figures measured with independent code (same protocol and tasks):\n"
    yield "| method | ours | independent | largest difference, in half widths of our interval |"
    yield "|---|---|---|---|"
    for name in both:
        entry = results.methods[name]
        ours = [entry["regret_mean"][e - 1] for e in EVALUATIONS]
        widths = [entry["regret_ci"][e - 1] for e in EVALUATIONS]
        apart = max(((o - i) / w if w else 0.0 for o, i, w in zip(ours, others[name], widths, strict=True)), key=abs)
        yield f"| `{name}` | {_figures(ours)} | {_figures(others[name])} | {apart:+.2f} |"
    for name, figures in RELEASED.get(results.meta, {}).items():
        yield f"| {name} | | {_figures(figures)} | |"
    yield ""


def _figures(values: list[float] | tuple[float, ...]) -> str:
    return " / ".join(f"{value:.4f}" for value in values)
