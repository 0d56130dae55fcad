"""Models of the loss, and acquisitions that turn their predictions into scores."""

from headstart.surrogates.acquisition import Acquisition
from headstart.surrogates.base import Prediction, Surrogate

__all__ = ["Acquisition", "Prediction", "Surrogate"]
