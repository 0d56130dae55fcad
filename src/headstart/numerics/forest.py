"""Random-forest regression that also says how sure it is.

=======  ==============  ==================================================================================
symbol   name in code    equation
=======  ==============  ==================================================================================
T        n_trees         number of trees
m_t(x)   leaf_means      mean target of the leaf of tree t that x falls into, over the tree's bootstrap sample
v_t(x)   leaf_variances  variance of the targets of that leaf, over the same sample
μ(x)     mean            (1/T) Σ_t m_t(x)
σ²(x)    variance        (1/T) Σ_t v_t(x) + (1/T) Σ_t (m_t(x) - μ(x))², the law of total variance
w        share           k/(n + k), for k observations of target y added to a leaf that had n with moments m and v
–        holding         moments of that leaf: m + w(y - m) and (1 - w)(v + w(y - m)²)
=======  ==============  ==================================================================================

As in SMAC (Hutter, Hoos & Leyton-Brown 2011). Without v_t the spread is 0 wherever all trees agree, however noisy the
leaves are. Both moments of a leaf are what scikit-learn stores anyway: its value, and its impurity, which for squared
error is the variance with each observation counted as often as the bootstrap drew it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.errors import InvalidInput
from headstart.numerics.kernels import Array
from headstart.numerics.standardisation import Standardisation, checked_observations, checked_points

Leaves = NDArray[np.intp]
"""By their number in a tree."""


@dataclass(frozen=True)
class _Grown:
    trees: list[Any]  # sklearn.tree._tree.Tree
    leaf_weights: list[Array]  # one array (nodes,) per tree: observations, as often as the bootstrap drew them
    leaf_means: list[Array]  # of standardised targets
    leaf_variances: list[Array]
    standardisation: Standardisation
    columns: int


@dataclass
class Forest:
    """Random forest with predictive variance.

    Parameters
    ----------
    n_trees
        Number of trees.
    min_samples_leaf
        Fewest observations in a leaf; with less than 2 leaves have no variance.
    max_features
        Share of the inputs each split may choose from.
    std_floor
        Smallest standard deviation returned, relative to that of the targets: there is always something to learn.
    seed
        Of the bootstrap and of the splits; the same seed and data give the same forest.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 40)[:, None]
    >>> mean, std = Forest(seed=0).fit(X, X[:, 0] > 0.5).posterior(np.array([[0.1], [0.9]]))
    >>> mean.round(2).tolist()
    [0.0, 1.0]
    """

    n_trees: int = 30
    min_samples_leaf: int = 3
    max_features: float = 5.0 / 6.0
    std_floor: float = 1e-3
    seed: int = 0
    _state: _Grown | None = field(default=None, init=False, repr=False, compare=False)
    _held: list[NDArray[np.int64]] = field(default_factory=list, init=False, repr=False, compare=False)
    """By tree and leaf, how many observations were added without growing it."""
    _means: list[Array] = field(default_factory=list, init=False, repr=False, compare=False)
    _variances: list[Array] = field(default_factory=list, init=False, repr=False, compare=False)
    """Of the leaves, with what was added."""

    def __post_init__(self) -> None:
        for name in ("n_trees", "min_samples_leaf", "max_features", "std_floor"):
            if not getattr(self, name) > 0:
                raise InvalidInput(f"{name} must be positive, got {getattr(self, name)!r}")

    def fit(self, inputs: ArrayLike, targets: ArrayLike) -> Self:
        """Grow the trees from inputs ``(n, d)`` and targets ``(n,)``.

        Targets that do not differ, and fewer than two of them, grow no tree: predictions are then their mean (0 without
        any) with a standard deviation of 1, as a Gaussian process far from such data would say.
        """
        points, values = checked_observations(inputs, targets)
        standardisation = Standardisation.of(values)
        self._held, self._means, self._variances = [], [], []
        if standardisation.constant or points.shape[1] == 0:
            self._state = _Grown([], [], [], [], standardisation, points.shape[1])
            return self
        from sklearn import config_context
        from sklearn.ensemble import RandomForestRegressor  # heavy, and only this surrogate needs it

        forest = RandomForestRegressor(
            n_estimators=self.n_trees,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            bootstrap=True,
            n_jobs=1,
            random_state=self.seed,
        )
        # The impurity is a difference of squares: on standardised targets it does not cancel. Everything is checked
        # already, and checking it again for every tree takes as long as growing it.
        with config_context(assume_finite=True, skip_parameter_validation=True):
            forest.fit(points, standardisation.apply(values))
        trees = [tree.tree_ for tree in forest.estimators_]
        self._state = _Grown(
            trees,
            [tree.weighted_n_node_samples.copy() for tree in trees],
            [tree.value[:, 0, 0].copy() for tree in trees],
            [np.maximum(tree.impurity, 0.0) for tree in trees],
            standardisation,
            points.shape[1],
        )
        self._means, self._variances = self._state.leaf_means, self._state.leaf_variances
        return self

    def holding(self, inputs: ArrayLike, target: float) -> Forest:
        """The same trees with more observations in their leaves, of one target, each once in every tree.

        No tree is grown. Only the number of them in a leaf counts, so the result is the same, to the last bit, whether
        they come at once or one by one.
        """
        more, state = copy.copy(self), self._grown
        points = checked_points(inputs, columns=state.columns).astype(np.float32)
        if not state.trees or not len(points):
            return more
        value = float(state.standardisation.apply(np.array([target]))[0])
        more._held = [held.copy() for held in self._held] or [np.zeros(len(mean), int) for mean in state.leaf_means]
        more._means = [means.copy() for means in self._means]
        more._variances = [variances.copy() for variances in self._variances]
        for t, tree in enumerate(state.trees):
            leaves, number = np.unique(tree.apply(points), return_counts=True)
            more._held[t][leaves] += number
            weight, mean, held = state.leaf_weights[t][leaves], state.leaf_means[t][leaves], more._held[t][leaves]
            share = held / (weight + held)
            more._means[t][leaves] = mean + share * (value - mean)
            spread = state.leaf_variances[t][leaves] + share * (value - mean) ** 2
            more._variances[t][leaves] = (1 - share) * spread
        return more

    def leaves(self, candidates: ArrayLike) -> Leaves:
        """The leaf of each of T trees that each of the candidates ``(m, d)`` falls into, (T, m)."""
        state = self._grown
        single = checked_points(candidates, columns=state.columns).astype(np.float32)  # once instead of in each tree
        return np.array([tree.apply(single) for tree in state.trees], dtype=np.intp).reshape(
            len(state.trees), len(single)
        )

    def differs(self, other: Forest, leaves: Leaves) -> NDArray[np.bool_]:
        """For which candidates, by their leaves, the posterior may be another one than that of `other`, (m,)."""
        if self._state is not other._state:
            return np.ones(leaves.shape[1], dtype=bool)
        found = np.zeros(leaves.shape[1], dtype=bool)
        for t, here in enumerate(leaves):
            changed = (self._means[t] != other._means[t]) | (self._variances[t] != other._variances[t])
            for leaf in np.flatnonzero(changed):
                found |= here == leaf
        return found

    def posterior(self, candidates: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation at candidates ``(m, d)``: two arrays of shape ``(m,)``."""
        return self.at(self.leaves(candidates))

    def at(self, leaves: Leaves) -> tuple[Array, Array]:
        """Mean and standard deviation of candidates in these leaves."""
        state, size = self._grown, leaves.shape[1]
        scale = state.standardisation.scale
        if not state.trees:
            return state.standardisation.undo(np.zeros(size)), np.full(size, scale)
        means = np.empty(leaves.shape)
        variance = np.zeros(size)
        for t, here in enumerate(leaves):
            np.take(self._means[t], here, out=means[t])
            variance += self._variances[t].take(here)
        variance /= len(leaves)
        variance += means.var(axis=0)
        std = np.sqrt(np.maximum(variance, self.std_floor**2))
        return state.standardisation.undo(means.mean(axis=0)), std * scale

    @property
    def _grown(self) -> _Grown:
        if self._state is None:
            raise InvalidInput("the forest must be given data first: call fit")
        return self._state
