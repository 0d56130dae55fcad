import numpy as np
from fakes import ColumnMeans

from headstart.testing import MetaFeaturesContract


class TestColumnMeans(MetaFeaturesContract):
    def make(self):
        return ColumnMeans()

    def datasets(self):
        rng = np.random.default_rng(0)
        return [rng.standard_normal((n, 3)) for n in (5, 50)]
