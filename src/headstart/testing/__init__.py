"""Contract tests, public, so that a plug-in can run them on itself. They need pytest.

::

    from headstart.testing import SurrogateContract

    class TestMine(SurrogateContract):
        def make(self):
            return MySurrogate()
"""

from headstart.testing.metafeatures import MetaFeaturesContract
from headstart.testing.objectives import ObjectiveContract
from headstart.testing.optimizers import OptimizerContract
from headstart.testing.surrogates import SurrogateContract

__all__ = ["MetaFeaturesContract", "ObjectiveContract", "OptimizerContract", "SurrogateContract"]
