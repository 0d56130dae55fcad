"""The pipeline embedding network of DeepPipe (Pineda Arango & Grabocka 2023, sections 4.1 and 5.3, appendices D and F).

==============  ==================  ===========================================================================
symbol          name in code        equation
==============  ==================  ===========================================================================
λ_ij            values of a block   hyper-parameters of algorithm j of stage i, |Λ_ij| columns
p_i                                 the chosen algorithm of stage i, one-hot among the features
L_i             widths              max_j |Λ_ij|
F               factor              encoders of stage i have F L_i units in each layer
ℓ_e, ℓ_a        encoder_layers,     their number; 4 together in the paper
                aggregation_layers
ξ^(i,j)         "encoder.i.k…"      encoder of algorithm j of stage i, (4)
                inputs              ξ^(1,p_1) ⊕ … ⊕ ξ^(N,p_N) ⊕ one-hot choices (⊕ places of stages); for ℓ_e = 0 all
                                    λ instead, 0 where an algorithm is not chosen
                units               F Σ_i L_i, of each aggregation layer
φ(p)            points              Z numbers that the kernel compares, (5)
m(p), ln ψ(p)   mean, log_noise     ours: what a head adds to the prior mean, and to the logarithm of the noise
==============  ==================  ===========================================================================

**One multiplication for all algorithms.** Of the columns of a stage only those of the chosen algorithm are not 0, so
the first layer of all encoders of a stage is one matrix (Σ_j |Λ_ij|, F L_i), and the selector costs nothing: what comes
out is that of the chosen encoder, once its own bias is added. This is the block-masked layer of appendix D without the
blocks that the selector would throw away. A second layer has a matrix for each algorithm.

**Weights.** Equations 7 and 8 count ℓ_a layers of F Σ L_i units; a linear layer to Z numbers follows them here, which
they do not count, nor biases, nor the rows of the one-hot choices. `PipelineNetwork.weights` counts as they do. L_i is
at least 1, as in the paper, where an algorithm without hyper-parameters has a constant one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.learning.backend import require_torch
from headstart.learning.networks import MLP, Parameters, activate, initial_dense
from headstart.space.space import PipelineSpace

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
MeanHead = Literal["zero", "linear"]
NoiseHead = Literal["shared", "network"]
Label = tuple[str | int, ...]
"""What a row of a weight belongs to: ("value", stage, algorithm, k), ("encoded", stage, k), ("choice", stage,
algorithm) or ("place", stage)."""


@dataclass(frozen=True)
class Outputs:
    """What the network makes of pipelines ``(..., features)``.

    Parameters
    ----------
    points
        ``(..., Z)``.
    mean, log_noise
        ``(...)``; ``None`` where the network has no such head.
    """

    points: Any
    mean: Any = None
    log_noise: Any = None


Pullback = Callable[[Array, Array | None, Array | None], Parameters]
"""From the derivatives by points, mean and log_noise to those by the parameters."""


@dataclass(frozen=True)
class StageShape:
    """Where a stage lies in the features, and its L_i."""

    name: str
    columns: slice
    blocks: tuple[slice, ...]
    """Of the algorithms, counted from the first column of the stage."""
    choice: slice | None
    """One-hot choice among the features; ``None`` where there is nothing to choose."""
    gate: list[int]
    """Column of the one-hot choice for each column of values."""
    width: int


class PipelineNetwork:
    """An architecture for a space; its parameters are entries of a mapping.

    Parameters
    ----------
    space
        Features are those of `Encoded.features` in this space.
    factor, encoder_layers, aggregation_layers, outputs
        F, ℓ_e, ℓ_a and Z. Without aggregation layers the points are the inputs themselves.
    one_hot
        Whether the choices are among the inputs of the aggregation.
    mean
        ``"zero"``, or ``"linear"``, a linear head on the last aggregation layer.
    noise
        ``"shared"``, or ``"network"``, a linear head on the last aggregation layer.
    widths
        L_i by stage; by default as in the notation. A network that was extended keeps those that it had.
    """

    def __init__(
        self,
        space: PipelineSpace,
        *,
        factor: int = 8,
        encoder_layers: int = 1,
        aggregation_layers: int = 3,
        outputs: int = 20,
        one_hot: bool = True,
        mean: MeanHead = "zero",
        noise: NoiseHead = "shared",
        widths: Sequence[int] | None = None,
    ) -> None:
        if encoder_layers < 0 or aggregation_layers < 0 or factor < 1 or outputs < 1:
            raise InvalidInput(
                "encoder_layers and aggregation_layers must be at least 0, factor and outputs at least 1, got "
                f"{encoder_layers!r}, {aggregation_layers!r}, {factor!r} and {outputs!r}"
            )
        self.space = space
        self.factor, self.encoder_layers, self.aggregation_layers = factor, encoder_layers, aggregation_layers
        self.one_hot, self.mean, self.noise = one_hot, mean, noise
        self.stages = stage_shapes(space, widths)
        self.widths = tuple(stage.width for stage in self.stages)
        self.units = max(1, factor * sum(self.widths))
        self.features = space.width + sum(s.choice.stop - s.choice.start for s in self.stages if s.choice is not None)
        self._places = slice(self.features, self.features + (len(self.stages) if space.free_order else 0))
        self.features = self._places.stop
        self.outputs = outputs if aggregation_layers else len(self.labels)

    def settings(self) -> dict[str, Any]:
        """Arguments that make it, but for space and widths."""
        names = ("factor", "encoder_layers", "aggregation_layers", "outputs", "one_hot", "mean", "noise")
        return {name: getattr(self, name) for name in names}

    # -- architecture -------------------------------------------------------------------------------------------

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """Of the inputs of the aggregation, in order."""
        found: list[Label] = []
        for stage, names in zip(self.stages, self.names, strict=True):
            if self.encoder_layers:
                found += [("encoded", stage.name, k) for k in range(self.factor * stage.width)]
            else:
                found += value_labels(stage, names)
        if self.one_hot:
            for stage, names in zip(self.stages, self.names, strict=True):
                found += [("choice", stage.name, name) for name in names] if stage.choice is not None else []
        if self.space.free_order:
            found += [("place", stage.name) for stage in self.stages]
        return tuple(found)

    @property
    def names(self) -> list[tuple[str, ...]]:
        """Of the algorithms of each stage."""
        return [stage.names for stage in self.space.stages]

    @cached_property
    def trunk(self) -> MLP:
        """The aggregation layers."""
        return MLP("aggregation", (len(self.labels), *[self.units] * self.aggregation_layers), end_active=True)

    @cached_property
    def heads(self) -> dict[str, MLP]:
        """Networks on the last aggregation layer."""
        last = self.trunk.sizes[-1]
        heads = {"points": MLP("points", (last, self.outputs))} if self.aggregation_layers else {}
        if self.mean == "linear":
            heads["mean"] = MLP("mean", (last, 1))
        if self.noise == "network":
            heads["noise"] = MLP("noise", (last, 1))
        return heads

    def initial(self, rng: np.random.Generator) -> Parameters:
        """Random parameters that keep the variance of what passes through; heads of mean and noise begin at 0."""
        parameters: Parameters = {}
        for s, stage in enumerate(self.stages):
            for i in range(self.encoder_layers):
                drawn = [self._initial_layer(rng, stage, block, i) for block in stage.blocks]
                join = np.concatenate if i == 0 else np.stack
                parameters[f"encoder.{s}.{i}.weight"] = join(drawn)
                parameters[f"encoder.{s}.{i}.bias"] = np.zeros((len(drawn), self.factor * stage.width))
        parameters |= self.trunk.initial(rng)
        for name, head in self.heads.items():
            drawn_head = head.initial(rng)
            parameters |= drawn_head if name == "points" else {k: np.zeros_like(v) for k, v in drawn_head.items()}
        return parameters

    def _initial_layer(self, rng: np.random.Generator, stage: StageShape, block: slice, layer: int) -> Array:
        units = self.factor * stage.width
        inputs = units if layer else block.stop - block.start
        return initial_dense(rng, "", inputs, units, np.sqrt(2.0))[".weight"]

    @staticmethod
    def owns(name: str) -> bool:
        """Whether a parameter of this name is the network's, and not the kernel's or another's."""
        return name.split(".")[0] in ("encoder", "aggregation", "points", "mean", "noise")

    @property
    def weights(self) -> int:
        """Number of weights as equations 7 and 8 count them."""
        known = sum(label[0] in ("value", "encoded") for label in self.labels)
        count = known * self.units if self.aggregation_layers else 0
        count += max(0, self.aggregation_layers - 1) * self.units**2
        for stage in self.stages if self.encoder_layers else ():
            units = self.factor * stage.width
            count += (stage.columns.stop - stage.columns.start) * units
            count += (self.encoder_layers - 1) * len(stage.blocks) * units**2
        return count

    # -- evaluation ---------------------------------------------------------------------------------------------

    def __call__(self, parameters: Mapping[str, Any], features: Any) -> Outputs:
        """Outputs for features ``(..., features)``; arrays ``(n, features)`` with arrays, tensors with tensors."""
        inputs = self._joined(features, [self._encoded(parameters, s, features) for s in range(len(self.stages))])
        hidden = self.trunk(parameters, inputs)
        found = {name: head(parameters, hidden) for name, head in self.heads.items()}
        mean, noise = found.get("mean"), found.get("noise")
        return Outputs(
            found.get("points", hidden),
            None if mean is None else mean[..., 0],
            None if noise is None else noise[..., 0],
        )

    def _gated(self, s: int, features: Any) -> Any:
        """Values of a stage, 0 for algorithms that are not chosen, whatever stands there."""
        stage = self.stages[s]
        values = features[..., stage.columns]
        return values if stage.choice is None else values * features[..., stage.gate]

    def _encoded(self, parameters: Mapping[str, Any], s: int, features: Any) -> Any:
        stage = self.stages[s]
        hidden = self._gated(s, features)
        if not self.encoder_layers:
            return hidden
        choice = None if stage.choice is None else features[..., stage.choice]
        for i in range(self.encoder_layers):
            weight, bias = parameters[f"encoder.{s}.{i}.weight"], parameters[f"encoder.{s}.{i}.bias"]
            linear = hidden @ weight if i == 0 else _own(hidden, weight, choice)
            hidden = activate("relu", linear + (bias[0] if choice is None else choice @ bias))
        return hidden

    def _joined(self, features: Any, parts: list[Any]) -> Any:
        """Inputs of the aggregation."""
        if self.one_hot:
            parts = parts + [features[..., stage.choice] for stage in self.stages if stage.choice is not None]
        if self.space.free_order:
            parts = [*parts, features[..., self._places]]
        if isinstance(features, np.ndarray):
            return np.concatenate(parts, axis=-1)
        return require_torch("a network").cat(parts, dim=-1)

    def with_pullback(self, parameters: Mapping[str, Array], features: Array) -> tuple[Outputs, Pullback]:
        """Outputs of features ``(n, features)`` and their derivatives by the parameters, in NumPy."""
        encoded, backs = [], []
        for s in range(len(self.stages)):
            part, back = self._encoder_with_pullback(parameters, s, features)
            encoded.append(part)
            backs.append(back)
        inputs = self._joined(features, encoded)
        hidden, trunk_back = self.trunk.with_pullback(parameters, inputs)
        heads = {name: head.with_pullback(parameters, hidden) for name, head in self.heads.items()}
        values = {name: value for name, (value, _) in heads.items()}
        mean, noise = values.get("mean"), values.get("noise")
        outputs = Outputs(
            values.get("points", hidden),
            None if mean is None else mean[:, 0],
            None if noise is None else noise[:, 0],
        )

        def pullback(by_points: Array, by_mean: Array | None = None, by_log_noise: Array | None = None) -> Parameters:
            upstream = {"points": by_points}
            if by_mean is not None:
                upstream["mean"] = by_mean[:, None]
            if by_log_noise is not None:
                upstream["noise"] = by_log_noise[:, None]
            by: Parameters = {}
            by_hidden = np.zeros_like(hidden) if "points" in heads else by_points
            for name, (value, back) in heads.items():
                found, toward = back(upstream.get(name, np.zeros_like(value)))
                by |= found
                by_hidden = by_hidden + toward
            found, by_inputs = trunk_back(by_hidden)
            by |= found
            start = 0
            for back_of_stage, part in zip(backs, encoded, strict=True):
                by |= back_of_stage(by_inputs[:, start : start + part.shape[1]])
                start += part.shape[1]
            return by

        return outputs, pullback

    def _encoder_with_pullback(
        self, parameters: Mapping[str, Array], s: int, features: Array
    ) -> tuple[Array, Callable[[Array], Parameters]]:
        stage = self.stages[s]
        hidden = self._gated(s, features)
        if not self.encoder_layers:
            return hidden, lambda _: {}
        choice = np.ones((len(features), 1)) if stage.choice is None else features[:, stage.choice]
        kept = [hidden]
        for i in range(self.encoder_layers):
            weight, bias = parameters[f"encoder.{s}.{i}.weight"], parameters[f"encoder.{s}.{i}.bias"]
            linear = kept[-1] @ weight if i == 0 else _own(kept[-1], weight, choice)
            kept.append(activate("relu", linear + choice @ bias))

        def pullback(upstream: Array) -> Parameters:
            by: Parameters = {}
            for i in reversed(range(self.encoder_layers)):
                upstream = upstream * (kept[i + 1] > 0.0)
                by[f"encoder.{s}.{i}.bias"] = choice.T @ upstream
                if i == 0:
                    by[f"encoder.{s}.{i}.weight"] = kept[i].T @ upstream
                    break
                weight = parameters[f"encoder.{s}.{i}.weight"]
                by[f"encoder.{s}.{i}.weight"] = np.stack(
                    [kept[i].T @ (upstream * column[:, None]) for column in choice.T]
                )
                upstream = _own(upstream, np.swapaxes(weight, 1, 2), choice)
            return by

        return kept[-1], pullback

    def extended(self, space: PipelineSpace) -> PipelineNetwork:
        """The same architecture for a space with more algorithms; units stay as many as they were."""
        return PipelineNetwork(space, **self.settings(), widths=self.widths)


def value_labels(stage: StageShape, names: Sequence[str]) -> list[Label]:
    """Of the columns of values of a stage whose algorithms have these names."""
    return [
        ("value", stage.name, name, k)
        for name, block in zip(names, stage.blocks, strict=True)
        for k in range(block.stop - block.start)
    ]


def _own(hidden: Any, weight: Any, choice: Any) -> Any:
    """Each row of ``(..., n, h)`` times the matrix of its algorithm, of ``(algorithms, h, k)``."""
    if choice is None or weight.shape[0] == 1:
        return hidden @ weight[0]
    if not isinstance(hidden, np.ndarray):
        every = hidden.unsqueeze(-3) @ weight
        return (every * choice.transpose(-1, -2).unsqueeze(-1)).sum(-3)
    found = np.zeros((len(hidden), weight.shape[2]))
    for a, column in enumerate(choice.T):
        rows = np.flatnonzero(column)
        if len(rows):
            found[rows] = hidden[rows] @ weight[a]
    return found


def stage_shapes(space: PipelineSpace, widths: Sequence[int] | None) -> list[StageShape]:
    found: list[StageShape] = []
    column, choice = 0, space.width
    for s, stage in enumerate(space.stages):
        blocks, start = [], 0
        for algorithm in stage.algorithms:
            size = sum(parameter.width for parameter in algorithm.params)
            blocks.append(slice(start, start + size))
            start += size
        several = len(blocks) > 1
        gate = [choice + a for a, block in enumerate(blocks) for _ in range(block.stop - block.start)]
        width = max(1, *(block.stop - block.start for block in blocks)) if widths is None else widths[s]
        one_hot = slice(choice, choice + len(blocks)) if several else None
        found.append(StageShape(stage.name, slice(column, column + start), tuple(blocks), one_hot, gate, width))
        column += start
        choice += len(blocks) if several else 0
    return found
