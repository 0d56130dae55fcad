"""What tests of experiments share."""

import pytest


@pytest.fixture
def folder(tmp_path):
    """Where pages are written, with an empty folder for their data."""
    (tmp_path / "data").mkdir()
    return tmp_path
