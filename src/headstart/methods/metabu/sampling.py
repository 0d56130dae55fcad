"""Task 2 of Metabu (section 6.4 of Rakotoarison, 2022): pipelines drawn from the best of the nearest tables.

==========  ==============  ===========================================================================
symbol      name in code    meaning
==========  ==============  ===========================================================================
ℓ           neighbours      a training task is the ℓ-th nearest by Euclidean distance, at most the tenth
z_ℓ         depth           its 20 best pipelines, each as likely as the others
ẑ           ``"drawn"``     Σ e^{-ℓ} z_ℓ, normalised
==========  ==============  ===========================================================================
"""

from __future__ import annotations

from headstart.optimizers.nearest import Nearest


def sampling(metafeatures: str = "metabu", neighbours: int = 10, depth: int = 20) -> Nearest:
    """Pipelines drawn from the best of the nearest tables by Metabu's meta-features (Rakotoarison, Milijaona,
    Rasoanaivo, Sebag & Schoenauer, ICLR 2022).

    Distances are those of the meta-features as they are: their scales have been learned. No pipeline is drawn twice.

    Parameters
    ----------
    metafeatures
        Name of the extractor, with other settings if wanted: ``"metabu(coupling=fgw)"``.
    neighbours, depth
        How many tables, and how many pipelines of each.
    """
    return Nearest(neighbours, metafeatures, "l2", "drawn", depth, standardise=False)
