"""One evaluation in a forked process, watched by the process that forked it. Linux only.

The worker has the libraries and the table loaded, so a fork is all that an evaluation costs. The worker is a "child
subreaper": a descendant whose parent ends becomes its child, wherever it hid, so nothing that an evaluation started
can outlive it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pickle
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Collection
from typing import Any, ClassVar, NoReturn

from headstart.evaluation import _verdicts, _wire
from headstart.evaluation._trees import TreeMemory, Usage, descendants, usage
from headstart.trials import Limits, Outcome, Status

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SAMPLE_SECONDS = 0.015
_FIRST_SAMPLE_SECONDS = 0.002
_PARENT_SECONDS = 0.5
_REAP_SECONDS = 0.1
_DATA_SLACK = 64 << 20
_EXIT_NO_ANSWER = 74
_LARGEST_LIMIT = 1 << 60

_libc = ctypes.CDLL(None, use_errno=True)


class ParentGone(Exception):
    """The process that asked for the evaluation does not exist any more."""


def adopt_orphans() -> None:
    """Have descendants of this process become its children when their own parent ends."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def end_descendants(patience: float, but: Collection[int] = ()) -> bool:
    """Kill and reap what descends from this process; whether nothing is left after `patience` seconds.

    Those in `but` are left alone, or to die: to free the memory of a process that is killed takes longer than all the
    rest, and need not be waited for.
    """
    deadline = time.monotonic() + patience
    while True:
        with contextlib.suppress(ChildProcessError):  # no child left
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = [pid for pid in descendants(os.getpid()) if pid not in but]
        if not left:
            return True
        for pid in left:
            _kill(pid)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.0005)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


class Fork:
    """A process forked ahead of time that evaluates one request.

    To fork takes longer than all the rest of a short evaluation, so it is done before the request is there.

    Parameters
    ----------
    answer
        From a request to an "outcome" and "artefacts" as JSON types; runs in the fork.
    mapped
        Size of the file of data that this process has mapped.
    control
        Pipes from and to the process that asks for evaluations; the fork closes them.
    parent
        Id of that process.
    """

    _ends: ClassVar[set[int]] = set()
    """This process' ends of the pipes to all forks. A fork closes them, or it would keep those of others open."""

    def __init__(
        self, answer: Callable[[bytes], dict[str, Any]], mapped: int, control: tuple[int, int], parent: int
    ) -> None:
        self._mapped = mapped
        self._control = control[0]
        self._parent = parent
        request, self._request = os.pipe()
        self._result, result = os.pipe()
        self._output, output = os.pipe()
        self._ends.update((self._request, self._result, self._output))
        self._base = usage(os.getpid())
        worker = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(answer, self._base, worker, (request, result, output), (*control, *self._ends))
        with contextlib.suppress(OSError):  # the child does so too; whoever is first
            os.setpgid(self.pid, self.pid)
        for fd in (request, result, output):
            os.close(fd)

    @property
    def alive(self) -> bool:
        return _exit_code(self.pid) is None

    def end(self) -> None:
        """Kill it, with its process group, and close the pipes to it."""
        for fd in (self._request, self._result, self._output):
            if fd in self._ends:
                self._ends.discard(fd)
                os.close(fd)
        _kill(-self.pid)

    def evaluate(self, body: bytes, limits: Limits, dying: int | None) -> dict[str, Any]:
        """Have it evaluate a request within `limits`.

        Parameters
        ----------
        body
            The request.
        limits
            What the evaluation may use.
        dying
            A process that was killed before and may not be gone yet.

        Returns
        -------
        The parsed answer, or one that tells why there is none.

        Raises
        ------
        ParentGone
            The process that asked ended.

        Notes
        -----
        What the evaluation started is killed on return, but not all of it need be gone: call `end_descendants`.
        """
        started = time.monotonic()
        try:
            with contextlib.suppress(BrokenPipeError):  # it died; the watch finds out how
                _wire.send(self._request, body)
            memory = TreeMemory(self._base, self._mapped) if self._base else None
            watch = _Watch(self.pid, dying, limits, started, memory)
            return watch.run(self._result, self._output, self._control, self._parent)
        finally:
            self.end()
            end_descendants(_REAP_SECONDS, (self.pid, dying or 0))


def _be_child(
    answer: Callable[[bytes], dict[str, Any]],
    base: Usage | None,
    worker: int,
    pipes: tuple[int, int, int],
    others: tuple[int, ...],
) -> NoReturn:
    """What the fork does; however it goes, it does not return into the worker's code."""
    code = _EXIT_NO_ANSWER
    request, result, output = pipes
    try:
        os.setpgid(0, 0)
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != worker:  # it died before the line above
            os._exit(code)
        for fd in others:
            os.close(fd)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        _prefer_as_victim()
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        body = _wire.receive(request)
        if body is None:
            os._exit(0)  # it is not needed
        os.close(request)
        limits: Limits = pickle.loads(body)["limits"]
        if limits.bytes is not None and base is not None:
            _limit_data(base.data + 2 * limits.bytes + _DATA_SLACK)
        reply = answer(body)
        mine = usage(os.getpid())
        if mine is not None and base is not None:  # a short evaluation may end before it is measured from outside
            reply["taken"] = max(0, mine.private - base.private)
        _wire.send(result, json.dumps(reply).encode())
        code = 0
    except BaseException:
        traceback.print_exc()  # into what is shown as the end of its output
    finally:
        os._exit(code)


def _prefer_as_victim() -> None:
    """When the machine runs out of memory, this process should be the one to go."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def _limit_data(size: int) -> None:
    """A backstop behind the sampling: one huge allocation fails at once.

    It counts memory that is reserved but never touched too, hence it is set well above the limit itself.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    known = [limit for limit in (soft, hard, _LARGEST_LIMIT) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(size, *known), hard))


class _Watch:
    """Waits for an answer while it holds the limits, drains the output and looks after the parent."""

    def __init__(
        self, child: int, dying: int | None, limits: Limits, started: float, memory: TreeMemory | None
    ) -> None:
        self._child = child
        self._dying = dying
        self._limits = limits
        self._started = started
        self._memory = memory
        self._peak = 0
        self._received = bytearray()
        self._tail = _verdicts.Tail()

    def run(self, result: int, output: int, control: int, parent: int) -> dict[str, Any]:
        os.set_blocking(result, False)
        os.set_blocking(output, False)
        poll = select.poll()
        for fd in (result, output, control):
            poll.register(fd, select.POLLIN)
        deadline = self._started + self._limits.seconds if self._limits.seconds is not None else float("inf")
        sample_at = self._started + _FIRST_SAMPLE_SECONDS
        parent_at = self._started + _PARENT_SECONDS
        pause = _FIRST_SAMPLE_SECONDS
        while True:
            wait = max(0.0, min(deadline, sample_at) - time.monotonic())
            ready = [fd for fd, _ in poll.poll(wait * 1000 + 0.1)]
            if control in ready:  # nothing is sent during an evaluation: it was closed
                raise ParentGone
            if output in ready and not self._drain(output):
                poll.unregister(output)
            if result in ready:
                is_open = self._read(result)
                reply = self._reply()
                if reply is not None:
                    return reply
                if not is_open:
                    poll.unregister(result)
            now = time.monotonic()
            if now >= deadline:
                return _report(_verdicts.late(self._limits, now - self._started, self._peak))
            if now < sample_at:
                continue
            if now >= parent_at:
                parent_at = now + _PARENT_SECONDS
                if os.getppid() != parent:
                    raise ParentGone
            code = _exit_code(self._child)
            if code is not None:
                while select.select([result], [], [], 0)[0] and self._read(result) and self._reply() is None:
                    pass
                self._drain(output)
                return self._reply() or _report(
                    _verdicts.ended(code, self._tail, self._limits, now - self._started, self._peak)
                )
            if self._sample():
                return _report(_verdicts.too_big(self._limits, now - self._started, self._peak))
            # A tree of many big processes takes long to measure; never spend more than a tenth of the time on it.
            pause = min(2 * pause, _SAMPLE_SECONDS)
            taken = time.monotonic() - now
            sample_at = now + taken + max(pause, 9 * taken)

    def _read(self, fd: int) -> bool:
        """Take what there is of the answer; False at its end."""
        return self._take(fd, self._received.extend)

    def _drain(self, fd: int) -> bool:
        return self._take(fd, self._tail.add)

    @staticmethod
    def _take(fd: int, use: Callable[[bytes], None]) -> bool:
        try:
            data = os.read(fd, 1 << 16)
        except BlockingIOError:
            return True
        use(data)
        return bool(data)

    def _reply(self) -> dict[str, Any] | None:
        """The answer, once it is complete or certain to be none."""
        seconds = time.monotonic() - self._started
        try:
            body = _wire.frame_in(self._received)
            if body is None:
                return None
            reply = json.loads(body)
            outcome = Outcome.from_dict(reply["outcome"])
            peak = max(self._peak, int(reply.pop("taken", 0)))
            reply["outcome"]["bytes"] = outcome.bytes or peak
        except _wire.FrameTooLong as error:
            return _report(Outcome.failed(Status.INVALID, str(error), seconds=seconds, bytes=self._peak))
        except _wire.BrokenFrame as error:
            return _report(Outcome.failed(Status.CRASHED, str(error), seconds=seconds, bytes=self._peak))
        except Exception as error:
            text = f"the result of the evaluation cannot be read: {type(error).__name__}: {error}"
            return _report(Outcome.failed(Status.CRASHED, text, seconds=seconds, bytes=self._peak))
        return reply  # type: ignore[no-any-return]

    def _sample(self) -> bool:
        """Measure the memory; whether it is above the limit."""
        if self._memory is None:
            return False
        limit = self._limits.bytes
        everyone = [pid for pid in descendants(os.getpid()) if pid != self._dying]
        taken = self._memory.measure(self._child, everyone, limit)
        self._peak = max(self._peak, taken)
        return limit is not None and taken > limit


def _exit_code(pid: int) -> int | None:
    """Exit code of a child, negative for a signal, ``None`` while it runs. It is not reaped, so its group stays its."""
    status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if status is None:
        return None
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status


def _report(outcome: Outcome) -> dict[str, Any]:
    return {"outcome": outcome.to_dict(), "artefacts": {}}
