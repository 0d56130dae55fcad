"""Tables: reading them, what their columns are, a `Dataset` for pipelines, and its splits."""

from headstart.data.columns import ColumnSpec, Kind, infer_kinds
from headstart.data.dataset import Dataset
from headstart.data.errors import DataWarning, TableError
from headstart.data.read import read_table
from headstart.data.schema import Schema
from headstart.data.splits import Splits, make_splits
from headstart.data.target import default_metric

__all__ = [
    "ColumnSpec",
    "DataWarning",
    "Dataset",
    "Kind",
    "Schema",
    "Splits",
    "TableError",
    "default_metric",
    "infer_kinds",
    "make_splits",
    "read_table",
]
