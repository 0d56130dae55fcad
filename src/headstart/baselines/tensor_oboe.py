"""`TensorOboe`: as `Oboe`, with factors of the tensor tasks × choices of each stage."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headstart.baselines.oboe import Design, Oboe
from headstart.errors import check_positive
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.low_rank import LowRank, truncated_svd
from headstart.numerics.tucker import complete_tucker
from headstart.space.encoded import Encoded

Rows = NDArray[np.int64]


def stage_grid(pipelines: Encoded) -> tuple[tuple[int, ...], Rows] | None:
    """The grid that the pipelines fill: different settings of each stage, and the pipeline at each place of the grid.

    Returns
    -------
    Sizes (n_1, …, n_S), without stages that never differ, and the positions of the pipelines in the order of the
    cells of such an array; ``None`` where pipelines are not all combinations of their stages' settings, each once.
    """
    if pipelines.order is not None or not len(pipelines):
        return None
    sizes: list[int] = []
    places: list[Rows] = []
    for s in range(len(pipelines.space.stages)):
        columns = np.zeros(pipelines.space.width, dtype=bool)
        for stage, _, _, block in pipelines.space.blocks():
            columns[block] |= stage == s
        # Single precision tells settings apart well enough, and sorts faster.
        settings = np.column_stack([pipelines.choice[:, s], pipelines.values[:, columns]]).astype(np.float32)
        _, place = np.unique(settings, axis=0, return_inverse=True)
        size = int(place.max()) + 1
        if size > 1:
            sizes.append(size)
            places.append(place.reshape(-1))
    if int(np.prod(sizes, dtype=object)) != len(pipelines) or not sizes:
        return None
    cells = np.ravel_multi_index(tuple(places), tuple(sizes))
    if len(np.unique(cells)) != len(pipelines):
        return None
    return tuple(sizes), np.argsort(cells)


class TensorOboe(Oboe):
    """Factorise the error tensor of earlier tasks, observe what tells most about the new one, try the predicted best.

    After Yang et al. (2020). What was decided:

    - Where the recorded pipelines are all combinations of their stages' settings (as those of the Tensor-OBOE data
      are), their losses are a tensor tasks × settings of stage 1 × … × settings of stage S, and the factors
      come from its Tucker decomposition, with missing cells guessed by turns. Elsewhere (PMF, ZAP) there is no such
      tensor, and the matrix tasks × pipelines is factorised, as in `Oboe`; what is left of the method is its greedy
      design.
    - Of the decomposition only what pipelines have in common over tasks is kept: core times the factors of the
      stages, turned by a singular value decomposition so that the leading factors say most.
    - Rounds, growing rank and the time-constrained form are those of `Oboe`.

    Parameters
    ----------
    max_rank
        Rank of the mode of the tasks.
    stage_rank
        Largest rank of the mode of a stage; stages with no more settings are kept whole.
    observations_per_factor, first_round, design_share, design, time_constrained
        See `Oboe`; the design is greedy by default, as published.
    """

    def __init__(
        self,
        max_rank: int = 20,
        stage_rank: int = 20,
        observations_per_factor: float = 3.0,
        first_round: int = 4,
        design_share: float = 0.25,
        design: Design = "greedy",
        time_constrained: bool = False,
    ) -> None:
        super().__init__(max_rank, observations_per_factor, first_round, design_share, design, time_constrained)
        check_positive("stage_rank", stage_rank, whole=True)
        self.stage_rank = stage_rank

    def factorise(self, meta: MetaDataset) -> LowRank:
        grid = stage_grid(meta.pipelines)
        if grid is None:
            return super().factorise(meta)
        sizes, order = grid
        tensor = meta.losses[:, order].reshape(len(meta), *sizes)
        found = complete_tucker(tensor, (self.max_rank, *(min(size, self.stage_rank) for size in sizes)))
        items = truncated_svd(found.item_factors(), self.max_rank)
        right = np.empty_like(items.right)
        right[:, order] = items.right
        return LowRank(found.factors[0] @ items.left, items.values, right)
