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
µ, v                  predict             (9), see `headstart.surrogates.posterior`
====================  ==================  =====================================================================

What differs between the paper and the default here, each a setting:

=================  ==========================  ============================================================
setting            the paper (`PMF.paper`)     default
=================  ==========================  ============================================================
``logarithmic``    no                          losses in logarithmic units: the good end counts
``standardise``    losses as they are          each task's losses to mean 0 and standard deviation 1; the new
                                               task's offset and scale are unknowns with a prior
``mean``           accuracies have mean 0,     a mean for each pipeline
                   so losses have mean 1
``latent``         20                          30
``kernel``         squared exponential         Matérn-5/2
``linear``         no                          plus a linear kernel: what plain factorisation explains
``noise``          one for all                 one for each pipeline, and the Matérn kernel in its units: what
                                               the linear part leaves over is alike for pipelines that are alike
``metafeatures``   no                          what the new task's are like tells what its weights in the linear
                                               part are like, where there are some (section 3.1, metadata)
``encodings``      no                          a kernel over the pipelines' encodings too (section 3.1, metadata)
``trained``        everything                  the kernels' parameters
``training``       see below                   Adam at 0.02, 32 tasks and 192 pipelines at a time
=================  ==========================  ============================================================

Both are trained until the likelihood of the validation tasks no longer rises. The training of `PMF.paper` is not the
paper's, which takes gradient steps of 1e-7 on 50 datasets at a time for 300 epochs, three hours on 16 cores; it is Adam
at 0.005 (what all pipelines share: 0.0005), 16 tasks and 64 pipelines at a time, at most 6,000 steps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, check_positive
from headstart.learning.backend import require_torch
from headstart.learning.base import Needs
from headstart.learning.networks import Parameters
from headstart.learning.training import Training, TrainingLike
from headstart.metadata.metadataset import MetaDataset
from headstart.methods.pmf.side_information import LEAST_TASKS, PipelineMap, TaskRegression, linear_weights
from headstart.methods.pmf.training import Held, train_prior
from headstart.numerics.latent_kernel import LatentKernel, Stationary, check_stationary
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.nearest import meta_features_name
from headstart.space.encoded import Encoded
from headstart.surrogates.factorisation import Standardised, factorise
from headstart.surrogates.latent_prior import LatentPrior, PoolRows
from headstart.surrogates.located_gp import Failures
from headstart.surrogates.meta_trained import checks_of
from headstart.surrogates.posterior import Located
from headstart.surrogates.recorded_gp import RecordedGP
from headstart.task import Task

if TYPE_CHECKING:
    from headstart.optimizers.bayes import Bayes

Array = NDArray[np.float64]
_TRAINING = Training(0.02, patience=5, n_tasks=32, n_pipelines=192)
_PAPER_TRAINING = Training(0.005, patience=15, n_tasks=16, n_pipelines=64)


class PMF(RecordedGP):
    """Latent points for pipelines, learned from other tasks; a Gaussian process over them on the new one (Fusi, Sheth &
    Elibol, NeurIPS 2018).

    Knows recorded pipelines only, unless ``unseen`` is asked for. A live table needs it, but for spaces whose every
    pipeline is on record.

    Parameters
    ----------
    latent
        Dimensions of the latent space.
    kernel
        ``"matern52"``, ``"squared_exponential"`` or ``"linear"``, the plain factorisation of equation 1.
    linear
        Whether a linear kernel is added.
    encodings
        Whether a kernel over the pipelines' encodings is added.
    mean
        What is expected of a loss that nothing is known of: ``"pipeline"`` one value for each pipeline, learned, or the
        same number for all, in the unit that `logarithmic` and `standardise` leave. A loss of 1 is an accuracy of 0.
    logarithmic
        Whether losses are in logarithmic units, see `headstart.surrogates.log_units`.
    standardise
        Whether each task's losses are standardised.
    noise
        ``"pipeline"`` or ``"shared"``.
    trained
        What training changes: ``"kernel"`` the parameters of the kernels, ``"all"`` latent points, means and noise too.
    metafeatures
        Name of meta-features of tasks, from which the new task's weights in the linear part are expected; see
        `headstart.methods.pmf.side_information`. ``"any"`` takes the first ones of the meta-dataset, if it has some;
        ``None`` none. Tasks without any are expected to be like the others.
    unseen
        Whether a map from encodings to latent points is learned too, so that pipelines that were never recorded, such
        as those of a live table, can be ranked. Learning it needs torch. This is ours, not the paper's.
    failures
        What a failure says of other pipelines: nothing (``"ignored"``), or as much as the ``"worst"`` loss would.
    steps, training, seed
        Of the training: most steps, how (see `Training`; a mapping changes some of the defaults), the seed.
    """

    adjustable = frozenset({"failures"})

    def __init__(
        self,
        latent: int = 30,
        kernel: Stationary = "matern52",
        linear: bool = True,
        encodings: bool = True,
        mean: float | Literal["pipeline"] = "pipeline",
        logarithmic: bool = True,
        standardise: bool = True,
        noise: Literal["pipeline", "shared"] = "pipeline",
        trained: Literal["kernel", "all"] = "kernel",
        metafeatures: str | None = "any",
        unseen: bool = False,
        failures: Failures = "ignored",
        steps: int = 2000,
        training: TrainingLike = _TRAINING,
        seed: int = 0,
    ) -> None:
        check_stationary(kernel)
        choices: dict[str, tuple[str, tuple[str, ...]]] = {
            "noise": (noise, ("pipeline", "shared")),
            "trained": (trained, ("kernel", "all")),
            "failures": (failures, get_args(Failures)),
        }
        for name, (value, allowed) in choices.items():
            if value not in allowed:
                raise InvalidInput(f"{name} must be one of {allowed}, got {value!r}")
        if mean != "pipeline" and not (isinstance(mean, int | float) and np.isfinite(mean)):
            raise InvalidInput(f"mean must be 'pipeline' or a finite number, got {mean!r}")
        if metafeatures not in (None, "any") and not linear:
            raise InvalidInput("metafeatures tell of the linear part: they need linear=True")
        check_positive("latent", latent, whole=True)
        self.latent = latent
        self.kernel: Stationary = kernel
        self.linear = linear
        self.encodings = encodings
        self.mean = mean
        self.logarithmic = logarithmic
        self.standardise = standardise
        self.noise = noise
        self.trained = trained
        self.metafeatures = metafeatures
        self.unseen = unseen
        self.failures: Failures = failures
        self.set_training(steps, training, _TRAINING, seed)

    @classmethod
    def paper(cls, **others: Any) -> PMF:
        """With the model of the paper; its training is ours, see above."""
        published = {
            "latent": 20,
            "kernel": "squared_exponential",
            "linear": False,
            "encodings": False,
            "mean": 1.0,
            "logarithmic": False,
            "standardise": False,
            "noise": "shared",
            "trained": "all",
            "metafeatures": None,
            "steps": 6000,
        }
        training = Training.of(others.pop("training", {}), _PAPER_TRAINING)
        return cls(**{**published, "training": training, **others})

    @property
    def needs(self) -> Needs:
        name = self.metafeatures
        return Needs(metafeatures=frozenset() if name is None or name == "any" else frozenset({name}))

    @property
    def locates_new(self) -> bool:
        return self.unseen

    def learn(self, meta: MetaDataset, rng: np.random.Generator) -> Parameters:
        if self.unseen:
            require_torch("the map of pipelines")
        with one_blas_thread():
            return self._learn(meta, rng)

    def learn_prior(self, meta: MetaDataset) -> tuple[LatentPrior, Parameters]:
        training, validation = meta.held_out(np.random.default_rng(self.seed))
        given, checked = (Standardised.of(part, raw=not self.standardise) for part in (training, validation))
        prior, trained = train_prior(
            self._start(given, meta),
            given.residuals + given.means,
            given.known,
            Held(checked.residuals + checked.means, checked.known),
            self.training.number_of_steps(self.steps, len(training)),
            self.training,
            seed=self.seed,
            fixed=self._untrained(),
        )
        return prior, checks_of(trained)

    def _learn(self, meta: MetaDataset, rng: np.random.Generator) -> Parameters:
        parameters = super().learn(meta, rng)
        features = meta.pipelines.features()
        prior = LatentPrior.from_arrays({k: v for k, v in parameters.items() if k.startswith("prior.")}, features)
        name = self._metafeatures_of(meta)
        if name is not None:
            vectors = np.asarray(meta.metafeatures[name])
            described = _described(meta, name)
            given = Standardised.of(meta.select(described), raw=not self.standardise)
            weights = linear_weights(prior, given.residuals + given.means, given.known, rng)
            parameters |= TaskRegression.learn(name, vectors[described], weights).arrays()
        if self.unseen:
            seconds = parameters.get("recorded.log_seconds", np.full(len(features), np.nan))
            parameters |= PipelineMap.learn(prior, features, seconds, rng).parameters
        return parameters

    def _metafeatures_of(self, meta: MetaDataset) -> str | None:
        """Which meta-features to learn from, if any."""
        if self.metafeatures not in (None, "any"):
            return meta_features_name(meta, self.metafeatures)
        if self.metafeatures is None or not self.linear:
            return None
        return next((n for n in meta.metafeatures if len(_described(meta, n)) >= LEAST_TASKS), None)

    _shift: Array | None = None
    """What the means of pipelines at points (n, Q) change by on the task at hand is ``points @ _shift``."""

    def start(self, task: Task) -> Self:
        fresh = super().start(task)
        expected = self._expected(task)
        fresh._shift = None if expected is None else expected[0]
        return fresh

    def _expected(self, task: Task) -> tuple[Array, Array] | None:
        """Shift of the means and share r² explained, (Q,) each, by the task's meta-features; ``None`` without any."""
        regression = TaskRegression.from_arrays(self.learned)
        vector = None if regression is None else task.metafeatures.get(regression.name)
        if regression is None or vector is None or not np.isfinite(vector).any():
            return None
        weights = np.where(regression.explained > 0, regression(np.asarray(vector, dtype=np.float64)), 0.0)
        return np.sqrt(self.learned["prior.linear"]) * weights, regression.explained

    def adapted(self, task: Task) -> tuple[LatentPrior, PoolRows]:
        expected = self._expected(task)
        if expected is None:
            return super().adapted(task)
        shift, explained = expected
        at, kernel = self.prior.recorded, self.prior.kernel
        recorded = replace(at, means=at.means + at.points @ shift)
        prior = replace(self.prior, recorded=recorded, kernel=replace(kernel, linear=kernel.linear * (1.0 - explained)))
        return prior, PoolRows(prior, np.float32 if self.single else np.float64)

    def locate_new(self, encoded: Encoded) -> Located:
        if not self.unseen:
            return super().locate_new(encoded)
        found = PipelineMap(self.learned)(self.points(encoded))[0]
        return found if self._shift is None else replace(found, means=found.means + found.points @ self._shift)

    def log_seconds(self, encoded: Encoded) -> Array | None:
        if not self.unseen or "recorded.log_seconds" not in self.learned:
            return super().log_seconds(encoded)
        places = self.places(encoded)
        told = PipelineMap(self.learned)(self.points(encoded))[1]
        assert told is not None
        return np.where(places >= 0, self.learned["recorded.log_seconds"][places], told)

    def _untrained(self) -> set[str]:
        """What training leaves as it is."""
        fixed = set()
        if self.trained == "kernel":
            fixed |= {"points", "means", "log_noise"}
        if self.mean != "pipeline":
            fixed |= {"means"}
        if self.noise == "shared":
            fixed |= {"log_noise"}
        if self.kernel == "linear":
            fixed |= {"log_length_scales", "log_output_scale"}
        return fixed

    def _start(self, given: Standardised, meta: MetaDataset) -> LatentPrior:
        """Principal components of the matrix, missing cells filled (section 4 of the paper)."""
        if self.mean != "pipeline":
            given = given.about(self.mean)
        factors = factorise(given, self.latent, _FILL)
        at = factors.recorded
        spread = np.maximum(at.points.std(axis=0), 1e-6)
        points = at.points / spread
        q = points.shape[1]
        linear = spread**2 if self.linear or self.kernel == "linear" else np.zeros(q)
        length_scales = np.sqrt(q) * np.sqrt(spread.max() / spread)
        scaled = self.linear and self.noise == "pipeline"
        variance = float((at.points**2).sum(axis=1).mean())
        typical = float(at.noise.mean())
        noise = at.noise if self.noise == "pipeline" else np.full(len(points), typical)
        share = _LEFT_OVER if self.kernel != "linear" or self.encodings else 0.0
        parts = int(self.kernel != "linear") + int(self.encodings)
        if self.linear:  # what the linear part leaves over is shared among the others and the noise
            scale = share / max(1, parts) * (1.0 if scaled else typical)
            noise = (1.0 - share) * noise
            scale /= (1.0 - share) if scaled else 1.0
        else:
            scale = variance
        descriptions, describe = None, None
        if self.encodings:
            descriptions = meta.pipelines.features()
            f = descriptions.shape[1]
            describe = LatentKernel("matern52", np.full(f, _ENCODING_LENGTH), scale, np.zeros(f))
        return LatentPrior(
            Located(points, at.means, noise, descriptions),
            LatentKernel(self.kernel, length_scales, scale, linear),
            factors.offset_mean,
            factors.offset_std,
            factors.scales,
            scaled,
            describe,
        )


def paper_search(xi: float = 0.01, **settings: Any) -> Bayes:
    """The search of the paper: its model, expected improvement by at least ξ (Fusi, Sheth & Elibol, NeurIPS 2018)."""
    from headstart.optimizers.bayes import Bayes
    from headstart.surrogates.acquisition import LogEI

    return Bayes(PMF.paper(**settings), LogEI(xi))


def _described(meta: MetaDataset, name: str) -> NDArray[np.int64]:
    """Tasks with losses whose meta-features are known."""
    vectors = np.asarray(meta.metafeatures[name])
    return np.flatnonzero(np.isfinite(vectors).any(axis=1) & np.isfinite(meta.losses).any(axis=1))


_FILL = 3
_LEFT_OVER = 0.6
"""Share of what the linear part leaves over that is alike for pipelines that are alike, to start from."""
_ENCODING_LENGTH = 0.5
