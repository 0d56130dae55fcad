"""What a run tells while it runs."""

from __future__ import annotations

from typing import Any

import pandas as pd

from headstart import HeadstartClassifier
from headstart.fitting.progress import Lines
from headstart.optimizers.portfolio import Portfolio
from headstart.space import catalog
from headstart.trials import Fidelity


def test_the_best_of_a_first_look_is_said_until_one_was_tried_in_full(
    frame: pd.DataFrame, quick: dict[str, Any]
) -> None:
    space = catalog.load("classification").select(quick["include"], ())
    stage = space.stages[-1].name if space.stages[-1].kind == "step" else space.stages[-2].name
    pipelines = [space.default({stage: name}) for name in ("decision_tree", "logistic_regression")]
    optimizer = Portfolio(pipelines, screen=Fidelity(0.5, 1), promote=2)
    lines: list[str] = []
    model = HeadstartClassifier(**quick).set_params(evaluations=4, optimizer=optimizer)
    model.fit(frame, target="label", progress=Lines(lines.append, every=0.0))
    screened = [t for t in model.history_ if not t.proposal.fidelity.is_full]
    assert len(screened) == 2
    told = [line.strip().split("  ")[1:] for line in lines if " s  " in line]
    assert told[0][0] == f"ROC AUC {-screened[0].outcome.loss + 1:.5g}, at first look"
    full = next(what for what in told if "ROC AUC" in what[0] and "first look" not in what[0])
    later = told[told.index(full) :]
    assert not any("first look" in what[0] for what in later)
