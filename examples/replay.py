"""Compare methods on recorded results: what would each have found, after how many evaluations?

Run: python examples/replay.py [EVALUATIONS]

The results here are made up: related tasks, each with losses of the same 200 pipelines. Published ones come with
``headstart meta fetch``, your own with ``headstart meta from-store``, and ``headstart replay`` shows the same and more.
"""

from __future__ import annotations

import sys

from headstart.replay.partition import Partition
from headstart.replay.runner import replay
from headstart.testing.examples import small_meta

EVALUATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 30

meta = small_meta(n_tasks=16, n_pipelines=200)
tasks = range(len(meta))
partition = Partition(train=tuple(tasks[:8]), validation=(), test=tuple(tasks[8:]), name="last 8")

# Two methods that know nothing of other tasks, and two that learn from the first eight.
results = replay(meta, ["random", "gp", "portfolio", "linear_factors"], partition, evaluations=EVALUATIONS)
shown = [e for e in (5, 10, 20, 50, 100) if e < EVALUATIONS] + [EVALUATIONS]
print(f"mean regret over {len(partition.test)} tasks after {', '.join(map(str, shown))} evaluations")
for method in results.by_regret():
    regrets = results.methods[method]["regret_mean"]
    print(f"{method:15}", *(f"{regrets[e - 1]:.4f}" for e in shown))
