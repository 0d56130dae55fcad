"""The page about PMF: everything on it follows from the files."""

import json

import numpy as np
import pytest

from experiments.embedding import Points
from experiments.markdown import against, how_often
from experiments.model_error import Errors
from experiments.pages import write_pages
from headstart.replay.results import Results

PNG = b"\x89PNG"


def results(*, split="test", evaluations=100, n_tasks=20, **levels):
    """Methods whose regrets differ by a constant factor; methods' names have _ for -."""
    rng = np.random.default_rng(0)
    found = Results("pmf", split, evaluations, 1, list(range(n_tasks)), ["t"] * n_tasks)
    base = np.minimum.accumulate(0.2 + rng.random((n_tasks, evaluations)), axis=1)
    for name, level in levels.items():
        facts = {"settings": {}, "seconds_per_suggestion": 0.01}
        if name.endswith(("_few", "_sparse")):
            kind = name.rpartition("_")[2]
            before = {"tasks": 449, "validation": 15, "missing": 0.207}
            facts["learned_from"] = {"variant": kind, "tasks": 133, "validation": 0, "missing": 0.9, "of": before}
            name = name.replace(f"_{kind}", f"-{kind}")
        found.add(name, list(level * base), **facts)
    return found


def page(folder):
    written = {path.name: path.read_text() for path in write_pages(folder)}
    return written["pmf.md"]


class TestToBeat:
    def test_all_rivals_with_paired_tests(self, folder):
        found = results(pmf=0.1, pmf_paper=0.2, linear_factors=0.3, random4x=0.4, gp=0.5, forest=0.6, smfo=0.01)
        found.save(folder / "data" / "replay_pmf.json")
        text = page(folder)
        versus = found.versus("pmf", "gp", 25)
        (row,) = [line for line in text.splitlines() if line.startswith("| `gp`")]
        assert f"{found.methods['gp']['regret_mean'][24]:.4f} ± {found.methods['gp']['regret_ci'][24]:.4f}" in row
        assert f"{versus['difference']:+.4f} ± {versus['ci']:.4f}, p {versus['p']:.2g}" in row
        assert "`smfo`" not in text.partition("## To beat")[2]  # not one of the rivals
        (glance,) = [line for line in text.splitlines() if line.startswith("| PMF |")]
        ours, theirs = (found.methods[name]["regret_mean"][24] for name in ("pmf", "smfo"))
        assert glance.startswith(f"| PMF | {ours:.4f} (`smfo` {theirs:.4f}) | ")
        assert glance.endswith("| 2 of 6 | 2 of 6 | 2 of 6 |")
        assert "| PMF, the authors' algorithm | 0.2204 | 0.1569 | 0.1307 | 0.1079 |" in text
        lowest = found.methods["pmf"]["regret_mean"][24] < 0.1569
        assert lowest
        assert (
            "The mean regret of `pmf` is below that of all others in the table after 25, 50 and 100 evaluations.\n"
            in text
        )

    def test_what_is_not_beaten_is_named(self, folder):
        results(pmf=0.8, gp=0.9, forest=0.3).save(folder / "data" / "replay_pmf.json")
        text = page(folder)
        assert "| PMF | " in text
        assert "| 2 of 3 |" in text
        assert (
            "The mean regret of `pmf` is below that of all others in the table after none of 25, 50 and 100 "
            "evaluations. As low or lower: `forest` at 25, 50 and 100; the authors' algorithm at 25"
        ) in text
        assert "Not run yet: `pmf_paper`, `linear_factors`, `random4x`." in text

    def test_another_partition_says_how_it_was_drawn(self, folder):
        about = {"seed": 1, "chances of test tasks": "the same for all"}
        drawn = {"about": about, "train": [20, 21], "validation": [22], "test": list(range(20))}
        (folder / "data" / "partition_pmf_1.json").write_text(json.dumps(drawn))
        results(split="partition_pmf_1", pmf=0.1, gp=0.5).save(folder / "data" / "replay_pmf_partition1.json")
        text = page(folder)
        assert "| PMF, partition 1 | **" in text
        assert "| **1** of 2 |" in text
        assert "### PMF, partition 1 of the tasks" in text
        assert "drawn with seed 1 from all tasks (chances the same for all); 2 to learn from, 1 to stop by" in text
        assert "authors' algorithm | 0" not in text

    def test_without_pmf_there_is_no_page(self, folder):
        results(gp=0.5).save(folder / "data" / "replay_pmf.json")
        assert [path.name for path in write_pages(folder)] == ["replay.md"]


class TestExperiments:
    def test_regret(self, folder):
        levels = {"pmf": 0.1, "pmf_paper": 0.2, "random": 0.9, "random2x": 0.7, "random4x": 0.3, "forest": 0.5}
        results(evaluations=200, **levels).save(folder / "data" / "pmf_regret.json")
        text = page(folder)
        assert "`pmf` has the lowest mean regret after 195 of the 195" in text
        assert "`pmf_paper` has the lowest mean regret after 0 of the 195" in text
        assert "that follow the initial ones; in the paper it always has." in text
        assert (
            "After 200 evaluations the regret of `pmf_paper` is lower than that of 4 of the 5 others, and higher than "
            "that of 1, by more than chance."
        ) in text
        assert "After 200 evaluations `forest` is below `random2x`, as in the paper" in text
        assert "After 200 evaluations `forest` is above `random4x`, unlike in the paper" in text
        assert "Not run yet: `headstart experiment pmf_error`" in text
        assert "random4x" in (folder / "pmf_regret.svg").read_text()

    def test_variants_say_what_they_learned_from(self, folder):
        missing = results(evaluations=200, pmf=0.1, pmf_sparse=0.12, forest=0.5, fmlp=0.8, random=0.9, random2x=0.7)
        missing.save(folder / "data" / "pmf_missing.json")
        few = results(evaluations=200, pmf=0.1, pmf_few=0.6, forest=0.5)
        few.save(folder / "data" / "pmf_few_tasks.json")
        text = page(folder)
        assert "`-few`: learned from 133 tasks with 90.0% of the cells missing and stopped by a part of them" in text
        assert "the others learned from 449 tasks with 20.7% missing and stopped by 15" in text
        assert "`pmf-sparse` is above `pmf` (" in text
        assert "`fmlp` is below `random`, as in the paper" in text
        assert "`fmlp` is above `random2x`, as in the paper" in text
        assert "`pmf-few` is above `forest`, unlike in the paper" in text

    def test_errors(self, folder):
        errors = Errors("pmf", "test", [5, 10], list(range(10)), ["a"] * 10)
        level = np.repeat([0.4, 0.2], 5)
        values = {
            "error": np.stack([level, level - np.linspace(0.05, 0.15, 10)], axis=1),
            "variance": np.stack([level, level + np.linspace(0.05, 0.15, 10)], axis=1),
        }
        errors.add("pmf", values, settings={}, given="")
        chance = np.linspace(-0.1, 0.1, 10)
        values = {
            "error": np.stack([level, level + chance - 0.001], axis=1),
            "variance": np.stack([level, level + chance + 0.001], axis=1),
        }
        errors.add("pmf_paper", values, settings={}, given="")
        errors.save(folder / "data" / "pmf_error.json")
        text = page(folder)
        assert "The error of `pmf` falls all the way, as in the paper: from 0.3000 after 5" in text
        assert "The variance of `pmf` does not fall all the way, unlike in the paper" in text
        assert "The error of `pmf_paper` falls all the way, but not by more than chance at every step: from" in text
        assert (
            "The variance of `pmf_paper` does not fall all the way, but at no step the other way by more than" in text
        )
        assert "is then 2 times its squared error" in text
        assert f"0.3000 ± {2 * level.std(ddof=1) / np.sqrt(10):.4f}" in text
        assert "evaluations" in (folder / "pmf_error.svg").read_text()

    @pytest.mark.parametrize("dimensions", [2, 5])
    def test_points(self, folder, dimensions):
        rng = np.random.default_rng(0)
        places = rng.standard_normal((60, dimensions))
        kind = (places[:, 0] > 0).astype(int)
        losses = [None, *places[1:, 1].tolist()]
        values = [v if k else None for v, k in zip(places[:, 1].tolist(), kind, strict=True)]
        points = Points(
            *("pmf", "pmf_paper", {}, "", 20, places.tolist(), "openml-943", losses),
            *(["tree", "svm"], kind.tolist(), "pca.keep_variance", values),
        )
        points.save(folder / "data" / "pmf_embedding.json")
        text = page(folder)
        same, chance = points.alike()
        assert f"{same:.0%} of a pipeline's ten nearest neighbours in {dimensions} dimensions" in text
        assert f"by chance it would be {chance:.0%}" in text
        for name in ("pmf_embedding.png", "pmf_embedding_estimators.png"):
            assert (folder / name).read_bytes().startswith(PNG)
            first = (folder / name).read_bytes()
            write_pages(folder)
            assert (folder / name).read_bytes() == first

    def test_notes_stand_at_the_end(self, folder):
        results(pmf=0.1).save(folder / "data" / "pmf_regret.json")
        (folder / "data" / "pmf_notes.md").write_text("## What differs\n\nNothing.\n")
        assert page(folder).endswith("## What differs\n\nNothing.\n")


class TestSentences:
    def test_how_often_a_method_is_the_best(self):
        found = results(evaluations=10, pmf=0.1, gp=0.2)
        assert how_often(found, "pmf", "regret") == (5, 5)
        assert how_often(found, "gp", "rank") == (0, 5)

    def test_level(self):
        found = results(evaluations=10, pmf=0.1, gp=0.1)
        assert "`pmf` is level with `gp` (+0.0000" in against(found, "pmf", "gp", 10, paper="below")
