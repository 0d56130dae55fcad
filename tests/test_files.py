"""What is written and unpacked: `headstart.files`, and who uses it."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from headstart.cli.folder import Folder
from headstart.errors import InvalidInput, ModelFileError
from headstart.files import kind_of, replace_file
from headstart.fitting import scratch
from headstart.fitting.container import read_container, write_container
from headstart.learning.checkpoints import load_arrays, save_arrays


def test_a_file_is_replaced_through_a_link_that_stays(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    replace_file(link, lambda new: new.write_text("new"))
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


def test_devices_and_pipes_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/full")
    for name, kind in (("pipe", "a pipe"), ("device", "a device"), (".", "a directory")):
        with pytest.raises(InvalidInput, match=f"must be a file.*but is {kind}"):
            replace_file(tmp_path / name, lambda new: new.write_text("new"))
    with pytest.raises(ModelFileError, match="but is a device"):
        write_container(tmp_path / "device", {}, {})
    with pytest.raises(ModelFileError, match="but is a pipe"):
        save_arrays(tmp_path / "pipe", {}, {})
    assert kind_of(Path("/dev/full")) == "a device"
    assert kind_of(tmp_path / "pipe") == "a pipe"


def test_a_second_fit_in_a_directory_is_refused(tmp_path):
    first, second = Folder(tmp_path / "out"), Folder(tmp_path / "out")
    first.begin({"table": "first"})
    for resume in (False, True):
        with pytest.raises(InvalidInput, match=r"out is in use by process \d+ on .*; wait for it, or choose another"):
            second.begin({"table": "second"}, resume=resume)
    assert second.read_request() == {"table": "first"}
    first.end()
    with pytest.raises(InvalidInput, match="is not empty; resume it"):
        second.begin({"table": "second"})
    second.begin({"table": "second"}, resume=True)
    second.end()


def test_what_was_written_can_be_read_however_well_it_shrinks(tmp_path):
    content = b"the same " * (8 << 20)
    write_container(tmp_path / "model", {"libraries": {}}, {"part": content})
    assert read_container(tmp_path / "model")[1] == {"part": content}
    save_arrays(tmp_path / "arrays.npz", {"a": np.zeros(9 << 20)}, {"about": 1})
    arrays, about = load_arrays(tmp_path / "arrays.npz")
    assert (about, arrays["a"].shape, arrays["a"].any()) == ({"about": 1}, (9 << 20,), False)


def test_a_small_file_of_arrays_that_would_be_a_large_one(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        buffer = io.BytesIO()
        np.save(buffer, np.zeros(9 << 20))
        archive.writestr("a.npy", buffer.getvalue())
    with pytest.raises(ModelFileError, match="would unpack to far more"):
        load_arrays(tmp_path / "bomb.npz")


def kill_before_it_is_locked(directory):
    os.kill(os.getpid(), 9)


def kill_while_it_is_removed(path, **_):
    (path / scratch._LOCK).unlink(missing_ok=True)  # the worst file to begin with
    os.kill(os.getpid(), 9)


@pytest.mark.parametrize(
    ("part", "name", "killed"),
    [(scratch, "_locked", kill_before_it_is_locked), (scratch.shutil, "rmtree", kill_while_it_is_removed)],
)
def test_so_are_those_of_fits_killed_at_their_very_start_or_end(tmp_path, monkeypatch, part, name, killed):
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))

    class Owner:
        pass

    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(part, name, killed)
        owner = Owner()
        (scratch.scratch_directory(owner) / "models").mkdir()
        del owner
        os._exit(1)
    os.waitpid(pid, 0)
    assert len(list(tmp_path.iterdir())) == 1
    new = Owner()
    made = scratch.scratch_directory(new)
    assert list(tmp_path.iterdir()) == [made]


def test_a_directory_of_the_user_is_never_taken_for_one_of_a_killed_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    folder = Folder(tmp_path / "headstart-scratch-results")  # as --out may name it
    folder.begin({"table": "t.csv"})
    folder.end()
    (tmp_path / "headstart-scratch-notes").mkdir()
    (tmp_path / "headstart-scratch-notes" / "notes.txt").touch()
    scratch.remove_left_behind()
    assert sorted(path.name for path in tmp_path.glob("*/*")) == [".lock", "fit.json", "notes.txt"]


def test_a_new_directory_that_another_fit_takes_for_one_that_was_left(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    locked, seen = scratch._locked, []

    def other_fit_first(directory):
        seen.append(directory)
        if len(seen) == 1:
            scratch.remove_left_behind()
        return locked(directory)

    monkeypatch.setattr(scratch, "_locked", other_fit_first)
    owner = type("Owner", (), {})()
    assert scratch.scratch_directory(owner) == seen[1]
    assert list(tmp_path.iterdir()) == [seen[1]]


def test_directories_of_killed_fits_are_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))

    class Owner:
        pass

    running, ending = Owner(), Owner()
    kept, gone = scratch.scratch_directory(running), scratch.scratch_directory(ending)
    del ending
    assert kept.is_dir()
    assert not gone.exists()
    pid = os.fork()
    if pid == 0:  # a process that is killed
        owner = Owner()
        (scratch.scratch_directory(owner) / "models").write_text("large")
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    (left,) = set(tmp_path.iterdir()) - {kept}
    assert (left / "models").exists()
    new = Owner()
    made = scratch.scratch_directory(new)
    assert set(tmp_path.iterdir()) == {kept, made}
    del running
