"""What a surrogate makes of the targets before it learns them.

Losses of pipelines have a long tail of bad ones, and a model that spends itself on the tail knows little of the good
end, which is all that matters. Every reshaping here is monotone, keeps the best target where it is, and keeps to the
units of the targets, so that predictions can be compared with the best target as ever.

===============  ================================================================================================
name             targets y, lowest y*, median m
===============  ================================================================================================
``as_is``        y
``clipped``      min(y, m + (m - y*)): the bad half reaches as far up as the good half reaches down
``ranked``       normal scores Φ⁻¹((rank - ½) / n), ties averaged
``logarithmic``  ln((y - y*) / (m - y*) + 0.1)
===============  ================================================================================================

The last two are moved to begin at y* and stretched to the spread of the clipped targets.
"""

from __future__ import annotations

from typing import Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from headstart.errors import UnknownName, suggestion

Array = NDArray[np.float64]
Reshaping = Literal["as_is", "clipped", "ranked", "logarithmic"]

_LOG_OFFSET = 0.1


def checked_reshaping(name: str) -> Reshaping:
    """`name`, if there is such a reshaping."""
    if name not in get_args(Reshaping):
        raise UnknownName(f"no reshaping of targets is named {name!r}; {suggestion(name, get_args(Reshaping))}")
    return cast(Reshaping, name)


def reshaped(targets: Array, reshaping: Reshaping) -> Array:
    """The targets ``(n,)``, reshaped."""
    if reshaping == "as_is" or len(targets) < 2:
        return targets
    best, middle = float(targets.min()), float(np.median(targets))
    # Where more than half are as good as the best, the others say how far up it goes.
    reach = middle - best if middle > best else float(targets.max()) - best
    if not reach > 0.0:
        return targets
    clipped = np.minimum(targets, middle + reach)
    if reshaping == "clipped":
        return clipped
    if reshaping == "logarithmic":
        scores = np.log((targets - best) / reach + _LOG_OFFSET)
    else:
        from scipy.special import ndtri
        from scipy.stats import rankdata

        scores = ndtri((rankdata(targets) - 0.5) / len(targets))
    stretch = float(clipped.std()) / float(scores.std())
    return np.asarray(best + (scores - scores.min()) * stretch, dtype=np.float64)
