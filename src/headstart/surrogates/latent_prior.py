"""`LatentPrior`: what is known of a new task's losses before any is seen, from latent points of pipelines.

====================  ==================  =====================================================================
symbol                name in code        equation
====================  ==================  =====================================================================
x_p (Q,)              points              latent point of pipeline p
e_p (F,)              descriptions        its encoding, with ``describe``
m_p, ψ_p              means, noise        mean and noise variance of its standardised loss
d_p                   size                √ψ_p if `scaled`, else 1
k(p, q)               covariance          Σ_k c_k x_pk x_qk + own(p, q)
own(p, q)             own                 d_p d_q [s ρ(x_p, x_q) + s' ρ'(e_p, e_q)], the stationary parts
====================  ==================  =====================================================================

The linear part is what plain factorisation explains of a loss. What it leaves over is large for some pipelines and
small for others (ψ), and alike for pipelines that are alike (ρ, ρ').
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from headstart.numerics.latent_kernel import LatentKernel, Stationary
from headstart.surrogates.posterior import Located

Array = NDArray[np.float64]
Row = NDArray[np.floating[Any]]


@dataclass
class LatentPrior:
    """Latent points of P pipelines with all that makes a prior of them; see the notation.

    Parameters
    ----------
    recorded
        The P pipelines of the meta-dataset.
    kernel
        Over points.
    offset_mean, offset_std, scales
        How tasks differ: mean and spread of their mean losses, a grid of their standard deviations.
    scaled
        Whether own covariances are in units of the pipelines' noise.
    describe
        Kernel over descriptions.
    """

    recorded: Located
    kernel: LatentKernel
    offset_mean: float
    offset_std: float
    scales: Array
    scaled: bool = False
    describe: LatentKernel | None = None

    def arrays(self) -> dict[str, Array]:
        """All of it but the descriptions, by name; `from_arrays` reads it."""
        at, kernel = self.recorded, self.kernel
        found = {
            "prior.points": at.points,
            "prior.means": at.means,
            "prior.noise": at.noise,
            "prior.kind": np.array(get_args(Stationary).index(kernel.kind)),
            "prior.length_scales": kernel.length_scales,
            "prior.output_scale": np.array(kernel.output_scale),
            "prior.linear": kernel.linear,
            "prior.offset": np.array([self.offset_mean, self.offset_std]),
            "prior.scales": self.scales,
            "prior.scaled": np.array(self.scaled),
        }
        if self.describe is not None:
            found["prior.describe"] = np.array([self.describe.length_scales[0], self.describe.output_scale])
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], descriptions: Array) -> LatentPrior:
        """What `arrays` gave, with the descriptions of the recorded pipelines."""
        part = {name.removeprefix("prior."): value for name, value in arrays.items()}
        kind = get_args(Stationary)[int(part["kind"])]
        describe = None
        if "describe" in part:
            length, scale = part["describe"].tolist()
            width = descriptions.shape[1]
            describe = LatentKernel("matern52", np.full(width, length), scale, np.zeros(width))
        return cls(
            Located(part["points"], part["means"], part["noise"], None if describe is None else descriptions),
            LatentKernel(kind, part["length_scales"], float(part["output_scale"]), part["linear"]),
            float(part["offset"][0]),
            float(part["offset"][1]),
            part["scales"],
            bool(part["scaled"]),
            describe,
        )

    def covariance(self, left: Located, right: Located) -> Array:
        """k, (n, m)."""
        return self.kernel.linear_matrix(left.points, right.points) + self.own(left, right)

    def cross(self, seen: Located, rows: int) -> Callable[[Located], Array]:  # noqa: ARG002
        """k of pipelines with those seen."""
        return lambda at: self.covariance(at, seen)

    def own(self, left: Located, right: Located) -> Array:
        """Covariances (n, m) of what the linear part leaves over."""
        result: Array = self.kernel.stationary_matrix(left.points, right.points)
        if self.describe is not None:
            assert left.descriptions is not None
            assert right.descriptions is not None
            result = result + self.describe.stationary_matrix(left.descriptions, right.descriptions)
        if self.scaled:
            result = result * np.sqrt(left.noise)[:, None] * np.sqrt(right.noise)
        return result

    def variance(self, at: Located) -> Array:
        """k(p, p), (n,)."""
        own = np.full(len(at), self.kernel.output_scale if self.kernel.kind != "linear" else 0.0)
        if self.describe is not None:
            own += self.describe.output_scale
        if self.scaled:
            own *= at.noise
        return np.asarray((at.points**2) @ self.kernel.linear + own)


class PoolRows:
    """Covariances of one recorded pipeline with all of them, fast.

    Parameters
    ----------
    prior
        It must not change.
    precision
        Of all that is kept and given.
    """

    def __init__(self, prior: LatentPrior, precision: type[np.floating[Any]] = np.float32) -> None:
        self._precision = precision
        at = prior.recorded
        linear = prior.kernel.linear
        self._loadings: Row | None = (at.points * np.sqrt(linear)).astype(precision) if linear.any() else None
        self._parts: list[tuple[LatentKernel, Row, Row]] = []
        if prior.kernel.kind != "linear":
            self._add(prior.kernel, at.points)
        if prior.describe is not None:
            assert at.descriptions is not None
            self._add(prior.describe, at.descriptions)
        self._size = np.sqrt(at.noise).astype(precision) if prior.scaled else None
        self._n = len(at)

    def _add(self, kernel: LatentKernel, points: Array) -> None:
        scaled = (points / kernel.length_scales).astype(self._precision)
        self._parts.append((kernel, scaled, (scaled**2).sum(axis=1)))

    def row(self, place: int) -> Row:
        """Covariances (P,)."""
        shared = (
            np.zeros(self._n, dtype=self._precision)
            if self._loadings is None
            else self._loadings @ self._loadings[place]
        )
        if not self._parts:
            return np.asarray(shared)
        own = np.zeros(self._n, dtype=self._precision)
        for kernel, points, squares in self._parts:
            squared = squares + squares[place] - 2.0 * (points @ points[place])
            own += kernel.stationary(np.maximum(squared, 0.0))
        if self._size is not None:
            own *= self._size * self._size[place]
        return np.asarray(shared + own)
