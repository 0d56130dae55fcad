"""What tests of experiments share."""

from dataclasses import replace

import pytest

from experiments.catalogue import EXPERIMENTS


@pytest.fixture
def put(monkeypatch):
    """Puts another kind in the place of an experiment's, and other sizes."""

    def put(name, kind, **changes):
        monkeypatch.setitem(EXPERIMENTS, name, replace(EXPERIMENTS[name], kind=kind, **changes))

    return put
