from fakes import ColumnMeans, Whitened

from headstart.testing import MetaFeaturesContract


class TestColumnMeans(MetaFeaturesContract):
    def make(self):
        return ColumnMeans()


class TestWhitened(MetaFeaturesContract):
    """Reads other meta-features, and no table."""

    def make(self):
        return Whitened()
