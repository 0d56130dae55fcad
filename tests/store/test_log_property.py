"""A store against a model of it in plain Python."""

import json
import tempfile
from dataclasses import asdict
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.errors import InvalidInput
from headstart.space.pipeline import Pipeline
from headstart.store import Store
from headstart.trials import Fidelity, Outcome, Proposal, Status, Trial

texts = st.text(st.characters(), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
json_values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(texts, v, max_size=3), max_leaves=6
)
fidelities = st.builds(Fidelity, st.floats(0.01, 1), st.none() | st.integers(1, 5))
pipelines = st.lists(st.tuples(texts, st.dictionaries(texts, scalars, max_size=3)), min_size=1, max_size=3).map(
    lambda stages: Pipeline([name for name, _ in stages], [params for _, params in stages])
)
numbers = st.integers(0, 7)
proposals = st.builds(Proposal, numbers, pipelines, st.dictionaries(texts, json_values, max_size=3), fidelities)
details = {
    "fold_losses": st.lists(st.floats(), max_size=3).map(tuple),
    "constraints": st.dictionaries(texts, st.floats(), max_size=2),
    "seconds": st.floats(0, 1e9),
    "bytes": st.integers(0, 2**60),
    "fidelity": fidelities,
}
outcomes = st.builds(Outcome.of, st.floats(), **details) | st.builds(
    Outcome.failed, st.sampled_from([s for s in Status if s != "ok"]), texts, **details
)
times = st.floats(allow_nan=False, allow_infinity=False)
actions = st.one_of(
    st.tuples(st.just("ask"), st.lists(proposals, max_size=3)),
    st.tuples(st.just("finish"), st.tuples(numbers, outcomes, times, times, st.booleans())),
    st.tuples(st.just("tell"), st.lists(numbers, max_size=3)),
    st.tuples(st.just("reopen"), st.none()),
)


class Model:
    """What a study's log must be."""

    def __init__(self):
        self.proposals, self.trials, self.log = {}, {}, []

    def ask(self, proposals):
        given = [p.number for p in proposals]
        if len(set(given)) < len(given) or set(given) & self.proposals.keys():
            return False
        self.proposals |= {p.number: p for p in proposals}
        self.log += proposals
        return True

    def finish(self, trial, told):
        if trial.number in self.trials:
            return False
        self.trials[trial.number] = trial
        if told:
            self.log.append(trial)
        return True

    def tell(self, given):
        told = {e.number for e in self.log if isinstance(e, Trial)}
        if len(set(given)) < len(given) or set(given) & told or not set(given) <= self.trials.keys():
            return False
        self.log += [self.trials[number] for number in given]
        return True

    def content(self):
        told = {e.number for e in self.log if isinstance(e, Trial)}
        return {
            "events": self.log,
            "trials": [self.trials[i] for i in sorted(self.trials)],
            "untold": [self.trials[i] for i in sorted(self.trials.keys() - told)],
            "pending": [self.proposals[i] for i in sorted(self.proposals.keys() - self.trials.keys())],
        }


def as_text(item):
    """Exact text, in which NaN equals NaN."""
    if isinstance(item, Proposal):
        return json.dumps(item.to_dict(), sort_keys=True)
    rest = {**item.outcome.to_dict(), "fidelity": asdict(item.outcome.fidelity)}
    return json.dumps([as_text(item.proposal), rest, item.started, item.finished], sort_keys=True)


@pytest.mark.parametrize("kind", ["directory", "sqlite"])
@settings(max_examples=30, deadline=None)
@given(st.lists(actions, max_size=25))
def test_a_fresh_opening_gives_what_a_model_kept(kind, actions):
    with tempfile.TemporaryDirectory() as directory:
        location = f"{directory}/store" if kind == "directory" else f"sqlite:///{directory}/store.db"
        model = Model()
        store = Store.open(location)
        store.add_task("task", {})
        log = store.create_study("study", "task", 0, {})
        for action, content in actions:
            if action == "ask":
                accepted, call = model.ask(content), partial(log.ask, *content)
            elif action == "tell":
                accepted, call = model.tell(content), partial(log.tell, *content)
            elif action == "finish":
                number, outcome, started, finished, told = content
                if number not in model.proposals:
                    continue
                trial = Trial(model.proposals[number], outcome, started, finished)
                accepted, call = model.finish(trial, told), partial(log.finish, trial, told)
            else:
                store.close()
                store = Store.open(location)
                log = store.open_study("study")
                continue
            if accepted:
                call()
            else:
                with pytest.raises(InvalidInput):
                    call()
        store.close()
        with Store.open(location, create=False) as store:
            view = store.read_study("study")
            for method, expected in model.content().items():
                assert [as_text(e) for e in getattr(view, method)()] == [as_text(e) for e in expected], method
