"""ADMM: operator splitting into hyper-parameters and algorithms, with black-box constraints (Liu et al. 2020)."""

from headstart.methods.admm.bandit import CombinatorialBandit
from headstart.methods.admm.search import ADMM

__all__ = ["ADMM", "CombinatorialBandit"]
