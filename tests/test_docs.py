"""What README and docs show is run."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from headstart.testing import OptimizerContract, SurrogateContract

ROOT = Path(__file__).parents[1]


def blocks(file, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_script_of_the_readme(tmp_path):
    (script,) = blocks("README.md", "python")
    quick = script.replace("seconds=20", "evaluations=6")
    assert quick != script
    (tmp_path / "script.py").write_text(quick, encoding="utf-8")
    for _ in range(2):  # the second time it resumes
        ran = subprocess.run(
            [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.startswith("6 pipelines, evaluations")


namespace = {"__name__": "docs"}
exec(blocks("docs/plugins.md", "python")[0], namespace)


exec(blocks("docs/plugins.md", "python")[1], namespace)


class TestTheOptimizerOfTheDocs(OptimizerContract):
    def make(self, task):
        return namespace["Careful"]()


class TestTheSurrogateOfTheDocs(SurrogateContract):
    def make(self):
        return namespace["Neighbours"]()


def test_the_space_of_the_docs():
    (code,) = blocks("docs/spaces.md", "python")
    found = {}
    exec(code, found)
    space = found["space"]
    for pipeline in space.sample(np.random.default_rng(0), 20):
        space.build(pipeline, 0)
