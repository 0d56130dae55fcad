"""`Parameters`: what a user may choose about a fit; `Settings`: the same, checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from headstart.constraints import Constraint, ConstraintsLike, parse_constraints
from headstart.errors import InvalidInput, check_positive, suggestion
from headstart.evaluation.scoring import full_name
from headstart.optimizers.warm_start import N_INITIAL

if TYPE_CHECKING:
    from headstart.optimizers.base import Optimizer
    from headstart.space.space import PipelineSpace

DEFAULT_SECONDS = 60.0
REFITS = ("bag", "full", "single")
PROBLEM = {"resume": "same"}
"""Of a field that tells which problem it is: it must stay the same when a fit is resumed."""
BUDGET = {"resume": "replaced"}
"""Of a field that limits a run: those of an earlier run no longer count once one of them is given."""
PLACE = {"resume": "forgotten"}
"""Of a field that says where a fit runs: another run of it may be elsewhere."""


@dataclass(eq=False, repr=False)
class Parameters:
    """What a user may choose about a fit: the parameters of the estimators and the options of ``headstart fit``.

    Parameters
    ----------
    time_budget
        Seconds for everything: search, ensemble, refit. 60 if neither this nor `evaluations` is given.
    evaluations
        Number of pipelines to try. With this alone the result depends on nothing but the data, `random_state` and
        `n_jobs`.
    patience
        Stop after this many pipelines in a row without an improvement.
    metric
        Name of a scikit-learn scorer or a short name (rmse, mae, auc, logloss, …), or a callable
        ``scorer(estimator, X, y)``, higher is better. By default the area under the ROC curve for two classes, log loss
        for more, the root mean squared error for a regression.
    optimizer
        Name of an optimizer, or an object; ``headstart methods`` lists them.
    warm_start
        Name of another optimizer, or an object, whose first pipelines are tried before `optimizer` begins, such as
        ``"nearest"``. One that learns from other tables does so from `knowledge`.
    n_initial
        How many pipelines `warm_start` gives.
    knowledge
        File of what an optimizer learned from other tables, written by ``headstart metatrain``, or several. One is used
        for `warm_start` if it names what the file holds; another for `optimizer`, which need not be named then. The
        search space must be the one that it was learned on, or a part of it.
    space
        Name of a search space, or a `PipelineSpace`; ``headstart show-space`` lists them.
    include, exclude
        Names of algorithms, such as ``["lightgbm", "random_forest"]``.
    ensemble
        Whether to combine the best pipelines; otherwise the model is the best one.
    max_members
        Maximum number of pipelines in an ensemble.
    refit
        What the members predict with: ``"bag"``, the mean of the models of the folds, which the search has already
        fitted, or after a hold-out as ``"full"``; ``"full"``, one model refitted on all rows, for which a quarter of
        the time is reserved; ``"single"``, the model of one fold, which is the smallest and fastest.
    deploy
        Which model is made: ``"best"``, or ``"fast"``: the smallest one whose score is within 1 % of the best one's,
        where 100 % is what that gains over a constant in validation. It is one pipeline wherever one is good enough,
        else an ensemble of as few as possible, refitted on all rows as with ``refit="full"``.
    splitter
        Number of folds, share of a hold-out, a scikit-learn splitter, or pairs of training and validation rows. By
        default what suits the table's size and the budget.
    constraints
        Upper bounds on what is measured of every pipeline, such as ``["latency <= 1ms", "size <= 2MB"]`` or
        ``{"latency": 1e-3, "size": 1e6}``; see `headstart.evaluation.constraints`. The model is then one pipeline.
    cluster
        Address of a Dask scheduler, such as ``tcp://10.0.0.1:8786``, or a ``distributed.Client``: pipelines are
        evaluated on its workers, in sandboxes there.
    n_jobs
        Evaluations at once; -1 for all cores. By default as many as cores and memory allow, or, on a cluster, as many
        as its workers have threads, also when some join or leave.
    memory_limit
        Bytes for this process and all evaluations, such as ``4e9``. An evaluation that exceeds its share is stopped,
        and members whose fitted models would not fit are left out of the model, except for one.
    evaluation_seconds
        Time limit of one pipeline in seconds. By default a sixth of the time budget.
    kinds
        Kinds of columns where you know better than what is inferred: numeric, boolean, categorical, date, text, id,
        constant.
    missing
        Texts that stand for a missing value, besides the usual ones (``NA``, ``?``, ``null``, …): ``["k.A.", "-999"]``.
    random_state
        Seed of everything random.
    store
        Directory or URL where trials are kept, so that a fit can be resumed in another process.
    report_file
        Where to write a report at the end of the fit: an HTML file, see `HeadstartClassifier.report`. A small part
        of the time budget is kept for it. By default there is none.
    sandbox
        Evaluate pipelines in processes of their own, with limits. ``False`` evaluates in this process: limits are not
        enforced, but no process has to be started; for debugging.
    verbose
        Whether to print progress.
    """

    time_budget: float | None = field(default=None, metadata=BUDGET)
    _: KW_ONLY
    evaluations: int | None = field(default=None, metadata=BUDGET)
    patience: int | None = field(default=None, metadata=BUDGET)
    metric: str | Callable[..., float] | None = field(default=None, metadata=PROBLEM)
    optimizer: str | Optimizer = field(default="default", metadata=PROBLEM)
    warm_start: str | Optimizer | None = field(default=None, metadata=PROBLEM)
    n_initial: int = field(default=N_INITIAL, metadata=PROBLEM)
    knowledge: str | PathLike[str] | Sequence[str | PathLike[str]] | None = field(default=None, metadata=PROBLEM)
    space: str | PipelineSpace | None = field(default=None, metadata=PROBLEM)
    include: Iterable[str] = field(default=(), metadata=PROBLEM)
    exclude: Iterable[str] = field(default=(), metadata=PROBLEM)
    ensemble: bool = True
    max_members: int = 10
    refit: Literal["bag", "full", "single"] = "bag"
    deploy: Literal["best", "fast"] = "best"
    splitter: Any = field(default=None, metadata=PROBLEM)
    constraints: ConstraintsLike | None = field(default=None, metadata=PROBLEM)
    cluster: Any = field(default=None, metadata=PLACE)
    n_jobs: int | None = None
    memory_limit: int | None = None
    evaluation_seconds: float | None = None
    kinds: Mapping[str, str] | None = field(default=None, metadata=PROBLEM)
    missing: Iterable[str] = field(default=(), metadata=PROBLEM)
    random_state: int | None = field(default=0, metadata=PROBLEM)
    store: str | PathLike[str] | None = None
    report_file: str | PathLike[str] | None = field(default=None, metadata=PLACE)
    sandbox: bool = True
    verbose: bool = False


@dataclass(eq=False, repr=False, kw_only=True)
class ClassifierParameters(Parameters):
    """What a user may choose about the fit of a classifier.

    Parameters
    ----------
    calibrate
        Whether to calibrate probabilities, by one temperature. By default if `metric` is one of probabilities, such as
        log loss, and it is better for that on validation rows.
    tune_threshold
        Whether to tune the decision thresholds between classes for `metric`, which must be a metric of labels. By
        default if it is one, such as F1, and thresholds tuned on some validation rows are better on others.
    """

    calibrate: bool | None = None
    tune_threshold: bool | None = None


@dataclass(eq=False)
class Settings(ClassifierParameters):
    """Parameters that have been checked.

    Raises
    ------
    InvalidInput
        For a value that cannot be meant; the message says what must hold.
    """

    def __post_init__(self) -> None:
        for name in ("time_budget", "evaluation_seconds", "memory_limit"):
            check_finite(name, getattr(self, name))
        for name in ("evaluations", "patience", "max_members", "n_initial"):
            check_positive(name, getattr(self, name), whole=True)
        if self.refit not in REFITS:
            raise InvalidInput(f"refit must be one of {', '.join(REFITS)}, got {self.refit!r}")
        if self.deploy not in ("best", "fast"):
            raise InvalidInput(f"deploy must be best or fast, got {self.deploy!r}")
        if self.n_jobs is not None and (not _whole(self.n_jobs) or (self.n_jobs < 1 and self.n_jobs != -1)):
            raise InvalidInput(
                f"n_jobs must be a positive whole number, -1 for all cores or None to choose by the table's size, "
                f"got {self.n_jobs!r}"
            )
        if self.random_state is None:
            self.random_state = 0
        if not _whole(self.random_state) or self.random_state < 0:
            raise InvalidInput(f"random_state must be a seed, a whole number ≥ 0, got {self.random_state!r}")
        if self.memory_limit is not None and self.memory_limit < 10**6:
            raise InvalidInput(f"memory_limit must be in bytes, such as 4e9, got {self.memory_limit!r}")
        if self.cluster is not None and (self.memory_limit is not None or not self.sandbox):
            raise InvalidInput(
                "the workers of a cluster have limits of memory and sandboxes of their own: leave memory_limit "
                "(--memory) and sandbox out, and give workers a limit with 'dask worker --memory-limit'"
            )
        if isinstance(self.metric, str):
            self.metric = full_name(self.metric)
        for name in ("store", "report_file"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str | PathLike):
                raise InvalidInput(f"{name} must be a path, got {value!r}")
        parse_constraints(self.constraints)

    @classmethod
    def of(cls, parameters: Parameters) -> Self:
        """A checked copy; a parameter that `parameters` does not have is at its default."""
        given: dict[str, Any] = {f.name: getattr(parameters, f.name, f.default) for f in fields(cls)}
        return cls(**given)

    @property
    def seconds(self) -> float | None:
        """The time budget; 60 s if no budget of any kind is given."""
        if self.time_budget is None and self.evaluations is None and self.patience is None:
            return DEFAULT_SECONDS
        return None if self.time_budget is None else float(self.time_budget)

    @property
    def knowledge_files(self) -> tuple[str | PathLike[str], ...]:
        """The files of `knowledge`."""
        given = self.knowledge
        return () if given is None else (given,) if isinstance(given, str | PathLike) else tuple(given)

    @property
    def refits(self) -> str:
        """What the members predict with, as `refit`."""
        return "full" if self.deploy == "fast" else self.refit

    @property
    def bounds(self) -> tuple[Constraint, ...]:
        """The constraints, as the search takes them."""
        return parse_constraints(self.constraints)

    @property
    def seed(self) -> int:
        """Everything random follows from it."""
        return self.random_state or 0

    def resumed(self, changes: Mapping[str, Any], label: Callable[[str], str] = str) -> Self:
        """These settings with changes, to resume a fit with: the budget may be new, the problem must be the same.

        Parameters
        ----------
        changes
            By the names of the fields.
        label
            What a message calls a field.
        """
        budgets = {f.name: f.default for f in fields(self) if f.metadata == BUDGET}
        for f in fields(self):
            was, given = getattr(self, f.name), changes.get(f.name)
            if f.metadata == PROBLEM and f.name in changes and not _equal(was, given):
                raise InvalidInput(
                    f"a fit can only be resumed with the same {label(f.name)}: it was {was!r}, got {given!r}; "
                    "keep it, or start a new fit"
                )
        return replace(self, **({**budgets, **changes} if budgets.keys() & changes.keys() else changes))


def _equal(one: Any, other: Any) -> bool:
    """Whether two settings are the same; splits are lists of arrays, for which ``==`` gives no single answer."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_equal(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def check_finite(name: str, value: object) -> None:
    """Raise `InvalidInput` unless `value` is ``None`` or a positive, finite number."""
    check_positive(name, value)
    if isinstance(value, Real) and not math.isfinite(value):
        raise InvalidInput(f"{name} must be a finite number, got {value!r}; leave it out for no limit")


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def choose_space(settings: Settings, task: str) -> PipelineSpace:
    """The search space of a task: the default one, or the user's, with what is included and excluded by name."""
    from headstart.space import catalog
    from headstart.space.space import PipelineSpace

    kind = "regression" if task == "regression" else "classification"
    space = settings.space if settings.space is not None else kind
    if isinstance(space, str):
        name, space = space, catalog.load(space)
        if (name == "regression") != (kind == "regression"):
            other, wanted = ("regressors", "a class") if name == "regression" else ("classifiers", "a number")
            parts = "the space" if settings.knowledge is None else f"the space and knowledge of {other}"
            raise InvalidInput(
                f"space {name!r} has {other}, but the target is {wanted}; leave {parts} out, or set task (--task)"
            )
    if not isinstance(space, PipelineSpace):
        raise InvalidInput(
            f"space must be a PipelineSpace or the name of one, got {type(space).__name__}; "
            f"{suggestion('', catalog.names())}"
        )
    return space.select(settings.include, settings.exclude)
