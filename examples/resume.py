"""A search that goes on with a larger budget, in this process and in another one.

Run: python examples/resume.py [EVALUATIONS]
"""

from __future__ import annotations

import sys
import tempfile

from sklearn.datasets import load_breast_cancer

from headstart import HeadstartClassifier

EVALUATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 6

X, y = load_breast_cancer(return_X_y=True, as_frame=True)

with tempfile.TemporaryDirectory() as store:
    model = HeadstartClassifier(evaluations=EVALUATIONS, store=store).fit(X, y)
    print(f"{len(model.history_)} pipelines, best {model.leaderboard_['score'][0]:.4f}")

    model.set_params(evaluations=2 * EVALUATIONS).fit(X, y, resume=True)
    print(f"{len(model.history_)} pipelines, best {model.leaderboard_['score'][0]:.4f}, after as many again")

    # Another process, or the same after it was killed, finds everything in the store. Time works as well: each resumed
    # fit has its budget anew.
    again = HeadstartClassifier(time_budget=10, store=store).fit(X, y, resume=True)
    print(f"{len(again.history_)} pipelines, best {again.leaderboard_['score'][0]:.4f}, from the store")
