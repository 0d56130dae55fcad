"""A search space of your own, with any class that follows scikit-learn's conventions.

Run: python examples/own_search_space.py [EVALUATIONS]
"""

from __future__ import annotations

import sys

from sklearn.datasets import load_wine

from headstart import Algorithm, Categorical, Float, HeadstartClassifier, Integer, PipelineSpace, Stage

EVALUATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 15

space = PipelineSpace(
    "mine",
    [
        Stage("scaler", [Algorithm("none"), Algorithm("standard", "sklearn.preprocessing:StandardScaler")]),
        Stage(
            "estimator",
            [
                Algorithm(
                    "forest",
                    "sklearn.ensemble:RandomForestClassifier",
                    [Float("max_features", 0.1, 1.0), Categorical("criterion", ("gini", "entropy"))],
                    {"n_estimators": 50},
                ),
                Algorithm(
                    "neighbours", "sklearn.neighbors:KNeighborsClassifier", [Integer("n_neighbors", 1, 40, log=True)]
                ),
            ],
        ),
    ],
    forbidden=[{"scaler": ["none"], "estimator": ["neighbours"]}],
)

X, y = load_wine(return_X_y=True, as_frame=True)
model = HeadstartClassifier(evaluations=EVALUATIONS, space=space, optimizer="bayes", metric="accuracy").fit(X, y)
print(model.leaderboard_[["score", "weight", "pipeline"]].head(5).to_string(index=False))
