"""Every method of the registry with settings that make it quick to learn and to search."""

import pytest

from headstart.registry import create

DATASET2VEC = "dataset2vec(outputs=4, units=8, blocks=1, depth=1, steps=5, n_tables=3)"
NETWORK = "factor=1, outputs=4, training={'n_tasks': 3, 'n_pipelines': 20}, steps=5"
SEARCH = "n_samples=50, n_starts=1"
QUICK = {
    "ablr": "ablr(steps=5)",
    "admm": f"admm(theta='bayes(surrogate=gp, {SEARCH}, n_polished=1)', budget=4, growth=2)",
    "bayes": f"bayes({SEARCH})",
    "dataset2vec": DATASET2VEC,
    "deeppipe": f"deeppipe({NETWORK})",
    "deeppipe_network": f"deeppipe_network({NETWORK})",
    "deeppipe_paper": f"deeppipe_paper({NETWORK})",
    "dida": "dida(outputs=4, pair_units=4, units=8, neighbours=3, steps=3, n_tables=3)",
    "dmfbs": "dmfbs(extractor='dataset2vec(outputs=4, units=8, blocks=1, depth=1)', steps=2, training={'n_tasks': 2})",
    "dngo": "dngo(steps=5)",
    "ellipsoid": f"ellipsoid(search='bayes(surrogate=gp, {SEARCH})')",
    "fmlp": "fmlp(steps=5)",
    "fsbo": "fsbo(steps=5)",
    "metabu": "metabu(metafeatures=example)",
    "nearest": f"nearest(metafeatures='{DATASET2VEC}')",
    "pmf": "pmf(latent=2, steps=5)",
    "pmf_paper": "pmf_paper(latent=2, steps=5)",
    "taf_r": f"taf_r({SEARCH})",
    "tst_d2v": f"tst_d2v(metafeatures='{DATASET2VEC}')",
}
"""By name; the others are quick as they are."""


def quick_text(name, kind="optimizer"):
    """Name and settings; skips what trains a network where there is no torch."""
    if (kind, name) == ("optimizer", "metabu"):  # a name of meta-features too
        return "metabu(metafeatures='metabu(metafeatures=mf2)')"
    text = QUICK.get(name, name)
    if "steps" in text:
        pytest.importorskip("torch")
    return text


def quick(kind, name):
    return create(kind, quick_text(name, kind))
