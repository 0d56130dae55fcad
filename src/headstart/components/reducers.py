"""Feature preprocessing that fits itself to the table at hand.

The transformers of scikit-learn fail when they are asked for more components, clusters or quantiles than a table has
rows or columns, which a search cannot know beforehand. These take what there is. Each returns a dense matrix.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from math import comb
from typing import Any, Self

import numpy as np
from sklearn import decomposition, ensemble, kernel_approximation, preprocessing, random_projection
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import FeatureAgglomeration
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from headstart.components._shared import Adapted, dense


class _Step(TransformerMixin, Adapted):  # type: ignore[misc]
    """Transforms with what `_make` makes of the table; with ``None`` the table stays as it is."""

    def fit(self, X: Any, y: Any = None) -> Self:
        X = dense(X)
        self.n_features_in_ = X.shape[1]
        self.step_ = self._fitted(X, y)
        return self

    def _fitted(self, X: Any, y: Any) -> Any:
        step = self._make(X)
        return None if step is None else step.fit(self._rows(X), y)

    def _make(self, X: Any) -> Any:  # noqa: ARG002
        """The real transformer, or ``None``."""
        return self.wraps(**self._settings())

    def _rows(self, X: Any) -> Any:
        """The rows to learn from."""
        return X

    def transform(self, X: Any) -> Any:
        X = dense(X)
        return X if self.step_ is None else dense(self.step_.transform(X))


@dataclass(eq=False, repr=False, kw_only=True)
class _Seeded(_Step):
    random_state: Any = None


@dataclass(eq=False, repr=False, kw_only=True)
class _Kernel(_Seeded):
    """Features of a kernel; its `gamma` is divided by the number of columns if `relative` is set."""

    n_components: int = 100
    gamma: float = 1.0
    relative: bool = False


def _constant(X: Any) -> bool:
    return len(X) < 2 or bool((X[:1] == X).all())


@dataclass(eq=False, repr=False)
class PCA(_Seeded):
    """Principal components that keep a share of the variance."""

    keep_variance: float = 0.99
    whiten: bool = False

    def _make(self, X: Any) -> Any:
        if _constant(X):
            return None
        solver = "full" if X.shape[0] < 5 * X.shape[1] else "covariance_eigh"
        return decomposition.PCA(self.keep_variance, whiten=self.whiten, svd_solver=solver)


@dataclass(eq=False, repr=False)
class SharePCA(_Seeded):
    """Principal components, their number given as a share of the columns; at least one."""

    share: float = 0.5

    def _make(self, X: Any) -> Any:
        if _constant(X):
            return None
        count = max(1, min(int(self.share * X.shape[1]), *X.shape))
        return decomposition.PCA(count, random_state=self.random_state)


@dataclass(eq=False, repr=False)
class KernelPCA(_Kernel):
    """Principal components in the space of a kernel, learnt from at most `max_rows` rows: its cost is cubic in them.

    A sigmoid, and a polynomial with a negative `coef0`, need not be kernels (they have negative eigenvalues, which
    scikit-learn refuses); their components are those of their Nystroem features, which take the eigenvalues' sizes.
    """

    kernel: str = "rbf"
    degree: int = 3
    coef0: float = 0.0
    eigen_solver: str = "auto"
    max_rows: int = 1000

    def _rows(self, X: Any) -> Any:
        if len(X) <= self.max_rows:
            return X
        return X[np.sort(np.random.default_rng(self.random_state).choice(len(X), self.max_rows, replace=False))]

    def _make(self, X: Any) -> Any:
        rows = min(len(X), self.max_rows)
        if rows < 3:
            return None
        count = min(self.n_components, rows - 1)
        gamma = self._gamma(X)
        if self.kernel == "sigmoid" or (self.kernel == "poly" and self.coef0 < 0):
            degree = {"degree": self.degree} if self.kernel == "poly" else {}
            features = kernel_approximation.Nystroem(
                self.kernel, gamma=gamma, coef0=self.coef0, n_components=rows, random_state=self.random_state, **degree
            )
            return make_pipeline(features, decomposition.PCA(count, random_state=self.random_state))
        return decomposition.KernelPCA(**self._settings("relative", "max_rows", n_components=count, gamma=gamma))


@dataclass(eq=False, repr=False)
class Nystroem(_Kernel):
    """Features of a kernel from a sample of rows."""

    kernel: str = "rbf"
    degree: int = 3
    coef0: float = 0.0

    def _make(self, X: Any) -> Any:
        given: dict[str, Any] = {}  # a kernel refuses parameters that it does not have
        if self.kernel != "cosine":
            given["gamma"] = self._gamma(X)
        if self.kernel in ("poly", "polynomial", "sigmoid"):
            given["coef0"] = self.coef0
        if self.kernel in ("poly", "polynomial"):
            given["degree"] = self.degree
        return kernel_approximation.Nystroem(
            self.kernel, n_components=min(self.n_components, len(X)), random_state=self.random_state, **given
        )


@dataclass(eq=False, repr=False)
class KitchenSinks(_Kernel):
    """Random Fourier features of an RBF kernel."""

    def _make(self, X: Any) -> Any:
        return kernel_approximation.RBFSampler(**self._settings("relative", gamma=self._gamma(X)))


@dataclass(eq=False, repr=False)
class FastICA(_Seeded):
    """Independent components; as many as the table has independent columns, at most.

    Without whitening the method needs columns that are independent and of one scale; where they are not, it whitens.
    """

    n_components: int = 100
    algorithm: str = "parallel"
    fun: str = "logcosh"
    whiten: bool = True
    max_iter: int = 200

    def _fitted(self, X: Any, y: Any) -> Any:
        rank = int(np.linalg.matrix_rank(X - X.mean(axis=0)))
        if not self.whiten and rank == X.shape[1]:
            with suppress(ValueError, np.linalg.LinAlgError):  # it may come to infinity
                found = decomposition.FastICA(**self._settings(n_components=None), tol=1e-3).fit(X, y)
                if np.isfinite(found.components_).all():
                    return found
        settings = self._settings(n_components=min(self.n_components, rank), whiten="unit-variance")
        return decomposition.FastICA(**settings, tol=1e-3).fit(X, y) if rank else None


@dataclass(eq=False, repr=False)
class FactorAnalysis(_Seeded):
    """Latent factors with a noise variance for each column."""

    n_components: int = 20
    svd_method: str = "randomized"
    max_iter: int = 1000

    def _make(self, X: Any) -> Any:
        count = min(self.n_components, *X.shape)
        return decomposition.FactorAnalysis(**self._settings(n_components=count, random_state=self.random_state or 0))


@dataclass(eq=False, repr=False)
class TruncatedSVD(_Seeded):
    """Singular vectors without centering."""

    n_components: int = 100
    n_iter: int = 5

    def _make(self, X: Any) -> Any:
        if X.shape[1] < 2:
            return None
        return decomposition.TruncatedSVD(**self._settings(n_components=min(self.n_components, *X.shape)))


@dataclass(eq=False, repr=False)
class RandomProjection(_Seeded):
    """Projection on random directions, Gaussian or (with a `density`) sparse ones."""

    n_components: int = 100
    density: float | None = None

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
class PolynomialFeatures(_Step):
    """Products of columns; where they would be more than `most`, of the columns that vary most, beside all columns."""

    degree: int = 2
    interaction_only: bool = False
    include_bias: bool = False
    most: int = 1500

    def _make(self, X: Any) -> Any:
        products = preprocessing.PolynomialFeatures(**self._settings("most"))
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
class RandomTreesEmbedding(_Seeded):
    """Which leaf of each random tree a row falls into, one column per leaf."""

    n_estimators: int = 10
    max_depth: int = 5
    min_samples_split: int = 2
    min_samples_leaf: int = 1

    def _make(self, X: Any) -> Any:  # noqa: ARG002
        return ensemble.RandomTreesEmbedding(**self._settings(), sparse_output=False, n_jobs=1)


@dataclass(eq=False, repr=False)
class QuantileTransformer(_Seeded):
    """Columns to uniform or normal distributions, with at most as many quantiles as rows."""

    n_quantiles: int = 1000
    output_distribution: str = "uniform"

    def _make(self, X: Any) -> Any:
        return preprocessing.QuantileTransformer(**self._settings(n_quantiles=min(self.n_quantiles, len(X))))


@dataclass(eq=False, repr=False)
class RobustScaler(_Step):
    """Median and a range between two quantiles, given as shares."""

    q_min: float = 0.25
    q_max: float = 0.75
    with_centering: bool = True
    with_scaling: bool = True

    def _make(self, X: Any) -> Any:  # noqa: ARG002
        share = (100 * self.q_min, 100 * self.q_max)
        return preprocessing.RobustScaler(**self._settings("q_min", "q_max", quantile_range=share))


@dataclass(eq=False, repr=False)
class KBinsDiscretizer(_Seeded):
    """Columns to bins, one-hot; at most as many bins as rows."""

    n_bins: int = 5
    strategy: str = "quantile"

    def fit(self, X: Any, y: Any = None) -> Self:
        with warnings.catch_warnings():  # columns with few values have fewer bins
            warnings.simplefilter("ignore", UserWarning)
            return super().fit(X, y)

    def _make(self, X: Any) -> Any:
        settings = self._settings(n_bins=max(2, min(self.n_bins, len(X))), encode="onehot-dense")
        if self.strategy == "quantile":
            settings["quantile_method"] = "averaged_inverted_cdf"
        return preprocessing.KBinsDiscretizer(**settings)
