"""The directory of a fit.

====================  ===============================================================================
``fit.json``          what was asked for, written before anything is tried; `--resume` reads it
``store/``            every pipeline that was tried
``model.headstart``   the model
``leaderboard.csv``   the pipelines, best first
``report.json``       settings, scores, counts, notes
``report.html``       a page about all of it, for people
``model.damaged``     what was found in the place of a model and is none
``.lock``             keeps a second fit out while one is running
====================  ===============================================================================
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart.errors import HeadstartError, InvalidInput, ModelFileError, warn_user
from headstart.files import kind_of, replace_file, unfinished
from headstart.fitting.container import is_container
from headstart.store.filelock import FileLock

if TYPE_CHECKING:
    from headstart.estimators import HeadstartClassifier, HeadstartRegressor

MODEL = "model.headstart"
_LOCK = ".lock"
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip")


class Folder:
    """The directory of a fit, new or of an earlier one.

    Parameters
    ----------
    path
        Where.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model = path / MODEL
        self.store = path / "store"
        self.leaderboard = path / "leaderboard.csv"
        self.report = path / "report.json"
        self.page = path / "report.html"
        self.request = path / "fit.json"
        self._made: list[Path] = []
        self._lock = FileLock(path / _LOCK)

    @classmethod
    def for_table(cls, table: Path) -> Folder:
        """In the current directory, named after the table."""
        name = Path(table.name)
        if name.suffix.lower() in _COMPRESSED:
            name = name.with_suffix("")
        return cls(Path(f"{name.stem}.headstart"))

    def check_new(self) -> None:
        """Raise `InvalidInput` if the directory is not empty."""
        self._check_directory()
        if self.path.is_dir() and {*self.path.iterdir()} - {self.path / _LOCK, *self._unfinished()}:
            again = "resume it with --resume, or " if self.request.exists() else ""
            raise InvalidInput(f"{self.path} is not empty; {again}choose another directory with --out")

    def _unfinished(self) -> list[Path]:
        """What a fit left that was killed while it wrote one of the files."""
        files = (self.model, self.leaderboard, self.report, self.page, self.request)
        return [left for path in files for left in unfinished(path)]

    def _check_directory(self) -> None:
        kind = kind_of(self.path)
        if kind is None and self.path.is_symlink():
            kind = f"a link to {self.path.readlink()}, which does not exist"
        if kind not in (None, "a directory"):
            raise InvalidInput(f"{self.path} must be a directory, but is {kind}; choose another one with --out")

    def read_request(self) -> dict[str, Any]:
        """What an earlier fit was asked for."""
        if not self.request.exists():
            raise InvalidInput(
                f"nothing to resume in {self.path}; leave --resume out, or give the directory with --out"
            )
        return read_json(self.request)

    def begin(self, request: dict[str, Any], resume: bool = False) -> None:
        """Make the directory, keep other fits out of it and note what was asked for."""
        missing = [self.path, *self.path.parents]
        self._made = [path for path in missing if not path.exists()]
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:
            raise InvalidInput(f"{error.filename} must be a directory; choose another one with --out") from None
        holder = self._lock.acquire()
        if holder is not None:
            raise InvalidInput(f"{self.path} is in use by {holder}; wait for it, or choose another one with --out")
        try:
            if not resume:
                self.check_new()  # another fit may have come in between
            for left in self._unfinished():
                left.unlink(missing_ok=True)
            self._set_aside()
            write_json(self.request, request)
        except BaseException:
            self.end()
            raise

    @property
    def study(self) -> str | None:
        """Name of the study of the fit; its store may have many."""
        name = read_json(self.request).get("study") if self.request.exists() else None
        return name if isinstance(name, str) else None

    def note_study(self, name: str) -> None:
        """Keep the name of the study, to be continued by it."""
        write_json(self.request, {**read_json(self.request), "study": name})

    def _set_aside(self) -> None:
        """Make room for a new model where there is something else, such as a part of one: it would not be replaced."""
        if self.model.is_file() and not is_container(self.model):
            aside = self.path / "model.damaged"
            os.replace(self.model, aside)
            warn_user(f"{self.model} is damaged or something else; it is now {aside}, and the model is made anew")

    def end(self) -> None:
        """Let others in again."""
        self._lock.release()

    def undo(self) -> None:
        """Remove what `begin` made; only for a new fit that tried nothing."""
        shutil.rmtree(self.store, ignore_errors=True)
        try:
            self.request.unlink(missing_ok=True)
            (self.path / _LOCK).unlink(missing_ok=True)
            for path in self._made:
                path.rmdir()
        except OSError:
            pass  # it contains something else


def find_model(path: Path) -> Path:
    """The model file in the directory of a fit, or the file itself."""
    if path.is_file():
        return path
    if not path.exists():
        raise InvalidInput(f"{path} not found; give the directory that 'headstart fit' made, or a model file")
    if not (path / MODEL).exists():
        begun = (path / "fit.json").exists()
        advice = "its fit is unfinished, continue it with --resume" if begun else "was it made by 'headstart fit'?"
        raise InvalidInput(f"there is no {MODEL} in {path}; {advice}")
    return path / MODEL


def load_model(path: Path) -> HeadstartClassifier | HeadstartRegressor:
    """The estimator in the directory of a fit, or in a file."""
    file = find_model(path)
    from headstart.estimators import load

    return load(file)


@contextmanager
def using(path: Path) -> Iterator[None]:
    """Raise `ModelFileError` for whatever a crafted model, or other versions of libraries, make go wrong in its use."""
    try:
        yield
    except (HeadstartError, OSError, MemoryError):
        raise
    except Exception as error:
        raise ModelFileError(
            f"{path} cannot be used, {type(error).__name__}: {error}; it is damaged, or was made with other versions "
            "of libraries: fit again"
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (RecursionError, ValueError) as error:
        raise InvalidInput(f"{path} is damaged: {error}; choose another directory with --out") from None
    if not isinstance(content, dict):
        raise InvalidInput(f"{path} is damaged: it must contain a JSON object; choose another directory with --out")
    return content


def write_json(path: Path, content: dict[str, Any]) -> None:
    replace_file(path, lambda new: new.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8"))
