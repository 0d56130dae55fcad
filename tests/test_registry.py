"""Parts by name."""

import pytest

from headstart import registry
from headstart.errors import InvalidInput, MissingDependency, UnknownName
from headstart.optimizers.random import RandomSearch


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A package with entry points, as pip would have installed it."""
    (tmp_path / "my_package.py").write_text(
        "from headstart.optimizers.random import RandomSearch\n"
        "class Outer:\n    class Inner(RandomSearch):\n        pass\n"
    )
    info = tmp_path / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[headstart.optimizers]\nmine = my_package:Outer.Inner\nbroken = my_package:Missing\n"
        "absent = no_such_package:X\nrandom = my_package:Outer\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._plugins.cache_clear()
    yield
    registry._plugins.cache_clear()


def test_our_own_parts_can_be_had():
    for kind in registry.KINDS:
        for name in registry.names(kind):
            assert callable(registry.find(kind, name))


def test_a_plug_in_is_found_by_name(plugin, caplog):
    assert {"mine", "broken", "absent"} <= set(registry.names("optimizer"))
    assert isinstance(registry.create("optimizer", "mine"), RandomSearch)
    assert registry.find("optimizer", "random") is RandomSearch
    assert "left out" in caplog.text


@pytest.mark.parametrize(("name", "message"), [("broken", "'my-package'.*'Missing'"), ("absent", "no_such_package")])
def test_a_broken_plug_in_is_named(plugin, name, message):
    with pytest.raises(MissingDependency, match=message):
        registry.create("optimizer", name)


def test_unknown_names_and_settings():
    with pytest.raises(UnknownName, match="did you mean 'bayes'"):
        registry.create("optimizer", "bayse")
    with pytest.raises(UnknownName, match="no kind of part"):
        registry.names("optimiser")
    with pytest.raises(InvalidInput, match="has no setting 'nonsense'"):
        registry.create("optimizer", "bayes", nonsense=1)
    with pytest.raises(InvalidInput, match="made already"):
        registry.create("optimizer", RandomSearch(), seed=1)


def test_register_in_this_process(monkeypatch):
    monkeypatch.setitem(registry._added, "optimizer", {})
    registry.register("optimizer", "mine", RandomSearch)
    assert isinstance(registry.create("optimizer", "mine"), RandomSearch)
    with pytest.raises(InvalidInput, match="registered already"):
        registry.register("optimizer", "random", RandomSearch)


def test_entry_points_of_the_backport_are_taken_too(monkeypatch):
    class EntryPoint:  # as the package importlib_metadata has it: of the same name, but not the same class
        name, value, dist = "elsewhere", "headstart.optimizers.random:RandomSearch", None

        def load(self):
            return RandomSearch

    monkeypatch.setattr(registry, "_plugins", lambda kind: {"elsewhere": EntryPoint()} if kind == "optimizer" else {})
    assert isinstance(registry.create("optimizer", "elsewhere"), RandomSearch)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("gp", {}),
        ("gp( kernel = linear , ard=False )", {"kernel": "linear", "ard": False}),
        ("pmf(logarithmic=no, encodings=TRUE, metafeatures=none, latent=5)",
         {"logarithmic": False, "encodings": True, "metafeatures": None, "latent": 5}),
        ("x(a='b, c', d=[1, 2], e=\"f(g=1, h=2)\")", {"a": "b, c", "d": [1, 2], "e": "f(g=1, h=2)"}),
    ],
)  # fmt: skip
def test_settings_are_read_from_text(text, settings):
    assert registry.parsed(text) == (text.partition("(")[0], settings)


def test_a_part_inside_a_part_may_have_settings():
    made = registry.create("optimizer", "bayes(surrogate='gp(kernel=linear)', n_initial=3)")
    assert (made.n_initial, made.surrogate) == (3, "gp(kernel=linear)")
    assert registry.create("surrogate", made.surrogate).kernel == "linear"


def test_a_setting_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(InvalidInput, match=r"'pmf' has no setting 'latnet'; did you mean 'latent'\? Known: .*unseen"):
        registry.create("surrogate", "pmf", latnet=5)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("optimizer", "gp(foo=1)", "surrogate 'gp' has no setting 'foo'"),
        ("optimizer", "random(foo=1)", "optimizer 'random' has no setting 'foo'"),
        ("optimizer", "gp(kernel=foo)", "kernel must be one of matern52, squared_exponential, linear, got 'foo'"),
        ("surrogate", "gp(n_starts=some)", "n_starts must be a positive whole number, got 'some'"),
        ("metafeatures", "mf1(foo=1)", "has no setting 'foo'"),
    ],
)
def test_a_mistake_in_settings_is_the_callers(kind, text, message):
    with pytest.raises(InvalidInput, match=message):
        registry.create(kind, text)


def test_a_value_that_a_part_cannot_take_is_the_callers_mistake(monkeypatch):
    def picky(size=1):
        return RandomSearch() if size > 0 else None

    monkeypatch.setitem(registry._added, "optimizer", {"picky": picky})
    with pytest.raises(InvalidInput, match=r"'picky' cannot be made with \{'size': 'x'\}: .*not supported"):
        registry.create("optimizer", "picky(size=x)")
