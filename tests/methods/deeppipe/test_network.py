import numpy as np
import pytest

from headstart.errors import InvalidInput, SpaceError
from headstart.methods.deeppipe.growth import belonging_to, grown
from headstart.methods.deeppipe.network import PipelineNetwork
from headstart.space import Algorithm, Float, PipelineSpace, Stage
from headstart.testing.examples import small_space

SHAPES = [
    {"encoder_layers": 0, "aggregation_layers": 4},
    {"encoder_layers": 1, "aggregation_layers": 3, "mean": "linear", "noise": "network"},
    {"encoder_layers": 2, "aggregation_layers": 2, "mean": "linear"},
    {"encoder_layers": 2, "aggregation_layers": 2, "one_hot": False},
    {"encoder_layers": 1, "aggregation_layers": 0},
    {"encoder_layers": 0, "aggregation_layers": 0, "mean": "linear", "noise": "network"},
]


def space_of(*stages, free_order=False):
    """Stages given by the numbers of hyper-parameters of their algorithms."""
    return PipelineSpace(
        "made",
        [
            Stage(
                f"s{s}",
                [Algorithm(f"a{a}", params=[Float(f"p{k}", 0, 1) for k in range(n)]) for a, n in enumerate(sizes)],
            )
            for s, sizes in enumerate(stages)
        ],
        free_order=free_order,
    )


def random_parameters(network, seed=0):
    """Also biases, and heads that begin at 0."""
    rng = np.random.default_rng(seed)
    return {k: v + 0.3 * rng.standard_normal(v.shape) for k, v in network.initial(rng).items()}


def plainly(network, parameters, pipeline):
    """The embedding of one pipeline as the paper writes it: only encoders of chosen algorithms, one after another."""
    space, parts = network.space, []
    encoded = space.encode([pipeline])
    for s, stage in enumerate(space.stages):
        a = int(encoded.choice[0, s])
        columns = space.columns(stage.name, stage.algorithms[a].name)
        hidden = encoded.values[0, columns]
        if network.encoder_layers == 0:
            for b, algorithm in enumerate(stage.algorithms):
                width = space.columns(stage.name, algorithm.name)
                parts.append(hidden if a == b else np.zeros(width.stop - width.start))
            continue
        before = sum(p.width for algorithm in stage.algorithms[:a] for p in algorithm.params)
        rows = parameters[f"encoder.{s}.0.weight"][before : before + len(hidden)]
        hidden = np.maximum(0, hidden @ rows + parameters[f"encoder.{s}.0.bias"][a])
        for i in range(1, network.encoder_layers):
            layer = f"encoder.{s}.{i}"
            hidden = np.maximum(0, hidden @ parameters[f"{layer}.weight"][a] + parameters[f"{layer}.bias"][a])
        parts.append(hidden)
    if network.one_hot:
        for s, stage in enumerate(space.stages):
            if len(stage.algorithms) > 1:
                parts.append(np.eye(len(stage.algorithms))[encoded.choice[0, s]])
    hidden = np.concatenate(parts)
    for i in range(network.aggregation_layers):
        weight, bias = parameters[f"aggregation.{i}.weight"], parameters[f"aggregation.{i}.bias"]
        hidden = np.maximum(0, hidden @ weight + bias)
    if network.aggregation_layers == 0:
        return hidden
    return hidden @ parameters["points.0.weight"] + parameters["points.0.bias"]


@pytest.mark.parametrize("shape", SHAPES)
def test_it_embeds_as_the_equations_say(shape):
    network = PipelineNetwork(small_space(), factor=3, outputs=4, **shape)
    parameters = random_parameters(network)
    encoded = small_space().sample(np.random.default_rng(1), 30)
    points = network(parameters, encoded.features()).points
    assert points.shape == (30, network.outputs)
    for i, pipeline in enumerate(encoded):
        np.testing.assert_allclose(points[i], plainly(network, parameters, pipeline), atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_torch_gives_what_numpy_gives_also_for_many_tasks(shape):
    torch = pytest.importorskip("torch")
    network = PipelineNetwork(small_space(), factor=3, outputs=4, **shape)
    parameters = random_parameters(network)
    features = small_space().sample(np.random.default_rng(2), 24).features().copy()
    tensors = {k: torch.from_numpy(v) for k, v in parameters.items()}
    expected = network(parameters, features)
    for shaped in (features, features.reshape(2, 12, -1)):
        found = network(tensors, torch.from_numpy(shaped))
        for name in ("points", "mean", "log_noise"):
            one, other = getattr(expected, name), getattr(found, name)
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(other.reshape(one.shape).numpy(), one, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_hyperparameters_of_algorithms_that_are_not_chosen_change_nothing(shape):
    space = small_space()
    network = PipelineNetwork(space, factor=3, outputs=4, **shape)
    parameters = random_parameters(network)
    encoded = space.sample(np.random.default_rng(3), 40)
    features = encoded.features().copy()
    before = network(parameters, features)
    for s, a, _, columns in space.blocks():
        rows = np.flatnonzero(encoded.choice[:, s] != a)
        features[np.ix_(rows, np.arange(columns.start, columns.stop))] = 0.7
    assert not np.array_equal(features, encoded.features())
    after = network(parameters, features)
    np.testing.assert_array_equal(after.points, before.points)
    if before.mean is not None:
        np.testing.assert_array_equal(after.mean, before.mean)


@pytest.mark.parametrize("shape", SHAPES)
def test_equal_pipelines_have_equal_embeddings_and_others_have_not(shape):
    space = small_space()
    network = PipelineNetwork(space, factor=3, outputs=4, **shape)
    parameters = random_parameters(network)
    encoded = space.sample(np.random.default_rng(4), 60).unique()
    points = network(parameters, encoded.features()).points
    again = network(parameters, space.encode(list(encoded)[::-1]).features()).points[::-1]
    np.testing.assert_allclose(points, again, atol=1e-12)
    distances = ((points[:, None] - points[None]) ** 2).sum(-1)
    assert (distances[np.triu_indices(len(points), 1)] > 1e-12).mean() > 0.99


@pytest.mark.parametrize("shape", SHAPES)
def test_derivatives_agree_with_finite_differences(shape):
    network = PipelineNetwork(small_space(), factor=2, outputs=3, **shape)
    parameters = random_parameters(network)
    features = small_space().sample(np.random.default_rng(12), 15).features()
    rng = np.random.default_rng(6)
    outputs, pullback = network.with_pullback(parameters, features)
    plain = network(parameters, features)
    weights = {"points": rng.standard_normal(outputs.points.shape)}
    for name in ("mean", "log_noise"):
        if getattr(outputs, name) is not None:
            weights[name] = rng.standard_normal(len(features))
    for name in weights:
        np.testing.assert_allclose(getattr(outputs, name), getattr(plain, name), atol=1e-13)

    def scalar():
        found = network(parameters, features)
        return sum(float((getattr(found, name) * weight).sum()) for name, weight in weights.items())

    by = pullback(weights["points"], weights.get("mean"), weights.get("log_noise"))
    assert by.keys() == parameters.keys()
    for name, value in parameters.items():
        assert by[name].shape == value.shape
        for _ in range(3):
            place = tuple(rng.integers(0, n) for n in value.shape)
            kept = value[place]
            ends = []
            for step in (1e-7, -1e-7):
                value[place] = kept + step
                ends.append(scalar())
            value[place] = kept
            assert by[name][place] == pytest.approx((ends[0] - ends[1]) / 2e-7, rel=1e-5, abs=1e-5), name


SIZES = {
    # |Λ_ij| of tables 5 to 7, with the groups of appendix F.
    "pmf": ((3, 2), (9, 10, 13, 4, 10, 9, 7, 5)),
    "tensor_oboe": ((4,), (1,), (1,), (1, 1, 1), (3, 4, 5, 5, 3, 1, 2, 1, 2, 2)),
    "zap": ((1, 1, 1, 1), (31,)),
}


@pytest.mark.parametrize(
    ("sizes", "total", "stages"),
    [(SIZES["pmf"], 72, 16), (SIZES["tensor_oboe"], 37, 12), (SIZES["zap"], 35, 32)],
)
@pytest.mark.parametrize("factor", [4, 8])
def test_weights_are_counted_by_equations_7_and_8(sizes, total, stages, factor):
    space = space_of(*sizes)
    assert sum(map(sum, sizes)) == total
    assert sum(map(max, sizes)) == stages
    for layers in (0, 1, 2):
        network = PipelineNetwork(space, factor=factor, encoder_layers=layers, aggregation_layers=4 - layers)
        units = factor * stages
        if layers == 0:
            expected = total * units + 3 * units**2
        else:
            expected = sum(n * factor * max(stage) for stage in sizes for n in stage)
            expected += (layers - 1) * sum(len(stage) * (factor * max(stage)) ** 2 for stage in sizes)
            expected += (4 - layers) * units**2
        assert network.weights == expected
        # The same from the arrays: without biases, the output layer and the rows of one-hot choices.
        parameters = network.initial(np.random.default_rng(0))
        held = sum(v.size for k, v in parameters.items() if k.endswith("weight") and not k.startswith("points"))
        assert held - sum(label[0] == "choice" for label in network.labels) * units == expected


@pytest.mark.parametrize(
    ("meta", "first_plain", "first_encoded", "deeper_encoder", "aggregation"),
    [
        ("tensor_oboe", 444, 161, 271, 144),  # all as in the paper
        ("pmf", 1152, 886, 1370, 256),
        ("zap", 1120, 965, 965, 1024),
    ],
)
def test_factors_of_equations_10_and_11(meta, first_plain, first_encoded, deeper_encoder, aggregation):
    """Factors of F and F² by equations 7 and 8, with the sizes of tables 5 to 7.

    Equation 10 is ``first_plain F + aggregation (ℓ_a - 1) F²``, equation 11 is ``first_encoded F +
    (deeper_encoder (ℓ_e - 1) + aggregation ℓ_a) F²``. The paper has the same for Tensor-OBOE. For PMF it has
    720 = 72 ⋅ 10 in place of 72 ⋅ 16, and 1,376 in place of 2 ⋅ 3² + 8 ⋅ 13². For ZAP it leaves the stage of
    architectures, with L = 1 in table 7, out of the sum of L: 1,085 = 35 ⋅ 31 and 961 = 31² in place of 35 ⋅ 32 and
    32²; its 965 = 4 ⋅ 1² + 31² has that stage, and its 35 is the number of inputs, where 4 ⋅ 1 + 31 ⋅ 31 is meant.
    """

    def weights(encoder_layers, aggregation_layers, factor):
        space = space_of(*SIZES[meta])
        return PipelineNetwork(
            space, factor=factor, encoder_layers=encoder_layers, aggregation_layers=aggregation_layers
        ).weights

    for factor in (1, 8):
        square = factor**2
        assert weights(0, 1, factor) == first_plain * factor
        assert weights(0, 4, factor) - weights(0, 1, factor) == 3 * aggregation * square
        assert weights(1, 3, factor) == first_encoded * factor + 3 * aggregation * square
        assert weights(2, 3, factor) - weights(1, 3, factor) == deeper_encoder * square


def test_a_random_network_with_encoders_puts_pipelines_of_one_algorithm_together():
    """Corollary H.4, and the metric of experiment 5, over many random networks with independent normal weights."""
    space = space_of((3, 3, 3), (5, 5, 5, 5, 5))
    rng = np.random.default_rng(7)
    near, metric, distances = [], {0: [], 1: []}, []
    for _ in range(60):
        encoded = space.sample(rng, 90)
        features, choice = encoded.features(), encoded.choice[:, 1]
        for layers in (0, 1):
            network = PipelineNetwork(
                space, factor=2, encoder_layers=layers, aggregation_layers=2 - layers, one_hot=False, outputs=20
            )
            parameters = {k: rng.standard_normal(v.shape) for k, v in network.initial(rng).items()}
            parameters = {k: v if k.endswith("weight") else np.zeros_like(v) for k, v in parameters.items()}
            points = network(parameters, features).points
            gaps = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
            same = (choice[:, None] == choice[None]) & ~np.eye(len(choice), dtype=bool)
            closer = [
                (gaps[m][same[m]][:, None] < gaps[m][choice != choice[m]][None]).mean()
                for m in range(len(choice))
                if same[m].any()
            ]
            metric[layers].append(np.mean(closer))
            if layers:
                hidden = network._encoded(parameters, 1, features)
                gaps = np.sqrt(((hidden[:, None] - hidden[None]) ** 2).sum(-1))
                near.append(gaps[same].mean())
                distances.append(gaps[choice[:, None] != choice[None]].mean())
    difference = np.array(distances) - np.array(near)
    assert difference.mean() > 3 * difference.std() / np.sqrt(len(difference))
    gain = np.array(metric[1]) - np.array(metric[0])
    assert gain.mean() > 3 * gain.std() / np.sqrt(len(gain))


def new_algorithm(name="new", n=4):
    return Algorithm(name, params=[Float(f"q{k}", 0, 1) for k in range(n)])


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape["aggregation_layers"]])
@pytest.mark.parametrize(("stage", "n"), [("reducer", 2), ("estimator", 9), ("estimator", 0)])
def test_a_new_algorithm_leaves_all_that_is_known_as_it_is(shape, stage, n):
    space = small_space()
    network = PipelineNetwork(space, factor=3, outputs=4, **shape)
    parameters = {**random_parameters(network), "kernel.noise": np.zeros(())}
    larger = network.extended(space.extend(stage, new_algorithm(n=n)))
    more = grown(network, parameters, larger, np.random.default_rng(0))
    encoded = space.sample(np.random.default_rng(8), 30)
    before, after = network(parameters, encoded.features()), larger(more, encoded.to(larger.space).features())
    np.testing.assert_allclose(after.points, before.points, rtol=1e-12, atol=1e-12)
    if before.mean is not None:
        np.testing.assert_allclose(after.mean, before.mean, rtol=1e-12, atol=1e-12)
    masks = belonging_to(larger, stage, "new", more)
    assert more.keys() == parameters.keys()
    for name, value in parameters.items():
        kept = more[name] if name not in masks else more[name][~masks[name]]
        np.testing.assert_array_equal(kept.ravel(), value.ravel())
    # What belongs to the new algorithm, and nothing else, moves its pipelines.
    fresh = larger.space.sample(np.random.default_rng(9), 20, given={stage: "new"})
    changed = {k: np.where(masks[k], v + 0.5, v) if k in masks else v for k, v in more.items()}
    if shape.get("one_hot", True) or n:
        assert not np.allclose(larger(changed, fresh.features()).points, larger(more, fresh.features()).points)
    np.testing.assert_array_equal(larger(changed, encoded.to(larger.space).features()).points, after.points)


def test_a_stage_without_a_choice_gets_one():
    space = space_of((2,), (3, 1))
    network = PipelineNetwork(space, factor=2, outputs=3, encoder_layers=1)
    parameters = random_parameters(network)
    larger = network.extended(space.extend("s0", new_algorithm()))
    more = grown(network, parameters, larger, np.random.default_rng(0))
    encoded = space.sample(np.random.default_rng(1), 10)
    np.testing.assert_allclose(
        larger(more, encoded.to(larger.space).features()).points,
        network(parameters, encoded.features()).points,
        atol=1e-12,
    )


def test_the_order_of_stages_counts_where_it_is_free():
    space = space_of((1, 1), (1, 1), (2,), free_order=True)
    network = PipelineNetwork(space, factor=2, outputs=3)
    encoded = space.sample(np.random.default_rng(0), 20)
    assert network.features == encoded.features().shape[1]
    features = encoded.features().copy()
    parameters = random_parameters(network)
    before = network(parameters, features).points
    features[:, -3:] = features[:, [-2, -3, -1]]
    assert not np.allclose(network(parameters, features).points, before)


def test_it_says_what_must_hold():
    with pytest.raises(InvalidInput, match="encoder_layers"):
        PipelineNetwork(small_space(), encoder_layers=-1)
    network = PipelineNetwork(small_space())
    with pytest.raises(SpaceError, match="no algorithm"):
        belonging_to(network, "estimator", "nope", {})
