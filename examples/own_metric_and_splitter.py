"""A metric of your own, and folds that keep the rows of one patient together.

Run: python examples/own_metric_and_splitter.py [EVALUATIONS]
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from sklearn.metrics import fbeta_score, make_scorer
from sklearn.model_selection import StratifiedGroupKFold

from headstart import HeadstartClassifier

EVALUATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 8

rng = np.random.default_rng(0)
patients = np.repeat(np.arange(150), 4)
habit = rng.normal(size=150)[patients]
X = pd.DataFrame(rng.normal(size=(600, 6)), columns=list("abcdef")).assign(habit=habit + 0.1 * rng.normal(size=600))
y = (X["a"] + X["b"] * X["c"] + habit + 0.5 * rng.normal(size=600) > 1.0).astype(int)

# Missing a case costs more than a false alarm: recall counts twice as much as precision.
f2 = make_scorer(fbeta_score, beta=2)

model = HeadstartClassifier(
    evaluations=EVALUATIONS,
    metric=f2,
    splitter=StratifiedGroupKFold(4, shuffle=True, random_state=0),
    tune_threshold=True,
)
model.fit(X, y, groups=patients)
print(model.leaderboard_[["score", "weight", "estimator"]].head(5).to_string(index=False))
print(model.notes_[-1])
print(
    "share predicted positive:", float(model.predict(X).mean().round(3)), "- share positive:", float(y.mean().round(3))
)
