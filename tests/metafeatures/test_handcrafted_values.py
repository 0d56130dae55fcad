"""Every hand-crafted meta-feature against an independent oracle: pandas, SciPy, scikit-learn or brute force."""

import warnings
from functools import cached_property
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.cross_decomposition import CCA
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_selection import mutual_info_classif
from sklearn.metrics import accuracy_score, calinski_harabasz_score, davies_bouldin_score, silhouette_score
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from headstart.data import Dataset
from headstart.metafeatures.handcrafted.sets import FEATURES
from headstart.metafeatures.handcrafted.table import Table

ROWS = 90


class Oracle:
    """A mixed table, encoded with pandas."""

    def __init__(self):
        rng = np.random.default_rng(3)
        labels = np.repeat([0, 1, 2], [40, 30, 20])[rng.permutation(ROWS)]
        self.y = labels
        self.raw = pd.DataFrame(
            {
                "a": rng.standard_normal(ROWS) + 0.8 * labels,
                "b": rng.standard_exponential(ROWS) + 0.1,
                "c": rng.random(ROWS) * 9 + labels,
                "p": rng.choice(["u", "v", "w"], ROWS),
                "q": np.where(rng.random(ROWS) < 0.7, np.array(["x", "y", "z"])[labels], "x"),
            }
        )
        self.raw.loc[[4, 17, 50], "b"] = np.nan
        self.dataset = Dataset.from_arrays(
            self.raw,
            np.array(["k", "l", "m"])[labels],
            kinds={**dict.fromkeys("abc", "numeric"), **dict.fromkeys("pq", "categorical")},
        )
        self.table = Table.of(self.dataset)
        self.numbers = self.raw[["a", "b", "c"]].fillna(self.raw[["a", "b", "c"]].mean())
        levels = pd.get_dummies(self.raw[["p", "q"]]).astype(float)
        self.N = pd.concat([self.numbers, levels.drop(columns="q_x")], axis=1)  # pymfe's encoding
        scaled = pd.DataFrame(StandardScaler().fit_transform(self.numbers), columns=list("abc"))
        self.Z = pd.concat([scaled, levels], axis=1).to_numpy()  # auto-sklearn's
        self.X = self.N.to_numpy()
        self.shares = np.bincount(labels) / ROWS
        self.cards = self.raw.nunique()

    @cached_property
    def discrete(self):
        """Columns in levels: pandas' quantile bins, of which there are ⌊90^(1/3)⌋ = 4."""
        bins = self.numbers.apply(lambda c: pd.qcut(c, 4, labels=False))
        return pd.concat([self.raw[["p", "q"]], bins], axis=1)

    @cached_property
    def unit(self):
        return ((self.N - self.N.min()) / (self.N.max() - self.N.min())).to_numpy()

    @cached_property
    def gower(self):
        """Mean absolute difference of columns between 0 and 1."""
        return np.abs(self.unit[:, None, :] - self.unit[None]).mean(axis=2)

    @cached_property
    def tree(self):
        return DecisionTreeClassifier(random_state=0).fit(self.X, self.y)

    @cached_property
    def leaves(self):
        """Depth of the leaf that a path of the decision function ends in, by leaf."""
        paths = self.tree.decision_path(self.X)
        depth = np.asarray(paths.sum(axis=1)).ravel() - 1
        leaf = self.tree.apply(self.X)
        return (
            pd.DataFrame({"leaf": leaf, "depth": depth, "y": self.y})
            .groupby("leaf")
            .agg(depth=("depth", "first"), rows=("y", "size"), label=("y", "first"))
        )

    @cached_property
    def graph(self):
        """Edges between rows of a class of which one is among the 14 nearest of the other; round(0.15 × 90) = 14."""
        near = np.argsort(self.gower + np.diag(np.full(ROWS, 9.0)), axis=1, kind="stable")[:, :14]
        return {tuple(sorted((i, int(j)))) for i in range(ROWS) for j in near[i] if self.y[i] == self.y[j]}

    def cross_validated(self, model, X):
        return cross_val_score(model, X, self.y, cv=StratifiedKFold(10), scoring="accuracy")

    def published(self, model, X):
        """auto-sklearn's folds, written with array_split: each shuffled class is cut into ten runs."""
        order = np.arange(ROWS)
        np.random.RandomState(42).shuffle(order)
        parts = [np.array_split(order[self.y[order] == c], 10) for c in range(3)]
        found = []
        for fold in range(10):
            test = np.concatenate([part[fold] for part in parts])
            train = np.setdiff1d(np.arange(ROWS), test)
            found.append(accuracy_score(self.y[test], model.fit(X[train], self.y[train]).predict(X[test])))
        return np.mean(found)


@pytest.fixture(scope="module")
def oracle():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Oracle()


def entropy(values):
    return stats.entropy(pd.Series(values).value_counts().to_numpy(), base=2)


def concentration(x, z):
    """Goodman and Kruskal's tau as the share of the Gini impurity of x that z explains."""

    def gini(values):
        return 1.0 - (pd.Series(values).value_counts(normalize=True) ** 2).sum()

    within = sum((z == level).mean() * gini(x[z == level]) for level in np.unique(z))
    return (gini(x) - within) / gini(x)


def wilks(o):
    """Of one-way MANOVA: determinant of the scatter within classes over that of all; independent columns only."""
    X = o.N.drop(columns="p_u").to_numpy()  # p's levels sum to one
    within = sum(
        (X[o.y == c] - X[o.y == c].mean(axis=0)).T @ (X[o.y == c] - X[o.y == c].mean(axis=0)) for c in range(3)
    )
    total = (X - X.mean(axis=0)).T @ (X - X.mean(axis=0))
    return within, total


def roots(o):
    within, total = wilks(o)
    return np.sort(np.linalg.eigvals(np.linalg.inv(within) @ (total - within)).real)[::-1][:2]


def pairwise(o, function):
    return [function(o.X[o.y == a], o.X[o.y == b]) for a, b in combinations(range(3), 2)]


def fisher_direction(A, B):
    """Largest generalised eigenvalue of scatter between over scatter within, as sizes weigh the covariances."""
    within = (len(A) * np.cov(A.T) + len(B) * np.cov(B.T)) / (len(A) + len(B))
    apart = A.mean(axis=0) - B.mean(axis=0)
    return 1.0 / (1.0 + apart @ np.linalg.lstsq(within, apart, rcond=1e-10)[0])


def overlap_volume(A, B):
    volume = 1.0
    for a, b in zip(A.T, B.T, strict=True):
        span = max(a.max(), b.max()) - min(a.min(), b.min())
        if span:
            volume *= max(0.0, min(a.max(), b.max()) - max(a.min(), b.min())) / span
    return volume


def overlapping(A, B, column):
    low, high = max(A[:, column].min(), B[:, column].min()), min(A[:, column].max(), B[:, column].max())
    return [(rows[:, column] >= low) & (rows[:, column] <= high) for rows in (A, B)]


def best_overlap(A, B):
    return min(sum(mask.sum() for mask in overlapping(A, B, c)) for c in range(A.shape[1])) / (len(A) + len(B))


def collective_overlap(A, B):
    total, columns = len(A) + len(B), list(range(A.shape[1]))
    while columns and len(A) and len(B):
        counts = [sum(mask.sum() for mask in overlapping(A, B, c)) for c in columns]
        column = columns.pop(int(np.argmin(counts)))
        inside = overlapping(A, B, column)
        A, B = A[inside[0]], B[inside[1]]
    return 0.0 if columns else (len(A) + len(B)) / total


def linear_error(A, B, distance):
    X, first = np.r_[A, B], np.arange(len(A) + len(B)) < len(A)
    model = make_pipeline(StandardScaler(), LinearSVC(loss="hinge", C=2.0, tol=0.01, max_iter=100_000, random_state=0))
    wrong = model.fit(X, first).predict(X) != first
    if not distance:
        return wrong.mean()
    total = np.abs(model.decision_function(X)[wrong]).sum() / len(X)
    return total / (1.0 + total)


def borderline(o):
    edges = minimum_spanning_tree(o.gower).tocoo()
    return len({int(v) for i, j in zip(edges.row, edges.col, strict=True) if o.y[i] != o.y[j] for v in (i, j)}) / ROWS


def nearest(o, row, same):
    others = [o.gower[row, i] for i in range(ROWS) if i != row and (o.y[i] == o.y[row]) == same]
    return min(others)


def spheres(o):
    """Radii by recursion, and then the largest spheres first."""
    apart = [[(o.gower[i, j], j) for j in range(ROWS) if o.y[i] != o.y[j]] for i in range(ROWS)]
    enemy = [min(found)[1] for found in apart]

    def radius(i):
        e = enemy[i]
        return 0.5 * o.gower[i, e] if enemy[e] == i else abs(o.gower[i, e] - radius(e))

    inside = [{j for j in range(ROWS) if o.gower[i, j] <= radius(i) + 1e-12} for i in range(ROWS)]
    alive = set(range(ROWS))
    for i in sorted(range(ROWS), key=lambda i: -len(inside[i])):
        if i in alive:
            alive -= inside[i]
            alive.add(i)
    return len(alive) / ROWS


def triangles(o):
    neighbours = [set() for _ in range(ROWS)]
    for i, j in o.graph:
        neighbours[i].add(j)
        neighbours[j].add(i)
    triples = [(i, j, k) for i in range(ROWS) for j, k in combinations(sorted(neighbours[i]), 2)]
    return sum((j, k) in o.graph for _, j, k in triples) / len(triples)


def hubs(o):
    matrix = np.zeros((ROWS, ROWS))
    for i, j in o.graph:
        matrix[i, j] = matrix[j, i] = 1.0
    vector = np.ones(ROWS)
    for _ in range(5000):
        vector = matrix @ (matrix @ vector)
        vector /= vector.max()
    return 1.0 - vector


def smooth(o):
    d = cdist(o.unit, o.unit)
    weight = 2.0 ** (-2.0 * d / (np.sqrt(o.unit.shape[1]) - d))
    return d, weight - np.diag(np.diag(weight))


def dunn(o):
    least = min(
        cdist(o.X[o.y == a], o.X[o.y == b]).min() / (o.y == a).sum() / (o.y == b).sum()
        for a, b in combinations(range(3), 2)
    )
    return least / max(pdist(o.X[o.y == c]).max() for c in range(3))


def one_attribute(o, make, which):
    """With the attribute that a tree without the fold finds most, or least, important."""
    found = []
    for train, test in StratifiedKFold(10).split(o.X, o.y):
        importances = DecisionTreeClassifier(random_state=0).fit(o.X[train], o.y[train]).feature_importances_
        column = [int(importances.argmax() if which == "most" else importances.argmin())]
        model = make().fit(o.X[np.ix_(train, column)], o.y[train])
        found.append(accuracy_score(o.y[test], model.predict(o.X[np.ix_(test, column)])))
    return found


def first_component(o):
    scores = PCA().fit_transform(o.Z)[:, 0]
    return scores * np.sign(scores[np.abs(scores).argmax()])


def n_for_95(values):
    total = np.cumsum(np.sort(values)[::-1]) / values.sum()
    return next(i for i, share in enumerate(total, 1) if share > 0.95)


def nine(values):
    """BYU's summaries, by pandas and SciPy."""
    values = pd.Series(values, dtype=float)
    return {
        "Mean": values.mean(),
        "Stdev": values.std(),
        "Skew": stats.skew(values),
        "Kurtosis": stats.kurtosis(values),
        "Min": values.min(),
        "Quartile1": values.quantile(0.25),
        "Quartile2": values.median(),
        "Quartile3": values.quantile(0.75),
        "Max": values.max(),
    }


def summaries(of, values):
    return {f"{name}{of}": (lambda o, name=name: nine(values(o))[name]) for name in nine([1.0, 2.0, 4.0])}


def of_moments(name, function):
    """Minimum and the like of a statistic of numeric columns."""
    found = {"Min": np.min, "Max": np.max, "Mean": np.mean, "STD": np.std}
    return {f"{name}{s}": (lambda o, s=s: found[s](function(o.numbers.to_numpy()))) for s in found}


def d(o):
    return squareform(pdist(o.X))


ORACLES = {
    "NumberOfInstances": lambda o: 90,
    "LogNumberOfInstances": lambda o: np.log(90),
    "NumberOfFeatures": lambda o: 5,
    "LogNumberOfFeatures": lambda o: np.log(5),
    "NumberOfClasses": lambda o: 3,
    "NumberOfNumericFeatures": lambda o: 3,
    "NumberOfCategoricalFeatures": lambda o: 2,
    "NumberOfMissingValues": lambda o: 3,
    "NumberOfInstancesWithMissingValues": lambda o: 3,
    "NumberOfFeaturesWithMissingValues": lambda o: 1,
    "PercentageOfMissingValues": lambda o: 3 / 450,
    "PercentageOfInstancesWithMissingValues": lambda o: 3 / 90,
    "PercentageOfFeaturesWithMissingValues": lambda o: 1 / 5,
    "RatioNumericalToNominal": lambda o: 1.5,
    "RatioNominalToNumerical": lambda o: 2 / 3,
    "DatasetRatio": lambda o: 5 / 90,
    "LogDatasetRatio": lambda o: np.log(5 / 90),
    "InverseDatasetRatio": lambda o: 18,
    "LogInverseDatasetRatio": lambda o: np.log(18),
    "ClassEntropy": lambda o: entropy(o.y),
    "ClassProbabilityMin": lambda o: 20 / 90,
    "ClassProbabilityMax": lambda o: 40 / 90,
    "ClassProbabilityMean": lambda o: 1 / 3,
    "ClassProbabilitySTD": lambda o: np.std([40 / 90, 30 / 90, 20 / 90]),
    "SymbolsMin": lambda o: 3,
    "SymbolsMax": lambda o: 3,
    "SymbolsMean": lambda o: 3,
    "SymbolsSTD": lambda o: 0,
    "SymbolsSum": lambda o: 6,
    "Dimensionality": lambda o: 5 / 90,
    "MajorityClassSize": lambda o: 40,
    "MinorityClassSize": lambda o: 20,
    "RatioOfNumericFeatures": lambda o: 0.6,
    "RatioOfCategoricalFeatures": lambda o: 0.4,
    "RatioOfMissingValues": lambda o: 3 / 450,
    "RatioOfInstancesWithMissingValues": lambda o: 3 / 90,
    "RatioOfFeaturesWithMissingValues": lambda o: 1 / 5,
    **summaries("ClassProbability", lambda o: o.shares),
    **summaries("CardinalityOfNumericFeatures", lambda o: o.cards[["a", "b", "c"]]),
    **summaries("CardinalityOfCategoricalFeatures", lambda o: o.cards[["p", "q"]]),
    "SkewCardinalityOfCategoricalFeatures": lambda o: 0.0,  # equal cardinalities
    "KurtosisCardinalityOfCategoricalFeatures": lambda o: -3.0,
    "attr_to_inst": lambda o: 5 / 90,
    "inst_to_attr": lambda o: 18,
    "cat_to_num": lambda o: 2 / 3,
    "num_to_cat": lambda o: 1.5,
    "freq_class": lambda o: o.shares,
    "nr_attr": lambda o: 5,
    "nr_bin": lambda o: 0,
    "nr_cat": lambda o: 2,
    "nr_class": lambda o: 3,
    "nr_inst": lambda o: 90,
    "nr_num": lambda o: 3,
    **of_moments("Skewness", stats.skew),
    **of_moments("Kurtosis", stats.kurtosis),
    "PCAFractionOfComponentsFor95PercentVariance": lambda o: n_for_95(PCA().fit(o.Z).explained_variance_) / 9,
    "PCASkewnessFirstPC": lambda o: stats.skew(first_component(o)),
    "PCAKurtosisFirstPC": lambda o: stats.kurtosis(first_component(o)),
    "can_cor": lambda o: [
        np.corrcoef(*(s[:, i] for s in CCA(2, max_iter=20_000, tol=1e-14).fit_transform(o.X, np.eye(3)[o.y][:, 1:])))[
            0, 1
        ]
        for i in range(2)
    ],
    "cor": lambda o: [abs(stats.pearsonr(o.X[:, i], o.X[:, j])[0]) for i, j in combinations(range(8), 2)],
    "cov": lambda o: [abs(np.cov(o.X[:, i], o.X[:, j])[0, 1]) for i, j in combinations(range(8), 2)],
    "eigenvalues": lambda o: np.linalg.svd(o.X - o.X.mean(axis=0), compute_uv=False) ** 2 / 89,
    "g_mean": lambda o: [stats.gmean(c) if c.min() > 0 else 0.0 for c in o.X.T if c.min() >= 0],
    "gravity": lambda o: np.linalg.norm(o.X[o.y == 0].mean(axis=0) - o.X[o.y == 2].mean(axis=0)),
    "h_mean": lambda o: [stats.hmean(c) if c.min() > 0 else 0.0 for c in o.X.T if c.min() >= 0],
    "iq_range": lambda o: stats.iqr(o.X, axis=0),
    "kurtosis": lambda o: [((c - c.mean()) ** 4).mean() / c.var(ddof=1) ** 2 - 3 for c in o.X.T],
    "lh_trace": lambda o: roots(o).sum(),
    "mad": lambda o: stats.median_abs_deviation(o.X, scale=1 / 1.4826),
    "max": lambda o: o.N.max(),
    "mean": lambda o: o.N.mean(),
    "median": lambda o: o.N.median(),
    "min": lambda o: o.N.min(),
    "nr_cor_attr": lambda o: (o.N.corr().abs().to_numpy()[np.tril_indices(8, -1)] >= 0.5).mean(),
    "nr_disc": lambda o: 2,
    "nr_norm": lambda o: sum(stats.shapiro(c).pvalue > 0.05 for c in o.X.T),
    "nr_outliers": lambda o: sum(
        bool(((c < np.quantile(c, 0.25) - 1.5 * stats.iqr(c)) | (c > np.quantile(c, 0.75) + 1.5 * stats.iqr(c))).any())
        for c in o.X.T
    ),
    "p_trace": lambda o: (roots(o) / (1 + roots(o))).sum(),
    "range": lambda o: o.N.max() - o.N.min(),
    "roy_root": lambda o: roots(o).max(),
    "sd": lambda o: o.N.std(),
    "skewness": lambda o: [((c - c.mean()) ** 3).mean() / c.var(ddof=1) ** 1.5 for c in o.X.T],
    "sparsity": lambda o: [(90 / count - 1) / 89 for count in o.cards],
    "t_mean": lambda o: stats.trim_mean(o.X, 0.2),
    "var": lambda o: o.N.var(),
    "w_lambda": lambda o: np.linalg.det(wilks(o)[0]) / np.linalg.det(wilks(o)[1]),
    "attr_conc": lambda o: [
        concentration(o.discrete[a].to_numpy(), o.discrete[b].to_numpy()) for a, b in permutations(o.discrete, 2)
    ],
    "attr_ent": lambda o: [entropy(o.discrete[c]) for c in o.discrete],
    "class_conc": lambda o: [concentration(o.discrete[c].to_numpy(), o.y) for c in o.discrete],
    "class_ent": lambda o: entropy(o.y),
    "eq_num_attr": lambda o: entropy(o.y) / np.mean(information(o)),
    "joint_ent": lambda o: [entropy([f"{a} {b}" for a, b in zip(o.discrete[c], o.y, strict=True)]) for c in o.discrete],
    "mut_inf": lambda o: information(o),
    "ns_ratio": lambda o: sum(entropy(o.discrete[c]) for c in o.discrete) / sum(information(o)) - 1,
    "one_itemset": lambda o: np.concatenate([o.discrete[c].value_counts(normalize=True) for c in o.discrete]),
    "two_itemset": lambda o: [
        ((o.discrete[a] == u) ^ (o.discrete[b] == v)).mean()
        for a, b in combinations(o.discrete, 2)
        for u in o.discrete[a].unique()
        for v in o.discrete[b].unique()
    ],
    "Landmark1NN": lambda o: o.published(KNeighborsClassifier(1), o.Z),
    "LandmarkDecisionNodeLearner": lambda o: o.published(
        DecisionTreeClassifier(criterion="entropy", max_depth=1, random_state=0), o.Z
    ),
    "LandmarkDecisionTree": lambda o: o.published(DecisionTreeClassifier(random_state=0), o.Z),
    "LandmarkLDA": lambda o: o.published(LinearDiscriminantAnalysis(), o.Z),
    "LandmarkNaiveBayes": lambda o: o.published(GaussianNB(), o.Z),
    "best_node": lambda o: o.cross_validated(DecisionTreeClassifier(max_depth=1, random_state=0), o.X),
    "elite_nn": lambda o: one_attribute(o, lambda: KNeighborsClassifier(1, algorithm="brute"), "most"),
    "linear_discr": lambda o: o.cross_validated(LinearDiscriminantAnalysis(), o.X),
    "naive_bayes": lambda o: o.cross_validated(GaussianNB(), o.X),
    "one_nn": lambda o: o.cross_validated(KNeighborsClassifier(1), o.X),
    "worst_node": lambda o: one_attribute(o, lambda: DecisionTreeClassifier(max_depth=1, random_state=0), "least"),
    "leaves": lambda o: o.tree.get_n_leaves(),
    "leaves_branch": lambda o: o.leaves["depth"],
    "leaves_corrob": lambda o: o.leaves["rows"] / 90,
    "leaves_homo": lambda o: len(o.leaves) / (o.leaves["depth"] * 0.5 ** o.leaves["depth"]),
    "leaves_per_class": lambda o: o.leaves["label"].value_counts(normalize=True),
    "nodes": lambda o: o.tree.get_n_leaves() - 1,  # a binary tree
    "nodes_per_attr": lambda o: (o.tree.get_n_leaves() - 1) / 8,
    "nodes_per_inst": lambda o: (o.tree.get_n_leaves() - 1) / 90,
    "nodes_per_level": lambda o: pd.Series([depth for depth, leaf in walk(o.tree) if not leaf]).value_counts(),
    "nodes_repeated": lambda o: pd.Series([f for f in o.tree.tree_.feature if f >= 0]).value_counts(),
    "tree_depth": lambda o: [depth for depth, _ in walk(o.tree)],
    "tree_imbalance": lambda o: [
        -(2.0**-t) * np.log2(2.0**-t) for t in (0.5 ** o.leaves["depth"]).groupby(o.leaves["depth"]).sum()
    ],
    "tree_shape": lambda o: -(0.5 ** o.leaves["depth"]) * np.log2(0.5 ** o.leaves["depth"]),
    "var_importance": lambda o: o.tree.feature_importances_,
    "ch": lambda o: calinski_harabasz_score(o.X, o.y),
    "int": lambda o: np.mean([cdist(o.X[o.y == a], o.X[o.y == b]).mean() for a, b in combinations(range(3), 2)]),
    "nre": lambda o: stats.entropy(o.shares),
    "pb": lambda o: stats.pointbiserialr([a == b for a, b in combinations(o.y, 2)], pdist(o.X))[0],
    "sc": lambda o: 0,
    "sil": lambda o: silhouette_score(o.X, o.y),
    "vdb": lambda o: davies_bouldin_score(o.X, o.y),
    "vdu": dunn,
    "cohesiveness": lambda o: [
        sum(2.0 ** -max(np.ceil(np.linalg.norm(o.unit[i] - o.unit[j])), 1) for j in range(ROWS) if j != i)
        for i in range(ROWS)
    ],
    "conceptvar": lambda o: [np.average(o.y != o.y[i], weights=smooth(o)[1][i]) for i in range(ROWS)],
    "impconceptvar": lambda o: [
        sum(2.0 ** -max(np.ceil(np.linalg.norm(o.unit[i] - o.unit[j])), 1) for j in range(ROWS) if o.y[j] != o.y[i])
        for i in range(ROWS)
    ],
    "wg_dist": lambda o: [np.average(smooth(o)[0][i], weights=smooth(o)[1][i]) for i in range(ROWS)],
    "c1": lambda o: stats.entropy(o.shares) / np.log(3),
    "c2": lambda o: 1 - 1 / (2 / 3 * (40 / 50 + 30 / 60 + 20 / 70)),
    "cls_coef": lambda o: 1 - triangles(o),
    "density": lambda o: 1 - len(o.graph) / (90 * 89 / 2),
    "f1": lambda o: [
        # the ratio of sums of squares of a one-way analysis of variance is F (k - 1) / (n - k)
        1 / (1 + stats.f_oneway(*(c[o.y == k] for k in range(3))).statistic * 2 / 87)
        for c in o.X.T
    ],
    "f1v": lambda o: pairwise(o, fisher_direction),
    "f2": lambda o: pairwise(o, overlap_volume),
    "f3": lambda o: pairwise(o, best_overlap),
    "f4": lambda o: pairwise(o, collective_overlap),
    "hubs": hubs,
    "l1": lambda o: pairwise(o, lambda A, B: linear_error(A, B, True)),
    "l2": lambda o: pairwise(o, lambda A, B: linear_error(A, B, False)),
    "lsc": lambda o: 1 - sum((o.gower[i] < nearest(o, i, False) - 1e-9).sum() for i in range(ROWS)) / 90**2,
    "n1": borderline,
    "n2": lambda o: [nearest(o, i, True) / (nearest(o, i, True) + nearest(o, i, False)) for i in range(ROWS)],
    "n3": lambda o: [nearest(o, i, True) > nearest(o, i, False) for i in range(ROWS)],
    "t1": spheres,
    "t2": lambda o: 8 / 90,
    "t3": lambda o: n_for_95(PCA().fit(o.X).explained_variance_) / 90,
    "t4": lambda o: n_for_95(PCA().fit(o.X).explained_variance_) / 8,
}
ELSEWHERE = {"sd_ratio", "l3", "n4", "random_node", "LandmarkRandomNodeLearner"}
"""Have tests of their own below."""


def information(o):
    """scikit-learn's mutual information, in bits."""
    codes = o.discrete.apply(lambda c: pd.factorize(c)[0])
    return mutual_info_classif(codes, o.y, discrete_features=True) / np.log(2)


def walk(tree, node=0, depth=0):
    """Depth of each node, and whether it is a leaf."""
    children = tree.tree_.children_left[node], tree.tree_.children_right[node]
    leaf = children[0] < 0
    return [(depth, leaf), *(() if leaf else (found for c in children for found in walk(tree, c, depth + 1)))]


def test_every_feature_has_an_oracle():
    assert ORACLES.keys() | ELSEWHERE == FEATURES.keys()
    assert not ORACLES.keys() & ELSEWHERE


@pytest.mark.parametrize("name", ORACLES)
def test_it_is_what_an_oracle_says(name, oracle):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = ORACLES[name](oracle)
    found = FEATURES[name].values(oracle.table)
    if FEATURES[name].several:
        expected = np.asarray(expected, dtype=float)
        expected = (expected.mean(), expected.std(ddof=1))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)
    else:
        assert found == pytest.approx((float(expected),), rel=1e-6, abs=1e-9)


def table_of(X, y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Table.of(Dataset.from_arrays(X, np.asarray(y).astype(str), **settings))


def value(name, table):
    return FEATURES[name].values(table)[0]


def test_box_m_is_a_likelihood_ratio():
    """Without its correction it is -2 log of the ratio of the likelihoods of one covariance and one for each class."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [40, 60, 50])
    X = rng.standard_normal((150, 3)) * np.array([1.0, 2.0, 0.5])[y][:, None] @ rng.standard_normal((3, 3))
    weights = np.bincount(y) - 1.0
    of_class = [np.cov(X[y == c].T) for c in range(3)]
    pooled = np.average(of_class, axis=0, weights=weights)

    def likelihood(w, sample, model):  # of a Wishart matrix, without what does not depend on the model
        return -0.5 * w * (np.log(np.linalg.eigvalsh(model)).sum() + np.trace(np.linalg.solve(model, sample)))

    ratio = sum(likelihood(w, c, c) - likelihood(w, c, pooled) for w, c in zip(weights, of_class, strict=True))
    correction = 1 - (2 * 9 + 3 * 3 - 1) / (6 * 4 * 2) * ((1 / weights).sum() - 1 / weights.sum())
    expected = np.exp(2 * ratio * correction / (3 * weights.sum()))
    assert value("sd_ratio", table_of(X, y)) == pytest.approx(expected)
    same = table_of(np.tile(X[y == 0], (3, 1)), np.repeat([0, 1, 2], 40))
    assert value("sd_ratio", same) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["l3", "n4"])
def test_rows_between_those_of_a_class_are_its_own_where_classes_are_convex(name):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    apart = rng.standard_normal((100, 2)) + 20.0 * y[:, None]
    assert value(name, table_of(apart, y)) == 0.0
    ring = np.r_[np.c_[np.cos(np.arange(50)), np.sin(np.arange(50))], 0.3 * rng.standard_normal((50, 2))]
    assert 0.1 < value(name, table_of(ring, y)) < 0.8  # points between two of a ring lie inside it
    mixed = rng.standard_normal((100, 2))
    assert 0.3 < value(name, table_of(mixed, y)) < 0.7


@pytest.mark.parametrize(
    ("random", "best"),
    [("random_node", "best_node"), ("LandmarkRandomNodeLearner", "LandmarkDecisionNodeLearner")],
)
def test_a_random_attribute_is_as_good_as_the_best_if_all_are_the_same(random, best):
    rng = np.random.default_rng(0)
    column, y = rng.standard_normal((120, 1)), np.arange(120) % 3
    column[y == 1] += 1.5
    table = table_of(np.repeat(column, 5, axis=1), y)
    assert value(random, table) == pytest.approx(value(best, table))
    useless = table_of(np.c_[column, rng.standard_normal((120, 30))], y)
    assert value(random, useless) < value(best, useless)


def test_pymfe_says_the_same():
    """Of what pymfe does not leave to chance or to the order of equal values, on tables without missing values.

    Left out are also f1v, which pymfe 0.4.4 cannot compute with NumPy 2.4; n4, whose distances it takes for symmetric;
    and sd_ratio, where it weighs each class by the size of another.
    """
    mfe = pytest.importorskip("pymfe.mfe")
    from sklearn.datasets import load_iris, load_wine

    unlike = {"n4", "l3", "random_node", "elite_nn", "worst_node", "attr_conc", "f1v", "sd_ratio", "t1", "cls_coef"}
    for load in (load_iris, load_wine):
        X, y = load(return_X_y=True)
        groups = ("landmarking", "itemset", "complexity", "clustering", "model-based", "statistical", "info-theory")
        theirs = mfe.MFE(groups=(*groups, "concept", "general"), summary=("mean", "sd"), random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs.fit(X, y, cat_cols=[], suppress_warnings=True)
            expected = dict(zip(*theirs.extract(suppress_warnings=True), strict=True))
        table, compared = table_of(X, y, kinds={f"x{i}": "numeric" for i in range(X.shape[1])}), 0
        for name, feature in FEATURES.items():
            if name[0].isupper() or name in unlike:
                continue
            for column, found in zip(feature.columns, feature.values(table), strict=True):
                if np.isfinite(expected[column]):
                    assert found == pytest.approx(expected[column], rel=1e-3, abs=1e-6), (load.__name__, column)
                    compared += 1
        assert compared > 130
