"""A table that is large for its budget: searched on a part, members fitted on more rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from headstart import HeadstartClassifier
from headstart.data import Dataset
from headstart.fitting import plan
from headstart.fitting.enlarged import trainable
from headstart.fitting.plan import possible_parts
from headstart.fitting.run import Run
from headstart.fitting.settings import Settings

ROWS = 45_000


def table(rows: int = ROWS, columns: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, columns)), columns=[f"v{i}" for i in range(columns)])
    return frame.assign(y=np.where(frame["v0"] * frame["v1"] + rng.normal(size=rows) > 0, "yes", "no"))


def sizes(data: Dataset, settings: Settings) -> list[int]:
    return [data.n_rows if rows is None else len(rows) for rows in possible_parts(data, settings)]


def test_parts_are_halves_that_any_budget_knows():
    data = Dataset.from_table(table(200_000), "y")
    assert sizes(data, Settings(600)) == [200_000, 100_000, 50_000, 25_000]
    short = sizes(data, Settings(1.5))
    assert short[0] == 25_000
    assert sorted(short) == sorted(sizes(data, Settings(600)))
    assert sizes(data, Settings(1.5, splitter=3)) == [200_000]
    assert sizes(data, Settings(evaluations=5)) == [200_000, 100_000, 50_000, 25_000]


def test_a_part_fits_into_the_memory_that_is_allowed(monkeypatch):
    data = Dataset.from_table(table(100_000), "y")
    settings = Settings(evaluations=5, memory_limit=10**12)
    assert sizes(data, settings)[0] == 100_000
    monkeypatch.setattr(plan, "_EVALUATION_TABLES", 10**12 / data.nbytes)
    assert sizes(data, settings)[0] < 100_000


@pytest.mark.parametrize("role", ["groups", "times"])
def test_what_validates_is_not_trained_on(monkeypatch, role):
    monkeypatch.setattr(plan, "BOOSTER_CELLS", 100)
    rng = np.random.default_rng(1)
    data = replace(Dataset.from_table(table(), "y"), **{role: rng.integers(0, 500, ROWS)})
    run = Run(data, Settings(60))
    assert run.rows is not None
    values = getattr(data, role)
    free, valid = trainable(run), run.rows[run.plan.splits[0][1]]
    assert not np.isin(valid, free).any()
    if role == "groups":
        assert not np.isin(values[valid], values[free]).any()
    else:
        assert values[free].max() < values[valid].min()
    assert len(free) > len(run.rows)


def test_members_are_fitted_on_more_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(plan, "_most_rows", lambda *_: 22_500.0)
    frame = table()
    model = HeadstartClassifier(evaluations=2, random_state=0, sandbox=False, store=tmp_path / "store").fit(
        frame, target="y"
    )
    (member,) = [m for m in model.model_.members if (m.rows or 0) > 22_500] or model.model_.members[:1]
    assert member.rows == ROWS - 4_500
    assert model.summary_.rows == ROWS
    assert model.summary_.trained_rows > 18_000
    notes = " ".join(model.notes_)
    assert "a stratified part of 22,500 of the 45,000 rows, 4,500 of them to validate" in notes
    assert "members fitted on more rows than the search had: 40,500 rows" in notes
    # The score is that of the model that is delivered, on rows that it has not seen.
    run = model._run
    valid = run.rows[run.plan.splits[0][1]]
    from sklearn.metrics import roc_auc_score

    found = model.predict_proba(frame.drop(columns="y").iloc[valid])[:, 1]
    assert roc_auc_score(frame["y"].iloc[valid] == "yes", found) == pytest.approx(model.score_, abs=1e-6)
    again = HeadstartClassifier(evaluations=3, random_state=0, sandbox=False, store=tmp_path / "store")
    monkeypatch.setattr(plan, "_most_rows", lambda *_: float(ROWS))
    again.fit(frame, target="y", resume=True)
    assert len(again.history_) == 3
    assert again._run.dataset.n_rows == 22_500
