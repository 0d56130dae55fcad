"""`Weights`: how many weights networks for a space have (DeepPipe's figure 15).

======  ============  =======================================================================================
symbol  name in code  equation
======  ============  =======================================================================================
F       factor        width
ℓ_e     encoders      encoder layers; the aggregation has 4 - ℓ_e
        printed       equations 10 and 11: a F + b (ℓ_a - 1) F² without encoders, otherwise
                      c F + (d (ℓ_e - 1) + b ℓ_a) F², with the numbers that the paper prints for a space
        counted       `PipelineNetwork.weights`, equations 7 and 8 for our space
======  ============  =======================================================================================

The two differ: algorithms without hyper-parameters have a constant one in the paper and none in our spaces, and the
printed numbers do not all follow from equations 7 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.experiment import Setup, Table
from headstart.errors import InvalidInput
from headstart.methods.deeppipe.network import PipelineNetwork
from headstart.replay.results import Saved
from headstart.space.space import PipelineSpace

_LAYERS = 4
_PRINTED = {"pmf": (720, 256, 886, 1376), "tensor_oboe": (444, 144, 161, 271), "zap": (1085, 961, 35, 965)}
"""a, b, c and d by meta-dataset."""


def printed(meta: str, factor: int, encoders: int) -> int:
    """Weights by the numbers in the paper.

    >>> printed("tensor_oboe", 8, 0), printed("tensor_oboe", 8, 1)
    (31200, 28936)
    """
    a, b, c, d = _PRINTED[meta]
    aggregation = _LAYERS - encoders
    if not encoders:
        return a * factor + b * (aggregation - 1) * factor**2
    return c * factor + (d * (encoders - 1) + b * aggregation) * factor**2


def counted(space: PipelineSpace, factor: int, encoders: int) -> int:
    """Weights of our network."""
    aggregation = _LAYERS - encoders
    return PipelineNetwork(space, factor=factor, encoder_layers=encoders, aggregation_layers=aggregation).weights


@dataclass
class Counts(Saved):
    """Weights by number of encoder layers and width.

    Parameters
    ----------
    meta, factors
        Name of the meta-dataset, and widths.
    counted, printed
        (encoder layers from 0 on, widths).
    """

    holds = "numbers of weights"
    meta: str
    factors: list[int]
    counted: list[list[int]]
    printed: list[list[int]]

    def table(self) -> Table:
        rows = [
            [str(encoders), *(f"{c:,} ({p:,})" for c, p in zip(ours, theirs, strict=True))]
            for encoders, (ours, theirs) in enumerate(zip(self.counted, self.printed, strict=True))
        ]
        return Table(
            f"{self.meta}: weights (by the numbers in the paper)",
            ["encoder layers", *(f"F = {factor}" for factor in self.factors)],
            rows,
        )


@dataclass(frozen=True)
class Weights:
    """An experiment that counts weights.

    Parameters
    ----------
    factors, encoders
        Widths, and numbers of encoder layers.
    """

    factors: Sequence[int] = (4, 6, 8, 10)
    encoders: Sequence[int] = (0, 1, 2)

    def run(self, setup: Setup) -> Counts:
        meta = setup.meta
        if meta.name not in _PRINTED:
            raise InvalidInput(f"the paper prints no weights for {meta.name!r}; it does for {', '.join(_PRINTED)}")
        found = Counts(
            meta.name,
            list(self.factors),
            [[counted(meta.pipelines.space, factor, e) for factor in self.factors] for e in self.encoders],
            [[printed(meta.name, factor, e) for factor in self.factors] for e in self.encoders],
        )
        found.save(setup.out)
        setup.progress.done(f"weights on {meta.name}: counted")
        return found

    load = staticmethod(Counts.load)
