"""Outcomes of many pipelines on many tasks."""

from headstart.metadata.metadataset import MetaDataset

__all__ = ["MetaDataset"]
