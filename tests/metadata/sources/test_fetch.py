"""Fetching, and all that can go wrong with it: a clear error, and never a broken cache."""

import errno
import os
import shutil
import sys

import numpy as np
import pytest

from headstart.errors import InvalidInput, MetaDataError, UnknownName
from headstart.metadata import sources
from headstart.metadata.files import load_meta, save_meta
from headstart.testing.examples import small_meta


def leftovers(tmp_path):
    """What lies in the temporary directory and in the cache."""
    temporary = [p.name for p in tmp_path.iterdir() if p.name.startswith("headstart-")]
    cache = tmp_path / "cache"
    return temporary + [str(p.relative_to(cache)) for p in cache.rglob("*") if cache.exists()]


@pytest.mark.parametrize("name", ["pmf", "tensor_oboe", "zap"])
def test_fetched_once_and_loaded(tmp_path, fake_pip, name):
    assert not sources.is_fetched(name)
    steps = []
    place = sources.fetch(name, lambda doing, share: steps.append((doing, share)))
    assert place == tmp_path / "cache" / "meta" / name == sources.place(name)
    assert sources.is_fetched(name)
    meta = sources.load(name)
    assert meta.name == name
    assert "BSD-3-Clause (deeppipe_api==0.1.1)" in meta.about["licence"]
    assert meta.key == load_meta(place).key == sources.load(place).key
    assert {doing.split()[0] for doing, _ in steps} >= {"downloading", "reading", "writing"}
    assert max(share for _, share in steps) == 1.0
    assert {p.split("/")[0] for p in leftovers(tmp_path)} == {"meta"}  # no downloads are left
    assert not {"deeppipe_api", "oboe"} & sys.modules.keys()


def test_the_real_pip_with_a_folder_and_no_network(wheels, monkeypatch):
    for variable in [v for v in os.environ if v.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    sources.fetch("zap")
    assert len(sources.load("zap")) == 4
    shutil.rmtree(sources.place("zap"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels / "nowhere"))
    with pytest.raises(MetaDataError, match=r"pip could not download deeppipe_api==0\.1\.1: No matching distribution"):
        sources.fetch("zap")
    assert not sources.place("zap").exists()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            "print('WARNING: Retrying', file=sys.stderr)\n"
            "sys.exit('ERROR: Could not find a version that satisfies it\\nERROR: No matching distribution "
            "found for it')",
            r"pip could not download deeppipe_api==0\.1\.1: No matching distribution found for it; check the network",
        ),
        (
            "sys.exit('ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device')",
            "No space left on device",
        ),
        ("sys.exit(3)", "it did not say why"),
        ("os.kill(os.getpid(), 9)", "it did not say why"),
        ("(target / file).write_bytes(source.read_bytes()[:1000])", r"it has 1,000 of [\d,]+ bytes, try again"),
        ("(target / file).write_bytes(b'')", r"it has 0 of [\d,]+ bytes"),
        (
            "content = bytearray(source.read_bytes()); content[500] ^= 1; (target / file).write_bytes(content)",
            r"its SHA-256 is [0-9a-f]{64} and must be [0-9a-f]{64}, check where pip downloads from",
        ),
        ("(target / 'other.tar.gz').write_bytes(b'')", r"should have downloaded .*whl and left other\.tar\.gz"),
        ("pass", "left nothing"),
    ],
)
@pytest.mark.parametrize("before", [False, True], ids=["empty cache", "fetched before"])
def test_a_download_that_fails(tmp_path, fake_pip, lines, message, before):
    if before:
        sources.fetch("zap")
        key = sources.load("zap").key
    there = leftovers(tmp_path)
    fake_pip(lines)
    with pytest.raises(MetaDataError, match=message):
        sources.fetch("zap")
    assert leftovers(tmp_path) == there
    if before:
        assert sources.load("zap").key == key
    else:
        with pytest.raises(InvalidInput, match="headstart meta fetch zap"):
            sources.load("zap")


def test_without_pip(monkeypatch, wheels):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MetaDataError, match=r"pip is needed .* ensurepip"):
        sources.fetch("zap")


def test_a_disk_that_is_full_when_it_is_written(tmp_path, fake_pip, monkeypatch):
    def full(table, stream, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    with pytest.raises(MetaDataError, match="No space left on device"):
        sources.fetch("pmf")
    assert leftovers(tmp_path) == ["meta"]
    assert not sources.is_fetched("pmf")


def test_a_temporary_directory_that_cannot_be_made(fake_pip, monkeypatch):
    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", full)
    with pytest.raises(MetaDataError, match="zap cannot be fetched: No space left on device"):
        sources.fetch("zap")


def test_an_interrupt_leaves_nothing(tmp_path, fake_pip):
    def interrupt(doing, share):
        if doing == "reading":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sources.fetch("pmf", interrupt)
    assert leftovers(tmp_path) == []


def test_a_damaged_cache_is_said_and_mended(fake_pip):
    place = sources.fetch("zap")
    (place / "losses.parquet").write_bytes(b"")
    with pytest.raises(MetaDataError, match="fetch it with --again"):
        sources.load("zap")
    (place / "meta.json").write_text("{")
    assert not sources.is_fetched("zap")
    with pytest.raises(InvalidInput, match="headstart meta fetch zap"):
        sources.load("zap")
    sources.fetch("zap")
    assert len(sources.load("zap")) == 4


def test_a_cache_of_another_conversion_is_not_used(fake_pip):
    place = sources.fetch("zap")
    meta = load_meta(place)
    save_meta(meta.changed(about={**meta.about, "revision": "0"}), place)
    assert not sources.is_fetched("zap")
    with pytest.raises(InvalidInput, match=r"another version .*headstart meta fetch zap"):
        sources.load("zap")


def test_names_and_places(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path))
    with pytest.raises(UnknownName, match="did you mean 'pmf'"):
        sources.fetch("pfm")
    with pytest.raises(UnknownName, match="did you mean 'tensor_oboe'"):
        sources.load("tensor_obo")
    with pytest.raises(InvalidInput, match=r"no meta\.json"):
        sources.load(tmp_path)
    with pytest.raises(InvalidInput, match="headstart meta fetch pmf"):
        sources.load("pmf")
    np.testing.assert_array_equal(sources.load(save_meta(small_meta(), tmp_path / "own")).losses, small_meta().losses)
    monkeypatch.delenv("HEADSTART_CACHE")
    assert sources.cache_directory().name == "headstart"
