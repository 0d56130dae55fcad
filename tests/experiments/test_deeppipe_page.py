"""The page about DeepPipe: everything on it follows from the files."""

import json

import numpy as np
import pytest

from experiments import deeppipe
from experiments.cluster import Clustered
from experiments.deeppipe_page import PAPER_RANKS, SECTIONS
from experiments.embedding import Points
from experiments.markdown import standing
from experiments.new_algorithm import ENCODED, KNOWN, ROWS
from experiments.pages import write_pages
from experiments.rankings import mean_ranks
from experiments.verdicts import holm, leaning, surely
from headstart.replay.results import Results, ranks


def results(levels, *, meta="pmf", split="test", evaluations=100, n_tasks=20, **facts):
    """Methods whose regrets differ by a constant factor."""
    rng = np.random.default_rng(0)
    found = Results(meta, split, evaluations, 1, list(range(n_tasks)), ["t"] * n_tasks)
    base = np.minimum.accumulate(0.2 + rng.random((n_tasks, evaluations)), axis=1)
    for name, level in levels.items():
        found.add(name, list(level * base), settings={}, seconds_per_suggestion=0.01, **facts.get(name, {}))
    return found


def page(folder):
    written = {path.name: path.read_text() for path in write_pages(folder)}
    return written["deeppipe.md"]


class TestToBeat:
    def test_all_other_ranked_methods_with_tests_and_ranks(self, folder):
        found = results({"deeppipe": 0.05, "gp": 0.5, "pmf": 0.2, "random4x": 0.01})
        found.save(folder / "data" / "replay_pmf.json")
        text = page(folder)
        versus = found.versus("deeppipe", "gp", 25)
        (row,) = [line for line in text.splitlines() if line.startswith("| `gp` |")]
        assert f"{versus['difference']:+.4f} ± {versus['ci']:.4f}, p {versus['p']:.2g}" in row
        assert row.endswith("| 3.00 ± 0.00 | 3.00 ± 0.00 | 3.00 ± 0.00 |")
        assert "`random4x`" not in text
        assert text.index("| `pmf` |") < text.index("| `gp` |")  # ordered by mean rank
        assert "| DeepPipe, the authors' checkpoint | 0.2287 | 0.1767 | 0.1332 | 0.1059 |" in text
        assert "| `linear_factors`, independent code | 0.2229 |" in text
        assert (
            "The mean regret of `deeppipe` is below that of all others in the table after 25, 50 and 100 evaluations.\n"
            in text
        )
        assert "`deeppipe` has the best mean rank of the 3 ranked methods after 25, 50 and 100 evaluations.\n" in text
        assert (
            "After 100 evaluations its regret is lower than that of 2 of the 2 others, and higher than that of 0"
            in text
        )

    def test_a_rival_that_wins_everywhere(self, folder):
        results({"deeppipe": 0.3, "gp": 0.5, "pmf": 0.2}, meta="zap").save(folder / "data" / "replay_zap.json")
        text = page(folder)
        assert (
            "`deeppipe` has the best mean rank of the 3 ranked methods after none of 25, 50 and 100 evaluations. As "
            "good or better: `pmf` at 25 (1.00 against 2.00, difference paired by task +1.00 ± 0.00); `pmf` at 50 (1.00"
        ) in text
        assert (
            "The mean regret of `deeppipe` is below that of all others in the table after none of 25, 50 and 100 "
            "evaluations. As low or lower: `pmf` at 25, 50 and 100; `portfolio` of independent code at 25, 50 and 100."
        ) in text
        assert "lower than that of 1 of the 2 others, and higher than that of 1, by more than chance" in text

    def test_a_rival_that_wins_at_one_count(self, folder):
        found = results({"deeppipe": 0.03, "gp": 0.05})
        curves = found.curves("deeppipe").copy()
        curves[:, :30] *= 0.9
        curves[:, 30:] *= 1.1
        found.add("pmf", list(curves), settings={}, seconds_per_suggestion=0.0)
        found.save(folder / "data" / "replay_pmf.json")
        text = page(folder)
        assert (
            "`deeppipe` has the best mean rank of the 3 ranked methods after 50 and 100 evaluations, not after 25. As "
            "good or better: `pmf` at 25 (1.00 against 2.00, difference paired by task +1.00 ± 0.00).\n"
        ) in text
        assert (
            "The mean regret of `deeppipe` is below that of all others in the table after 50 and 100 evaluations, not "
            "after 25. As low or lower: `pmf` at 25.\n"
        ) in text

    def test_what_is_more_than_chance_goes_the_way_of_the_test(self, folder):
        """A mean that one task makes is not what signed ranks say."""
        found = results({"deeppipe": 0.3, "gp": 0.5})
        curves = found.curves("deeppipe") * 1.1
        curves[0] *= 0.01
        curves[1:] = np.minimum(curves[1:], found.curves("deeppipe")[1:] + 0.001)
        found.add("pmf", list(curves), settings={}, seconds_per_suggestion=0.0)
        assert found.versus("deeppipe", "pmf", 100)["difference"] > 0
        assert surely(found.curves("deeppipe")[:, 99] - curves[:, 99]) < 0
        found.save(folder / "data" / "replay_pmf.json")
        found.save(folder / "data" / "deeppipe_transfer.json")
        text = page(folder)
        assert (
            "After 100 evaluations its regret is lower than that of 2 of the 2 others, and higher than that of 0"
            in text
        )
        assert "`deeppipe` is above `pmf`, though by signed ranks it is below (+" in text

    def test_who_has_a_better_rank_is_named(self, folder):
        found = results({"deeppipe": 0.3, "gp": 0.5, "pmf": 0.3})
        better = found.curves("pmf").copy()
        better[:15, 30:] *= 0.5
        better[15:, 30:] *= 1.5
        found.add("pmf", list(better), settings={}, seconds_per_suggestion=0.0)
        found.save(folder / "data" / "replay_pmf.json")
        text = page(folder)
        places = ranks([found.curves(name) for name in ("deeppipe", "gp", "pmf")])
        apart = (places[0] - places[2])[:, 49]
        assert f"`pmf` at 50 ({places[2][:, 49].mean():.2f} against {places[0][:, 49].mean():.2f}, " in text
        assert f"difference paired by task {apart.mean():+.2f} ±" in text
        assert "As good or better: `pmf` at" in text

    def test_partitions_and_other_meta_datasets(self, folder):
        drawn = {"about": {"seed": 1}, "train": [20, 21], "validation": [22], "test": list(range(20))}
        (folder / "data" / "partition_zap_1.json").write_text(json.dumps(drawn))
        levels = {"deeppipe": 0.1, "gp": 0.5}
        results(levels, meta="zap", split="partition_zap_1").save(folder / "data" / "replay_zap_partition1.json")
        text = page(folder)
        assert "### ZAP, partition 1 of the tasks" in text
        assert "independent code" not in text
        assert "`deeppipe` not replayed yet: PMF; Tensor-OBOE; ZAP; PMF, partition 1;" in text
        results(levels, meta="zap").save(folder / "data" / "replay_zap.json")
        text = page(folder)
        assert "| `portfolio`, independent code | 0.0033 | 0.0021 | 0.0015 | 0.0007 |" in text
        assert "`portfolio` of independent code at 25, 50 and 100" in text
        assert "checkpoint |" not in text

    def test_many_tests(self):
        assert holm({"a": 0.04, "b": 0.04}) == {"a": False, "b": False}
        assert holm({"a": 0.02, "b": 0.04}) == {"a": True, "b": True}


class TestSections:
    def test_what_is_missing_is_named_with_its_command(self, folder):
        results({"deeppipe": 0.1, "gp": 0.5}).save(folder / "data" / "replay_pmf.json")
        text = page(folder)
        for section in SECTIONS:
            assert f"`headstart experiment {section.name}`" in text
            for meta in section.also:
                assert f"`headstart experiment {section.name} --meta {meta}`" in text
        assert "## Width" not in text

    def test_comparisons(self, folder):
        alone = {"deeppipe-alone": 0.3, "forest": 0.2, "gp": 0.4, "random": 0.6}
        settings = deeppipe.ALONE.make().describe()
        found = results(alone)
        found.methods["deeppipe-alone"]["settings"] = settings
        found.save(folder / "data" / "deeppipe_alone.json")
        results({"deeppipe": 0.1, "pmf": 0.2}, meta="zap").save(folder / "data" / "deeppipe_transfer_zap.json")
        text = page(folder)
        assert (
            "mean rank of `deeppipe-alone` is 2.00 ± 0.00 among 4, behind `forest` (1.00), by more than chance, unlike "
            "in the paper, where it is the best."
        ) in text
        assert "`deeppipe-alone` is above `forest`, unlike in the paper" in text
        assert "`deeppipe-alone` is `deeppipe(factor=6, " in text
        assert "transfer=False" in text
        assert "### ZAP\n" in text
        assert "`deeppipe` is below `pmf`, as in the paper" in text
        assert "runs for each task: 1" in text
        assert "mean rank of `deeppipe` is 1.00 ± 0.00 among 2, the best, as in the paper." in text
        assert (folder / "deeppipe_transfer_zap.svg").exists()

    def test_what_may_be_chance_is_not_as_in_the_paper_nor_unlike(self, folder):
        """On 5 tasks no difference has p < 0.05."""
        layers = {"deeppipe-both": 0.1, "deeppipe-encoders": 0.3, "deeppipe-aggregation": 0.2, "deeppipe-neither": 0.4}
        found = results(layers, meta="tensor_oboe", n_tasks=5)
        found.save(folder / "data" / "deeppipe_layers.json")
        alone = {"deeppipe-alone": 0.3, "forest": 0.2, "gp": 0.4}
        results(alone, n_tasks=5).save(folder / "data" / "deeppipe_alone.json")
        text = page(folder)
        assert "in the paper" not in text.replace("in the paper it is the best.", "").replace("(in the paper 8", "")
        assert "`deeppipe-both` is 1.00 ± 0.00 among 4, the best, but not by more than chance." in text
        assert "`deeppipe-both` is below `deeppipe-neither`, but not by more than chance (-" in text
        assert "`deeppipe-encoders` is above `deeppipe-aggregation`, but not by more than chance (+" in text
        assert "behind `forest` (1.00), but not by more than chance; in the paper it is the best." in text
        assert "`deeppipe-alone` is above `forest`, but not by more than chance (+" in text

    def test_the_best_of_which_some_may_be_chance(self, folder):
        found = results({"deeppipe-alone": 0.3, "forest": 0.5, "gp": 0.6})
        curves = found.curves("deeppipe-alone") * np.repeat([[0.9], [1.1]], [9, 11], axis=0)
        found.add("random", list(curves), settings={}, seconds_per_suggestion=0.0)
        found.save(folder / "data" / "deeppipe_alone.json")
        text = page(folder)
        assert "among 4, the best, but by more than chance only before 2 of the 3 others." in text

    def test_ablations(self, folder):
        layers = {"deeppipe-both": 0.1, "deeppipe-encoders": 0.3, "deeppipe-aggregation": 0.2, "deeppipe-neither": 0.4}
        results(layers, meta="tensor_oboe", split="test, first 20").save(folder / "data" / "deeppipe_layers.json")
        factors = {f"deeppipe-factor{k}": level for k, level in ((4, 0.1), (6, 0.2), (8, 0.3), (10, 0.4))}
        results(factors, meta="tensor_oboe").save(folder / "data" / "deeppipe_factor.json")
        zap = {"deeppipe-encoders1": 0.1, "deeppipe-encoders0": 0.2, "deeppipe-alone-encoders1": 0.3}
        results(zap, meta="zap").save(folder / "data" / "deeppipe_zap.json")
        text = page(folder)
        assert "20 test tasks (test, first 20)" in text
        assert "`deeppipe-encoders` is above `deeppipe-aggregation`, unlike in the paper" in text
        assert "`deeppipe-factor8` is 3.00 ± 0.00 among 4, behind `deeppipe-factor4` (1.00), `deeppipe-factor6`" in text
        assert "`deeppipe-encoders1` is below `deeppipe-alone-encoders1`, as in the paper" in text

    def test_few_tasks(self, folder):
        groups = deeppipe.FEW_TASKS.groups
        assert list(groups) == ["1%", "5%", "20%", "100%"]
        levels = {name: 0.1 * (k + 1) for group in groups.values() for k, name in enumerate(group.values())}
        levels |= {name: 1 / level for name, level in levels.items() if "share0.01" in name}
        found = results(levels, meta="tensor_oboe")
        found.save(folder / "data" / "deeppipe_few_tasks.json")
        text = page(folder)
        assert "With 1% of the tasks the network with 2 encoder layers has the best mean rank." in text
        assert "The deepest encoders are best with the fewest tasks, as in the paper." in text
        assert "No encoders are best with all tasks, as in the paper." in text
        assert "| 0 encoder layers | 3.00 ± 0.00 | 1.00 ± 0.00 |" in text

    @pytest.mark.parametrize(
        ("n_tasks", "verdict"),
        [
            (20, ", by more than chance, unlike in the paper, where they are the best."),
            (5, ", but not by more than chance; in the paper they are the best."),
        ],
    )
    def test_few_tasks_the_other_way_round(self, folder, n_tasks, verdict):
        groups = deeppipe.FEW_TASKS.groups
        levels = {name: 0.1 * (k + 1) for group in groups.values() for k, name in enumerate(group.values())}
        levels |= {name: 1 / level for name, level in levels.items() if "share" not in name}
        results(levels, meta="tensor_oboe", n_tasks=n_tasks).save(folder / "data" / "deeppipe_few_tasks.json")
        text = page(folder)
        worse = "have a worse mean rank than `{} encoder layers`, `1 encoder layers`"
        assert f"With the fewest tasks the deepest encoders {worse.format(0)}{verdict}" in text
        assert f"With all tasks no encoders {worse.format(2)}{verdict}" in text

    @pytest.mark.parametrize("meta", ["tensor_oboe", "pmf"])
    def test_new_algorithms(self, folder, meta):
        groups = deeppipe.NEW_ALGORITHM.groups(meta)
        level = dict(zip(ROWS, (0.5, 0.4, 0.1, 0.3, 0.2), strict=True))
        levels = {name: level[row] for group in groups.values() for row, name in group.items()}
        found = results(levels, meta=meta)
        name = "deeppipe_new_algorithm.json" if meta == "tensor_oboe" else "deeppipe_new_algorithm_pmf.json"
        found.save(folder / "data" / name)
        text = page(folder)
        means, _ = mean_ranks(found, list(groups["extra_trees"].values()))
        theirs = PAPER_RANKS[meta]["extra_trees"]
        for row, mean, paper in zip(ROWS, means, theirs, strict=True):
            assert f"| {row} | {mean:.2f} ± 0.00 ({paper:.2f})" in text
        assert "knows the algorithm has the best mean rank for 4 of 4 estimators" in text
        theirs_too = sum(column[4] < column[3] for column in PAPER_RANKS[meta].values())
        assert f"“{ENCODED}” is better than “new, without encoders” for 4 of 4 estimators, in the paper for " in text
        assert f"in the paper for {theirs_too} of these; mean difference of ranks" in text
        assert f"“{ENCODED}” is better than “{KNOWN}” for 0 of 4" in text

    def test_clusters_and_embeddings(self, folder):
        rng = np.random.default_rng(0)
        flat = rng.standard_normal((3, 30, 2)).tolist()
        noise = np.linspace(-0.05, 0.05, 10)
        metrics = {
            "without": [(mean + noise).tolist() for mean in (0.65, 0.75, 0.85)],
            "with": [(mean + noise).tolist() for mean in (0.8, 0.7, 0.85)],
            "hardly with": [(mean + noise).tolist() for mean in (0.8, 0.801, 0.9)],
            "hardly without": [(mean + noise).tolist() for mean in (0.8, 0.799, 0.9)],
        }
        kinds = rng.integers(0, 2, 30).tolist()
        settings = {"factor": 8, "total": 4, "outputs": 20, "networks": 10}
        Clustered("m", "", settings, ["a", "b"], kinds, [0, 1, 2], metrics, flat).save(
            folder / "data" / "deeppipe_cluster.json"
        )
        places = np.array(flat[0])
        points = Points(
            *("m", "deeppipe", {}, "", 20, flat[0], "t1", places[:, 0].tolist(), ["a", "b"]),
            *((places[:, 0] > 0).astype(int).tolist(), "", []),
            flat=flat[1],
            other_losses={"t2": [None, *places[1:, 1].tolist()]},
            stages={"dim_reducer": (["none", "pca"], kinds)},
        )
        points.save(folder / "data" / "deeppipe_embedding.json")
        text = page(folder)
        test = "(Mann and Whitney's test)"
        grows, does_not = (
            f"one-hot choices the metric {does} with each encoder layer" for does in ("grows", "does not grow")
        )
        assert f"\n- Without {grows}, as in the paper {test}: 0.650 with 0" in text
        assert f"\n- With {does_not}, unlike in the paper {test}: 0.800 with 0" in text
        assert f"Hardly with {grows}, but not by more than chance at every step {test}" in text
        assert f"Hardly without {does_not}, but at no step the other way by more than chance {test}" in text
        assert "higher metric than one with 0 in 99% of all pairs" in text
        width = 1.959964 * noise.std(ddof=1) / np.sqrt(10)
        assert f"| without one-hot choices | 0.650 ± {width:.3f} |" in text
        assert f"{points.alike()[0]:.0%} of a pipeline's neighbours have its estimator" in text
        assert "there are clusters, as in the paper." in text
        assert points.p_alike() == pytest.approx(1 / 200)
        assert points.p_alike("dim_reducer") > 0.05
        same, chance = points.alike("dim_reducer")
        share = f"{same:.0%} of a pipeline's neighbours have its dim_reducer, by chance it would be {chance:.0%}"
        assert f"{share}: that is not more than chance." in text
        assert "variance of the loss on t2 explained" in text
        for name in ("deeppipe_cluster.png", "deeppipe_embedding.png"):
            assert (folder / name).read_bytes().startswith(b"\x89PNG")

    def test_notes_stand_at_the_end(self, folder):
        results({"deeppipe": 0.1}).save(folder / "data" / "replay_pmf.json")
        (folder / "data" / "deeppipe_notes.md").write_text("## What was tried\n\nThis.\n")
        assert page(folder).endswith("## What was tried\n\nThis.\n")


def test_standing():
    found = results({"a": 0.1, "b": 0.2, "c": 0.3}, evaluations=10)
    assert standing(found, "a") == ([], "After 10 evaluations the mean rank of `a` is 1.00 ± 0.00 among 3, the best")
    assert standing(found, "c")[0] == ["a", "b"]


def test_the_direction_of_a_test():
    assert leaning(np.array([-1.0, -2.0, -3.0, 0.0, 9.0])) == -1
    assert leaning(np.array([1.0, -1.0, 0.0])) == leaning(np.zeros(3)) == 0
    assert surely(np.arange(1.0, 11.0)) == 1
    assert surely(-np.arange(1.0, 11.0)) == -1
    assert surely(np.arange(1.0, 6.0)) == surely(np.zeros(4)) == 0
