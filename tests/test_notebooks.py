"""The example notebooks run, and what Headstart shows in them is made for notebooks."""

import re
from pathlib import Path

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

EXAMPLES = Path(__file__).parents[1] / "examples"


def outputs(notebook):
    """What the cells show, by type."""
    found = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            assert output.output_type != "error", output
            for kind, text in output.get("data", {}).items():
                found.setdefault(kind, []).append(text)
    return found


@pytest.mark.parametrize(
    ("name", "report", "shown"),
    [
        ("first_model", "churn_report.html", ["<strong>HeadstartClassifier</strong>", "<progress", "in bold"]),
        ("search", "diabetes_report.html", ["<strong>HeadstartRegressor</strong>", "<progress", "headstart-tree"]),
    ],
)
def test_an_example_notebook(name, report, shown, tmp_path):
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # they are made by who runs it
    quick = "evaluations=2, sandbox=False, n_jobs=1, splitter=2, include=['preprocessing.none', 'decision_tree'], "
    changed = 0
    for cell in notebook.cells:
        cell.source, n = re.subn(r"time_budget=30,\s*", quick, cell.source)
        changed += n
    assert changed == 1
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    pages = outputs(notebook)["text/html"]
    for text in shown:
        assert any(text in page for page in pages), text
    assert "Headstart report" in (tmp_path / report).read_text(encoding="utf-8")
