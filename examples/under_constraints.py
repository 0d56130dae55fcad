"""A model that must be fast, small and careful with false alarms.

Run: python examples/under_constraints.py [EVALUATIONS]

All constraints: docs/constraints.md.
"""

from __future__ import annotations

import sys
from typing import Any

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from headstart import HeadstartClassifier

BUDGET: dict[str, Any] = {"evaluations": int(sys.argv[1])} if len(sys.argv) > 1 else {"time_budget": 30}
BOUNDS = ["latency <= 1ms", "size <= 200kB", "false_positive_rate <= 0.08"]

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# The search looks for pipelines that satisfy the bounds, and the model is one that does, measured as it is delivered.
model = HeadstartClassifier(**BUDGET, constraints=BOUNDS).fit(X_train, y_train)
print(model.leaderboard_.drop(columns=["pipeline", "error"], errors="ignore").head(8).to_string(index=False))
print("\nOf the model:")
for note in model.notes_:
    if any(bound.split()[0] in note for bound in BOUNDS):
        print("-", note)
false_alarms = (model.predict(X_test)[y_test == 0] == 1).mean()
print(f"false positive rate on test rows: {false_alarms:.3f}")
