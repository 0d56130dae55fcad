"""Hand-crafted meta-features.

==============  ==============================================================================================
`table`         what is read of a dataset, and how much of a large one
`columns`       columns filled, encoded, sorted, in bins, and distances between rows
`declare`       how a feature is declared
families        `simple`, `statistical`, `information`, `landmarks`, `trees`, `clusters`, `complexity`
`sets`          which features are in which set
`extractor`     `HandCrafted`, which computes a set
==============  ==============================================================================================
"""

from headstart.metafeatures.handcrafted.extractor import HandCrafted, Measured

__all__ = ["HandCrafted", "Measured"]


def mf1(seed: int = 0) -> HandCrafted:
    """46 hand-crafted meta-features, the ones that PMF's datasets come with (Feurer et al., AAAI 2015)."""
    return HandCrafted("mf1", seed)


def mf2(seed: int = 0) -> HandCrafted:
    """22 hand-crafted meta-features (Wistuba et al., ECML PKDD 2016)."""
    return HandCrafted("mf2", seed)


def auto_sklearn(seed: int = 0) -> HandCrafted:
    """Hand-crafted meta-features of auto-sklearn (Feurer et al., NeurIPS 2015)."""
    return HandCrafted("auto_sklearn", seed)


def landmark(seed: int = 0) -> HandCrafted:
    """Landmarks: how well simple learners do (Pfahringer et al., ICML 2000)."""
    return HandCrafted("landmark", seed)


def scot(seed: int = 0) -> HandCrafted:
    """The four meta-features of collaborative tuning (Bardenet et al., ICML 2013)."""
    return HandCrafted("scot", seed)


def byu(seed: int = 0) -> HandCrafted:
    """43 hand-crafted meta-features that Dida is compared with (Rakotoarison, thesis 2022)."""
    return HandCrafted("byu", seed)


def full(seed: int = 0) -> HandCrafted:
    """All hand-crafted meta-features, the ones that Metabu begins with (Rakotoarison et al., ICLR 2022)."""
    return HandCrafted("full", seed)
