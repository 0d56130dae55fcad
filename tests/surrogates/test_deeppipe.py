import pytest

from headstart.surrogates.deeppipe import DeepPipe
from headstart.testing import SurrogateContract

torch = pytest.importorskip("torch")
KNOWN = {}
SMALL = {"factor": 2, "outputs": 5, "steps": 60, "n_tasks": 4, "n_pipelines": 40}


class TrainedOnce(DeepPipe):
    """The contract meta-trains for every test."""

    def learn(self, meta, rng):
        settings = {k: v for k, v in self.describe().items() if "tune" not in k and k not in ("failures", "own_noise")}
        key = meta.key, repr(settings)
        if key not in KNOWN:
            KNOWN[key] = super().learn(meta, rng)
        return dict(KNOWN[key])


class TestDeepPipe(SurrogateContract):
    def make(self):
        return TrainedOnce(**SMALL)


class TestDeepPipeOfThePaper(SurrogateContract):
    def make(self):
        return TrainedOnce.paper(**{**SMALL, "fine_tune_steps": 5, "learning_rate": 1e-2})


class TestDeepPipeWithItsKernelTuned(SurrogateContract):
    def make(self):
        return TrainedOnce(**SMALL, fine_tune="kernel", fine_tune_steps=5, failures="ignored")


class TestDeepPipeWithAllTuned(SurrogateContract):
    def make(self):
        return TrainedOnce(
            **SMALL, mean="linear", encoder_layers=2, fine_tune="all", fine_tune_steps=5, targets="standardised"
        )


class TestDeepPipeWithoutOtherTasks(SurrogateContract):
    def make(self):
        return DeepPipe(**SMALL, mean="zero", noise="shared", transfer=False, fine_tune="all", fine_tune_steps=30)
