"""PMF: probabilistic matrix factorisation over pipelines (Fusi, Sheth & Elibol 2018)."""

from headstart.methods.pmf.surrogate import PMF, paper_search

__all__ = ["PMF", "paper_search"]
