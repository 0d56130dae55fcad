"""Feature preprocessing that fits itself to the table at hand.

The transformers of scikit-learn fail when they are asked for more components, clusters or quantiles than a table has
rows or columns, which a search cannot know beforehand. These take what there is. Each returns a dense matrix.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import comb
from typing import Any, Self

import numpy as np
from sklearn import decomposition, ensemble, kernel_approximation, preprocessing, random_projection
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import FeatureAgglomeration
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from headstart.components._shared import dense


class _Step(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Has the real transformer in `step_`; ``None`` leaves the table as it is."""

    step_: Any

    def transform(self, X: Any) -> Any:
        X = dense(X)
        return X if self.step_ is None else dense(self.step_.transform(X))


class _Fitted(_Step, ABC):
    """Makes the real transformer, or ``None``, when it sees the table."""

    @abstractmethod
    def _make(self, X: Any) -> Any: ...

    def _rows(self, X: Any) -> Any:
        """The rows to learn from."""
        return X

    def fit(self, X: Any, y: Any = None) -> Self:
        X = dense(X)
        self.n_features_in_ = X.shape[1]
        self.step_ = self._make(X)
        if self.step_ is not None:
            self.step_.fit(self._rows(X), y)
        return self


def _constant(X: Any) -> bool:
    return bool((X[:1] == X).all())


def _some_rows(X: Any, most: int, random_state: Any) -> Any:
    if len(X) <= most:
        return X
    return X[np.sort(np.random.default_rng(random_state).choice(len(X), most, replace=False))]


@dataclass(eq=False, repr=False)
class PCA(_Fitted):
    """Principal components that keep a share of the variance."""

    keep_variance: float = 0.99
    whiten: bool = False
    random_state: Any = None

    def _make(self, X: Any) -> Any:
        if _constant(X) or len(X) < 2:
            return None
        solver = "full" if X.shape[0] < 5 * X.shape[1] else "covariance_eigh"
        return decomposition.PCA(self.keep_variance, whiten=self.whiten, svd_solver=solver)


@dataclass(eq=False, repr=False)
class SharePCA(_Fitted):
    """Principal components, their number given as a share of the columns; at least one."""

    share: float = 0.5
    random_state: Any = None

    def _make(self, X: Any) -> Any:
        if _constant(X) or len(X) < 2:
            return None
        count = max(1, min(int(self.share * X.shape[1]), *X.shape))
        return decomposition.PCA(count, random_state=self.random_state)


@dataclass(eq=False, repr=False)
class KernelPCA(_Fitted):
    """Principal components in the space of a kernel, learnt from at most `max_rows` rows: its cost is cubic in them.

    `gamma` is divided by the number of columns when `relative` is set, so that one range suits all tables. A sigmoid,
    and a polynomial with a negative `coef0`, need not be kernels (they have negative eigenvalues, which scikit-learn
    refuses); their components are those of their Nystroem features, which take the eigenvalues' sizes.
    """

    n_components: int = 100
    kernel: str = "rbf"
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    eigen_solver: str = "auto"
    relative: bool = False
    max_rows: int = 1000
    random_state: Any = None

    def _rows(self, X: Any) -> Any:
        return _some_rows(X, self.max_rows, self.random_state)

    def _make(self, X: Any) -> Any:
        rows = min(len(X), self.max_rows)
        if rows < 3:
            return None
        count = min(self.n_components, rows - 1)
        gamma = self.gamma / X.shape[1] if self.relative else self.gamma
        if self.kernel == "sigmoid" or (self.kernel == "poly" and self.coef0 < 0):
            degree = {"degree": self.degree} if self.kernel == "poly" else {}
            features = kernel_approximation.Nystroem(
                self.kernel, gamma=gamma, coef0=self.coef0, n_components=rows, random_state=self.random_state, **degree
            )
            return make_pipeline(features, decomposition.PCA(count, random_state=self.random_state))
        settings = {k: v for k, v in self.get_params(deep=False).items() if k not in ("relative", "max_rows")}
        return decomposition.KernelPCA(**{**settings, "n_components": count, "gamma": gamma})


@dataclass(eq=False, repr=False)
class Nystroem(_Fitted):
    """Features of a kernel from a sample of rows; `gamma` as for `KernelPCA`."""

    n_components: int = 100
    kernel: str = "rbf"
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    relative: bool = False
    random_state: Any = None

    def _make(self, X: Any) -> Any:
        given: dict[str, Any] = {}  # a kernel refuses parameters that it does not have
        if self.kernel != "cosine":
            given["gamma"] = self.gamma / X.shape[1] if self.relative else self.gamma
        if self.kernel in ("poly", "polynomial", "sigmoid"):
            given["coef0"] = self.coef0
        if self.kernel in ("poly", "polynomial"):
            given["degree"] = self.degree
        return kernel_approximation.Nystroem(
            self.kernel, n_components=min(self.n_components, len(X)), random_state=self.random_state, **given
        )


@dataclass(eq=False, repr=False)
class KitchenSinks(_Fitted):
    """Random Fourier features of an RBF kernel; `gamma` as for `KernelPCA`."""

    n_components: int = 100
    gamma: float = 1.0
    relative: bool = False
    random_state: Any = None

    def _make(self, X: Any) -> Any:
        settings: dict[str, Any] = self.get_params(deep=False)
        if settings.pop("relative"):
            settings["gamma"] /= X.shape[1]
        return kernel_approximation.RBFSampler(**settings)


@dataclass(eq=False, repr=False)
class FastICA(_Step):
    """Independent components; as many as the table has independent columns, at most.

    Without whitening the method needs columns that are independent and of one scale; where they are not, it whitens.
    """

    n_components: int = 100
    algorithm: str = "parallel"
    fun: str = "logcosh"
    whiten: bool = True
    max_iter: int = 200
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        X = dense(X)
        self.n_features_in_ = X.shape[1]
        rank = int(np.linalg.matrix_rank(X - X.mean(axis=0)))
        self.step_ = None
        if rank == 0:
            return self
        if not self.whiten and rank == X.shape[1]:
            try:
                self.step_ = self._ica(None).fit(X, y)
            except (ValueError, np.linalg.LinAlgError):  # it came to infinity
                self.step_ = None
        if self.step_ is None or not np.isfinite(self.step_.components_).all():
            self.step_ = self._ica(min(self.n_components, rank)).fit(X, y)
        return self

    def _ica(self, count: int | None) -> Any:
        whiten = False if count is None else "unit-variance"
        settings = {**self.get_params(deep=False), "n_components": count, "whiten": whiten}
        return decomposition.FastICA(**settings, tol=1e-3)


@dataclass(eq=False, repr=False)
class FactorAnalysis(_Fitted):
    """Latent factors with a noise variance for each column."""

    n_components: int = 20
    svd_method: str = "randomized"
    max_iter: int = 1000
    random_state: Any = None

    def _make(self, X: Any) -> Any:
        settings = {**self.get_params(deep=False), "n_components": min(self.n_components, *X.shape)}
        return decomposition.FactorAnalysis(**{**settings, "random_state": self.random_state or 0})


@dataclass(eq=False, repr=False)
class TruncatedSVD(_Fitted):
    """Singular vectors without centering."""

    n_components: int = 100
    n_iter: int = 5
    random_state: Any = None

    def _make(self, X: Any) -> Any:
        if X.shape[1] < 2:
            return None
        settings = {**self.get_params(deep=False), "n_components": min(self.n_components, *X.shape)}
        return decomposition.TruncatedSVD(**settings)


@dataclass(eq=False, repr=False)
class RandomProjection(_Fitted):
    """Projection on random directions, Gaussian or (with a `density`) sparse ones."""

    n_components: int = 100
    density: float | None = None
    random_state: Any = None

    def _make(self, X: Any) -> Any:
        count = min(self.n_components, X.shape[1])
        if self.density is None:
            return random_projection.GaussianRandomProjection(count, random_state=self.random_state)
        return random_projection.SparseRandomProjection(
            count, density=self.density, dense_output=True, random_state=self.random_state
        )


@dataclass(eq=False, repr=False)
class Agglomeration(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Columns that go together become one: `FeatureAgglomeration` with at most as many clusters as columns.

    `pooling_func` says which one: their ``"mean"``, ``"median"`` or ``"max"``.
    """

    n_clusters: int = 25
    metric: str = "euclidean"
    linkage: str = "ward"
    pooling_func: str = "mean"

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        X = dense(X)
        self.n_features_in_ = X.shape[1]
        self.labels_ = None
        if X.shape[1] > 1:
            metric = "euclidean" if self.linkage == "ward" else self.metric
            if metric == "cosine" and not X.any(axis=0).all():
                metric = "euclidean"  # a column of zeros has no direction
            count = min(self.n_clusters, X.shape[1])
            self.labels_ = FeatureAgglomeration(count, metric=metric, linkage=self.linkage).fit(X).labels_
        return self

    def transform(self, X: Any) -> Any:
        X = dense(X)
        if self.labels_ is None:
            return X
        pooled: Any = {"mean": np.mean, "median": np.median, "max": np.max}[self.pooling_func]
        return np.column_stack([pooled(X[:, self.labels_ == k], axis=1) for k in range(self.labels_.max() + 1)])


@dataclass(eq=False, repr=False)
class PolynomialFeatures(_Fitted):
    """Products of columns; where they would be more than `most`, of the columns that vary most, beside all columns."""

    degree: int = 2
    interaction_only: bool = False
    include_bias: bool = False
    most: int = 1500

    def _make(self, X: Any) -> Any:
        products = preprocessing.PolynomialFeatures(
            self.degree, interaction_only=self.interaction_only, include_bias=self.include_bias
        )
        d = X.shape[1]
        chosen = d
        while chosen > 1 and self._count(chosen) + d - chosen > self.most:
            chosen -= 1
        if chosen == d:
            return products
        varied = np.argsort(-X.var(axis=0), kind="stable")
        parts = [("products", products, varied[:chosen].tolist()), ("others", "passthrough", varied[chosen:].tolist())]
        return ColumnTransformer(parts)

    def _count(self, d: int) -> int:
        """Columns that `d` columns become."""
        if self.interaction_only:
            return sum(comb(d, k) for k in range(1, self.degree + 1))
        return comb(d + self.degree, self.degree) - 1


@dataclass(eq=False, repr=False)
class RandomTreesEmbedding(_Fitted):
    """Which leaf of each random tree a row falls into, one column per leaf."""

    n_estimators: int = 10
    max_depth: int = 5
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    random_state: Any = None

    def _make(self, X: Any) -> Any:  # noqa: ARG002
        return ensemble.RandomTreesEmbedding(**self.get_params(deep=False), sparse_output=False, n_jobs=1)


@dataclass(eq=False, repr=False)
class QuantileTransformer(_Fitted):
    """Columns to uniform or normal distributions, with at most as many quantiles as rows."""

    n_quantiles: int = 1000
    output_distribution: str = "uniform"
    random_state: Any = None

    def _make(self, X: Any) -> Any:
        settings = {**self.get_params(deep=False), "n_quantiles": min(self.n_quantiles, len(X))}
        return preprocessing.QuantileTransformer(**settings)


@dataclass(eq=False, repr=False)
class RobustScaler(_Fitted):
    """Median and a range between two quantiles, given as shares."""

    q_min: float = 0.25
    q_max: float = 0.75
    with_centering: bool = True
    with_scaling: bool = True

    def _make(self, X: Any) -> Any:  # noqa: ARG002
        settings: dict[str, Any] = self.get_params(deep=False)
        share = (100 * settings.pop("q_min"), 100 * settings.pop("q_max"))
        return preprocessing.RobustScaler(quantile_range=share, **settings)


@dataclass(eq=False, repr=False)
class KBinsDiscretizer(_Fitted):
    """Columns to bins, one-hot; at most as many bins as rows."""

    n_bins: int = 5
    strategy: str = "quantile"
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> Self:
        with warnings.catch_warnings():  # columns with few values have fewer bins
            warnings.simplefilter("ignore", UserWarning)
            return super().fit(X, y)

    def _make(self, X: Any) -> Any:
        settings: dict[str, Any] = {"strategy": self.strategy, "encode": "onehot-dense"}
        if self.strategy == "quantile":
            settings["quantile_method"] = "averaged_inverted_cdf"
        return preprocessing.KBinsDiscretizer(
            max(2, min(self.n_bins, len(X))), random_state=self.random_state, **settings
        )
