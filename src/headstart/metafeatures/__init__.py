"""Extractors that describe a dataset by a vector."""

from headstart.metafeatures.base import MetaFeatures

__all__ = ["MetaFeatures"]
