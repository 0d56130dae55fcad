"""Random-forest regression that also says how sure it is.

=======  ==============  ==================================================================================
symbol   name in code    equation
=======  ==============  ==================================================================================
T        n_trees         number of trees
m_t(x)   leaf_means      mean target of the leaf of tree t that x falls into, over the tree's bootstrap sample
v_t(x)   leaf_variances  variance of the targets of that leaf, over the same sample
μ(x)     mean            (1/T) Σ_t m_t(x)
σ²(x)    variance        (1/T) Σ_t v_t(x) + (1/T) Σ_t (m_t(x) - μ(x))², the law of total variance
=======  ==============  ==================================================================================

As in SMAC (Hutter, Hoos & Leyton-Brown 2011). Without v_t the spread is 0 wherever all trees agree, however noisy the
leaves are. Both moments of a leaf are what scikit-learn stores anyway: its value, and its impurity, which for squared
error is the variance with each observation counted as often as the bootstrap drew it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from headstart.errors import InvalidInput
from headstart.numerics.kernels import Array
from headstart.numerics.standardisation import Standardisation, checked_observations, checked_points


@dataclass(frozen=True)
class _Grown:
    trees: list[Any]  # sklearn.tree._tree.Tree
    leaf_means: list[Array]  # one array (nodes,) per tree, standardised targets
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
        if standardisation.constant or points.shape[1] == 0:
            self._state = _Grown([], [], [], standardisation, points.shape[1])
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
            [tree.value[:, 0, 0].copy() for tree in trees],
            [np.maximum(tree.impurity, 0.0) for tree in trees],
            standardisation,
            points.shape[1],
        )
        return self

    def posterior(self, candidates: ArrayLike) -> tuple[Array, Array]:
        """Mean and standard deviation at candidates ``(m, d)``: two arrays of shape ``(m,)``."""
        if self._state is None:
            raise InvalidInput("the forest must be given data first: call fit")
        state = self._state
        points = checked_points(candidates, columns=state.columns)
        scale = state.standardisation.scale
        if not state.trees:
            return state.standardisation.undo(np.zeros(len(points))), np.full(len(points), scale)

        # scikit-learn splits in single precision; converting once instead of in each tree.
        single = points.astype(np.float32)
        means = np.empty((len(state.trees), len(points)))
        variance = np.zeros(len(points))
        for number, tree in enumerate(state.trees):
            leaves = tree.apply(single)
            np.take(state.leaf_means[number], leaves, out=means[number])
            variance += state.leaf_variances[number].take(leaves)
        variance /= len(state.trees)
        variance += means.var(axis=0)
        std = np.sqrt(np.maximum(variance, self.std_floor**2))
        return state.standardisation.undo(means.mean(axis=0)), std * scale
