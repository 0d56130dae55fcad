"""Dida: meta-features of a table seen as a distribution of rows (De Bie, Rakotoarison, Peyré & Sebag, 2020).

==============  ==============================================================================================
`network`       invariant layers, and the network that is made of them
`extractor`     `Dida`, which learns to tell patches of tables apart
`deep_sets`     the networks that the paper compares with: DSS, and one that minds the order of features
==============  ==============================================================================================
"""

from headstart.methods.dida.extractor import Dida

__all__ = ["Dida"]
