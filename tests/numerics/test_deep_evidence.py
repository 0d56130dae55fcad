import numpy as np
import pytest
from scipy.stats import multivariate_normal

from headstart.numerics.deep_evidence import deep_evidence
from headstart.numerics.kernels import kernel_matrix


@pytest.mark.parametrize("lengths", [1, 4])
def test_value_and_derivatives(lengths):
    rng = np.random.default_rng(0)
    given = {
        "points": rng.standard_normal((12, 4)),
        "residuals": rng.standard_normal(12),
        "log_length_scales": 0.3 * rng.standard_normal(lengths),
        "log_output_scale": np.array(0.4),
        "log_noise": -2.0 + 0.5 * rng.standard_normal(12),
    }
    given["points"][1] = given["points"][0]  # coinciding points have finite derivatives too
    found = deep_evidence(**given, by_points=True)
    covariance = kernel_matrix("matern52", given["points"], None, given["log_length_scales"], 0.4)
    covariance += np.diag(np.exp(given["log_noise"]))
    assert found.value == pytest.approx(multivariate_normal(np.zeros(12), covariance).logpdf(given["residuals"]))
    for name, value in given.items():
        derivative = np.asarray(getattr(found, f"by_{name}"))
        assert derivative.shape == value.shape
        for place in np.ndindex(value.shape):
            if name == "points" and place[0] > 3:
                continue
            kept, ends = value[place], []
            for step in (1e-6, -1e-6):
                value[place] = kept + step
                ends.append(deep_evidence(**given).value)
            value[place] = kept
            assert derivative[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-5), name
    assert deep_evidence(**given).by_points is None
