"""Metabu: meta-features under which tables are near whose best pipelines are (Rakotoarison et al., ICLR 2022).

==============  ==============================================================================================
`targets`       a task as the distribution of its best pipelines, and Wasserstein distances between tasks
`geometry`      intrinsic dimension of the tasks, and points that have their distances
`alignment`     a linear map from hand-crafted meta-features to these points, by optimal transport
`extractor`     `Metabu`, which does all of it
`sampling`      the optimizer `metabu`: pipelines drawn from the best of the nearest tables
==============  ==============================================================================================
"""

from headstart.methods.metabu.extractor import Metabu
from headstart.methods.metabu.sampling import sampling

__all__ = ["Metabu", "sampling"]
