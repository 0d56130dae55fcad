"""`DMFBS`: predicts losses from a pipeline and from the table itself.

Jomaa, Schmidt-Thieme & Grabocka (2021), "Hyperparameter optimization with differentiable metafeatures". The networks
and the objective are in `headstart.methods.dmfbs.network`, Algorithm 3 in `headstart.methods.dmfbs.training`; here are
fine-tuning and prediction. Greedy selection (Algorithms 1 and 4) is `headstart.optimizers.bayes.Bayes`, which takes
the lowest prediction of a surrogate without a standard deviation.

==========  ====================  ==============================================================================
symbol      name in code          equation
==========  ====================  ==============================================================================
θ           member                parameters that were meta-learned; each fit begins with them
φ(D)        vector                of the table at hand, all of it up to `_ROWS` rows
a, b        shift, scale          offset and scale of the new task's losses; ℓ = a + b ℓ̂
==========  ====================  ==============================================================================

Decided here. (1) The paper's losses lie between 0 and 1 on every task, which of a new task nobody knows. Ours are
standardised on each training task; offset and scale of a new task are inferred from what was observed, given the
predictions before fine-tuning and what is usual on the training tasks (`headstart.numerics.affine_mixture`). (2) The
paper fine-tunes until convergence at the rate of meta-training; here there are no more steps than observations, at a
lower rate. (3) Fixed meta-features are scaled to [0, 1] over
the training tasks, as those that were released with the paper; a missing one stands at their mean. (4) Several members
are trained from different starts, and their standard deviation is then the surrogate's: the paper has one network and
none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from headstart.data import Dataset
from headstart.errors import InvalidInput, ModelFileError, NeedsTable, UnknownName, check_positive, suggestion
from headstart.history import History
from headstart.learning.backend import one_torch_thread
from headstart.learning.base import Needs
from headstart.learning.networks import MLP, Parameters
from headstart.learning.training import Training, TrainingLike, train
from headstart.metadata.metadataset import MetaDataset
from headstart.metafeatures.base import TableNetwork
from headstart.metafeatures.set_networks import TableArrays
from headstart.methods.dmfbs.network import full_gradient, predicted, regressor, regressor_gradient
from headstart.methods.dmfbs.training import KnownTask, Reptile, adapted, known_tasks, sample
from headstart.numerics.affine_mixture import LevelMixture, Levels
from headstart.numerics.threads import one_blas_thread
from headstart.registry import create
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction
from headstart.surrogates.meta_trained import MetaTrained, checks_of
from headstart.task import Task

Array = NDArray[np.float64]
FineTune = Literal["none", "regressor", "all"]

_TRAINING = Training(1e-2, final_rate=1.0, check_every=10, patience=10, n_tasks=16, n_pipelines=16)
_EXTRACTOR = "dataset2vec(max_pairs=64)"
_ROWS, _TRAINING_ROWS, _BATCH_ROWS = 256, 2000, 64
"""Most rows of a table that is described, of one that batches are drawn from, and of a batch."""
_PATCH = (256, 12, 4)
"""Rows, features and targets that are kept of a training task, for fine-tuning of all."""
_MOST_OTHERS = 100
"""Training tasks that are kept so."""
_FINE_TUNING_BETAS = (0.9, 0.999)
_MISFIT = 0.7
"""Standard deviation of a standardised loss around its prediction before fine-tuning."""
_LEAST_STD = 1e-6
_OTHERS, _LOW, _HIGH, _CENTER = "others", "metafeatures.low", "metafeatures.high", "metafeatures.center"
_OFFSET, _SCALES = "levels.offset", "levels.scales"


class DMFBS(MetaTrained):
    """Surrogate of pipelines and tables with meta-features that are trained together with it (Jomaa, Schmidt-Thieme &
    Grabocka, 2021).

    Meta-training needs torch, and so does ``fine_tune="all"``; otherwise a new task needs NumPy alone, and with fixed
    meta-features meta-training too.

    Parameters
    ----------
    extractor
        Learned meta-features whose network reads the tables; see `headstart.metafeatures.TableNetwork`.
    metafeatures
        Name of fixed meta-features to read instead, such as ``"mf1"``: the paper's MFBS. Needs no tables where they
        are recorded.
    manifold, identification
        Weights of the regularisers: that similar tables have similar losses, and that batches of one table are told
        from those of others. 0 leaves one out; the second has no meaning for fixed meta-features.
    inner_steps, outer_rate
        Of Reptile: updates on one task, and the rate towards what they reach, as a multiple of the learning rate.
    fine_tune
        What is fitted to the observations of the new task: ``"none"``, ``"regressor"`` or ``"all"``.
    fine_tune_steps, fine_tune_rate
        Most steps for each suggestion, and Adam's rate. There are no more steps than observations: few are soon fitted
        at the expense of what was learned from other tasks.
    members
        Networks that are trained; from two on their predictions have a standard deviation.
    steps, training, seed
        Of meta-training: most outer steps, how (see `Training`; a mapping changes some of the defaults), the seed.
    """

    adjustable = frozenset({"fine_tune", "fine_tune_steps", "fine_tune_rate"})
    keeps = (*MetaTrained.keeps, "_patches")
    _patches: Sequence[NDArray[np.float32]] = ()
    """Features and targets of parts of the tables of training tasks, one after the other."""

    def __init__(
        self,
        extractor: str = _EXTRACTOR,
        metafeatures: str | None = None,
        *,
        manifold: float = 10.0,
        identification: float = 0.1,
        inner_steps: int = 5,
        outer_rate: float = 50.0,
        fine_tune: FineTune | None = "regressor",
        fine_tune_steps: int = 50,
        fine_tune_rate: float = 1e-3,
        members: int = 1,
        steps: int = 500,
        training: TrainingLike = _TRAINING,
        seed: int = 0,
    ) -> None:
        fine_tune = "none" if fine_tune is None else fine_tune  # as the word none is read where settings are text
        if fine_tune not in get_args(FineTune):
            raise UnknownName(f"fine_tune has no {fine_tune!r}; {suggestion(fine_tune, get_args(FineTune))}")
        if metafeatures is not None and fine_tune == "all":
            raise InvalidInput("fixed meta-features leave only the regressor to be tuned: give fine_tune='regressor'")
        for name, number in {
            "inner_steps": inner_steps,
            "fine_tune_steps": fine_tune_steps,
            "members": members,
        }.items():
            check_positive(name, number, whole=True)
        check_positive("outer_rate", outer_rate)
        check_positive("fine_tune_rate", fine_tune_rate)
        for name, value in {"manifold": manifold, "identification": identification}.items():
            if not value >= 0.0:
                raise InvalidInput(f"{name} must be at least 0, got {value!r}")
        self.extractor = extractor
        self.metafeatures = metafeatures
        self.manifold = manifold
        self.identification = identification
        self.inner_steps = inner_steps
        self.outer_rate = outer_rate
        self.fine_tune: FineTune = fine_tune
        self.fine_tune_steps = fine_tune_steps
        self.fine_tune_rate = fine_tune_rate
        self.members = members
        self.set_training(steps, training, _TRAINING, seed)
        if metafeatures is None:
            self._network()  # a wrong name is told now

    @property
    def needs(self) -> Needs:
        own = Needs(table=True) if self.metafeatures is None else Needs(metafeatures=frozenset({self.metafeatures}))
        return super().needs | own

    def _network(self) -> TableNetwork:
        made = create("metafeatures", self.extractor)
        network: TableNetwork | None = getattr(made, "network", None)
        if network is None:
            raise InvalidInput(
                f"extractor must have a network that can be trained, such as dataset2vec, got {self.extractor!r}; "
                f"fixed meta-features are named with metafeatures={self.extractor}"
            )
        return network

    # -- other tasks --------------------------------------------------------------------------------------------

    def learn(self, meta: MetaDataset, rng: np.random.Generator) -> Parameters:
        points = meta.pipelines.features()
        training, validation = meta.held_out(rng)
        if self.metafeatures is not None:
            return self._learn_fixed(training, validation, points, rng)
        return self._learn_all(training, validation, points, rng)

    def _learn_all(
        self, training: MetaDataset, validation: MetaDataset, points: Array, rng: np.random.Generator
    ) -> Parameters:
        """Extractor and regressor together."""
        tasks = self._with_tables(training, _TRAINING_ROWS)
        held = self._with_tables(validation, _ROWS) or tasks
        if len(tasks) < 2:
            raise NeedsTable(
                f"DMFBS learns from tables and needs at least 2 training tasks that have one, got {len(tasks)}; "
                "without tables read recorded meta-features: dmfbs(metafeatures=NAME)"
            )
        network = self._network()
        mlp = regressor(network.outputs, points.shape[1])

        def adapt(parameters: Parameters, place: int, stream: np.random.Generator) -> Parameters:
            def gradient(known: Parameters, draw: np.random.Generator) -> Parameters:
                task, other = tasks[place], tasks[_another(place, len(tasks), draw)]
                columns, targets = task.draw(draw, self.training.n_pipelines)
                batches = _batches(network, [task.about, task.about, other.about], draw)
                return full_gradient(
                    network, mlp, known, batches, points[columns], targets, self.manifold, self.identification
                )

            return adapted(parameters, gradient, self.inner_steps, self.training.learning_rate, stream)

        described = [network.whole(task.about) for task in held]

        def validate(parameters: Parameters) -> float:
            vectors = (network(parameters, [batch])[0] for batch in described)
            return _validation_loss(mlp, parameters, held, vectors, points)

        kept = rng.permutation(len(tasks))[:_MOST_OTHERS]
        patches = [_patch(tasks[i].about, rng) for i in kept]
        found: Parameters = _usual_levels(training)
        self._patches = [array for patch in patches for array in (patch.features, patch.targets)]
        with one_torch_thread("meta-training of DMFBS"):
            for member in range(self.members):
                initial = {**network.initial(rng), **mlp.initial(rng)}
                found |= self._trained(member, initial, adapt, len(tasks), validate, rng)
                known = _member(found, member)
                vectors = [network(known, [network.whole(patch)])[0] for patch in patches]
                found[f"{member}/{_OTHERS}"] = np.array(vectors)
        return found

    def _learn_fixed(
        self, training: MetaDataset, validation: MetaDataset, points: Array, rng: np.random.Generator
    ) -> Parameters:
        """The regressor alone, in NumPy."""
        assert self.metafeatures is not None
        for meta in (training, validation):
            if self.metafeatures not in meta.metafeatures:
                raise NeedsTable(
                    f"DMFBS reads meta-features {self.metafeatures!r}, which meta-dataset {meta.name!r} does not have; "
                    f"{suggestion(self.metafeatures, meta.metafeatures)}"
                )
        scaling = _scaling(np.asarray(training.metafeatures[self.metafeatures], dtype=np.float64))
        tasks, held = (
            known_tasks(meta, [_scaled(scaling, row) for row in meta.metafeatures[self.metafeatures]])
            for meta in (training, validation)
        )
        if len(tasks) < 2:
            raise NeedsTable(
                f"DMFBS needs at least 2 training tasks with meta-features {self.metafeatures!r}, got {len(tasks)}"
            )
        mlp = regressor(len(scaling[_LOW]), points.shape[1])

        def adapt(parameters: Parameters, place: int, stream: np.random.Generator) -> Parameters:
            def gradient(known: Parameters, draw: np.random.Generator) -> Parameters:
                task, other = tasks[place], tasks[_another(place, len(tasks), draw)]
                columns, targets = task.draw(draw, self.training.n_pipelines)
                return regressor_gradient(mlp, known, task.about, points[columns], targets, other.about, self.manifold)

            return adapted(parameters, gradient, self.inner_steps, self.training.learning_rate, stream)

        def validate(parameters: Parameters) -> float:
            of_tasks = held or tasks
            return _validation_loss(mlp, parameters, of_tasks, (task.about for task in of_tasks), points)

        found: Parameters = {**_usual_levels(training), **scaling}
        for member in range(self.members):
            found |= self._trained(member, mlp.initial(rng), adapt, len(tasks), validate, rng)
            found[f"{member}/{_OTHERS}"] = np.array([task.about for task in tasks[:_MOST_OTHERS]])
        return found

    def _trained(
        self, member: int, initial: Parameters, adapt: Any, known: int, validate: Any, rng: np.random.Generator
    ) -> Parameters:
        model = Reptile(initial, adapt, known, self.training.n_tasks, validate, self.outer_rate, rng)
        steps = self.training.number_of_steps(self.steps, known)
        with one_blas_thread():
            trained = train(model, steps, self.training, rng, "DMFBS", start_counts=True)
        of_member = {f"{member}/{name}": value for name, value in trained.parameters.items()}
        return {**of_member, **(checks_of(trained) if member == 0 else {})}

    def _with_tables(self, meta: MetaDataset, rows: int) -> list[KnownTask[TableArrays]]:
        tables = (meta.dataset(task) for task in range(len(meta)))
        return known_tasks(meta, [None if t is None else TableArrays.of(t, rows, self.seed) for t in tables])

    def restored(self) -> None:
        for name in (_OFFSET, _SCALES, f"{self.members - 1}/{_OTHERS}"):
            if name not in self._parameters:
                raise ModelFileError(f"DMFBS must have an array {name!r}, found none; train it again")
        width = self._vector_width()
        wanted = regressor(width, self._points_width()).initial(np.random.default_rng(0))
        if self.metafeatures is None:
            wanted |= self._network().initial(np.random.default_rng(0))
        for member in range(self.members):
            for name, value in wanted.items():
                found = self._parameters.get(f"{member}/{name}")
                if found is None or found.shape != value.shape or not np.isfinite(found).all():
                    what = "none" if found is None else f"one of shape {found.shape}"
                    raise ModelFileError(
                        f"DMFBS must have an array {member}/{name!r} of shape {value.shape} with finite numbers, "
                        f"found {what}; train it again"
                    )

    def _vector_width(self) -> int:
        return self._network().outputs if self.metafeatures is None else len(self._parameters[_LOW])

    def _points_width(self) -> int:
        return int(self.space.encode([]).features().shape[1])

    # -- the task at hand ---------------------------------------------------------------------------------------

    _models: list[tuple[Parameters, Array, float, float]]

    def start(self, task: Task) -> Self:
        fresh = super().start(task)
        fresh._members = [_member(self._parameters, member) for member in range(self.members)]
        offset, spread = map(float, self._parameters[_OFFSET])
        fresh._levels = Levels(offset, spread, self._parameters[_SCALES], np.ones(1))
        if self.metafeatures is None:
            fresh._read_table(task.dataset)
        else:
            fresh._read_metafeatures(task.metafeatures)
        return fresh

    def _read_table(self, dataset: Dataset | None) -> None:
        if dataset is None:
            raise NeedsTable("DMFBS reads the table itself, and the task has none")
        self._extractor = self._network()
        self._mlp = regressor(self._extractor.outputs, self._points_width())
        self._table = TableArrays.of(dataset, _TRAINING_ROWS, self.seed)
        self._whole = self._extractor.whole(TableArrays.of(dataset, _ROWS, self.seed))
        with one_blas_thread():
            self._vectors = [np.asarray(self._extractor(known, [self._whole])[0]) for known in self._members]

    def _read_metafeatures(self, known: Mapping[str, Array]) -> None:
        assert self.metafeatures is not None
        if self.metafeatures not in known:
            raise NeedsTable(
                f"DMFBS reads meta-features {self.metafeatures!r}, which the task does not have; it has "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        given = np.asarray(known[self.metafeatures], dtype=np.float64).reshape(-1)
        width = len(self._parameters[_LOW])
        if len(given) != width:
            raise InvalidInput(
                f"meta-features {self.metafeatures!r} must have {width} values as those of the training tasks, got "
                f"{len(given)}"
            )
        vector = _scaled(self._parameters, given)
        if vector is None:
            raise NeedsTable(f"meta-features {self.metafeatures!r} of the task must not all be missing")
        self._mlp = regressor(width, self._points_width())
        self._vectors = [vector] * self.members

    _members: list[Parameters]
    _vectors: list[Array]
    _levels: Levels
    _mlp: MLP
    _extractor: TableNetwork
    _table: TableArrays
    _whole: Any

    def fit(self, history: History) -> Self:
        points, targets = self.points(history.encoded), history.targets()
        if not history.ok.any():  # failures alone do not tell pipelines apart
            points, targets = points[:0], targets[:0]
        with one_blas_thread():
            self._models = [self._fitted(member, points, targets) for member in range(self.members)]
        return self

    def _fitted(self, member: int, points: Array, targets: Array) -> tuple[Parameters, Array, float, float]:
        """Parameters of a member after fine-tuning, its vector of the table, offset and scale."""
        known, vector = self._members[member], self._vectors[member]
        levels = self._levels.unless_foreign(targets)
        if not len(targets):
            return known, vector, levels.offset_mean, float(np.median(levels.scales))
        targets = np.minimum(targets, levels.highest(targets))
        expected = predicted(self._mlp, known, vector, points)
        columns = np.stack([targets, np.ones(len(targets)), expected], axis=1)
        found = LevelMixture.of(columns / _MISFIT, levels).likeliest
        shift, scale = found.scale * found.offset, found.scale
        if self.fine_tune != "none":
            rng = np.random.default_rng([self.seed, member])
            known, vector = self._tuned(member, points, (targets - shift) / scale, rng)
        return known, vector, shift, scale

    def _tuned(self, member: int, points: Array, targets: Array, rng: np.random.Generator) -> tuple[Parameters, Array]:
        """Algorithm 1 up to its last line: updates from what was meta-learned."""
        known, vector = self._members[member], self._vectors[member]
        tune = partial(adapted, steps=min(self.fine_tune_steps, len(points)), rate=self.fine_tune_rate, rng=rng)
        if self.fine_tune == "regressor":
            others = self._parameters[f"{member}/{_OTHERS}"]

            def by_regressor(at: Parameters, draw: np.random.Generator) -> Parameters:
                rows, other = sample(draw, len(points), self.training.n_pipelines), others[draw.integers(len(others))]
                return regressor_gradient(self._mlp, at, vector, points[rows], targets[rows], other, self.manifold)

            own = {name: value for name, value in known.items() if name.startswith(f"{self._mlp.name}.")}
            return known | tune(own, by_regressor, betas=_FINE_TUNING_BETAS), vector
        patches = [TableArrays(*pair) for pair in zip(self._patches[::2], self._patches[1::2], strict=True)]

        def by_all(at: Parameters, draw: np.random.Generator) -> Parameters:
            rows, other = sample(draw, len(points), self.training.n_pipelines), patches[draw.integers(len(patches))]
            batches = _batches(self._extractor, [self._table, self._table, other], draw)
            weights = self.manifold, self.identification
            return full_gradient(self._extractor, self._mlp, at, batches, points[rows], targets[rows], *weights)

        with one_torch_thread("fine-tuning all of DMFBS"):
            tuned = tune(known, by_all, betas=_FINE_TUNING_BETAS)
        return tuned, np.asarray(self._extractor(tuned, [self._whole])[0])

    def predict(self, encoded: Encoded) -> Prediction:
        points = self.points(encoded)
        with one_blas_thread():
            found = np.array(
                [shift + scale * predicted(self._mlp, p, vector, points) for p, vector, shift, scale in self._models]
            )
        if self.members == 1:
            return Prediction(found[0])
        scale = float(np.mean([model[3] for model in self._models]))
        return Prediction(found.mean(axis=0), np.maximum(found.std(axis=0, ddof=1), _LEAST_STD * scale))


def _member(parameters: Mapping[str, Array], member: int) -> Parameters:
    """Parameters of the networks of one member."""
    prefix = f"{member}/"
    named = {name.removeprefix(prefix): v for name, v in parameters.items() if name.startswith(prefix)}
    return {name: value for name, value in named.items() if name != _OTHERS}


def _batches(network: TableNetwork, tables: Sequence[TableArrays], rng: np.random.Generator) -> list[Any]:
    """A batch of each table. Few rows: an update sees three batches, and there are many updates."""
    some = [sample(rng, len(table.features), min(_BATCH_ROWS, len(table.features))) for table in tables]
    parts = [TableArrays(table.features[rows], table.targets[rows]) for table, rows in zip(tables, some, strict=True)]
    return network.batches(parts, rng)


def _another(place: int, known: int, rng: np.random.Generator) -> int:
    """Any place but this one."""
    return (place + 1 + int(rng.integers(known - 1))) % known


def _validation_loss(
    mlp: MLP, parameters: Parameters, tasks: list[KnownTask[Any]], vectors: Any, points: Array
) -> float:
    """Mean over tasks of the squared error of what is predicted before anything is observed."""
    errors = [
        task.error(predicted(mlp, parameters, np.asarray(vector), points[task.columns]))
        for task, vector in zip(tasks, vectors, strict=True)
    ]
    return float(np.mean(errors))


def _usual_levels(meta: MetaDataset) -> Parameters:
    rows = [meta.loss_row(task) for task in range(len(meta))]
    observed = [row[np.isfinite(row)].astype(np.float64) for row in rows]
    levels = Levels.usual(np.array([o.mean() for o in observed]), np.array([o.std() for o in observed]))
    return {_OFFSET: np.array([levels.offset_mean, levels.offset_std]), _SCALES: levels.scales}


def _patch(table: TableArrays, rng: np.random.Generator) -> TableArrays:
    """Some rows, features and targets of a table."""
    shape = (*table.features.shape, table.targets.shape[1])
    rows, features, targets = (np.sort(rng.permutation(n)[:most]) for n, most in zip(shape, _PATCH, strict=True))
    return TableArrays(table.features[np.ix_(rows, features)], table.targets[np.ix_(rows, targets)])


def _scaling(vectors: Array) -> Parameters:
    """Lowest, highest and mean value (k,) of each of some meta-features (T, k)."""
    known = np.where(np.isfinite(vectors), vectors, np.nan)
    some = np.isfinite(known).any(axis=0)
    found = {name: np.zeros(vectors.shape[1]) for name in (_LOW, _HIGH, _CENTER)}
    for name, of in ((_LOW, np.nanmin), (_HIGH, np.nanmax), (_CENTER, np.nanmean)):
        found[name][some] = of(known[:, some], axis=0)
    return found


def _scaled(scaling: Mapping[str, Array], vector: Array) -> Array | None:
    """Meta-features (k,) in [0, 1] on the training tasks, not far from it elsewhere; ``None`` if all are missing."""
    if not np.isfinite(vector).any():
        return None
    width = scaling[_HIGH] - scaling[_LOW]
    filled = np.where(np.isfinite(vector), vector, scaling[_CENTER])
    return np.asarray(
        np.clip(np.where(width > 0, filled - scaling[_LOW], 0.0) / np.where(width > 0, width, 1.0), -1, 2)
    )
