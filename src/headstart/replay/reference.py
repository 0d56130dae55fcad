"""Figures of others on the protocol of `headstart.replay.protocol`, to compare ours with.

Mean regret over the test tasks after 10, 25, 50 and 100 evaluations, measured with independent code on the same
recorded results; intervals are about ±.03 (PMF), ±.006 (Tensor-OBOE) and ±.0015 (ZAP).
"""

from __future__ import annotations

EVALUATIONS = (10, 25, 50, 100)

INDEPENDENT: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "pmf": {
        "random": (0.2374, 0.1996, 0.1760, 0.1570),
        "random4x": (0.1996, 0.1613, 0.1399, 0.1193),
        "portfolio": (0.2322, 0.1950, 0.1614, 0.1250),
        "gp": (0.2322, 0.1938, 0.1427, 0.1155),
        "forest": (0.2297, 0.1870, 0.1555, 0.1378),
        "linear_factors": (0.2229, 0.1563, 0.1209, 0.1015),
    },
    "tensor_oboe": {
        "random": (0.0371, 0.0313, 0.0267, 0.0212),
        "random4x": (0.0313, 0.0225, 0.0174, 0.0139),
        "portfolio": (0.0303, 0.0233, 0.0198, 0.0147),
        "gp": (0.0333, 0.0242, 0.0196, 0.0143),
        "forest": (0.0363, 0.0270, 0.0213, 0.0165),
        "linear_factors": (0.0267, 0.0194, 0.0145, 0.0105),
    },
    "zap": {
        "random": (0.0041, 0.0035, 0.0030, 0.0021),
        "random4x": (0.0035, 0.0023, 0.0013, 0.0004),
        "portfolio": (0.0033, 0.0021, 0.0015, 0.0007),
        "gp": (0.0042, 0.0037, 0.0030, 0.0023),
    },
}

RELEASED: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "pmf": {
        "PMF, the authors' algorithm": (0.2204, 0.1569, 0.1307, 0.1079),
        "DeepPipe, the authors' checkpoint": (0.2287, 0.1767, 0.1332, 0.1059),
    },
    "tensor_oboe": {
        "PMF, the authors' algorithm": (0.0331, 0.0202, 0.0145, 0.0106),
        "DeepPipe, the authors' checkpoint": (0.0314, 0.0193, 0.0141, 0.0106),
    },
    "zap": {"PMF, the authors' algorithm": (0.0037, 0.0024, 0.0020, 0.0013)},
}
