"""Parts by name: surrogates, optimizers, acquisitions, extractors.

Nothing is imported before it is used. A plug-in registers its own in its package's metadata::

    [project.entry-points."headstart.surrogates"]
    my_surrogate = "my_package.my_module:MySurrogate"

and `create("surrogate", "my_surrogate")` finds it.
"""

from __future__ import annotations

import ast
import inspect
import logging
import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, get_args

from headstart.errors import InvalidInput, MissingDependency, UnknownName, suggestion

logger = logging.getLogger(__name__)

Kind = Literal["optimizer", "surrogate", "acquisition", "metafeatures"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_OWN: dict[str, dict[str, str]] = {
    "surrogate": {
        "ablr": "headstart.baselines.ablr:ABLR",
        "deeppipe": "headstart.methods.deeppipe:with_memory",
        "deeppipe_network": "headstart.methods.deeppipe:DeepPipe",
        "deeppipe_paper": "headstart.methods.deeppipe:DeepPipe.paper",
        "dmfbs": "headstart.methods.dmfbs:DMFBS",
        "dngo": "headstart.baselines.dngo:DNGO",
        "fmlp": "headstart.baselines.fmlp:FMLP",
        "forest": "headstart.surrogates.forest:ForestSurrogate",
        "fsbo": "headstart.baselines.fsbo:FSBO",
        "gp": "headstart.surrogates.gp:GPSurrogate",
        "linear_factors": "headstart.baselines.linear_factors:LinearFactors",
        "log_units": "headstart.surrogates.log_units:LogUnits",
        "mixture": "headstart.surrogates.mixture:Mixture",
        "pmf": "headstart.methods.pmf:PMF",
        "rgpe": "headstart.baselines.rgpe:RGPE",
        "skl": "headstart.baselines.skl:StructuredKernel",
        "tst_d2v": "headstart.baselines.tst:TSTDataset2Vec",
        "tst_r": "headstart.baselines.tst:TSTRanking",
    },
    "optimizer": {
        "admm": "headstart.methods.admm:ADMM",
        "average_rank": "headstart.baselines.average_rank:AverageRank",
        "bandit": "headstart.methods.admm:CombinatorialBandit",
        "bayes": "headstart.optimizers.bayes:Bayes",
        "default": "headstart.optimizers.portfolio:Default",
        "direct_search": "headstart.optimizers.direct:DirectSearch",
        "ellipsoid": "headstart.baselines.ellipsoid:Ellipsoid",
        "enumeration": "headstart.optimizers.enumeration:Enumeration",
        "metabu": "headstart.methods.metabu:sampling",
        "mosaic": "headstart.methods.mosaic:Mosaic",
        "nearest": "headstart.optimizers.nearest:Nearest",
        "oboe": "headstart.baselines.oboe:Oboe",
        "pmf_paper": "headstart.methods.pmf:paper_search",
        "portfolio": "headstart.optimizers.portfolio:Portfolio",
        "random": "headstart.optimizers.random:RandomSearch",
        "smfo": "headstart.baselines.smfo:SMFO",
        "successive_halving": "headstart.optimizers.halving:SuccessiveHalving",
        "taf_r": "headstart.baselines.taf:TAFRanking",
        "tensor_oboe": "headstart.baselines.tensor_oboe:TensorOboe",
        "trust_region": "headstart.optimizers.direct:TrustRegion",
    },
    "acquisition": {
        "greedy": "headstart.surrogates.acquisition:Greedy",
        "log_ei": "headstart.surrogates.acquisition:LogEI",
        "log_ei_per_second": "headstart.surrogates.acquisition:LogEIPerSecond",
    },
    "metafeatures": {
        "auto_sklearn": "headstart.metafeatures.handcrafted:auto_sklearn",
        "byu": "headstart.metafeatures.handcrafted:byu",
        "dataset2vec": "headstart.metafeatures.dataset2vec:Dataset2Vec",
        "dida": "headstart.methods.dida:Dida",
        "full": "headstart.metafeatures.handcrafted:full",
        "handcrafted": "headstart.metafeatures.handcrafted:HandCrafted",
        "landmark": "headstart.metafeatures.handcrafted:landmark",
        "metabu": "headstart.methods.metabu:Metabu",
        "mf1": "headstart.metafeatures.handcrafted:mf1",
        "mf2": "headstart.metafeatures.handcrafted:mf2",
        "scot": "headstart.metafeatures.handcrafted:scot",
    },
}
_added: dict[str, dict[str, Any]] = {kind: {} for kind in _OWN}


@cache
def _plugins(kind: str) -> dict[str, EntryPoint]:
    group = f"headstart.{kind}" if kind == "metafeatures" else f"headstart.{kind}s"
    found = {point.name: point for point in entry_points(group=group)}
    for name in found.keys() & _OWN[kind].keys():
        logger.warning("entry point %r of %s is left out: Headstart has its own %s of that name", name, group, kind)
    return found


def _known(kind: str) -> dict[str, Any]:
    if kind not in _OWN:
        raise UnknownName(f"no kind of part is named {kind!r}; {suggestion(kind, _OWN)}")
    return {**_plugins(kind), **_OWN[kind], **_added[kind]}  # a plug-in cannot take the place of a part of ours


def register(kind: Kind, name: str, maker: Any) -> None:
    """Make a part known by name in this process: a class, a function that makes one, or its ``"module:attribute"``."""
    if name in _known(kind):
        raise InvalidInput(f"{kind} {name!r} is registered already; choose another name")
    _added[kind][name] = maker


def names(kind: Kind) -> list[str]:
    """What is registered, sorted."""
    return sorted(_known(kind))


def find(kind: Kind, name: str) -> Any:
    """The class or function registered under a name, imported now."""
    known = _known(kind)
    if name not in known:
        others = _known("surrogate") if kind == "optimizer" else {}
        raise UnknownName(f"no {kind} is named {name!r}; {suggestion(name, {**known, **others})}")
    maker = known[name]
    if isinstance(maker, str):
        maker = EntryPoint(name, maker, kind)
    if type(maker).__name__ != "EntryPoint":  # where the package importlib_metadata is imported, it has its own class
        return maker
    try:
        return maker.load()
    except (ImportError, AttributeError) as error:
        package = f" of package {maker.dist.name!r}" if maker.dist is not None else ""
        raise MissingDependency(f"{kind} {name!r}{package} cannot be loaded from {maker.value!r}: {error}") from error


def find_class(kind: Kind, name: str) -> Any | None:
    """The class of this name that is registered as a part of a kind; ``None`` where there is none."""
    for known, maker in _known(kind).items():
        place = maker if isinstance(maker, str) else getattr(maker, "value", None)
        if place is None and getattr(maker, "__name__", None) == name:
            return maker
        if place is not None and place.rpartition(":")[2] == name:
            return find(kind, known)
    return None


_WORDS = {"true": True, "yes": True, "false": False, "no": False, "none": None}


def parsed(text: str) -> tuple[str, dict[str, Any]]:
    """Name and settings of a part that is written ``NAME`` or ``NAME(setting=value, …)``.

    >>> parsed("gp(kernel=linear, ard=no)")
    ('gp', {'kernel': 'linear', 'ard': False})
    >>> parsed("bayes(surrogate='pmf(latent=5, steps=0)', acquisition=log_ei_per_second)")
    ('bayes', {'surrogate': 'pmf(latent=5, steps=0)', 'acquisition': 'log_ei_per_second'})
    """
    found = re.fullmatch(r"\s*([\w.-]+)\s*(?:\((.*)\))?\s*", text)
    if found is None:
        raise InvalidInput(f"a method is NAME or NAME(setting=value, ...), got {text!r}")
    settings: dict[str, Any] = {}
    for part in _at_commas(found[2] or ""):
        key, equals, value = part.partition("=")
        if not equals:
            raise InvalidInput(f"settings of a method are written setting=value, got {part.strip()!r} in {text!r}")
        key, value = key.strip(), value.strip()
        if not key.isidentifier() or not value:
            raise InvalidInput(f"settings of a method are written setting=value, got {part.strip()!r} in {text!r}")
        if key in settings:
            raise InvalidInput(f"a setting must be given once, got {key!r} twice in {text!r}")
        try:
            settings[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            settings[key] = _WORDS.get(value.lower(), value)
    return found[1], settings


def _at_commas(text: str) -> list[str]:
    """Parts between the commas that stand in no quotes and no brackets."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not quote and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part.strip()]


def is_nearest(name: str) -> bool:
    """Whether an optimizer of this name is `Nearest` by the meta-features of this name."""
    return name in _known("metafeatures") and name not in (*_known("optimizer"), *_known("surrogate"))


def create(kind: Kind, part: Any, **settings: Any) -> Any:
    """A part by its name and settings, which may be in the text too; one that is made already is returned as it is.

    An optimizer may also be called by the name of a surrogate: then it is `Bayes` with that surrogate; or by that of
    meta-features: then it is `Nearest` by these. Raises `InvalidInput` for settings that the part does not have or
    cannot be made with.
    """
    if isinstance(part, str) and "(" in part:
        part, written = parsed(part)
        settings = {**written, **settings}
    if kind == "optimizer" and isinstance(part, str) and part not in _known(kind) and part in _known("surrogate"):
        return find("optimizer", "bayes")(surrogate=create("surrogate", part, **settings))
    if kind == "optimizer" and isinstance(part, str) and is_nearest(part):
        create("metafeatures", part, **settings)  # raises where it has no such settings
        written_out = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        return find("optimizer", "nearest")(metafeatures=f"{part}({written_out})" if settings else part)
    if not isinstance(part, str):
        if settings:
            raise InvalidInput(
                f"settings {sorted(settings)} go with the name of a {kind}, not with one that is made already"
            )
        return part
    maker = find(kind, part)
    known = inspect.signature(maker).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        for name in settings:
            if name not in known:
                raise InvalidInput(f"{kind} {part!r} has no setting {name!r}; {suggestion(name, known)}")
    try:
        return maker(**settings)
    except TypeError as error:
        raise InvalidInput(f"{kind} {part!r} cannot be made with {settings!r}: {error}") from error
