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

from functools import partial

from headstart.metafeatures.handcrafted.extractor import HandCrafted, Measured

mf1 = partial(HandCrafted, "mf1")
mf2 = partial(HandCrafted, "mf2")
auto_sklearn = partial(HandCrafted, "auto_sklearn")
landmark = partial(HandCrafted, "landmark")
scot = partial(HandCrafted, "scot")
byu = partial(HandCrafted, "byu")
full = partial(HandCrafted, "full")

__all__ = ["HandCrafted", "Measured"]
