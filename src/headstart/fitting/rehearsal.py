"""Boosters of a file from elsewhere are loaded and used in a process of their own first.

CatBoost and XGBoost take most of what a model file says for granted: a crafted one can make them run for ever, take all
memory or crash. All of that happens to a process that may, before it can happen to the one that asked.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from headstart.errors import ModelFileError

SECONDS = 20.0
SECONDS_PER_MEGABYTE = 2.0
SPARE_BYTES = 1 << 30
BYTES_PER_BYTE = 30
"""What loading and a few predictions may take, and more for larger boosters."""
_ROWS = 50
_USABLE = 0


def rehearse(boosters: Sequence[Any]) -> None:
    """Load boosters and predict with them in another process; `ModelFileError` if that does not come to its end."""
    if not boosters:
        return
    packed = pickle.dumps(list(boosters))  # of our own making: they are packed still
    seconds = SECONDS + SECONDS_PER_MEGABYTE * len(packed) / 2**20
    if hasattr(os, "fork") and sys.platform == "linux" and threading.active_count() == 1:
        code = _in_fork(packed, seconds)
    else:  # a fork of several threads may wait for ever for one that it does not have
        code = _in_program(packed, seconds)
    if code != _USABLE:
        how = "took too long" if code is None else "crashed" if code < 0 else "failed"
        raise ModelFileError(
            f"a booster cannot be used: to load it and predict {_ROWS} rows {how}; the file is damaged, or was made by "
            "other versions or with malicious intent"
        )


def _in_fork(packed: bytes, seconds: float) -> int | None:
    for booster in pickle.loads(packed):
        _import_library(booster)  # once, for both processes
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            code = _use(packed, seconds)
        finally:
            os._exit(code)
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _in_program(packed: bytes, seconds: float) -> int | None:
    command = [sys.executable, "-m", "headstart.fitting.rehearsal", str(seconds)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(command, input=packed, capture_output=True, timeout=seconds + 10, env=environment)
    except subprocess.TimeoutExpired:
        return None
    return done.returncode


def _use(packed: bytes, seconds: float) -> int:
    """Load and predict within limits; the exit code."""
    faulthandler.disable()  # a crash is an answer
    _limit(len(packed), seconds)
    rng = np.random.default_rng(0)
    try:
        for booster in pickle.loads(packed):
            table = rng.normal(size=(_ROWS, int(booster.n_features_in_))) * 10.0 ** rng.integers(-3, 6, (_ROWS, 1))
            for i, known in booster.categories_.items():
                table[:, i] = rng.integers(0, max(1, len(known)), _ROWS)
            table[: _ROWS // 5] = np.nan
            raw = np.asarray(booster._raw(table), dtype=np.float64)
            classes = booster._n_classes
            if raw.shape not in ((_ROWS,), (_ROWS, classes)) or (raw.ndim == 1 and classes > 2):
                return 1
            _check_nodes(booster)
    except BaseException:
        return 1
    return _USABLE


def _check_nodes(booster: Any) -> None:
    """Raise unless every path in the trees of XGBoost ends: children come after their parents."""
    if type(booster.model_).__module__.partition(".")[0] != "xgboost":
        return
    content = json.loads(bytes(booster.model_.save_raw("json")))["learner"]["gradient_booster"]
    for tree in content.get("gbtree", content)["model"]["trees"]:
        lefts, rights = (np.asarray(tree[f"{side}_children"]) for side in ("left", "right"))
        places, inner = np.arange(len(lefts)), lefts >= 0
        for children in (lefts, rights):
            if not np.all((children[inner] > places[inner]) & (children[inner] < len(lefts))):
                raise ValueError("children must come after their parents")
        if np.any(np.asarray(tree["split_indices"])[inner] >= booster.n_features_in_):
            raise ValueError("splits must look at columns that there are")


def _limit(size: int, seconds: float) -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as file:
            held = int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        most = held + SPARE_BYTES + BYTES_PER_BYTE * size
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _import_library(booster: Any) -> None:
    with contextlib.suppress(ImportError):
        __import__("catboost" if "CatBoost" in type(booster).__name__ else "xgboost")


if __name__ == "__main__":
    sys.exit(_use(sys.stdin.buffer.read(), float(sys.argv[1])))
