"""Which types a safe model file may hold, and the reading and writing of fitted pipelines with skops.

The types are those that pipelines of the catalog are made of when they are fitted, by name and one by one: this
package's components, scikit-learn's estimators and what they keep inside, NumPy arrays and Python's plain values. There
are no functions among them, and nothing whose construction does more than fill an object with data.

A file can therefore not choose what is run. Crafted numbers are another matter: what compiled code relies on is checked
in `compiled`, the text of LightGBM in `booster_text`, and boosters of other libraries are tried in another process
(`rehearsal`).
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import pkgutil
import sys
import threading
import types
import warnings
import zipfile
from collections.abc import Container, Iterable, Iterator
from functools import cache
from pathlib import PurePath
from typing import Any

from headstart.components.boosting import LightGBMClassifier, LightGBMRegressor
from headstart.errors import ModelFileError, UntrustedModel
from headstart.files import is_out_of_proportion
from headstart.fitting.booster_text import check_lightgbm
from headstart.fitting.compiled import check_compiled
from headstart.fitting.packing import pack, unpack
from headstart.fitting.rehearsal import rehearse

_MADE = ("Bytes", "DType", "Dict", "Json", "List", "Loss", "NdArray", "Object", "RandomState", "Slice", "SparseMatrix")
_LOADERS = frozenset(f"{what}Node" for what in (*_MADE, "Tree", "Tuple", "Type"))
"""What skops may do to make an object; not among them are functions, methods, partials and constructors with arguments
of the file's choice."""

_PLAIN = (
    *(f"builtins.{name}" for name in ("bool", "bytes", "dict", "float", "int", "list", "slice", "str", "tuple")),
    *(f"numpy.{name}" for name in ("bool", "bool_", "dtype", "float32", "float64", "int32", "int64", "ndarray")),
    *(f"numpy.{name}" for name in ("uint8", "uint32", "uint64")),
    "numpy.random.mtrand.RandomState",
    *(f"scipy.sparse.{module}" for module in ("_csr.csr_matrix", "_csr.csr_array", "_csc.csc_matrix")),
)

_SCIKIT_LEARN = {
    "calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration",
    "compose": "ColumnTransformer make_column_selector",
    "decomposition": "FactorAnalysis FastICA KernelPCA PCA TruncatedSVD",
    "discriminant_analysis": "LinearDiscriminantAnalysis",
    "dummy": "DummyClassifier DummyRegressor",
    "ensemble": "AdaBoostClassifier AdaBoostRegressor ExtraTreesClassifier ExtraTreesRegressor "
    "GradientBoostingClassifier GradientBoostingRegressor HistGradientBoostingClassifier HistGradientBoostingRegressor "
    "RandomForestClassifier RandomForestRegressor RandomTreesEmbedding",
    "ensemble._hist_gradient_boosting.binning": "_BinMapper",
    "ensemble._hist_gradient_boosting.predictor": "TreePredictor",
    "feature_extraction.text": "TfidfTransformer TfidfVectorizer",
    "gaussian_process": "GaussianProcessClassifier GaussianProcessRegressor",
    "gaussian_process._gpc": "_BinaryGaussianProcessClassifierLaplace",
    "gaussian_process.kernels": "ConstantKernel Matern Product RBF RationalQuadratic Sum WhiteKernel",
    "impute": "MissingIndicator SimpleImputer",
    "kernel_approximation": "Nystroem RBFSampler",
    "linear_model": "ElasticNet LogisticRegression Perceptron Ridge SGDClassifier SGDRegressor",
    "linear_model._sgd_fast": "EpsilonInsensitive Hinge ModifiedHuber SquaredEpsilonInsensitive SquaredHinge",
    "_loss._loss": "CyHalfBinomialLoss CyHalfMultinomialLoss CyHalfSquaredError CyHuberLoss",
    "_loss.link": "HalfLogitLink IdentityLink Interval LogitLink MultinomialLogit",
    "_loss.loss": "HalfBinomialLoss HalfMultinomialLoss HalfSquaredError",
    "metrics._dist_metrics": "EuclideanDistance64 ManhattanDistance64 MinkowskiDistance64",
    "model_selection": "StratifiedKFold",
    "multiclass": "OneVsRestClassifier _ConstantPredictor",
    "naive_bayes": "BernoulliNB GaussianNB MultinomialNB",
    "neighbors": "KDTree KNeighborsClassifier KNeighborsRegressor",
    "neural_network": "MLPClassifier MLPRegressor",
    "neural_network._stochastic_optimizers": "AdamOptimizer SGDOptimizer",
    "pipeline": "Pipeline",
    "preprocessing": "Binarizer FunctionTransformer KBinsDiscretizer KernelCenterer LabelBinarizer LabelEncoder "
    "MinMaxScaler Normalizer OneHotEncoder OrdinalEncoder PolynomialFeatures QuantileTransformer RobustScaler "
    "StandardScaler",
    "random_projection": "GaussianRandomProjection SparseRandomProjection",
    "svm": "LinearSVC LinearSVR SVC SVR",
    "tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor",
    "tree._tree": "Tree",
}
"""Classes by module, both as they are imported; where a version of scikit-learn lacks one, it is not needed."""


def trusted_types(among: Iterable[str] | None = None) -> frozenset[str]:
    """Full names of the types that a safe file may hold.

    Parameters
    ----------
    among
        Names to choose from; all by default. Only modules with a type that is named so are imported.
    """
    names = None if among is None else {name.rpartition(".")[2] for name in among}
    modules = None if among is None else {name.rpartition(".")[0] for name in among}
    found = frozenset((*_PLAIN, *_of_scikit_learn(names), *_of_components(modules)))
    return found if among is None else found & frozenset(among)


def _of_scikit_learn(wanted: Container[str] | None) -> Iterator[str]:
    for module_name, line in _SCIKIT_LEARN.items():
        names = [name for name in line.split() if wanted is None or name in wanted]
        try:
            module = importlib.import_module(f"sklearn.{module_name}") if names else None
        except ImportError:
            continue
        for name in names:
            found = getattr(module, name, None)
            if found is not None:
                yield f"{found.__module__}.{found.__name__}"


def _of_components(wanted: Container[str] | None) -> Iterator[str]:
    from sklearn.base import BaseEstimator

    from headstart import components

    for info in pkgutil.iter_modules(components.__path__):
        if wanted is not None and f"{components.__name__}.{info.name}" not in wanted:
            continue
        module = importlib.import_module(f"{components.__name__}.{info.name}")
        for name, found in inspect.getmembers(module, inspect.isclass):
            if found.__module__ == module.__name__ and issubclass(found, BaseEstimator):
                yield f"{module.__name__}.{name}"


_loading = threading.Lock()


def _skops() -> Any:
    """skops, loaded once, whichever thread asks first: while it is loaded, modules stand in for others."""
    with _loading:
        return _loaded_skops()


@cache
def _loaded_skops() -> Any:
    """skops, for our use alone and without its lists of what it trusts by itself.

    To make them it imports every module of scikit-learn, and with them whatever array libraries are installed, and
    looks up every function of SciPy, which takes seconds; we have a list of our own. Whoever imports skops for
    themselves gets it whole.
    """
    if "skops.io" in sys.modules:
        return sys.modules["skops.io"]
    empty: Any = types.ModuleType("skops.io._trusted_types")
    empty.__getattr__ = lambda _: []
    sys.modules[empty.__name__] = empty
    try:
        return importlib.import_module("skops.io")
    finally:
        for name in [n for n in list(sys.modules) if n.partition(".")[0] == "skops"]:
            del sys.modules[name]


def prepare_saving() -> None:
    """Load what `dump_models` needs, which takes a while; for when there is nothing else to do."""
    _skops()
    trusted_types()


def dump_models(models: Any) -> bytes:
    """Fitted pipelines, in lists, as bytes that `load_models` reads; `ModelFileError` where a part is not trusted."""
    skops = _skops()
    advice = "use save(path, safe=False), which writes a pickle that only those should load who trust you"
    try:
        content = _dumped(skops, pack(models))
    except Exception as error:  # skops, and any __getstate__ of a user's class
        raise ModelFileError(f"a part of this model cannot be saved as plain data: {error}; {advice}") from error
    foreign = _untrusted(_types(_schema(content)))
    if foreign:
        raise ModelFileError(
            f"a safe file can contain only parts of Headstart's own search spaces, but this model has "
            f"{', '.join(foreign)}; {advice}"
        )
    return content


def _dumped(skops: Any, models: Any) -> bytes:
    """An archive of them, deflated unless that shrinks it so much that nobody would unpack it again."""
    plain = skops.dumps(models, compression=zipfile.ZIP_STORED)
    content = _renumbered(plain, zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        believed = not is_out_of_proportion(archive, len(content))
    return content if believed else _renumbered(plain, zipfile.ZIP_STORED)


def _renumbered(content: bytes, compression: int) -> bytes:
    """A skops file with objects numbered from 1 on instead of by their addresses.

    The same models are the same file then, and it has the same size.
    """
    numbers: dict[int, int] = {}
    names: dict[str, str] = {}
    compressed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(compressed, "w", compression) as new:
        schema = json.loads(old.read("schema.json"))
        left = [schema]
        while left:
            node = left.pop()
            if isinstance(node, dict):
                if isinstance(address := node.get("__id__"), int):
                    node["__id__"] = numbers.setdefault(address, len(numbers) + 1)
                if isinstance(name := node.get("file"), str):
                    node["file"] = names.setdefault(name, f"{len(names) + 1}{PurePath(name).suffix}")
                left += node.values()
            elif isinstance(node, list):
                left += node
        for name, other in names.items():
            new.writestr(zipfile.ZipInfo(other), old.read(name), compression, 1)
        new.writestr(zipfile.ZipInfo("schema.json"), json.dumps(schema), compression)
    return compressed.getvalue()


def load_models(content: bytes, trusted: bool = False) -> Any:
    """Inverse of `dump_models`; `UntrustedModel` before anything is made of what it does not know.

    Parameters
    ----------
    trusted
        Whether to take the boosters of other libraries as they are; otherwise they are tried in another process first.
    """
    skops = _skops()
    found = _types(_schema(content))
    foreign = _untrusted(found)
    if foreign:
        raise UntrustedModel(
            f"a safe file must contain only parts of Headstart's own search spaces, found {', '.join(foreign)}; it was "
            "made by another version of Headstart, or with malicious intent: do not load it unless you know its origin"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # versions that differ are said once, for the whole file
        models = unpack(skops.loads(content, trusted=sorted({name for name, _ in found})))  # it looks up in a list
    unknown = [booster for booster in check_compiled(models) if not _is_checked(booster)]
    if not trusted:
        rehearse(unknown)
    return models


def _is_checked(booster: Any) -> bool:
    """Whether it is known that a booster does no harm; `ModelFileError` where it would do some."""
    if not isinstance(booster, LightGBMClassifier | LightGBMRegressor):
        return False
    check_lightgbm(booster.packed_, int(booster.n_features_in_), booster._n_classes)
    return True


def _schema(content: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return json.loads(archive.read("schema.json"))


def _types(schema: Any) -> set[tuple[str, str]]:
    """Types that a skops file names, and what is to be done to make them; nothing is imported or made."""
    found = set()
    left = [schema]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict):
            left += node.values()
            # Any of the three marks a node; an attribute that happens to be so named has a node, not a text, as value.
            module, name, loader = (node.get(mark) for mark in ("__module__", "__class__", "__loader__"))
            if isinstance(module, str) or isinstance(name, str) or isinstance(loader, str):
                found.add((f"{module}.{name}", str(loader)))
    return found


def _untrusted(found: Iterable[tuple[str, str]]) -> list[str]:
    """Those of the types that are not among the trusted ones, sorted."""
    found = set(found)
    known = trusted_types({name for name, _ in found})
    foreign = {name for name, _ in found if name not in known}
    return sorted(
        foreign | {f"{name} ({loader})" for name, loader in found if name in known and loader not in _LOADERS}
    )
