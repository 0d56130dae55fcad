from __future__ import annotations

import numpy as np
import pytest

from headstart.numerics.standardisation import Standardisation


@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1.0, 1e12, 1e300])
def test_mean_zero_and_unit_variance_in_any_unit(unit):
    targets = unit * np.array([1.0, 2.0, 3.5, -4.0])
    standardisation = Standardisation.of(targets)
    standardised = standardisation.apply(targets)
    assert not standardisation.constant
    assert standardised.mean() == pytest.approx(0.0, abs=1e-12)
    assert standardised.std() == pytest.approx(1.0)
    np.testing.assert_allclose(standardisation.undo(standardised), targets, rtol=1e-12)


@pytest.mark.parametrize("targets", [[], [0.0], [7.0], [0.1 + 0.2, 0.3], [1e9 / 3] * 7, [0.0, 0.0]])
def test_targets_without_spread_are_only_shifted(targets):
    standardisation = Standardisation.of(np.array(targets))
    assert standardisation.constant
    assert standardisation.scale == 1.0
    assert standardisation.shift == pytest.approx(np.mean(targets) if targets else 0.0)
