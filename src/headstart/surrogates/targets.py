"""What a surrogate makes of the targets before it learns them.

Losses of pipelines have a long tail of bad ones, and a model that spends itself on the tail knows little of the good
end, which is all that matters. Every reshaping here is monotone, keeps the best target where it is, and keeps to the
units of the targets, so that predictions can be compared with the best target as ever.

===========  ====================================================================================================
name         targets y, lowest y*, median m
===========  ====================================================================================================
``as_is``    y
``clipped``  min(y, m + (m - y*)): the bad half reaches as far up as the good half reaches down
``ranked``   normal scores Φ⁻¹((rank - ½) / n), ties averaged, moved to begin at y* and stretched to the spread of the
             clipped targets
===========  ====================================================================================================
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headstart.errors import UnknownName, suggestion

Array = NDArray[np.float64]
Reshaping = Literal["as_is", "clipped", "ranked"]


def checked_reshaping(name: str) -> Reshaping:
    """`name`, if there is such a reshaping."""
    for known in get_args(Reshaping):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise UnknownName(f"no reshaping of targets is named {name!r}; {suggestion(name, get_args(Reshaping))}")


def reshaped(targets: Array, reshaping: Reshaping) -> Array:
    """The targets ``(n,)``, reshaped."""
    if reshaping == "as_is" or len(targets) < 2:
        return targets
    best, middle = float(targets.min()), float(np.median(targets))
    clipped = np.minimum(targets, middle + (middle - best)) if middle > best else targets
    if reshaping == "clipped":
        return clipped
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores = ndtri((rankdata(targets) - 0.5) / len(targets))
    spread = float(scores.std())
    stretch = float(clipped.std()) / spread if spread > 0.0 else 0.0
    return np.asarray(best + (scores - scores.min()) * stretch, dtype=np.float64)
