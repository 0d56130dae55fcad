"""There is one loop that asks an optimizer."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_one_module_asks():
    """Contract tests drive optimizers by hand; a study's log, SMAC3 and Optuna have an `ask` of their own.

    A warm start asks for first pipelines and tells nothing: the study tries them.
    """
    files = [*(ROOT / "src" / "headstart").rglob("*.py"), *(ROOT / "experiments").rglob("*.py")]
    asking = set()
    for path in files:
        code = re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        if "testing" not in path.parts and re.search(r"(?<!log)\.ask\(", code):
            asking.add(path.relative_to(ROOT).as_posix())
    assert len(files) > 200
    assert asking == {
        "src/headstart/study/loop.py",
        "src/headstart/optimizers/warm_start.py",
        "experiments/optuna_search.py",
        "experiments/smac_program.py",
    }
