"""Metabu: meta-features under which tables are near whose best pipelines are (Rakotoarison et al., ICLR 2022).

==============  ==============================================================================================
`targets`       a task as the distribution of its best pipelines, and Wasserstein distances between tasks
`geometry`      intrinsic dimension of the tasks, and points that have their distances
`alignment`     a linear map from hand-crafted meta-features to these points, by optimal transport
`extractor`     `Metabu`, which does all of it
==============  ==============================================================================================
"""

from headstart.methods.metabu.extractor import Metabu

__all__ = ["Metabu"]
