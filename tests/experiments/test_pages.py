"""Pages are notes with tables, figures and numbers of saved results filled in."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from experiments.catalogue import EXPERIMENTS
from experiments.cluster import Clustered
from experiments.deeppipe import NEW_ALGORITHM
from experiments.embedding import Points
from experiments.model_error import Errors
from experiments.new_algorithm import ROWS
from experiments.pages import Filling, holm, paired, write_pages
from headstart.errors import InvalidInput
from headstart.replay.results import Results
from headstart.report.curves import plot_results, spread

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (
    "replay.md",
    "pmf.md",
    "deeppipe.md",
    "metabu.md",
    "mosaic.md",
    "admm.md",
    "dida.md",
    "dmfbs.md",
    "warm_start.md",
)
PNG = b"\x89PNG"


def made(levels, *, meta="pmf", evaluations=100, tasks=range(20), split="test"):
    """Methods whose regrets are a common curve times a level, with noise of their own on each task."""
    tasks = list(tasks)
    found = Results(meta, split, evaluations, 1, tasks, [f"{t % 5}-set{t // 5}" for t in tasks])
    base = np.minimum.accumulate(0.2 + np.random.default_rng(0).random((40, evaluations)), axis=1)
    for k, (name, level) in enumerate(levels.items()):
        noise = np.exp(0.2 * np.random.default_rng(k).standard_normal((40, 1)))
        curves = [None if level is None else row for row in ((level or 1) * noise * base)[tasks]]
        found.add(name, curves, settings={}, seconds_per_suggestion=0.01 * k)
    return found


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "notes").mkdir()
    return tmp_path


@pytest.fixture
def fill(folder):
    """Fills in one line of notes."""

    def fill(notes):
        return Filling(folder, folder / "page.md").filled(notes).partition("\n")[2]

    return fill


def cells(text):
    """Rows of a table in Markdown, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def corrected(p_values):
    """Holm's correction as its definition has it: the smallest level at which a test is rejected."""
    names = sorted(p_values, key=p_values.get)
    found = {}
    for k, name in enumerate(names):
        found[name] = max(min(1.0, (len(names) - j) * p_values[n]) for j, n in enumerate(names[: k + 1]))
    return found


class TestStandings:
    def test_regrets_wins_and_corrected_tests(self, folder, fill):
        levels = {"pmf": 0.3, "gp": 0.35, "forest": 0.33, "random": 0.6, "random4x": 0.31, "smfo": 0.32}
        found = made(levels)
        found.save(folder / "data" / "replay_pmf.json")
        text = fill("{{standings replay_pmf 25,100 pmf forest[^a] best2 random4x authors}}")
        rows = cells(text)
        assert text.startswith("| method | 25 | 100 | won–lost at 25 | p | won–lost at 100 | p |\n")
        best = sorted(("gp", "random", "smfo"), key=lambda n: found.curves(n)[:, 99].mean())[:2]
        labels = ["**`pmf`**", "`forest`[^a]", *(f"`{n}`" for n in best), "`random4x`", "PMF, the authors' algorithm"]
        assert [row[0] for row in rows] == labels
        for column, evaluation in ((3, 25), (5, 100)):
            difference = {
                n: found.curves("pmf")[:, evaluation - 1] - found.curves(n)[:, evaluation - 1] for n in levels
            }
            p = {n: stats.wilcoxon(difference[n]).pvalue for n in ("gp", "forest", "random", "smfo")}
            ranked, four = corrected(p), stats.wilcoxon(difference["random4x"]).pvalue
            expected = {**ranked, "random4x": corrected({**p, "random4x": four})["random4x"]}
            for row, name in zip(rows[1:-1], ("forest", *best, "random4x"), strict=True):
                won, lost = (difference[name] < 0).sum(), (difference[name] > 0).sum()
                assert row[column : column + 2] == [f"{won}–{lost}", f"{expected[name]:.2g}"]
        mean, width = found.curves("gp")[:, 24].mean(), 1.959964 * found.curves("gp")[:, 24].std(ddof=1) / np.sqrt(20)
        assert (
            fill("{{standings replay_pmf 25 pmf gp}}")
            .splitlines()[-1]
            .startswith(f"| `gp` | {mean:.4f} ± {width:.4f} |")
        )
        assert rows[-1] == ["PMF, the authors' algorithm", "0.1569", "0.1079", "", "", "", ""]

    def test_the_authors_have_a_row_for_each_run(self, folder, fill):
        made({"deeppipe": 0.3, "gp": 0.5}, meta="tensor_oboe").save(folder / "data" / "replay_tensor_oboe.json")
        rows = cells(fill("{{standings replay_tensor_oboe 10,100 deeppipe authors}}"))[1:]
        assert [row[:3] for row in rows] == [
            ["DeepPipe, the authors' checkpoint", "–", "0.0110"],
            ["DeepPipe, the authors' checkpoint, fine-tuned", "–", "0.0106"],
        ]

    def test_all_methods_with_the_best_first_and_those_on_some_tasks_last(self, folder, fill):
        found = made({"gp": 0.5, "random": 0.9, "forest": 0.3, "tst_d2v": 0.4, "nearest": None})
        rows = found.methods["tst_d2v"]["curves"]
        found.methods["tst_d2v"]["curves"] = rows[:8] + [None] * 12
        found.summarise()
        found.save(folder / "data" / "replay_pmf.json")
        text = fill("{{standings replay_pmf 10,100 best all}}")
        assert [row[0] for row in cells(text)] == ["**`forest`**", "`gp`", "`random`", "`tst_d2v`, 8 tasks"]
        ours, theirs = (found.curves(name)[:8, 99] for name in ("forest", "tst_d2v"))
        assert f"| {theirs.mean():.4f} (there `forest` {ours.mean():.4f}) |" in text
        assert text.splitlines()[0].endswith("| rank | ms |")
        assert cells(text)[1][-2:] == [f"{found.methods['gp']['rank_mean'][99]:.2f}", "0"]

    def test_a_method_of_another_file_on_the_tasks_that_both_have(self, folder, fill):
        made({"deeppipe": 0.3, "gp": 0.5}).save(folder / "data" / "replay_pmf.json")
        few = made({"deeppipe-x(steps=3)": 0.4}, tasks=range(8), split="test, first 8")
        few.save(folder / "data" / "deeppipe_factor_pmf.json")
        row = cells(fill("{{standings replay_pmf 100 deeppipe deeppipe_factor_pmf/deeppipe-x best1}}"))[1]
        assert row[0] == "`deeppipe-x`, 8 tasks"
        assert row[1].startswith(f"{few.curves('deeppipe-x(steps=3)')[:, 99].mean():.4f} (there `deeppipe` ")
        assert [int(n) for n in row[4].split("–")] in ([won, 8 - won] for won in range(9))
        made({"deeppipe-x": 0.4}, evaluations=50).save(folder / "data" / "deeppipe_factor_pmf.json")
        with pytest.raises(InvalidInput, match="same meta-dataset, evaluations"):
            fill("{{standings replay_pmf 100 deeppipe deeppipe_factor_pmf/deeppipe-x}}")

    def test_a_part_of_the_tasks_of_a_partition(self, folder, fill):
        found = made({"pmf": 0.3, "gp": 0.5}, split="partition_x")
        found.save(folder / "data" / "replay_pmf_partition1.json")
        own = {"train": [0, 3, 4, 7, 19], "test": []}
        drawn = {"about": {"test tasks by own split": own}, "train": [], "test": list(range(20))}
        (folder / "data" / "partition_x.json").write_text(json.dumps(drawn))
        rows = cells(fill("{{standings replay_pmf_partition1@train 100 pmf gp}}"))
        assert [row[1].split(" ")[0] for row in rows] == [
            f"{found.curves(name)[own['train'], 99].mean():.4f}" for name in ("pmf", "gp")
        ]
        assert sum(map(int, rows[1][4].split("–"))) == 5

    def test_versions_of_one_dataset_count_as_one(self):
        found = made({"pmf": 0.3, "gp": 0.5, "forest": 0.4}, meta="zap", tasks=range(35))
        difference = (found.curves("pmf") - found.curves("gp"))[:, 99]
        by_dataset = [
            np.mean([d for d, n in zip(difference, found.names, strict=True) if n.endswith(f"-set{k}")])
            for k in range(7)
        ]
        won, lost, p = paired(found, "pmf", ["gp"], 100)["gp"]
        assert p == pytest.approx(stats.wilcoxon(by_dataset).pvalue)
        assert (won, lost) == ((difference < 0).sum(), (difference > 0).sum())

    def test_holm(self):
        rng = np.random.default_rng(0)
        for _ in range(20):
            p_values = dict(zip("abcdef", rng.random(6) ** 3, strict=True))
            assert holm(p_values) == pytest.approx(corrected(p_values))
        assert holm({"a": 0.02, "b": 0.04}) == {"a": 0.04, "b": 0.04}


class TestFigures:
    def test_of_the_methods_in_the_table(self, folder):
        made({"pmf": 0.3, "gp": 0.5, "forest": 0.4}).save(folder / "data" / "replay_pmf.json")
        (folder / "notes" / "pmf.md").write_text("# Title\n\n{{replay replay_pmf 100 pmf gp authors}}\n")
        (folder / "notes" / "all.md").write_text("{{replay replay_pmf 100 best all}}\n")
        written = write_pages(folder)
        assert [path.name for path in written] == ["all.md", "pmf.md"]
        assert (
            "\n# Title\n\n![pmf, test: mean regret over 20 tasks](pmf_replay_pmf.svg)\n\n| method"
            in written[1].read_text()
        )
        drawn = (folder / "pmf_replay_pmf.svg").read_text()
        assert ">gp<" in drawn
        assert ">forest<" not in drawn
        assert ">forest<" in (folder / "replay_pmf.svg").read_text()

    def test_pages_in_folders_find_the_figures(self, folder):
        made({"pmf": 0.1, "gp": 0.5}, evaluations=200).save(folder / "data" / "pmf_regret.json")
        (folder / "notes" / "appendix").mkdir()
        (folder / "notes" / "appendix" / "more.md").write_text("{{figure pmf_regret}}\n\n{{table pmf_regret}}\n")
        (page,) = write_pages(folder)
        assert page == folder / "appendix" / "more.md"
        assert "](../pmf_regret.svg)" in page.read_text()
        assert (folder / "pmf_regret.svg").exists()

    def test_errors(self, folder, fill):
        errors = Errors("pmf", "test", [5, 10], list(range(10)), ["a"] * 10)
        level = np.repeat([0.4, 0.2], 5)
        values = np.stack([level, level - np.linspace(0.05, 0.15, 10)], axis=1)
        errors.add_runs("pmf", [{"error": row, "variance": row} for row in values], settings={}, given="")
        errors.save(folder / "data" / "pmf_error.json")
        assert fill('{{cell pmf_error "pmf: error" 5}}') == f"0.3000 ± {2 * level.std(ddof=1) / np.sqrt(10):.4f}"
        assert fill("{{figure pmf_error}}").endswith("(pmf_error.svg)")
        assert "evaluations" in (folder / "pmf_error.svg").read_text()

    @pytest.mark.parametrize("dimensions", [2, 5])
    def test_points(self, folder, fill, dimensions):
        places = np.random.default_rng(0).standard_normal((60, dimensions))
        kind = (places[:, 0] > 0).astype(int)
        losses = [None, *places[1:, 1].tolist()]
        values = [v if k else None for v, k in zip(places[:, 1].tolist(), kind, strict=True)]
        points = Points(
            *("pmf", "pmf_paper", {}, "", 20, places.tolist(), "openml-943", losses),
            *(["tree", "svm"], kind.tolist(), "pca.keep_variance", values),
        )
        points.save(folder / "data" / "pmf_embedding.json")
        assert Points.load(folder / "data" / "pmf_embedding.json") == points
        same, chance = points.alike()
        assert fill('{{cell pmf_embedding "neighbours with the same estimator" share}}') == f"{same:.3f}"
        assert f"| {chance:.3f} by chance |" in fill("{{table pmf_embedding}}")
        assert fill("{{figure pmf_embedding}}").count("![") == 2
        for name in ("pmf_embedding.png", "pmf_embedding_estimators.png"):
            assert (folder / name).read_bytes().startswith(PNG)

    def test_clusters_and_flat_points(self, folder, fill):
        rng = np.random.default_rng(0)
        flat, kinds = rng.standard_normal((3, 30, 2)).tolist(), rng.integers(0, 2, 30).tolist()
        noise = np.linspace(-0.05, 0.05, 10)
        metrics = {what: [(mean + noise).tolist() for mean in (0.65, 0.75, 0.85)] for what in ("without", "with")}
        Clustered("m", "", {}, ["a", "b"], kinds, [0, 1, 2], metrics, flat).save(folder / "data/deeppipe_cluster.json")
        width = 1.959964 * noise.std(ddof=1) / np.sqrt(10)
        assert fill('{{cell deeppipe_cluster "without one-hot choices" 0}}') == f"0.650 ± {width:.3f}"
        places = np.array(flat[0])
        points = Points(
            *("m", "deeppipe", {}, "", 20, flat[0], "t1", places[:, 0].tolist(), ["a", "b"]),
            *((places[:, 0] > 0).astype(int).tolist(), "", []),
            flat=flat[1],
            other_losses={"t2": [None, *places[1:, 1].tolist()]},
            stages={"dim_reducer": (["none", "pca"], kinds)},
        )
        points.save(folder / "data" / "deeppipe_embedding.json")
        assert f"| {points.alike('dim_reducer')[0]:.3f} |" in fill("{{table deeppipe_embedding}}")
        assert "variance of the loss on t2 explained" in fill("{{table deeppipe_embedding}}")
        for name in ("deeppipe_cluster", "deeppipe_embedding"):
            assert fill(f"{{{{figure {name}}}}}").endswith(f"({name}.png)")
            assert (folder / f"{name}.png").read_bytes().startswith(PNG)


class TestNumbers:
    def test_a_line_of_regrets_and_tests(self, folder, fill):
        found = made({"pmf": 0.3, "pmf-few(steps=2)": 0.35, "gp": 0.5}, evaluations=200)
        found.save(folder / "data" / "pmf_few_tasks.json")
        tested = paired(found, "pmf", ["pmf-few(steps=2)", "gp"], 200)
        said = [f"`pmf` {found.curves('pmf')[:, 199].mean():.4f}"]
        for name, short in (("pmf-few(steps=2)", "pmf-few"), ("gp", "gp")):
            won, lost, p = tested[name]
            said.append(f"`{short}` {found.curves(name)[:, 199].mean():.4f} ({won}–{lost}, p {p:.2g})")
        assert fill("{{versus pmf_few_tasks 200 pmf pmf-few gp}}") == ", ".join(said)

    def test_how_often_a_method_is_the_best(self, folder, fill):
        found = made({"pmf": 0.1, "gp": 0.5, "random4x": 0.01}, evaluations=10)
        found.save(folder / "data" / "pmf_regret.json")
        assert fill("{{lowest pmf_regret rank pmf}}, {{lowest pmf_regret regret pmf}}") == "5 of 5, 0 of 5"

    def test_on_how_many_tasks_the_optimum_was_found(self, folder, fill):
        found = made({"pmf": 0.1}, evaluations=10, tasks=range(4))
        curves = [[0.5] * 5 + [0.0] * 5, [0.0] * 10, [0.1] * 10, None]
        found.add("gp", curves, settings={}, seconds_per_suggestion=0.0)
        found.save(folder / "data" / "pmf_regret.json")
        assert [fill(f"{{{{solved pmf_regret {at} gp}}}}") for at in (5, 6)] == ["1 of 3", "2 of 3"]

    def test_how_much_training_a_method_has_had_and_how_long_it_thinks(self, folder, fill):
        found = made({"pmf": 0.1, "gp": 0.5}, evaluations=10)
        found.methods["pmf"] |= {"steps": {"PMF": [2500, 1_000_000]}, "seconds_per_suggestion": 0.0123}
        found.save(folder / "data" / "pmf_regret.json")
        assert fill("{{steps pmf_regret pmf}}, {{ms pmf_regret pmf}} ms") == "2,500 of 1,000,000 steps (0.25 %), 12 ms"
        with pytest.raises(InvalidInput, match="cannot be filled in"):
            fill("{{steps pmf_regret gp}}")

    @pytest.mark.parametrize("meta", ["tensor_oboe", "pmf"])
    def test_ranks_where_an_algorithm_is_new(self, folder, fill, meta):
        groups = NEW_ALGORITHM.comparison(meta).groups
        level = dict(zip(ROWS, (0.05, 0.04, 0.0001, 0.003, 0.0002), strict=True))
        levels = {name: level[row] for group in groups.values() for row, name in group.items()}
        name = "deeppipe_new_algorithm" + ("" if meta == "tensor_oboe" else "_pmf")
        made(levels, meta=meta).save(folder / "data" / f"{name}.json")
        assert cells(fill(f"{{{{table {name}}}}}"))[3][0] == "new, without encoders"
        assert fill(f'{{{{cell {name} "new, without encoders" extra_trees}}}}') == "3.00 ± 0.00"

    def test_figures_of_others(self, folder, fill):
        found = made(dict.fromkeys(("random", "random4x", "portfolio", "gp"), 0.3), meta="zap")
        found.save(folder / "data" / "replay_zap.json")
        entry = found.methods["gp"]
        theirs = (0.0042, 0.0037, 0.0030, 0.0023)
        apart = [
            (entry["regret_mean"][e - 1] - t) / entry["regret_ci"][e - 1]
            for e, t in zip((10, 25, 50, 100), theirs, strict=True)
        ]
        row = next(row for row in cells(fill("{{independent replay_zap}}")) if row[0] == "`gp`")
        assert row[2:] == ["0.0042 / 0.0037 / 0.0030 / 0.0023", f"{max(apart, key=abs):+.2f}"]


class TestMistakes:
    def test_without_notes(self, tmp_path):
        with pytest.raises(InvalidInput, match="folder with the notes"):
            write_pages(tmp_path)

    @pytest.mark.parametrize(
        ("notes", "match"),
        [
            ("{{tabel replay_pmf}}", r"\{\{tabel replay_pmf\}\} cannot be filled in"),
            ("{{table replay_pmf 3}}", "cannot be filled in"),
            ("{{cell replay_pmf dngo 100}}", "cannot be filled in: KeyError"),
            ("{{table replay_zap}}", "run the experiment first"),
            ("{{table nothing}}", "run the experiment first"),
            ("{{versus replay_pmf 100 pmf dngo}}", "'dngo' must name one method"),
            ("{{figure deeppipe_live}}", "nothing to draw"),
            ("{{versus deeppipe_live 100 pmf}}", "must be of methods that were replayed"),
        ],
    )
    def test_notes_that_cannot_be_filled_in(self, folder, fill, notes, match):
        made({"pmf": 0.1, "gp": 0.5}).save(folder / "data" / "replay_pmf.json")
        shutil.copy(DOCS / "results" / "data" / "deeppipe_live.json", folder / "data")
        with pytest.raises(InvalidInput, match=match):
            fill(notes)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The pages of the repository, made anew; figures are not drawn."""
    folder = tmp_path_factory.mktemp("results")
    for part in ("notes", "data"):
        (folder / part).symlink_to(DOCS / "results" / part)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("plot_results", "plot_errors", "plot_clusters", "plot_flat", "plot_points", "plot_pairs"):
            patch.setattr(f"experiments.plots.{name}", lambda *_: None)
        return {path.relative_to(folder): path.read_text() for path in write_pages(folder)}


class TestCommitted:
    def test_they_are_what_notes_and_data_give(self, written):
        assert set(PAGES) <= {str(path) for path in written}
        for path, text in written.items():
            assert text == (DOCS / "results" / path).read_text(), f"{path}: run python -m experiments pages"

    def test_they_are_short(self, written):
        assert {str(path): n for path, text in written.items() if (n := len(text.splitlines())) > 160} == {}

    def test_every_experiment_is_named(self, written):
        text = "".join(written[Path(page)] for page in PAGES)
        assert [name for name in EXPERIMENTS if f"`python -m experiments {name}" not in text] == []

    def test_their_links_and_footnotes_are_there(self, written):
        for path, text in written.items():
            place = (DOCS / "results" / path).parent
            for link in re.findall(r"\]\(([^)#]+)", text):
                assert (place / link).exists(), f"{path}: {link}"
            notes = re.findall(r"^\[\^(\w+)\]:", text, flags=re.MULTILINE)
            assert set(re.findall(r"\[\^(\w+)\](?!:)", text)) == set(notes), path
            assert len(notes) == len(set(notes)), path


def test_the_same_results_give_the_same_plot(tmp_path):
    results = made({"gp": 0.3, "random": 0.5})
    for name in ("a.svg", "b.svg"):
        plot_results(results, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with pytest.raises(InvalidInput, match=r"\.svg, \.png, \.pdf"):
        plot_results(results, tmp_path / "plot.txt")


def test_of_many_methods_the_best_have_colours_and_all_have_names(tmp_path):
    many = Results("pmf", "test", 3, 1, [4, 5], ["one", "two"])
    for k in range(14):
        many.add(f"m{k:02}", [np.array([0.5, 0.3, 0.01 * (k + 1)])] * 2, settings={}, seconds_per_suggestion=0.0)
    plot_results(many, tmp_path / "many.svg")
    labels = re.findall(r"<text style=\"([^\"]*)\"[^>]*>(m\d\d)<", (tmp_path / "many.svg").read_text())
    assert {name for _, name in labels} == set(many.methods)
    grey = {name for style, name in labels if "fill: #9a9a9a" in style}
    assert grey == {f"m{k:02}" for k in range(8, 14)}


def test_labels_keep_their_distance_and_order():
    rng = np.random.default_rng(1)
    for _ in range(50):
        wanted = np.sort(rng.random(12))
        places = spread(wanted, 0.05)
        assert (np.diff(places) >= 0.05 - 1e-9).all()
    apart = np.array([0.1, 0.5, 0.9])
    np.testing.assert_array_equal(spread(apart, 0.1), apart)
