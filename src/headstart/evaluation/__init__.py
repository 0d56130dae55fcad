"""From a pipeline to an outcome: objectives, and the sandbox that runs them."""

from headstart.evaluation.objective import FunctionObjective, Objective

__all__ = ["FunctionObjective", "Objective"]
