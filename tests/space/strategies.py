"""Random search spaces for property tests."""

from hypothesis import strategies as st

from headstart.space import Algorithm, Categorical, Float, Integer, PipelineSpace, Stage

scalars = st.one_of(
    st.text(max_size=5), st.integers(-1000, 1000), st.booleans(), st.none(), st.floats(-10, 10, allow_nan=False)
)


@st.composite
def floats(draw, name, when):
    if draw(st.booleans()):
        low = draw(st.floats(1e-9, 1e3))
        return Float(name, low, low * draw(st.floats(1.5, 1e9)), log=True, when=when)
    low = draw(st.floats(-1e6, 1e6))
    return Float(name, low, low + draw(st.floats(1e-3, 1e6)), when=when)


@st.composite
def integers(draw, name, when):
    log = draw(st.booleans())
    low = draw(st.integers(1 if log else -100, 100))
    return Integer(name, low, low + draw(st.integers(1, 1000)), log=log, when=when)


@st.composite
def categoricals(draw, name, when):
    def token(value):
        return (value if isinstance(value, (bool, str, type(None))) else float(value), isinstance(value, bool))

    choices = draw(st.lists(scalars, min_size=1, max_size=5, unique_by=token))
    return Categorical(name, tuple(choices), default=choices[0], ordered=draw(st.booleans()), when=when)


@st.composite
def algorithms(draw, name):
    params = []
    for i in range(draw(st.integers(0, 4))):
        parents = [p for p in params if isinstance(p, Categorical) and len(p.choices) > 1]
        when = {}
        if parents and draw(st.booleans()):
            parent = draw(st.sampled_from(parents))
            when = {parent.name: tuple(parent.choices[: draw(st.integers(1, len(parent.choices) - 1))])}
        params.append(draw(st.one_of(floats(f"p{i}", when), integers(f"p{i}", when), categoricals(f"p{i}", when))))
    return Algorithm(name, None, params)


@st.composite
def spaces(draw):
    stages = []
    for s in range(draw(st.integers(1, 3))):
        names = [f"s{s}a{a}" for a in range(draw(st.integers(1, 3)))]
        stages.append(Stage(f"s{s}", [draw(algorithms(n)) for n in names]))
    forbidden = []
    if len(stages) > 1 and len(stages[0].algorithms) > 1 and draw(st.booleans()):
        forbidden = [{"s0": ["s0a0"], "s1": ["s1a0"]}] if len(stages[1].algorithms) > 1 else []
    return PipelineSpace("random", stages, forbidden, free_order=draw(st.booleans()))
