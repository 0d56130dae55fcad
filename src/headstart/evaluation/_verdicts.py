"""How an evaluation that gave no answer is reported; used by whichever process watched over it."""

from __future__ import annotations

import signal

from headstart.trials import Limits, Outcome, Status

_KEPT = 16_384
_SHOWN = 4_096
_MEMORY_SIGNS = ("bad_alloc", "memoryerror", "out of memory", "cannot allocate memory")


class Tail:
    """The end of what a process wrote to its output, however much that was."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, data: bytes) -> None:
        self._kept = (self._kept + data)[-_KEPT:]

    def clear(self) -> None:
        self._kept = b""

    def text(self) -> str:
        lines = self._kept.decode("utf-8", "replace").splitlines()
        # Python ends its report of a fatal error with a list of modules, which would crowd out the report itself.
        return "\n".join(line for line in lines if not line.startswith("Extension modules:"))[-_SHOWN:].strip()


def late(limits: Limits, seconds: float, peak: int) -> Outcome:
    """The time limit was passed."""
    limit = float(f"{limits.seconds:.4g}")
    return Outcome.failed(Status.TIMEOUT, f"took longer than {limit} s", seconds=seconds, bytes=peak)


def too_big(limits: Limits, seconds: float, peak: int) -> Outcome:
    """The memory limit was passed."""
    return Outcome.failed(Status.MEMORY, f"used more than {_size(limits.bytes or 0)}", seconds=seconds, bytes=peak)


def ended(code: int, tail: Tail, limits: Limits, seconds: float, peak: int) -> Outcome:
    """The process ended without an answer; a negative `code` is the number of the signal that killed it."""
    output = tail.text()
    text = describe_exit(code)
    near_limit = limits.bytes is not None and peak > 0.9 * limits.bytes
    if code and (near_limit or any(sign in output.lower() for sign in _MEMORY_SIGNS)):
        status, text = Status.MEMORY, f"out of memory: {text}"
    else:
        status = Status.CRASHED
        if code == -9:
            text += "; the system does that when it runs out of memory"
    return Outcome.failed(status, f"{text}\n{output}".strip(), seconds=seconds, bytes=peak)


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exited with code {code} before it returned a result"
    try:
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    except ValueError:
        return f"killed by signal {-code}"


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count % (1 << 20) == 0 else f"{count / 1e6:.4g} MB"
