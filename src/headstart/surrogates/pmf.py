"""`PMF`: probabilistic matrix factorisation over pipelines.

After N. Fusi, R. Sheth and M. Elibol, *Probabilistic matrix factorization for automated machine learning* (NeurIPS
2018): pipelines are latent points, the losses of a task are a Gaussian process over them, and the points are those
under which the losses of many tasks are likely.

====================  ==================  =====================================================================
symbol                name in code        equation
====================  ==================  =====================================================================
Y                     losses              (1), (2)
X, Q                  points, latent      (2)
k, γ, σ²              kernel, noise       (3)
µ, v                  predict             (9), see `headstart.surrogates.recorded_gp`
====================  ==================  =====================================================================

What differs between the paper and the default here, each a setting:

=================  ==========================  ============================================================
setting            the paper (`PMF.paper`)     default
=================  ==========================  ============================================================
``standardise``    losses as they are          each task's losses to mean 0 and standard deviation 1; the new
                                               task's offset and scale are unknowns with a prior
``mean``           0                           a mean for each pipeline, learned
``kernel``         squared exponential         Matérn-5/2
``linear``         no                          plus a linear kernel: what plain factorisation explains
``noise``          one for all                 one for each pipeline
training           gradient steps of 1e-7      Adam, until the validation tasks get worse
=================  ==========================  ============================================================
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.latent_kernel import LatentKernel, Stationary, check_stationary
from headstart.surrogates.latent_training import Held, Latent, Schedule, train
from headstart.surrogates.linear_factors import Standardised, factorise
from headstart.surrogates.recorded_gp import RecordedGP

Array = NDArray[np.float64]
_FILL = 3


class PMF(RecordedGP):
    """Latent points for pipelines, learned from other tasks; a Gaussian process over them on the new one.

    Knows recorded pipelines only.

    Parameters
    ----------
    latent
        Dimensions of the latent space.
    kernel
        ``"matern52"``, ``"squared_exponential"`` or ``"linear"``, the plain factorisation of equation 1.
    linear
        Whether a linear kernel is added.
    mean
        ``"pipeline"`` or ``"zero"``.
    standardise
        Whether each task's losses are standardised.
    noise
        ``"pipeline"`` or ``"shared"``.
    steps, tasks, pipelines, learning_rate, check_every, patience
        Of the training, see `headstart.surrogates.latent_training.Schedule`.
    seed
        Of the training.
    """

    def __init__(
        self,
        latent: int = 20,
        kernel: Stationary = "matern52",
        linear: bool = True,
        mean: Literal["pipeline", "zero"] = "pipeline",
        standardise: bool = True,
        noise: Literal["pipeline", "shared"] = "pipeline",
        steps: int = 2000,
        tasks: int = 32,
        pipelines: int = 192,
        learning_rate: float = 0.02,
        check_every: int = 100,
        patience: int = 5,
        seed: int = 0,
    ) -> None:
        check_stationary(kernel)
        if latent < 1 or mean not in ("pipeline", "zero") or noise not in ("pipeline", "shared"):
            raise InvalidInput(
                "latent must be at least 1, mean 'pipeline' or 'zero' and noise 'pipeline' or 'shared', got "
                f"{latent!r}, {mean!r}, {noise!r}"
            )
        self.latent = latent
        self.kernel: Stationary = kernel
        self.linear = linear
        self.mean = mean
        self.standardise = standardise
        self.noise = noise
        self.steps = steps
        self.tasks = tasks
        self.pipelines = pipelines
        self.learning_rate = learning_rate
        self.check_every = check_every
        self.patience = patience
        self.seed = seed
        self._schedule()

    @classmethod
    def paper(cls, **others: int | float) -> PMF:
        """With the model of the paper; its training is ours, which reaches a higher likelihood sooner."""
        return cls(kernel="squared_exponential", linear=False, mean="zero", standardise=False, noise="shared", **others)  # type: ignore[arg-type]

    def _schedule(self) -> Schedule:
        return Schedule(self.steps, self.tasks, self.pipelines, self.learning_rate, self.check_every, self.patience)

    def learn(self, meta: MetaDataset) -> Latent:
        rng = np.random.default_rng(self.seed)
        training, validation = meta.held_out(rng)
        given = Standardised.of(training, raw=not self.standardise)
        checked = Standardised.of(validation, raw=not self.standardise)
        start = self._start(given)
        losses = given.residuals + given.means
        held = Held(checked.residuals + checked.means, checked.known)
        trained = train(
            start,
            losses,
            given.known,
            held,
            self._schedule(),
            rng,
            learn_means=self.mean == "pipeline",
            learn_noise=self.noise == "pipeline",
        )
        self.checks_ = trained.checks
        return trained.latent

    def _start(self, given: Standardised) -> Latent:
        """Principal components of the matrix, missing cells filled (section 4 of the paper)."""
        if self.mean == "zero":
            given = given.without_means()
        factors = factorise(given, self.latent, _FILL)
        spread = np.maximum(factors.loadings.std(axis=0), 1e-6)
        points = factors.loadings / spread
        q = points.shape[1]
        linear = spread**2 if self.linear or self.kernel == "linear" else np.zeros(q)
        length_scales = np.sqrt(q) * np.sqrt(spread.max() / spread)
        typical = float(factors.noise.mean())
        scale = _NONLINEAR_SHARE if self.linear else float(factors.variance.mean())
        noise = 0.5 * factors.noise if self.noise == "pipeline" else np.full(len(points), typical)
        means = given.means
        kernel = LatentKernel(self.kernel, length_scales, scale, linear)
        return Latent(points, kernel, means, noise, given.offset_mean, given.offset_std, given.scales)


_NONLINEAR_SHARE = 0.1
