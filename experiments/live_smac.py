"""SMAC3 in live experiments: its search over one of our spaces, judged as all other methods are.

M. Lindauer et al., *SMAC3: A versatile Bayesian optimization package for hyperparameter optimization* (JMLR 2022). It
runs as a program of its own, in an environment of its own (its requirements are not ours); ``HEADSTART_SMAC`` names the
Python of that environment::

    python -m venv smac && smac/bin/pip install smac
    HEADSTART_SMAC=smac/bin/python python -m experiments mosaic_live --data DIR
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments import smac_program
from experiments.live_tpot import Budget, Step
from headstart.errors import InvalidInput, MissingDependency
from headstart.evaluation.objective import Objective
from headstart.optimizers.base import evaluation_seed
from headstart.space.configspace import from_configuration, to_configspace
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace

PYTHON = "HEADSTART_SMAC"
"""Of the environment: the Python that SMAC3 is installed for."""


@dataclass(frozen=True)
class Smac:
    """SMAC3's hyper-parameter optimisation facade: random forest, expected improvement, local search."""

    def describe(self) -> dict[str, Any]:
        """Name and settings, for the record: JSON."""
        return {"name": "Smac"}

    def search(
        self, space: PipelineSpace, objective: Objective, seed: int, budget: Budget, initial: Sequence[Pipeline]
    ) -> list[Step]:
        """Ask SMAC for pipelines until the budget is used up; its clock runs from the first one on."""
        from ConfigSpace import Configuration

        if initial:
            raise InvalidInput("SMAC begins with a design of its own, it takes no initial pipelines")
        exported = to_configspace(space)
        steps: list[Step] = []
        with tempfile.TemporaryDirectory(prefix="headstart-smac-") as folder:
            file = Path(folder) / "space.json"
            exported.to_json(file)
            program = subprocess.Popen(
                [python(), smac_program.__file__, str(file), str(seed), folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            assert program.stdin is not None
            assert program.stdout is not None
            try:
                asked = program.stdout.readline()
                deadline = time.time() + budget.seconds
                while asked and time.time() < deadline and len(steps) != budget.evaluations:
                    pipeline = from_configuration(Configuration(exported, values=json.loads(asked)), space)
                    own = evaluation_seed(seed, len(steps))
                    outcome = objective(pipeline, replace(budget.limits, deadline=deadline), own)
                    finished = time.time() - (deadline - budget.seconds)
                    if finished >= budget.seconds:  # too late, or cut off
                        break
                    steps.append(Step(finished, outcome.loss, pipeline, own))
                    program.stdin.write(f"{json.dumps(outcome.loss)}\n")
                    program.stdin.flush()
                    asked = program.stdout.readline()
            finally:
                program.kill()
                program.wait()
        if not steps:
            raise MissingDependency(f"SMAC3 gave no configuration: {python()} must have it (pip install smac)")
        return steps


def python() -> str:
    """The Python that SMAC3 is installed for; raises `MissingDependency` where none is named."""
    found = os.environ.get(PYTHON)
    if not found or not Path(found).is_file():
        raise MissingDependency(
            f"SMAC3 runs in an environment of its own: {PYTHON} must name its Python, got {found!r}; make one with "
            "'python -m venv smac && smac/bin/pip install smac'"
        )
    return found
