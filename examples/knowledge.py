"""Learn from earlier tables: a method learns from what fits have tried, and the next fit begins with it.

Run: python examples/knowledge.py [EVALUATIONS]

On the command line: headstart meta from-store, headstart metatrain, headstart fit --knowledge.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from headstart import HeadstartClassifier, Store
from headstart.knowledge import Knowledge
from headstart.knowledge.files import learner
from headstart.metadata.from_store import meta_from_store

EVALUATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
ESTIMATORS = ["knn", "lda", "gaussian_nb", "decision_tree"]

with tempfile.TemporaryDirectory() as folder:
    # Earlier work. The same seed draws the same pipelines for every table, so that results can be compared.
    for load in (load_iris, load_wine, load_digits):
        X, y = load(return_X_y=True, as_frame=True)
        earlier = HeadstartClassifier(evaluations=EVALUATIONS, optimizer="random", include=ESTIMATORS, store=folder)
        earlier.fit(X[:500], y[:500])

    with Store.open(folder) as store:
        meta = meta_from_store(store)
    print(f"{len(meta)} tasks, {len(meta.pipelines)} pipelines, {meta.missing:.0%} of the cells missing")

    # A list of pipelines that are good together, one of which was good on each table.
    knowledge = Knowledge.learn(learner("portfolio(size=5)"), meta, train=range(len(meta)), validation=[])
    knowledge.save(Path(folder, "portfolio.npz"))

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    file = Path(folder, "portfolio.npz")
    model = HeadstartClassifier(evaluations=5, knowledge=file, include=ESTIMATORS).fit(X, y)
    print(model.leaderboard_[["score", "estimator", "seconds"]].to_string(index=False))
    print("chosen by:", [trial.proposal.origin.get("by") for trial in model.history_])
