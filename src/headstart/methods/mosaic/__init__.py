"""Mosaic: Monte-Carlo tree search over structures, Bayesian optimisation over hyper-parameters (Rakotoarison 2022)."""

from headstart.methods.mosaic.search import Mosaic
from headstart.methods.mosaic.tree import Node, tree_of

__all__ = ["Mosaic", "Node", "tree_of"]
