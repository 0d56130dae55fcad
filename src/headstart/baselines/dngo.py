"""`DNGO`: a network trained on the history, with Bayesian linear regression on its last hidden layer.

Snoek et al. (2015), "Scalable Bayesian optimization using deep neural networks".

=======  ==============  ==================================================================================
symbol   name in code    equation
=======  ==============  ==================================================================================
x, y     points,         features of pipelines and standardised targets of the trials
         standardised
φ(x)     features        last hidden layer, tanh, with a constant 1 appended
ŷ(x)     outputs         φ(x) v + c, the output that the network is trained with
         loss            mean (ŷ - y)² + decay ‖W‖², W all weight matrices
w                        y ~ N(Φ w, I/β), w ~ N(0, I/α): see `headstart.numerics.bayesian_linear`
=======  ==============  ==================================================================================

Nothing is transferred from other tasks. Decided here. (1) A few hundred steps of Adam on all trials at once, in NumPy:
a suggestion has to be cheap, and no torch is needed. The network starts from the same random parameters at every fit.
(2) α and β are the likeliest; the paper averages over samples of them. (3) The mean function is constant; the paper's
is a bowl around the middle of the space, which says nothing about one-hot choices.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, check_positive
from headstart.history import History
from headstart.learning.adam import Adam
from headstart.learning.networks import MLP, Parameters
from headstart.numerics.bayesian_linear import BayesianLinearRegression
from headstart.numerics.standardisation import Standardisation
from headstart.numerics.threads import one_blas_thread
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction, Surrogate

Array = NDArray[np.float64]

_LEAST_STD = 1e-6
"""Relative to that of the targets."""
_BLOCK = 2048
"""Candidates at a time, so that their hidden layers stay in the cache."""
_UNKNOWN = (1.0, 1.0)
"""Precisions where the history says nothing of the scale."""


class DNGO(Surrogate):
    """Bayesian linear regression on the last hidden layer of a network that is trained on the history (Snoek et al.,
    ICML 2015).

    Proposals under way are added at the median target.

    Parameters
    ----------
    units, layers
        Hidden units of each layer, and hidden layers.
    steps, learning_rate
        Of Adam.
    decay
        Weight of the squared weights in the loss.
    seed
        Of the initial parameters; the same history gives the same network.
    """

    def __init__(
        self,
        units: int = 50,
        layers: int = 3,
        steps: int = 200,
        learning_rate: float = 1e-2,
        decay: float = 1e-4,
        seed: int = 0,
    ) -> None:
        for name, value in (("units", units), ("layers", layers), ("steps", steps)):
            check_positive(name, value, whole=True)
        check_positive("learning_rate", learning_rate)
        if not decay >= 0:
            raise InvalidInput(f"decay must not be negative, got {decay!r}")
        self.units = units
        self.layers = layers
        self.steps = steps
        self.learning_rate = learning_rate
        self.decay = decay
        self.seed = seed

    def fit(self, history: History) -> Self:
        encoded, targets = history.with_pending()
        points = encoded.features()
        self._standardisation = Standardisation.of(targets)
        standardised = self._standardisation.apply(targets)
        with one_blas_thread():
            self._parameters = self._trained(points, standardised)
            precisions = _UNKNOWN if self._standardisation.constant else None
            self._regression = BayesianLinearRegression.fit(self._features(points), standardised, precisions)
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        points = encoded.features()
        mean, std = np.empty(len(points)), np.empty(len(points))
        with one_blas_thread():
            for start in range(0, len(points), _BLOCK):
                block = slice(start, start + _BLOCK)
                mean[block], std[block] = self._regression.posterior(self._features(points[block]))
        std = np.maximum(std, _LEAST_STD) * self._standardisation.scale
        return Prediction(self._standardisation.undo(mean), std)

    def _trained(self, points: Array, targets: Array) -> Parameters:
        network = MLP("network", (points.shape[1], *[self.units] * self.layers, 1), "tanh")
        parameters = network.initial(np.random.default_rng(self.seed))
        if self._standardisation.constant:
            return parameters
        adam = Adam(parameters)
        current = adam.parameters
        weights = [name for name in current if name.endswith("weight")]
        for _ in range(self.steps):
            outputs, pullback = network.with_pullback(current, points)
            by, _ = pullback((2.0 / len(targets)) * (outputs - targets[:, None]))
            for name in weights:
                by[name] += (2.0 * self.decay) * current[name]
            adam.step(by, self.learning_rate)
        return current

    def _features(self, points: Array) -> Array:
        network = MLP("network", (points.shape[1], *[self.units] * self.layers), "tanh", end_active=True)
        hidden = network(self._parameters, points)
        return np.concatenate([hidden, np.ones((len(hidden), 1))], axis=1)
