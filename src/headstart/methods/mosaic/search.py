"""`Mosaic`: Monte-Carlo tree search over structures, Bayesian optimisation over hyper-parameters.

After chapter 4 of Rakotoarison (2022), *Some contributions to AutoML: hyper-parameter optimization and meta-learning*.

==========  ====================  ===================================================================  =============
symbol      name in code          meaning                                                              equation
==========  ====================  ===================================================================  =============
s, n(s)     `Node.path`, visits   partial structure, and how often it was visited
Q̄(s, a)     `Node.value`          median of true rewards
F̂           surrogate             one model of all pipelines, for the tree and for the playout
Q_F̂(s, a)   `_expected`           mean of F̂ over n_s random completions of s.a                         4.2
π(a | s)    `_policy`             softmax of Q_F̂(s, a) / temperature                                   4.3
C_ucb       exploration           weight of the policy against the median                              4.4
n_s         policy_samples        completions for each choice
PW          widening              a node has fewer than n(s)^PW children, or opens another
n_r         playout_samples       random completions among which the playout chooses
κ           random_starts         random pipelines of each estimator before the search
==========  ====================  ===================================================================  =============

Rewards are losses turned round and mapped to [0, 1] by the range of the history, so that C_ucb means the same for every
metric. A failure, and a trial that does not satisfy the constraints, has the reward 0.

What the thesis leaves open. It prints 0.6 and 1.3 for C_ucb, 1,000 and 100 for n_r: the ones of its section on the
experiments are the defaults. A softmax of rewards in [0, 1] is nearly uniform, so there is a temperature; 1 is the
formula as printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from headstart.constraints import total_excess
from headstart.errors import InvalidInput, check_positive
from headstart.history import History
from headstart.methods.mosaic.tree import Choices, DecisionOrder, Node, tree_of
from headstart.optimizers.base import Optimizer
from headstart.optimizers.bayes import scores_of
from headstart.optimizers.random import draw_untried, tried_ids, untried
from headstart.registry import Kind, create
from headstart.space.candidates import Candidates, Pool
from headstart.space.encoded import Encoded
from headstart.space.pipeline import Pipeline
from headstart.surrogates.acquisition import Acquisition
from headstart.surrogates.base import Surrogate
from headstart.surrogates.feasibility import Feasibility
from headstart.trials import Proposal

Array = NDArray[np.float64]
Playout = Literal["improvement", "local", "random"]

_LOCAL_STEPS = 10


class Mosaic(Optimizer):
    """Decide on the structure by a tree, on hyper-parameters by expected improvement (Rakotoarison et al., IJCAI 2019).

    One surrogate serves both. Each proposal is a walk down the tree of partial structures, the estimator first. In a
    node the child with the best sum of its median reward and of an exploration term is taken, which is large for a
    child that the surrogate expects much of and that was visited little. A node that was visited often enough opens
    another child, the one of which the surrogate expects most. From there the playout completes the pipeline.

    Parameters
    ----------
    surrogate, acquisition
        A name in the registry, or an object.
    exploration
        Weight of the exploration term; 0 takes the best median.
    widening
        A node with n visits opens another child while it has fewer than n to this power; 1 opens one at each visit.
    policy_samples
        Random completions by which a choice is judged.
    temperature
        Of the policy: how much a difference in expected reward counts. At 1 all choices are about as likely.
    playout
        ``"improvement"``: of random completions and the neighbours of the best compatible pipeline, the one with the
        highest acquisition (strategy C of the thesis); ``"local"``: local search around the best compatible pipeline by
        the surrogate's mean (B); ``"random"``: any completion (A).
    playout_samples
        Random completions for the playout.
    defaults
        Whether to begin with the default pipeline of every estimator.
    random_starts
        Random pipelines of each estimator that follow, before the search.
    order
        Names of stages to decide on first; by default the last stage, then the others as they are applied.
    """

    parts: ClassVar[Mapping[str, Kind]] = {"surrogate": "surrogate"}
    adjustable = frozenset(
        {
            "acquisition",
            "exploration",
            "widening",
            "policy_samples",
            "temperature",
            "playout",
            "playout_samples",
            "defaults",
            "random_starts",
            "order",
        }
    )

    def __init__(
        self,
        surrogate: Surrogate | str = "forest",
        acquisition: Acquisition | str = "log_ei",
        exploration: float = 1.3,
        widening: float = 0.6,
        policy_samples: int = 100,
        temperature: float = 0.1,
        playout: Playout = "improvement",
        playout_samples: int = 1000,
        defaults: bool = True,
        random_starts: int = 3,
        order: str | Sequence[str] = (),
    ) -> None:
        for name, value in (("policy_samples", policy_samples), ("playout_samples", playout_samples)):
            check_positive(name, value, whole=True)
        check_positive("temperature", temperature)
        if not exploration >= 0 or not 0 < widening <= 1 or random_starts < 0:
            raise InvalidInput(
                "exploration and random_starts must be at least 0 and widening in (0, 1], got "
                f"{exploration!r}, {random_starts!r}, {widening!r}"
            )
        if playout not in get_args(Playout):
            raise InvalidInput(f"playout must be one of {', '.join(get_args(Playout))}, got {playout!r}")
        if isinstance(acquisition, str):
            create("acquisition", acquisition)  # a wrong name is told now, not after meta-training
        self.surrogate = surrogate
        self.acquisition = acquisition
        self.exploration = exploration
        self.widening = widening
        self.policy_samples = policy_samples
        self.temperature = temperature
        self.playout: Playout = playout
        self.playout_samples = playout_samples
        self.defaults = defaults
        self.random_starts = random_starts
        self.order = (order,) if isinstance(order, str) else tuple(order)

    def prepare(self) -> None:
        self.decisions = DecisionOrder(self.task.space, self.order)
        self._model: Surrogate = create("surrogate", self.surrogate).start(self.task)
        self._acquisition: Acquisition = create("acquisition", self.acquisition)
        self._starts = self._default_pipelines() if self.defaults else {}

    def _default_pipelines(self) -> dict[str, Pipeline]:
        """The default pipeline of every choice of the first decision; of recorded ones, that nearest to it."""
        candidates, first = self.task.candidates, self.decisions.stages[0]
        found = {}
        for name in candidates.allowed()[first]:
            pipeline = self.task.space.default({first: name})
            if candidates.pool is not None:
                values = self.task.space.encode([pipeline]).values
                pipeline = candidates.nearest(values, {first: name})[0]
            found[name] = candidates.encode([pipeline])[0]
        return found

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        tried = tried_ids(self.history)
        start = self._start(tried, rng)
        if start is not None:
            return Proposal(number, *start)
        history = self.history if self._model.sees_all_fidelities else self.history.full()
        self._model.fit(history)
        candidates = self._left(tried)
        rewards = Rewards(history, self._model)
        tree = tree_of(history, self.decisions, rewards.observed.tolist())
        path = self._descend(tree, candidates, rewards, tried, rng)
        pipeline = self._complete(path, candidates, history, tried, rng)
        return Proposal(number, pipeline, {"by": "mosaic", "path": list(path)})

    def _left(self, tried: NDArray[np.int64]) -> Candidates:
        """Recorded pipelines that were not tried yet; a whole space as it is."""
        pool = self.task.candidates.pool
        if pool is None:
            return self.task.candidates
        left = ~np.isin(pool.ids, tried)
        if not left.any():
            draw_untried(self.history, np.random.default_rng(0))  # raises
        return Pool(pool.take(left))

    # -- before the search ----------------------------------------------------------------------------------------

    def _start(self, tried: NDArray[np.int64], rng: np.random.Generator) -> tuple[Pipeline, dict[str, Any]] | None:
        """The next pipeline to begin with and its origin: default ones, then random ones of each estimator."""
        for name, pipeline in self._starts.items():
            if not np.isin(self.task.candidates.encode([pipeline]).ids, tried).any():
                return pipeline, {"by": "default", "path": [name]}
        if not self.random_starts:
            return None
        made = [*(trial.proposal for trial in self.history), *self.history.pending.values()]
        drawn = Counter(p.origin["path"][0] for p in made if p.origin.get("by") == "start")
        names = self.task.candidates.allowed()[self.decisions.stages[0]]
        for name in sorted(names, key=lambda name: drawn[name]):
            if drawn[name] < self.random_starts:
                left = untried(self.decisions.completions(self.task.candidates, (name,), rng, 64), tried)
                if len(left):
                    return left[0], {"by": "start", "path": [name]}
        return None

    # -- down the tree --------------------------------------------------------------------------------------------

    def _descend(
        self,
        root: Node,
        candidates: Candidates,
        rewards: Rewards,
        tried: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Choices:
        """Selection and expansion: from the root to a node whose completions the playout chooses from."""
        node, path = root, root.path
        while len(path) < len(self.decisions):
            names = self.decisions.choices(candidates, path)
            if len(names) == 1:  # nothing to decide
                path = (*path, names[0])
                node = node.children.get(names[0], Node(path))
                continue
            expected = self._expected(candidates, path, names, rewards, tried, rng)
            if not expected:
                break
            opened = [name for name in expected if name in node.children]
            if len(opened) < min(len(expected), max(1.0, node.visits**self.widening)):
                best = max((name for name in expected if name not in opened), key=lambda name: expected[name])
                return (*path, best)
            policy = self._policy(expected)
            children = {name: node.children[name] for name in opened}
            scores = {
                name: child.value + self.exploration * policy[name] * np.sqrt(node.visits) / (1 + child.visits)
                for name, child in children.items()
            }
            node = children[max(scores, key=lambda name: scores[name])]
            path = node.path
        return path

    def _expected(
        self,
        candidates: Candidates,
        path: Choices,
        names: Sequence[str],
        rewards: Rewards,
        tried: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> dict[str, float]:
        """Mean expected reward of random completions, for each choice after a partial structure.

        Choices all of whose completions were tried, such as an estimator without hyper-parameters, are left out.
        """
        paths = [(*path, name) for name in names]
        drawn = self.decisions.completions_each(candidates, paths, rng, self.policy_samples)
        left = {n: part for n, part in zip(names, drawn, strict=True) if not np.isin(part.ids, tried).all()}
        if not left:
            return {}
        found = rewards.expected(Encoded.concatenate(list(left.values())))  # in one prediction
        parts = np.split(found, np.cumsum([len(part) for part in left.values()])[:-1])
        return {name: float(part.mean()) for name, part in zip(left, parts, strict=True)}

    def _policy(self, expected: Mapping[str, float]) -> dict[str, float]:
        values = np.array(list(expected.values())) / self.temperature
        shares = np.exp(values - values.max())
        return dict(zip(expected, (shares / shares.sum()).tolist(), strict=True))

    # -- playout --------------------------------------------------------------------------------------------------

    def _complete(
        self,
        path: Choices,
        candidates: Candidates,
        history: History,
        tried: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Pipeline:
        """A pipeline that agrees with a partial structure and was not tried yet."""
        n = 64 if self.playout == "random" else self.playout_samples
        left = untried(self.decisions.completions(candidates, path, rng, n), tried)
        if self.playout == "random" and len(left):
            return left[0]
        near = self._near_best(path, history, tried, rng)
        if self.playout == "local":
            if near is not None and len(near):
                return self._climb(path, near, tried, rng)
            if len(left):
                return left[0]
        found = Encoded.concatenate([left, near]) if near is not None and len(near) else left
        if not len(found):  # of a small space; a pool has no node without candidates
            return draw_untried(self.history, rng)[0]
        scores = scores_of(self._model, self._acquisition, history)(found)
        best = np.flatnonzero(scores == scores.max())
        return found[int(best[0] if len(best) == 1 else rng.choice(best))]

    def _near_best(
        self, path: Choices, history: History, tried: NDArray[np.int64], rng: np.random.Generator
    ) -> Encoded | None:
        """Untried neighbours of the best trial that agrees with a partial structure; ``None`` without such a trial."""
        for i in history.order().tolist():
            pipeline = history[i].pipeline
            if history[i].outcome.ok and self.decisions.path(pipeline)[: len(path)] == path:
                return untried(self.decisions.neighbours(self.task.candidates, path, pipeline, rng), tried)
        return None

    def _climb(self, path: Choices, near: Encoded, tried: NDArray[np.int64], rng: np.random.Generator) -> Pipeline:
        """Where local search by the surrogate's mean ends."""
        best, lowest = near[0], np.inf
        for _ in range(_LOCAL_STEPS):
            means = self._model.predict(near).mean
            if not means.min() < lowest:
                break
            best, lowest = near[int(means.argmin())], float(means.min())
            near = untried(self.decisions.neighbours(self.task.candidates, path, best, rng), tried)
            if not len(near):
                break
        return best


class Rewards:
    """Losses as rewards in [0, 1], 1 for the best of a history, and what a surrogate expects.

    Losses far above the others count as much as twice the distance from the best to the median, for otherwise a single
    one would make all the others alike. As long as no trial satisfies the constraints, the reward is how near one
    comes, and what is expected is the probability that they hold.

    Attributes
    ----------
    observed
        (n,) of the trials.
    """

    def __init__(self, history: History, model: Surrogate) -> None:
        self._model = model
        self._feasibility = Feasibility(history) if history.constraints else None
        excess = np.array([total_excess(history.constraints, t.outcome.constraints) for t in history])
        good = history.ok & (excess == 0)
        self._range = (0.0, 0.0)
        self.observed = np.zeros(len(history))
        if good.any():
            targets = history.targets()[good]
            best, middle = float(targets.min()), float(np.median(targets))
            if middle > best:
                targets = np.minimum(targets, middle + (middle - best))
            units = model.transform_targets(targets)
            self._range = (float(units.min()), float(units.max()))
            self.observed[good] = self._reward(units)
        else:
            near = history.ok & np.isfinite(excess)
            if near.any():
                self.observed[near] = 1.0 - excess[near] / excess[near].max()
        self._any_good = bool(good.any())

    def _reward(self, units: Array) -> Array:
        best, worst = self._range
        if not worst > best:
            return np.where(units <= best, 1.0, 0.0)
        return np.clip((worst - units) / (worst - best), 0.0, 1.0)

    def expected(self, encoded: Encoded) -> Array:
        """(n,): reward of the surrogate's mean, times the probability that the constraints hold."""
        reward = self._reward(self._model.predict(encoded).mean) if self._any_good else np.ones(len(encoded))
        if self._feasibility is None:
            return reward
        return np.asarray(reward * np.exp(self._feasibility.log_probability(encoded)))
