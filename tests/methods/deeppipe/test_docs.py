"""What docs/deeppipe.md shows is run."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headstart.learning.training import Training
from headstart.metadata import MetaDataset
from headstart.methods.deeppipe import DeepPipe
from headstart.space import Encoded, catalog

pytest.importorskip("torch")
PAGE = Path(__file__).parents[3] / "docs" / "deeppipe.md"


def test_the_scripts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    training, script = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    space = catalog.load("tensor_oboe")
    drawn = space.sample(np.random.default_rng(0), 40).unique()
    pipelines = Encoded(space, drawn.values, drawn.active, drawn.choice, ids=np.arange(len(drawn)))
    losses = np.random.default_rng(1).random((3, len(drawn)))
    splits = {"train": [0, 1], "validation": [2]}
    meta = MetaDataset(pipelines, losses, ["a", "b", "c"], splits=splits)
    monkeypatch.setattr("headstart.metadata.sources.load", lambda name, data: meta)
    shorter = training.replace("steps=3000", "steps=5, factor=1")
    assert shorter != training
    names = {}
    exec(shorter, names)
    assert names["optimizer"].surrogate.meta_key == meta.learning([0, 1], [2]).key
    assert names["known"].adjusted(fine_tune="kernel").fine_tune == "kernel"
    quick = script.replace("HeadstartClassifier(60,", "HeadstartClassifier(evaluations=2, sandbox=False, splitter=2,")
    assert quick != script
    names = {}
    exec(quick, names)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    names["model"].fit(table, np.where(table["a"] > 0, "yes", "no"))
    assert len(names["model"].history_) == 2


def test_the_table_of_settings_is_true():
    text = PAGE.read_text(encoding="utf-8")
    ours, paper = DeepPipe(), DeepPipe.paper()
    for name in ("mean", "noise", "targets", "fine_tune"):
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}`")]
        _, _, of_paper, of_ours, _ = row.split("|")
        assert f'`"{getattr(paper, name)}"`' in of_paper
        assert f'`"{getattr(ours, name)}"`' in of_ours.split(",")[0]
    assert (ours.encoder_layers, ours.steps) == (1, 10_000)
    assert ours.training == Training(1e-2, final_rate=0.01, patience=30, n_tasks=24, n_pipelines=96)
