"""DMFBS: a surrogate of tables and pipelines whose meta-features are learned with it."""

from headstart.methods.dmfbs.surrogate import DMFBS

__all__ = ["DMFBS"]
