"""A number to predict, with one pipeline instead of an ensemble and what it says of itself.

Run: python examples/regression.py [EVALUATIONS]
"""

from __future__ import annotations

import sys
from typing import Any

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from headstart import HeadstartRegressor

BUDGET: dict[str, Any] = {"evaluations": int(sys.argv[1])} if len(sys.argv) > 1 else {"time_budget": 20}

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = HeadstartRegressor(**BUDGET, ensemble=False, refit="full").fit(X_train, y_train)
print("R² on test rows:", round(model.score(X_test, y_test), 3))
print("The pipeline:", model.leaderboard_["pipeline"][0])

# The same pipeline as plain scikit-learn, fitted on all training rows.
pipeline = model.best_pipeline_
print("Its steps:", ", ".join(pipeline.named_steps))
print("R² of that:", round(pipeline.score(X_test, y_test), 3))
if len(model.failures_):
    print(model.failures_.to_string(index=False))
