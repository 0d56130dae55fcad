"""A search that goes on with more time, in this process and in another one.

Run: python examples/resume.py [SECONDS]
"""

from __future__ import annotations

import sys
import tempfile

from sklearn.datasets import load_breast_cancer

from headstart import HeadstartClassifier

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0

X, y = load_breast_cancer(return_X_y=True, as_frame=True)

with tempfile.TemporaryDirectory() as store:
    model = HeadstartClassifier(time_budget=SECONDS, store=store).fit(X, y)
    print(f"{len(model.history_)} pipelines, best {model.leaderboard_['score'][0]:.4f}")

    model.fit(X, y, resume=True)
    print(f"{len(model.history_)} pipelines, best {model.leaderboard_['score'][0]:.4f}, after as much time again")

    # Another process, or the same after it was killed, finds everything in the store.
    again = HeadstartClassifier(time_budget=2 * SECONDS, store=store).fit(X, y, resume=True)
    print(f"{len(again.history_)} pipelines, best {again.leaderboard_['score'][0]:.4f}, from the store")
