"""Ready search spaces by name.

>>> from headstart.space import catalog
>>> catalog.load("classification").default().algorithms[-1]
'lightgbm'

===================  ==========================================================================================
name                 what
===================  ==========================================================================================
``classification``   the default space for classification
``regression``       the default space for regression
``auto_sklearn``     auto-sklearn's space as printed in Mosaic's appendix
``pmf``              that of the PMF meta-dataset
``tensor_oboe``      that of the Tensor-OBOE meta-dataset, every recorded pipeline of it
``admm_small``       that of ADMM's comparison with other systems
``admm_large``       that of ADMM's experiments with constraints and flexible pipelines
===================  ==========================================================================================

Each module states its source and where a current scikit-learn (1.9) differs from it. An algorithm whose package is not
installed is not in a space.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from headstart.errors import UnknownName, suggestion
from headstart.space.space import PipelineSpace

_NAMES = ("admm_large", "admm_small", "auto_sklearn", "classification", "pmf", "regression", "tensor_oboe")


def names() -> list[str]:
    """What can be loaded, sorted."""
    return list(_NAMES)


@cache
def load(name: str) -> PipelineSpace:
    """The space of that name; raises `UnknownName` for any other."""
    if name not in _NAMES:
        raise UnknownName(f"no search space is named {name!r}; {suggestion(name, _NAMES)}")
    space: PipelineSpace = import_module(f"headstart.space.catalog.{name}").space()
    return space
