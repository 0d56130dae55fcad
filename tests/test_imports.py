"""What must stay light."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HEAVY = ("torch", "sklearn", "pandas", "scipy", "lightgbm", "catboost")


def loaded(code):
    probe = f"import sys\n{code}\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    return subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    ).stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "code",
    [
        "import headstart",
        "import headstart\nheadstart.Study, headstart.PipelineSpace, headstart.Store, headstart.Sandbox",
        "from headstart.cli.main import app\nfrom typer.testing import CliRunner\n"
        "assert 'studies' in CliRunner().invoke(app, ['--help']).output",
        "from headstart.cli.main import app\nfrom typer.testing import CliRunner\n"
        "assert 'resume' in CliRunner().invoke(app, ['fit', '--help']).output",
        "from headstart.cli import complete\nassert complete.spaces('') and complete.metrics('')",
        "from headstart.cli import complete\nassert 'bayes' in complete.optimizers('')",
    ],
)
def test_nothing_heavy_is_loaded(code):
    assert loaded(code) == "[]"


def test_every_public_name_can_be_had():
    import headstart

    assert 0 < len(headstart.__all__) <= 25
    for name in headstart.__all__:
        assert getattr(headstart, name).__name__ == name
        assert name in dir(headstart)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        headstart.nonsense


def test_loading_a_model_imports_neither_the_search_nor_a_database():
    code = (
        "import sys, headstart.estimators; "
        "print([m for m in ('sqlalchemy', 'headstart.fitting.run', 'sklearn.ensemble') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_extra_is_imported():
    root = Path(__file__).parents[1]
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in (root / "src").rglob("*.py"))
    users = set(extras) - {"all", "dev", "docs", "experiments"}
    assert extras["all"] == [f"headstart[{','.join(name for name in extras if name in users)}]"]
    for name in users:
        for requirement in extras[name]:
            package = re.match(r"[\w-]+", requirement)[0]
            module = {"POT": "ot", "mlflow-skinny": "mlflow"}.get(package, package)
            assert re.search(rf"^\s*(import|from) {module}\b", code, re.MULTILINE), f"nothing imports {package}"
