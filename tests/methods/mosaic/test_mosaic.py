"""Mosaic: the tree, its policy and its playouts."""

from dataclasses import replace
from statistics import median

import numpy as np
import pytest

from headstart.constraints import Constraint
from headstart.errors import InvalidInput
from headstart.evaluation.synthetic import Synthetic
from headstart.methods.mosaic import Mosaic, tree_of
from headstart.methods.mosaic.search import Rewards
from headstart.methods.mosaic.tree import ORDER, DecisionOrder, Node
from headstart.optimizers.base import decision_stream
from headstart.space import Algorithm, Float, PipelineSpace, Stage, catalog
from headstart.space.candidates import Pool
from headstart.space.encoded import Encoded
from headstart.study import Study
from headstart.task import Task
from headstart.testing.examples import feed, live_task, pool_task, random_trials
from headstart.testing.optimizers import OptimizerContract
from headstart.trials import Outcome, Proposal, Status, Trial

SVC = "sklearn.svm:SVC"


def small_space(free_order: bool = False) -> PipelineSpace:
    """Three estimators, two scalers, two reducers, each algorithm with one number."""
    number = [Float("x", 0, 1)]
    return PipelineSpace(
        "small",
        [
            Stage("scaler", [Algorithm("none"), Algorithm("standard", "sklearn.preprocessing:StandardScaler")]),
            Stage("reducer", [Algorithm("plain"), Algorithm("pca", "sklearn.decomposition:PCA", number)]),
            Stage("estimator", [Algorithm(name, SVC, number) for name in ("good", "fair", "poor")]),
        ],
        free_order=free_order,
    )


def known_best(pipeline, limits, seed, fidelity=None):
    """One structure is the best by far; a hyper-parameter of the estimator adds a little."""
    loss = {"good": 0.1, "fair": 0.4, "poor": 0.8}[pipeline.algorithms[2]]
    loss += 0.2 * (pipeline.algorithms[0] == "none") + 0.1 * (pipeline.algorithms[1] == "pca")
    return Outcome.of(loss + 0.05 * (pipeline.params[2]["x"] - 0.7) ** 2)


def searched(optimizer: Mosaic, evaluations: int, space: PipelineSpace | None = None, seed: int = 0) -> Study:
    study = Study(Task(space or small_space()), known_best, optimizer, seed=seed)
    study.run(evaluations=evaluations)
    return study


def tell(optimizer: Mosaic, proposal: Proposal, outcome: Outcome) -> None:
    if proposal.number not in optimizer.history.pending:
        optimizer.restore(proposal)
    optimizer.tell(Trial(proposal, outcome, 0.0, 1.0))


class TestContract(OptimizerContract):
    def make(self, task):
        return Mosaic(policy_samples=10, playout_samples=30, random_starts=1)


class TestWithoutStarts(OptimizerContract):
    def make(self, task):
        return Mosaic(policy_samples=10, playout_samples=30, defaults=False, random_starts=0)


# -- the tree ----------------------------------------------------------------------------------------------------------


def test_estimator_is_decided_on_first_unless_told():
    space = small_space()
    assert DecisionOrder(space).names == ["estimator", "scaler", "reducer"]
    assert DecisionOrder(space, ["reducer"]).names == ["reducer", "scaler", "estimator"]
    with pytest.raises(InvalidInput, match="order must name stages of scaler, reducer, estimator, each once"):
        DecisionOrder(space, ["classifier"])


def test_order_of_steps_is_the_last_decision_where_it_is_free():
    space = small_space(free_order=True)
    decisions = DecisionOrder(space)
    assert decisions.names == ["estimator", "scaler", "reducer", ORDER]
    path = ("good", "standard", "pca")
    orders = decisions.choices(space, path)
    assert set(orders) == {"scaler > reducer > estimator", "reducer > scaler > estimator"}
    drawn = decisions.completions(space, (*path, orders[1]), np.random.default_rng(0), 20)
    assert {decisions.path(pipeline) for pipeline in drawn} == {(*path, orders[1])}
    near = decisions.neighbours(space, (*path, orders[1]), drawn[0], np.random.default_rng(0))
    assert len(near)
    assert {decisions.path(pipeline) for pipeline in near} == {(*path, orders[1])}


def test_order_of_recorded_pipelines_is_a_decision_too():
    space = small_space(free_order=True)
    drawn = space.sample(np.random.default_rng(0), 60)
    pool = Pool(Encoded(space, drawn.values, drawn.active, drawn.choice, drawn.order, np.arange(60)))
    decisions = DecisionOrder(space)
    path = decisions.path(pool.pool[0])
    compatible = [p for p in pool.pool if decisions.path(p)[:3] == path[:3]]
    assert set(decisions.choices(pool, path[:3])) == {decisions.path(p)[3] for p in compatible}
    found = decisions.completions(pool, path, np.random.default_rng(0), 60)
    assert {p.id for p in found} == {p.id for p in compatible if decisions.path(p) == path}
    study = Study(Task(pool), known_best, Mosaic(policy_samples=5, playout_samples=10))
    assert study.run(evaluations=100) is study.history
    assert len(study.history) == 60


def test_every_compatible_trial_counts_in_a_node():
    """Visits and medians by counting pipelines, whichever way they were proposed."""
    study = searched(Mosaic(policy_samples=5, playout_samples=20), 60)
    decisions = DecisionOrder(study.task.space)
    rewards = np.random.default_rng(0).random(len(study.history)).tolist()
    root = tree_of(study.history, decisions, rewards)
    paths = [decisions.path(trial.pipeline) for trial in study.history]
    nodes = list(root.walk())
    assert len(nodes) > 8
    for node in nodes:
        mine = [reward for path, reward in zip(paths, rewards, strict=True) if path[: len(node.path)] == node.path]
        assert node.visits == len(mine)
        assert node.value == median(mine)


def test_median_is_of_true_results_and_failures_count_as_the_worst():
    task = Task(small_space())
    optimizer = Mosaic(defaults=False, random_starts=0).start(task)
    losses = {"good": [0.2, None, 0.4], "fair": [0.3], "poor": [None]}
    number = 0
    rng = np.random.default_rng(0)
    for name, found in losses.items():
        for loss in found:
            proposal = Proposal(number, task.space.sample(rng, 1, {"estimator": name})[0])
            outcome = Outcome.of(loss) if loss is not None else Outcome.failed(Status.CRASHED, "it crashed")
            tell(optimizer, proposal, outcome)
            number += 1
    optimizer._model.fit(optimizer.history)
    rewards = Rewards(optimizer.history, optimizer._model)
    np.testing.assert_allclose(rewards.observed, [1.0, 0.0, 0.0, 0.5, 0.0])  # 0.2 is the best, 0.4 the worst
    children = tree_of(optimizer.history, optimizer.decisions, rewards.observed.tolist()).children
    assert {name: node.value for name, node in children.items()} == {"good": 0.0, "fair": 0.5, "poor": 0.0}
    assert children["good"].losses == [0.2, 0.4]


def test_one_huge_loss_does_not_make_the_others_alike():
    task = Task(small_space())
    optimizer = Mosaic().start(task)
    for number, loss in enumerate([0.1, 0.2, 0.3, 1e9]):
        proposal = Proposal(number, task.space.sample(np.random.default_rng(number))[0])
        tell(optimizer, proposal, Outcome.of(loss))
    optimizer._model.fit(optimizer.history)
    observed = Rewards(optimizer.history, optimizer._model).observed
    assert observed[0] == 1.0
    assert observed[3] == 0.0
    assert np.diff(observed[:3]).max() < -0.2


def test_infeasible_trials_rank_behind_feasible_ones_and_by_excess_among_themselves():
    task = Task(small_space(), constraints=[Constraint("cost", 1.0)])
    rng = np.random.default_rng(0)

    def observed(trials):
        optimizer = Mosaic().start(task)
        for number, (loss, cost) in enumerate(trials):
            proposal = Proposal(number, task.space.sample(rng)[0])
            tell(optimizer, proposal, Outcome.of(loss, constraints={"cost": cost}))
        optimizer._model.fit(optimizer.history)
        rewards = Rewards(optimizer.history, optimizer._model)
        expected = rewards.expected(task.space.sample(rng, 30))
        assert ((expected >= 0) & (expected <= 1)).all()
        return rewards.observed.tolist()

    mixed = observed([(0.1, 5.0), (0.5, 0.5), (0.4, 0.9), (0.2, 1.1)])
    assert mixed[0] == mixed[3] == 0.0
    assert mixed[2] == 1.0
    none = observed([(0.1, 5.0), (0.5, 2.0), (0.4, 3.0)])
    assert none[1] > none[2] > none[0] == 0.0


# -- selection, expansion, widening ------------------------------------------------------------------------------------


def test_expected_reward_of_a_branch_is_the_mean_over_its_completions():
    """Equation 4.2 with all completions of a pool, by hand."""
    task = pool_task()
    optimizer = Mosaic(policy_samples=10**6).start(task)
    feed(optimizer, random_trials(task, 20))
    optimizer._model.fit(optimizer.history)
    rewards = Rewards(optimizer.history, optimizer._model)
    names = optimizer.decisions.choices(task.candidates, ())
    found = optimizer._expected(task.candidates, (), names, rewards, np.array([]), np.random.default_rng(0))
    stage = task.space.stages[-1]
    everything = rewards.expected(task.candidates.pool)
    for name in names:
        members = task.candidates.pool.choice[:, -1] == stage.position(name)
        assert found[name] == pytest.approx(everything[members].mean())


def test_policy_is_a_softmax_with_a_temperature():
    expected = {"a": 0.9, "b": 0.5, "c": 0.1}
    printed = Mosaic(temperature=1.0)._policy(expected)
    weights = np.exp([0.9, 0.5, 0.1])
    np.testing.assert_allclose(list(printed.values()), weights / weights.sum())
    assert max(printed.values()) < 0.5  # nearly uniform, which is why there is a temperature
    assert Mosaic(temperature=0.1)._policy(expected)["a"] > 0.95


def test_selection_follows_the_printed_criterion(monkeypatch):
    """Equation 4.4 on a node with three open children, computed by hand."""
    task = Task(small_space())
    children = {
        "good": Node(("good",), 5, [0.6] * 5),
        "fair": Node(("fair",), 2, [0.5] * 2),
        "poor": Node(("poor",), 1, [0.1]),
    }
    root = Node((), 8, [0.5] * 8, children=children)
    expected = {"good": 0.5, "fair": 0.6, "poor": 0.4}
    for exploration in (0.0, 0.5, 1.3, 10.0, 100.0):
        optimizer = Mosaic(exploration=exploration, temperature=1.0).start(task)
        monkeypatch.setattr(
            optimizer, "_expected", lambda candidates, path, names, *rest: {n: expected.get(n, 0.5) for n in names}
        )
        policy = optimizer._policy(expected)
        by_hand = {
            name: node.value + exploration * policy[name] * np.sqrt(8) / (1 + node.visits)
            for name, node in children.items()
        }
        path = optimizer._descend(root, task.candidates, None, np.array([]), np.random.default_rng(0))
        assert path[0] == max(by_hand, key=by_hand.get)
    assert max(by_hand, key=by_hand.get) == "poor"  # much exploration: the one visited least


def test_widening_opens_children_at_the_right_visits():
    """Child k + 1 is opened as soon as k < n^PW, n being the visits before."""
    names = [f"e{i}" for i in range(12)]
    space = PipelineSpace("flat", [Stage("estimator", [Algorithm(n, SVC, [Float("x", 0, 1)]) for n in names])])
    for widening in (0.5, 0.7, 1.0):
        optimizer = Mosaic(
            widening=widening, defaults=False, random_starts=0, policy_samples=3, playout_samples=5
        ).start(Task(space))
        opened = []
        for _ in range(20):
            (proposal,) = optimizer.ask(1)
            tell(optimizer, proposal, Outcome.of(float(proposal.pipeline.params[0]["x"])))
            opened.append(len({t.pipeline.algorithms[0] for t in optimizer.history}))
        expected, count = [], 0
        for n in range(20):
            count += count < min(12, max(1, n**widening))
            expected.append(count)
        assert opened == expected


def test_expansion_opens_the_choice_of_which_most_is_expected(monkeypatch):
    optimizer = Mosaic().start(Task(small_space()))
    monkeypatch.setattr(optimizer, "_expected", lambda *args: {"good": 0.2, "fair": 0.9, "poor": 0.5})
    assert optimizer._descend(Node(), optimizer.task.candidates, None, np.array([]), np.random.default_rng(0)) == (
        "fair",
    )


def test_visits_concentrate_on_the_best_structure():
    study = searched(Mosaic(policy_samples=20, playout_samples=50), 80)
    decisions = DecisionOrder(study.task.space)
    later = [decisions.path(trial.pipeline) for trial in list(study.history)[20:]]
    assert later.count(("good", "standard", "plain")) > 0.5 * len(later)
    assert study.history.best.outcome.loss < 0.101


def test_a_branch_that_is_used_up_is_left():
    best = Algorithm("best", SVC)  # without hyper-parameters: two pipelines
    others = [Algorithm(name, SVC, [Float("x", 0, 1)]) for name in ("fair", "poor")]
    scalers = [Algorithm("none"), Algorithm("standard", "sklearn.preprocessing:StandardScaler")]
    space = PipelineSpace("used up", [Stage("scaler", scalers), Stage("estimator", [best, *others])])

    def objective(pipeline, limits, seed, fidelity=None):
        return Outcome.of({"best": 0.1, "fair": 0.3, "poor": 0.9}[pipeline.algorithms[1]])

    optimizer = Mosaic(policy_samples=20, playout_samples=50, random_starts=0)
    study = Study(Task(space), objective, optimizer, seed=0)
    study.run(evaluations=30)
    trials = list(study.history)
    decisions = DecisionOrder(space)
    for trial in trials:
        path = tuple(trial.proposal.origin["path"])
        assert decisions.path(trial.pipeline)[: len(path)] == path
    tried = [trial.pipeline.algorithms[1] for trial in trials]
    assert tried.count("best") == 2
    assert tried.count("fair") > 2 * tried.count("poor")


def test_without_exploration_it_is_greedy():
    """After the starts every walk takes the child with the best median."""
    study = searched(Mosaic(exploration=0.0, widening=0.01, policy_samples=10, playout_samples=20), 40)
    decisions = DecisionOrder(study.task.space)
    for trial in list(study.history)[12:]:
        assert decisions.path(trial.pipeline)[0] == "good"


def test_a_proposal_under_way_is_a_visit_without_reward():
    optimizer = Mosaic(policy_samples=10, playout_samples=20, random_starts=1).start(Task(small_space()))
    for _ in range(12):
        (proposal,) = optimizer.ask(1)
        tell(optimizer, proposal, known_best(proposal.pipeline, None, 0))
    proposals = optimizer.ask(6)
    paths = [optimizer.decisions.path(p.pipeline) for p in proposals]
    for node in tree_of(optimizer.history, optimizer.decisions, [0.5] * 12).walk():
        waiting = sum(path[: len(node.path)] == node.path for path in paths)
        assert node.rewards.count(0.0) == waiting
        assert node.visits == node.rewards.count(0.5) + waiting


def test_asks_in_a_row_spread_out():
    """Two estimators are alike but for a little: what is under way with one makes the other the next to try."""
    optimizer = Mosaic(policy_samples=10, playout_samples=20, random_starts=2).start(Task(small_space()))
    for _ in range(20):
        (proposal,) = optimizer.ask(1)
        loss = {"good": 0.2, "fair": 0.21, "poor": 0.8}[proposal.pipeline.algorithms[2]]
        tell(optimizer, proposal, Outcome.of(loss + 0.01 * proposal.pipeline.params[2]["x"]))
    assert {p.pipeline.algorithms[2] for p in optimizer.ask(15)} >= {"good", "fair"}


# -- starts and playout ------------------------------------------------------------------------------------------------


def test_begins_with_every_default_then_random_ones_of_each():
    study = searched(Mosaic(policy_samples=5, playout_samples=10), 13)
    space = study.task.space
    begun = [t.pipeline for t in study.history]
    assert begun[:3] == [space.default({"estimator": name}) for name in ("good", "fair", "poor")]
    assert [p.algorithms[2] for p in begun[3:12]] == ["good", "fair", "poor"] * 3
    assert [t.proposal.origin["by"] for t in study.history] == ["default"] * 3 + ["start"] * 9 + ["mosaic"]


def test_default_of_recorded_pipelines_is_the_nearest():
    task = pool_task()
    optimizer = Mosaic().start(task)
    stage = task.space.stages[-1].name
    for name, pipeline in optimizer._starts.items():
        wanted = task.space.encode([task.space.default({stage: name})]).values
        assert pipeline == task.candidates.nearest(wanted, {stage: name})[0]
        assert pipeline.id is not None


@pytest.mark.parametrize("playout", ["improvement", "local", "random"])
def test_playouts_agree_with_the_path_and_repeat_nothing(playout):
    study = searched(Mosaic(playout=playout, policy_samples=10, playout_samples=30), 50)
    decisions = DecisionOrder(study.task.space)
    for trial in study.history:
        path = tuple(trial.proposal.origin["path"])
        assert decisions.path(trial.pipeline)[: len(path)] == path
    assert len({t.pipeline for t in study.history}) == 50


def test_playout_takes_the_highest_expected_improvement():
    """On a pool with more samples than members the chosen one is the best of all that agree with the path."""
    from headstart.optimizers.bayes import scores_of

    task = pool_task()
    optimizer = Mosaic(defaults=False, random_starts=0, policy_samples=10**6, playout_samples=10**6).start(task)
    feed(optimizer, random_trials(task, 15))
    number = len(optimizer.history)
    proposal = optimizer.suggest(number, decision_stream(0, number))
    path = tuple(proposal.origin["path"])
    scores = scores_of(optimizer._model, optimizer._acquisition, optimizer.history)(task.candidates.pool)
    tried = {t.pipeline.id for t in optimizer.history}
    agree = [
        score
        for pipeline, score in zip(task.candidates.pool, scores, strict=True)
        if optimizer.decisions.path(pipeline)[: len(path)] == path and pipeline.id not in tried
    ]
    chosen = scores[[p.id for p in task.candidates.pool].index(proposal.pipeline.id)]
    assert chosen == max(agree)


def test_surrogate_is_never_certain():
    task = live_task()
    optimizer = Mosaic().start(task)
    feed(optimizer, random_trials(task, 30))
    optimizer._model.fit(optimizer.history)
    assert (optimizer._model.predict(task.space.sample(np.random.default_rng(0), 200)).std > 0).all()


def test_any_surrogate():
    task = Task(small_space())
    for surrogate in ("gp", "forest"):
        optimizer = Mosaic(surrogate=surrogate, policy_samples=10, playout_samples=20, random_starts=0).start(task)
        for _ in range(10):
            (proposal,) = optimizer.ask(1)
            tell(optimizer, proposal, known_best(proposal.pipeline, None, 0))
        assert optimizer.history.best.pipeline.algorithms[2] == "good"


def test_keeps_to_a_bound():
    """The best structure breaks the bound: the visits go to the next one."""
    task = replace(Task(small_space()), constraints=[Constraint("cost", 0.5)])

    def objective(pipeline, limits, seed, fidelity=None):
        outcome = known_best(pipeline, limits, seed)
        return Outcome.of(outcome.loss, constraints={"cost": 1.0 if pipeline.algorithms[2] == "good" else 0.1})

    study = Study(task, objective, Mosaic(policy_samples=20, playout_samples=50, random_starts=1))
    history = study.run(evaluations=50)
    assert history.best.pipeline.algorithms == ("standard", "plain", "fair")
    later = [t.pipeline.algorithms[2] for t in list(history)[15:]]
    assert later.count("fair") > 0.5 * len(later)


def test_default_space_with_many_estimators():
    space = catalog.load("classification")
    study = Study(Task(space), Synthetic(space, 0), Mosaic(policy_samples=5, playout_samples=20, random_starts=0))
    history = study.run(evaluations=30)
    assert len({t.pipeline.algorithms[-1] for t in list(history)[:19]}) == 19


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"exploration": -1}, "exploration"),
        ({"widening": 0}, "widening"),
        ({"widening": 1.5}, "widening"),
        ({"temperature": 0}, "temperature must be a positive number"),
        ({"policy_samples": 0}, "policy_samples must be"),
        ({"playout": "C"}, "playout must be one of improvement, local, random, got 'C'"),
    ],
)
def test_settings_that_cannot_be_meant(settings, message):
    with pytest.raises(InvalidInput, match=message):
        Mosaic(**settings)
