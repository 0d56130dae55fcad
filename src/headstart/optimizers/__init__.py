"""What decides which pipeline to try next."""

from headstart.optimizers.base import Optimizer

__all__ = ["Optimizer"]
