"""Extractors that describe a dataset by a vector."""

from headstart.metafeatures.base import MetaFeatures, TableNetwork

__all__ = ["MetaFeatures", "TableNetwork"]
