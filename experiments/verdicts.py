"""What may be said of a difference: whether it is more than chance, and only then whether it is as a paper has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from headstart.replay.results import wilcoxon

Array = NDArray[np.float64]
LEVEL = 0.05


def leaning(differences: Array) -> int:
    """Which way paired differences lean by their signed ranks: -1 below zero, 1 above, 0 neither.

    Wilcoxon's test is of these, so this is the direction of what it finds; that of the mean may be another.

    >>> leaning(np.array([-1.0, -2.0, -3.0, 50.0]))
    -1
    """
    from scipy.stats import rankdata

    there = differences[differences != 0]
    return int(np.sign((np.sign(there) * rankdata(np.abs(there))).sum())) if len(there) else 0


def surely(differences: Array) -> int:
    """-1 where paired differences are below zero by more than chance, 1 above, 0 neither (Wilcoxon)."""
    return leaning(differences) if wilcoxon(differences, np.zeros_like(differences)) < LEVEL else 0


def higher(one: Array, other: Array) -> int:
    """1 where one sample is higher than another by more than chance, -1 where lower, 0 neither (Mann and Whitney)."""
    from scipy.stats import mannwhitneyu

    found = mannwhitneyu(one, other)
    return int(np.sign(found.statistic - len(one) * len(other) / 2)) if found.pvalue < LEVEL else 0


def holm(p_values: Mapping[str, float], level: float = LEVEL) -> dict[str, bool]:
    """Which of several tests reject at a level that holds for all of them together (Holm 1979).

    >>> holm({"a": 0.01, "b": 0.03, "c": 0.04})
    {'a': True, 'b': False, 'c': False}
    """
    rejected = dict.fromkeys(p_values, False)
    for k, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        if p_values[name] > level / (len(p_values) - k):
            break
        rejected[name] = True
    return rejected


def as_in_the_paper(agrees: bool) -> str:
    return "as in the paper" if agrees else "unlike in the paper"


def best_in_the_paper(found: Mapping[str, int], ahead: Sequence[str], those: str = "it is") -> str:
    """The end of a sentence on the place of what is the best in a paper.

    Parameters
    ----------
    found
        By the names of all others: -1 where it is better by more than chance, 1 where it is worse, 0 where neither.
    ahead
        Others that have a better place.
    those
        How the sentence goes on about it.

    >>> best_in_the_paper({"a": -1, "b": 0}, [])
    ', but by more than chance only before 1 of the 2 others'
    >>> best_in_the_paper({"a": 1, "b": 0}, ["a", "b"])
    ', by more than chance behind `a`, unlike in the paper, where it is the best'
    """
    if ahead:
        worse = [name for name in ahead if found[name] > 0]
        if not worse:
            return f", but not by more than chance; in the paper {those} the best"
        behind = "" if len(worse) == len(ahead) else " behind " + ", ".join(f"`{name}`" for name in worse)
        return f", by more than chance{behind}, {as_in_the_paper(False)}, where {those} the best"
    better = sum(sign < 0 for sign in found.values())
    if not found:
        return ""
    if better == len(found):
        return f", {as_in_the_paper(True)}"
    return ", but " + (
        f"by more than chance only before {better} of the {len(found)} others" if better else "not by more than chance"
    )


def all_the_way(goes: bool, steps: Sequence[int]) -> str:
    """Of means that go one way in a paper, step by step: whether they do here.

    Parameters
    ----------
    goes
        Whether all means do.
    steps
        1 where a step goes that way by more than chance, -1 where it goes the other way, 0 where neither.
    """
    if goes:
        sure = all(step > 0 for step in steps)
        return as_in_the_paper(True) if sure else "but not by more than chance at every step"
    return as_in_the_paper(False) if min(steps) < 0 else "but at no step the other way by more than chance"
