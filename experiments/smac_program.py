"""SMAC3 as a program of its own: ``python smac_program.py SPACE.json SEED FOLDER``.

It runs where SMAC3 is installed and needs nothing of Headstart. Each line it writes is a configuration as JSON; each
line it reads is the loss of that configuration, or ``null`` for one that failed.

The first 25 configurations are SMAC's Sobol sequence, as many as it takes of a budget of 100 by default.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Ask and tell until the input ends."""
    from ConfigSpace import ConfigurationSpace
    from smac import HyperparameterOptimizationFacade as Facade
    from smac import Scenario
    from smac.runhistory import StatusType, TrialValue

    file, seed, folder = sys.argv[1:]
    out = sys.stdout
    sys.stdout = sys.stderr  # SMAC may print
    space = ConfigurationSpace.from_json(file)
    scenario = Scenario(space, deterministic=True, n_trials=100_000, seed=int(seed), output_directory=folder)
    design = Facade.get_initial_design(scenario, n_configs=25, max_ratio=1.0)
    smac = Facade(scenario, _never, initial_design=design, overwrite=True, logging_level=False)
    while True:
        info = smac.ask()
        out.write(json.dumps({name: _plain(value) for name, value in dict(info.config).items()}) + "\n")
        out.flush()
        answer = sys.stdin.readline()
        if not answer:
            return
        loss = json.loads(answer)
        status = StatusType.CRASHED if loss is None else StatusType.SUCCESS
        smac.tell(info, TrialValue(cost=1.0 if loss is None else loss, status=status))


def _never(configuration: object, seed: int = 0) -> float:
    raise RuntimeError(f"configurations are evaluated elsewhere, got {configuration} and seed {seed}")


def _plain(value: object) -> object:
    return value.item() if hasattr(value, "item") else value


if __name__ == "__main__":
    main()
