"""Wheels of PyPI as archives of data: downloaded with pip and checked, never installed or imported."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headstart.errors import MetaDataError


@dataclass(frozen=True)
class Wheel:
    """A file on PyPI, with the SHA-256 of what it must hold."""

    project: str
    version: str
    sha256: str
    size: int
    licence: str = "BSD-3-Clause"

    @property
    def requirement(self) -> str:
        return f"{self.project}=={self.version}"

    @property
    def file(self) -> str:
        return f"{self.project}-{self.version}-py3-none-any.whl"


DEEPPIPE = Wheel(
    "deeppipe_api", "0.1.1", "89e5d9d7d538d8a891dcdd5b10350deb42b4584ff0db5965428010377ef64c52", 51_286_902
)
OBOE = Wheel("oboe", "0.2.0", "0cb81ba4636b5b4918d7364b6325e2e0316ebd95efb5187f2dfd8cffdc9976a3", 52_921_909)


def _pip() -> list[str]:
    """How to run pip: of this Python, else the one on the path."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    found = shutil.which("pip3") or shutil.which("pip")
    if found is None:
        raise MetaDataError(
            "pip is needed for a download and is not installed; install it with 'python -m ensurepip', and try again"
        )
    return [found]


def download(wheel: Wheel, directory: Path) -> Path:
    """Download a wheel into a directory and check it.

    pip's own settings hold (index, proxy, certificates, ``PIP_FIND_LINKS`` for a folder with the file).

    Raises
    ------
    MetaDataError
        There is no pip, pip failed (no network, no such file, a full disk), or the file is not the expected one.
    """
    command = [*_pip(), "download", "--no-deps", "--only-binary", ":all:", "--no-input", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(directory), wheel.requirement]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise MetaDataError(f"pip cannot be run to download {wheel.requirement}: {error}") from error
    if done.returncode != 0:
        raise MetaDataError(
            f"pip could not download {wheel.requirement}: {_said(done.stderr or done.stdout)}; check the network, or "
            f"put {wheel.file} into a folder and name the folder in PIP_FIND_LINKS"
        )
    file = directory / wheel.file
    if not file.is_file():
        there = ", ".join(sorted(p.name for p in directory.iterdir())) or "nothing"
        raise MetaDataError(f"pip should have downloaded {wheel.file} and left {there}; try again")
    _check(file, wheel)
    return file


def _said(text: str) -> str:
    """The last thing that pip complained of."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or ["it did not say why"])[-1][:300].rstrip(".")


def _check(file: Path, wheel: Wheel) -> None:
    with open(file, "rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    size = file.stat().st_size
    if found != wheel.sha256:
        why = f"it has {size:,} of {wheel.size:,} bytes, try again"
        if size == wheel.size:
            why = f"its SHA-256 is {found} and must be {wheel.sha256}, check where pip downloads from"
        raise MetaDataError(f"{wheel.file} is not the expected file and was not used: {why}")


@contextmanager
def opened(file: Path, member: str) -> Iterator[tuple[IO[bytes], int]]:
    """A file inside a wheel as a stream, and its size; nothing is unpacked to the disk."""
    try:
        with zipfile.ZipFile(file) as archive, archive.open(member) as stream:
            yield stream, archive.getinfo(member).file_size
    except (zipfile.BadZipFile, KeyError) as error:
        raise MetaDataError(f"{file.name} holds no readable {member}: {error}") from error
