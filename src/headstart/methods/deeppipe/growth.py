"""A pipeline network that learns of new algorithms and forgets nothing.

The rows of a weight carry labels (see `headstart.methods.deeppipe.network`), so what a network for the larger space has
in common with the one before is found by name, wherever the new columns lie.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from headstart.learning.networks import Parameters
from headstart.methods.deeppipe.network import Label, PipelineNetwork, value_labels

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
_INPUTS = "aggregation.0.weight"
"""The weight whose rows are the inputs of the aggregation."""


def grown(
    network: PipelineNetwork, parameters: Mapping[str, Array], larger: PipelineNetwork, rng: np.random.Generator
) -> Parameters:
    """Parameters of a larger network in which all that the first one has stays bit for bit.

    New encoders are random. A new algorithm's one-hot choice begins as the mean of those of its stage; where a stage
    had nothing to choose before, all its choices begin as 0.

    Parameters
    ----------
    network, parameters
        What there is; entries that are not the network's are taken over.
    larger
        ``network.extended(space)``.
    rng
        Draws the new encoders.
    """
    drawn = larger.initial(rng)
    found = {name: value.copy() for name, value in parameters.items()}
    for s in range(len(network.stages)):
        for i in range(network.encoder_layers):
            for kind in ("weight", "bias"):
                name = f"encoder.{s}.{i}.{kind}"
                known, after = (_encoder_rows(n, s, i, kind) for n in (network, larger))
                found[name] = drawn[name]
                found[name][[after.index(row) for row in known]] = parameters[name]
    place = {label: row for row, label in enumerate(network.labels)}
    rows, before = drawn[_INPUTS], parameters[_INPUTS]
    for row, label in enumerate(larger.labels):
        if label in place:
            rows[row] = before[place[label]]
        elif label[0] == "choice":
            alike = [place[other] for other in network.labels if other[:2] == label[:2]]
            rows[row] = before[alike].mean(axis=0) if alike else 0.0
    return {**found, _INPUTS: rows}


def belonging_to(
    network: PipelineNetwork, stage: str, algorithm: str, parameters: Mapping[str, Array]
) -> dict[str, Mask]:
    """Which parameters serve one algorithm alone: masks by name, those without any left out."""
    s = network.space.stage_position(stage)
    network.space.stages[s].position(algorithm)  # raises, naming what there is
    masks = {}
    for name, value in parameters.items():
        rows: list[int] = []
        if name.startswith(f"encoder.{s}."):
            _, _, i, kind = name.split(".")
            rows = [k for k, row in enumerate(_encoder_rows(network, s, int(i), kind)) if row[2] == algorithm]
        elif name == _INPUTS:
            rows = [k for k, label in enumerate(network.labels) if label[1:3] == (stage, algorithm)]
        if rows:
            masks[name] = np.zeros(value.shape, dtype=bool)
            masks[name][rows] = True
    return masks


def _encoder_rows(network: PipelineNetwork, s: int, layer: int, kind: str) -> list[Label]:
    """What the first axis of a parameter of the encoders of a stage belongs to."""
    if layer == 0 and kind == "weight":
        return list(value_labels(network.stages[s], network.names[s]))
    return [("algorithm", network.stages[s].name, name) for name in network.names[s]]
