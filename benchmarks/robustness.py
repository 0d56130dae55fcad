"""Fits that are killed and inputs that are bad. Run: python benchmarks/robustness.py [kills] [inputs] [--out DIR]

``kills``: 200 times ``headstart fit`` gets a SIGKILL, a tenth of them at the start, a tenth while the model is made or
written, the others while it searches. Ten fits, each killed twenty times, resumed each time and then completed; three
of them evaluate in worker processes, as a user's do, the others in their own process, which is faster. Checked after
every kill: each trial that was said to be finished is in the store with its loss, a model that was there can be loaded,
and no process is left. Checked at the end: the completed fit is the one that was never killed, trial by trial; its
model predicts; and no file is left in the temporary directory, in the directory of the fit or in /dev/shm.

``inputs``: 300 bad tables, models, stores, knowledge, settings, command lines and calls (`bad_inputs.py`). Each must
end within limits with exit code 0, 1 or 2, and say what is wrong in one line: no traceback, nothing "unexpected",
nothing printed by a library.

Results are appended to DIR as they come, and what is there is not run again. ``--only N`` runs one input and shows it.
Run it where nothing else writes to /dev/shm: ``unshare -m sh -c 'mount -t tmpfs x /dev/shm; exec python ...'``.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil
from bad_inputs import FAMILIES, good_table, in_python, prepare
from forks import Run as Victim
from forks import Server, serve
from rich.console import Console
from rich.table import Table

KILLS, PER_FIT, SANDBOXED, INPUTS = 200, 20, 3, 300
FIT_FILES = {"fit.json", "leaderboard.csv", "model.headstart", "report.json", "report.html", "store", ".lock"}
SECONDS, LATEST_SECONDS = 60.0, 300.0
"""Of a processor, and by the clock, for one input."""
BYTES = 1_500_000_000
MARK = "HEADSTART_ROBUSTNESS"
"""In the environment of all processes that are started here."""
console = Console(width=110)


# -- the server: commands in forks -------------------------------------------------------------------------------------


def command(line: str) -> int:
    """Run a command as it was sent: its arguments, where, and where its output goes; says what a fit does."""
    job = json.loads(line)
    os.chdir(job["folder"])
    for stream, name in ((0, os.devnull), (2, "err.txt")):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    told = os.dup(1)
    os.dup2(os.open("out.txt", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), 1)

    def tell(text: str) -> None:
        os.write(told, f"{text}\n".encode())

    from headstart import cli
    from headstart.cli import display, fit
    from headstart.cli.main import main
    from headstart.fitting.run import Run

    cli.began = time.time()
    take, phase, write = display.Display.trial, display.Display.phase, fit._write

    def trial(self: Any, run: Any, found: Any) -> None:
        tell(f"trial {found.number} {found.outcome.loss!r}")
        take(self, run, found)

    def phased(self: Any, run: Any, text: str) -> None:
        tell(f"phase {text}")
        phase(self, run, text)

    def written(*args: Any) -> Any:
        tell("phase writing")
        return write(*args)

    shown: Any = display.Display
    shown.trial, shown.phase = trial, phased
    writing: Any = fit
    writing._write = written
    if not job.get("sandboxed", True):
        own: Any = Run
        own.sandboxed = lambda _run, objective, _stack: objective
    try:
        if "python" in job:
            return in_python(*job["python"])
        main(job["args"])
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        atexit._run_exitfuncs()  # a fork ends without
        used = sum(os.times()[:4])
        sys.stdout.flush()
        sys.stderr.flush()
        tell(f"used {used:.2f} {8 * 1024 * _peak()}")
    return 0


def _peak() -> int:
    """Most memory of this process and of those that it waited for, in units of 8 KB."""
    import resource

    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) // 8


class Place:
    """A directory for runs, a server of commands in it, and what belongs to them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        shutil.rmtree(folder, ignore_errors=True)
        self.temporary.mkdir(parents=True)
        self.mark = f"{os.getpid()}-{time.time_ns()}"
        environment = {MARK: self.mark, "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
        self.server = Server(Path(__file__).resolve(), "serve", environment=environment)
        self.shared = set(os.listdir("/dev/shm"))

    def __enter__(self) -> Place:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__(None, None, None)

    def start(self, *args: object, **more: Any) -> Victim:
        job = {"folder": str(self.folder), "args": [str(arg) for arg in args], **more}
        return self.server.start(json.dumps(job))

    @property
    def errors(self) -> str:
        return (self.folder / "err.txt").read_text(errors="backslashreplace")

    def processes(self, patience: float = 20.0) -> list[str]:
        """What still runs of the last command after some seconds."""
        end = time.time() + patience
        while True:
            found = []
            for process in psutil.process_iter(["environ", "cmdline", "status"]):
                marked = (process.info["environ"] or {}).get(MARK) == self.mark
                if marked and process.pid != self.server.pid and process.info["status"] != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(process.info["cmdline"] or []))
            if not found or time.time() > end:
                return found
            time.sleep(0.1)

    def left(self) -> list[str]:
        """Temporary files that are there."""
        shared = sorted(set(os.listdir("/dev/shm")) - self.shared)
        return [*(str(path) for path in self.temporary.iterdir()), *(f"/dev/shm/{name}" for name in shared)]


# -- kills -------------------------------------------------------------------------------------------------------------


class Campaign:
    """One fit that is killed many times and then completed."""

    def __init__(self, place: Place, number: int) -> None:
        self.place = place
        self.random = random.Random(number)
        kind = ("binary", "regression", "multiclass")[number % 3]
        good_table(kind, seed=number).to_csv(place.folder / "t.csv", index=False)
        includes = ["decision_tree", "knn", "ridge" if kind == "regression" else "gaussian_nb"]
        self.sandboxed = number < SANDBOXED
        self.options = ["--jobs", 1 + number % 2, "--seed", number, "--splitter", 3, "--members", 1]
        self.options += [word for name in includes for word in ("--include", name)]
        self.said: dict[int, str] = {}
        self.wrong: list[str] = []
        self.starting = self.making = 1.0
        """Seconds of a start and of the making of a model, as the last ones took."""

    def fit(self, out: str, evaluations: int) -> Victim:
        begun = (self.place.folder / out / "fit.json").exists()
        again = ["--resume"] if begun else ["--target", "y", *self.options]
        args = ["fit", "t.csv", "--out", out, "--evaluations", evaluations, *again]
        return self.place.start(*args, sandboxed=self.sandboxed)

    def hear(self, line: str) -> None:
        if line.startswith("trial "):
            number, loss = line.split()[1:]
            self.said[int(number)] = loss

    def kill(self, when: str) -> bool:
        """Kill the fit once; returns whether it was still under way."""
        more = {"start": 2, "search": 12, "making": 1}[when]
        run, began = self.fit("d", len(self.said) + more), time.time()
        wanted = self.random.randint(1, 4) if when == "search" else 0
        delay = self.random.uniform(0, self.starting if when == "start" else 0.05)
        heard = 0
        while when != "start" and (line := run.line()) is not None:
            self.hear(line)
            if line.startswith("trial"):
                heard += 1
                self.starting = 0.5 * self.starting + 0.5 * (time.time() - began) if heard == 1 else self.starting
            making = line.startswith("phase") and "earlier" not in line
            if making if when == "making" else heard == wanted:
                delay = self.random.uniform(0, self.making) if when == "making" else delay
                break
        for line in run.kill(delay):
            self.hear(line)
        if run.code != -signal.SIGKILL:
            self.making *= 0.7  # it was faster than thought
            if run.code != 0:
                self.wrong.append(f"ended with code {run.code}: {self.place.errors[-300:]}")
        self.check()
        return run.code == -signal.SIGKILL

    def check(self, out: str = "d") -> None:
        """Nothing that was finished is lost, what there is of a model can be used, and nothing runs any more."""
        if left := self.place.processes():
            self.wrong.append(f"processes are left: {left}")
        found = self.stored(out)
        for number, loss in self.said.items():
            if found.get(number, (None, "nothing"))[1] != loss:
                self.wrong.append(f"trial {number} was {loss} and is {found.get(number)}")
        model = self.place.folder / out / "model.headstart"
        if model.exists():
            from headstart.estimators import load

            try:
                load(model)
            except Exception as error:
                self.wrong.append(f"the model cannot be loaded: {error!r}")

    def stored(self, out: str) -> dict[int, tuple[str, str]]:
        """Pipeline and loss of each trial in the store."""
        from headstart.store import Store

        location = self.place.folder / out / "store"
        if not location.exists():
            return {}
        with Store.open(location) as store:
            trials = [trial for study in store.studies() for trial in store.read_study(study.name).trials()]
        return {trial.number: (repr(trial.pipeline), repr(trial.outcome.loss)) for trial in trials}

    def complete(self) -> None:
        """End the fit, and compare it with one that was not killed."""
        target = len(self.stored("d")) + 3
        for out in ("d", "straight"):
            run = self.fit(out, target)
            for line in run.rest():
                if out == "d":
                    self.hear(line)
            if run.code != 0:
                self.wrong.append(f"the fit in {out} ended with code {run.code}: {self.place.errors[-300:]}")
        self.check()
        if self.stored("d") != self.stored("straight"):
            self.wrong.append("the fit is not the one that was never killed")
        if len(self.stored("d")) != target:
            self.wrong.append(f"{target} trials were wanted, {len(self.stored('d'))} are there")
        predictions = []
        for out in ("d", "straight"):
            run = self.place.start("predict", out, "t.csv", "--out", f"{out}.csv")
            run.rest()
            if run.code != 0:
                self.wrong.append(f"the model in {out} does not predict: {self.place.errors[-300:]}")
            else:
                predictions.append((self.place.folder / f"{out}.csv").read_text())
        if len(set(predictions)) != 1:
            self.wrong.append("the predictions are not those of the fit that was never killed")
        files = {path.name for path in (self.place.folder / "d").iterdir()}
        artefacts = [path for path in (self.place.folder / "d/store/artefacts").rglob("*") if path.is_file()]
        straight = [path for path in (self.place.folder / "straight/store/artefacts").rglob("*") if path.is_file()]
        if files - FIT_FILES:
            self.wrong.append(f"files are left: {sorted(files - FIT_FILES)}")
        if len(artefacts) != len(straight):
            self.wrong.append(f"{len(artefacts)} artefacts are there, not {len(straight)}")
        if left := self.place.left():
            self.wrong.append(f"temporary files are left: {left}")


def moments(number: int) -> list[str]:
    """When the kills of a fit come: a tenth at the start, a tenth while the model is made."""
    tenth = PER_FIT // 10
    found = ["start"] * tenth + ["making"] * tenth + ["search"] * (PER_FIT - 2 * tenth)
    random.Random(number).shuffle(found)
    return found


def kills(out: Path) -> None:
    for number in todo(out / "kills.jsonl", range(KILLS // PER_FIT)):
        began = time.time()
        with Place(out / "kills") as place:
            campaign, counts = Campaign(place, number), Counter[str]()
            for when in moments(number):
                while not campaign.kill(when):
                    counts["too late"] += 1
                counts[when] += 1
            campaign.complete()
        seconds = round(time.time() - began, 1)
        result = {"number": number, "counts": counts, "trials": len(campaign.said), "seconds": seconds}
        keep(out / "kills.jsonl", {**result, "wrong": campaign.wrong})


# -- bad inputs --------------------------------------------------------------------------------------------------------


def run_input(place: Place, good: Path, number: int) -> dict[str, Any]:
    """Make an input, run it and judge what came of it."""
    chosen = random.Random(number)
    family = FAMILIES[number % len(FAMILIES)]
    for path in place.folder.iterdir():
        if path != place.temporary:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(good, place.folder, dirs_exist_ok=True)
    os.chdir(place.folder)
    args, more = family(chosen)
    began = time.time()
    run = place.start(*args, **more)
    watch = _Watch(run.pid)
    said = run.rest()
    seconds = time.time() - began
    late = watch.end()
    used = next((line.split()[1:] for line in said if line.startswith("used")), ["nan", "nan"])
    text = place.errors
    lines = [line for line in text.splitlines() if line.strip()]
    wrong = []
    if late:
        wrong.append(f"took longer than {LATEST_SECONDS} s")
    elif run.code not in (0, 1, 2):
        wrong.append(f"ended with code {run.code}")
    if float(used[0]) > SECONDS or float(used[1]) > BYTES:
        wrong.append(f"took {used[0]} s of a processor and {used[1]} bytes")
    if "Traceback" in text or "unexpected" in text:
        wrong.append("a traceback or something unexpected")
    mistakes = [line for line in lines if line.startswith("headstart: ") and not line.startswith("headstart: warning")]
    if run.code in (1, 2) and len(mistakes) != 1:
        wrong.append(f"{len(mistakes)} lines say what is wrong")
    fitting = args[:1] == ["fit"]  # shows what it does
    if not fitting and any(not line.startswith("headstart: ") for line in lines):
        wrong.append("something else is said")
    if left := place.processes(5.0):
        wrong.append(f"processes are left: {left}")
    if left := place.left():
        wrong.append(f"temporary files are left: {left}")
    for device in ("/dev/null", "/dev/full"):
        if not Path(device).is_char_device():
            wrong.append(f"{device} is gone")
    return {
        "number": number,
        "family": family.__name__,
        "args": [arg[:60] for arg in args],
        "code": run.code,
        "seconds": round(seconds, 2),
        "said": "\n".join(lines)[-1500:] if wrong else "\n".join(mistakes)[:200],
        "wrong": wrong,
    }


class _Watch:
    """Kills what takes too long."""

    def __init__(self, pid: int) -> None:
        import threading

        self.late = False
        self._timer = threading.Timer(LATEST_SECONDS, self._kill, [pid])
        self._timer.start()

    def _kill(self, pid: int) -> None:
        self.late = True
        os.kill(pid, signal.SIGKILL)

    def end(self) -> bool:
        self._timer.cancel()
        return self.late


def inputs(out: Path, only: Sequence[int] = ()) -> None:
    good = out / "good"
    if not (good / "known.npz").exists():
        shutil.rmtree(good, ignore_errors=True)
        pid = os.fork()
        if pid == 0:
            prepare(good)
            os._exit(0)
        os.waitpid(pid, 0)
    with Place(out / "inputs") as place:
        for number in only or todo(out / "inputs.jsonl", range(INPUTS)):
            result = run_input(place, good, number)
            if only:
                console.print_json(json.dumps(result))
                console.print(place.errors, markup=False)
            else:
                keep(out / "inputs.jsonl", result)


# -- results -----------------------------------------------------------------------------------------------------------


def todo(path: Path, numbers: Sequence[int]) -> list[int]:
    done = {result["number"] for result in results(path)}
    return [number for number in numbers if number not in done]


def results(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(path: Path, result: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")


def show(out: Path) -> None:
    if found := results(out / "kills.jsonl"):
        table = Table(title=f"{sum(sum(r['counts'].get(k, 0) for k in KINDS) for r in found)} SIGKILLs")
        for name in ("fit", *KINDS, "trials", "seconds", "wrong"):
            table.add_column(name, justify="right")
        for r in found:
            counts = [str(r["counts"].get(kind, 0)) for kind in KINDS]
            table.add_row(str(r["number"]), *counts, str(r["trials"]), f"{r['seconds']:.0f}", str(len(r["wrong"])))
        console.print(table)
    if given := results(out / "inputs.jsonl"):
        table = Table(title=f"{len(given)} bad inputs")
        for name in ("family", "inputs", "refused", "harmless", "seconds, most", "wrong"):
            table.add_column(name, justify="left" if name == "family" else "right")
        for family in dict.fromkeys(r["family"] for r in given):
            own = [r for r in given if r["family"] == family]
            harmless = sum(r["code"] == 0 for r in own)
            most = f"{max(r['seconds'] for r in own):.1f}"
            wrong = sum(bool(r["wrong"]) for r in own)
            table.add_row(family, str(len(own)), str(len(own) - harmless), str(harmless), most, str(wrong))
        console.print(table)
    for result in [*found, *given]:
        for line in result["wrong"]:
            console.print(f"{result['number']} {result.get('args', '')}: {line}", markup=False, highlight=False)


KINDS = ("start", "making", "search")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["kills", "inputs"], metavar="kills|inputs")
    parser.add_argument("--out", type=Path, default=Path("robustness"))
    parser.add_argument("--only", type=int, nargs="*", default=(), metavar="N")
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    if "kills" in given.parts and not given.only:
        kills(out)
    if "inputs" in given.parts or given.only:
        inputs(out, given.only)
    show(out)


def warm() -> None:
    """Import what commands import."""
    import catboost  # noqa: F401
    import lightgbm  # noqa: F401
    import openpyxl  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import sklearn.ensemble
    import sklearn.neighbors  # noqa: F401

    import headstart.cli.fit
    import headstart.cli.main
    import headstart.estimators
    import headstart.fitting.run
    import headstart.fitting.trusted  # noqa: F401


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        warm()
        serve(command)
    else:
        main()
