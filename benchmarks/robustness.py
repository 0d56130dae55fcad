"""Fits that are killed and inputs that are bad. Run: python benchmarks/robustness.py [kills] [inputs] [--out DIR]

``kills``: 200 times ``headstart fit`` gets a SIGKILL, a tenth of them at the start, a tenth while the model is made or
written, the others while it searches. Ten fits, each killed twenty times, resumed each time and then completed; three of
them evaluate in worker processes, as a user's do, the others in their own process, which is faster. Checked after every kill: each trial that was said to be finished is in the store with its loss, a model that was there can be
loaded, and no process is left. Checked at the end: the completed fit is the one that was never killed, trial by trial;
its model predicts; and no file is left in the temporary directory, in the directory of the fit or in /dev/shm.

``inputs``: bad tables, models, stores, knowledge, settings and command lines, by random changes of good ones. Each must
end within limits with exit code 0, 1 or 2, and say what is wrong in lines of its own: no traceback, nothing
"unexpected", nothing printed by a library.

Results are appended to DIR as they come, and what is there is not run again. `--only N` runs one input and shows it.
"""

from __future__ import annotations

import argparse
import atexit
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from rich.console import Console
from rich.table import Table

from forks import Run as Victim
from forks import Server, serve

KILLS, PER_FIT, SANDBOXED, INPUTS = 200, 20, 3, 360
FIT_FILES = {"fit.json", "leaderboard.csv", "model.headstart", "report.json", "store", ".lock"}
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

    if not job.get("sandboxed", True):
        Run.sandboxed = lambda run, objective, stack: objective  # type: ignore[method-assign]
    display.Display.trial, display.Display.phase, fit._write = trial, phased, written  # type: ignore[method-assign]
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


def good_table(kind: str, rows: int = 80, seed: int = 0) -> pd.DataFrame:
    """A small table with numbers, categories, dates and missing values."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(rows, 3)), columns=list("abc"))
    table.loc[rng.random(rows) < 0.1, "b"] = np.nan
    table["city"] = rng.choice(["Rome", "Oslo", "Bonn"], rows)
    table["day"] = pd.date_range("2024-01-01", periods=rows).astype(str)
    signal_ = table["a"] + (table["city"] == "Oslo") + 0.3 * rng.normal(size=rows)
    if kind == "regression":
        return table.assign(y=10 * signal_)
    names = ["no", "yes"] if kind == "binary" else ["low", "middle", "high"]
    return table.assign(y=pd.qcut(signal_, len(names), labels=names).astype(str))


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

HUGE, DEEP = "9" * 5_000, "[" * 5_000 + "]" * 5_000
NASTY: list[Any] = [
    None, True, -1, 0, 2**31, 2**63, -(2**70), 10**400, 0.5, float("nan"), float("inf"), -1e308, 1e-320, "", " ", "x",
    "\0", "\ud800", "é" * 1000, "../../etc/passwd", "a\nb", "=1+1", "nan", [], [[]], {}, {"a": {"b": []}}, [None] * 3,
    ["x", 1], "9" * 400, "[" * 300, "🦄", "-",
]  # fmt: skip
WORDS = [
    "", " ", "nan", "inf", "-inf", "-1", "0", "1e999", "x", "1h1", "²", "٣", "a=b", "y", "a", "../x", "/dev/null", "/dev/full",
    "/proc/self/mem", ".", "t.csv", "nowhere/x", "é\ud800", "=", "<=", "latency <= -1", "gp(", "gp(kernel=)", "\n", "9" * 400, "{}",
    "'", "%s", "$HOME", "--", "-", "🦄", "1e-9", "0.0000001", "1_000", "0x10", "t.csv.gz", "true",
]  # fmt: skip
Case = tuple[list[str], dict[str, Any]]


def bytes_changed(content: bytes, chosen: random.Random, most: int = 6) -> bytes:
    """Random changes: bits, pieces that are removed, repeated or moved, bytes that mean something to some reader."""
    special = [
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b'"',
        b"'",
        b"\r",
        b"\n\n",
        b",,,,",
        b";",
        b"\xef\xbb\xbf",
        b"\x1a",
        b"?",
        b"%",
        b"{",
    ]
    found = bytearray(content)
    for _ in range(chosen.randint(1, most)):
        place, length = chosen.randrange(len(found) or 1), chosen.choice([1, 2, 8, 100])
        match chosen.randrange(6):
            case 0 if found:
                found[min(place, len(found) - 1)] ^= 1 << chosen.randrange(8)
            case 1:
                del found[place : place + length]
            case 2:
                found[place:place] = found[place : place + length] * chosen.choice([1, 2, 50])
            case 3:
                found[place:place] = chosen.choice(special) * chosen.choice([1, 1, 1, 1000])
            case 4:
                del found[place:]
            case _:
                found[place : place + length] = chosen.randbytes(length)
    return bytes(found)


def value_changed(content: Any, chosen: random.Random) -> Any:
    """A JSON value with one of its parts, at any depth, replaced, removed or added to."""
    if isinstance(content, dict | list) and content and chosen.random() < 0.85:
        found = dict(content) if isinstance(content, dict) else list(content)
        key: Any = chosen.choice(list(found)) if isinstance(found, dict) else chosen.randrange(len(found))
        if chosen.random() < 0.1:
            del found[key]
        else:
            found[key] = value_changed(found[key], chosen)
        return found
    return chosen.choice(NASTY)


def number_changed(text: str, chosen: random.Random) -> str:
    """A text with one or a few of its numbers replaced."""
    for _ in range(chosen.randint(1, 3)):
        at = chosen.choice(list(re.finditer(r"-?\d+(\.\d+)?", text)))
        new = chosen.choice(["-1", "0", "7", "2147483647", "1e300", "nan", "inf", "", HUGE, "0.5", "-9e18", "1 2", "x"])
        text = text[: at.start()] + new + text[at.end() :]
    return text


def as_json(value: Any) -> str:
    return json.dumps(value).replace(f'"{"9" * 400}"', HUGE).replace(f'"{"[" * 300}"', DEEP)


def members(path: Path | BytesIO) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archived(parts: dict[str, bytes]) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def on_table(chosen: random.Random, name: str) -> list[str]:
    """A command that reads a table."""
    fit = ["fit", name, "--target", "y", "--evaluations", "1", "--include", "decision_tree", "--jobs", "1"]
    commands = [
        ["inspect", name, "--target", "y"],
        ["inspect", name],
        ["predict", "m.headstart", name],
        ["leaderboard", "m.headstart", name],
        ["importance", "m.headstart", name, "--time", "2"],
        ["metafeatures", name, "--target", "y"],
    ]
    return fit if chosen.random() < 0.15 else chosen.choice(commands)


def delimited(chosen: random.Random) -> Case:
    suffix = chosen.choice([".csv", ".tsv", ".txt", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip"])
    good_table("binary").to_csv(f"bad{suffix}", index=False, sep="\t" if suffix == ".tsv" else ",")
    changed = Path(f"bad{suffix}").read_bytes()
    Path(f"bad{suffix}").write_bytes(bytes_changed(changed, chosen))
    return on_table(chosen, f"bad{suffix}"), {}


def binary(chosen: random.Random) -> Case:
    table, suffix = good_table("binary"), chosen.choice([".parquet", ".feather"])
    table["city"] = table["city"].astype("category")
    getattr(table, f"to_{suffix[1:]}")(f"bad{suffix}")
    Path(f"bad{suffix}").write_bytes(bytes_changed(Path(f"bad{suffix}").read_bytes(), chosen, 3))
    return on_table(chosen, f"bad{suffix}"), {}


def workbook(chosen: random.Random) -> Case:
    good_table("binary").to_excel("g.xlsx", index=False)
    parts = members(Path("g.xlsx"))
    name = chosen.choice(sorted(parts))
    text = parts[name].decode()
    parts[name] = (
        bytes_changed(parts[name], chosen, 2) if chosen.random() < 0.5 else number_changed(text, chosen).encode()
    )
    Path("bad.xlsx").write_bytes(archived(parts))
    return on_table(chosen, "bad.xlsx"), {}


def records(chosen: random.Random) -> Case:
    rows = json.loads(good_table("binary").to_json(orient="records"))
    lines = chosen.random() < 0.4
    for _ in range(chosen.randint(1, 3)):
        rows = value_changed(rows, chosen)
    text = "\n".join(map(as_json, rows)) if lines and isinstance(rows, list) else as_json(rows)
    content = bytes_changed(text.encode(), chosen, 2) if chosen.random() < 0.3 else text.encode()
    name = "bad.jsonl" if lines else "bad.json"
    Path(name).write_bytes(content)
    return on_table(chosen, name), {}


def attributes(chosen: random.Random) -> Case:
    table = good_table("binary").drop(columns="day")
    kinds = {"city": "{Rome,Oslo,Bonn}", "y": "{no,yes}"}
    head = [f"@attribute {name} {kinds.get(name, 'numeric')}" for name in table.columns]
    rows = table.to_csv(index=False, header=False, na_rep="?")
    text = "\n".join(["@relation t", *head, "@data", rows])
    Path("bad.arff").write_bytes(bytes_changed(text.encode(), chosen))
    return on_table(chosen, "bad.arff"), {}


def model_header(chosen: random.Random) -> Case:
    parts = members(Path("m.headstart"))
    header = json.loads(parts["header.json"])
    for _ in range(chosen.randint(1, 2)):
        header = value_changed(header, chosen)
    parts["header.json"] = as_json(header).encode()
    Path("bad.headstart").write_bytes(archived(parts))
    return with_model(chosen), {}


def with_model(chosen: random.Random) -> list[str]:
    commands = [
        ["predict", "bad.headstart", "t.csv"],
        ["leaderboard", "bad.headstart"],
        ["leaderboard", "bad.headstart", "t.csv"],
        ["importance", "bad.headstart", "t.csv", "--time", "2"],
        ["export", "bad.headstart", "--out", "bad.py"],
    ]
    return chosen.choice(commands)


def model_parts(chosen: random.Random) -> Case:
    """The fitted pipelines: their description, arrays and texts."""
    parts = members(Path("m.headstart"))
    inner = members(BytesIO(parts["models.skops"]))
    name = chosen.choice(["schema.json", *sorted(inner)])
    if name == "schema.json":
        inner[name] = as_json(value_changed(json.loads(inner[name]), chosen)).encode()
    else:
        inner[name] = array_changed(inner[name], chosen)
    parts["models.skops"] = archived(inner)
    Path("bad.headstart").write_bytes(archived(parts))
    return with_model(chosen), {}


def array_changed(content: bytes, chosen: random.Random) -> bytes:
    """Values, kind or shape of an array; or bytes, if it is none."""
    try:
        array = np.load(BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError):
        return bytes_changed(content, chosen)
    if array.size and array.dtype.kind in "fiu" and chosen.random() < 0.7:
        flat = array.reshape(-1).copy()
        for _ in range(chosen.randint(1, 5)):
            worst = [np.nan, np.inf, -1e308] if array.dtype.kind == "f" else [-1, 2**31 - 1, -(2**31), 10**6]
            with np.errstate(all="ignore"):
                flat[chosen.randrange(len(flat))] = np.array(chosen.choice(worst)).astype(array.dtype)
        array = flat.reshape(array.shape)
    else:
        array = chosen.choice(
            [array.reshape(-1)[:-1], array.astype("f4"), array[None], np.zeros(0), array.astype("U9")]
        )
    buffer = BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def booster(chosen: random.Random) -> Case:
    """The text of a LightGBM model."""
    parts = members(Path("m.headstart"))
    inner = members(BytesIO(parts["models.skops"]))
    name = next(name for name, content in inner.items() if b"tree_sizes" in content)
    text = inner[name].decode()
    if chosen.random() < 0.2:
        changed = bytes_changed(inner[name], chosen, 2)
    else:
        lines = text.split("\n")
        at = chosen.choice([i for i, line in enumerate(lines) if re.search(r"\d", line) and not line.startswith("[")])
        lines[at] = number_changed(lines[at], chosen)
        changed = "\n".join(lines).encode()
    inner[name] = changed
    parts["models.skops"] = archived(inner)
    Path("bad.headstart").write_bytes(archived(parts))
    return with_model(chosen), {}


def store(chosen: random.Random) -> Case:
    """A row of the store of a fit, or its bytes."""
    shutil.copytree("m", "bad")
    database = Path("bad/store/headstart.db")
    if chosen.random() < 0.25:
        database.write_bytes(bytes_changed(database.read_bytes(), chosen))
    elif chosen.random() < 0.2:
        file = chosen.choice(sorted(path for path in Path("bad/store/artefacts").rglob("*") if path.is_file()))
        file.write_bytes(array_changed(file.read_bytes(), chosen))
    else:
        with sqlite3.connect(database) as connection:
            tables = [name for (name,) in connection.execute("select name from sqlite_master where type='table'")]
            table = chosen.choice([name for name in tables if name.startswith("headstart_")])
            column = chosen.choice([row[1] for row in connection.execute(f"pragma table_info({table})")])
            rows = connection.execute(f"select rowid, {column} from {table}").fetchall()
            row, value = chosen.choice(rows) if rows else (0, None)
            try:
                new: Any = as_json(value_changed(json.loads(value), chosen))
            except (TypeError, ValueError, RecursionError):
                new = chosen.choice(["", "x", -1, 2**62, 1e300, b"\x80", None, DEEP, HUGE])
            try:
                connection.execute(f"update {table} set {column}=? where rowid=?", (new, row))
            except sqlite3.Error:
                connection.execute(f"delete from {table}")
        connection.close()
    resume = ["fit", "t.csv", "--out", "bad", "--resume", "--evaluations", "4"]
    commands = [["studies", "bad/store"], ["studies", "bad/store", "t-"], ["tree", "bad"]]
    commands.append(["meta", "from-store", "bad", "--out", "bad.meta"])
    return resume if chosen.random() < 0.4 else chosen.choice(commands), {}


def settings(chosen: random.Random) -> Case:
    """What a fit was asked for, to be resumed."""
    shutil.copytree("m", "bad")
    request = json.loads(Path("bad/fit.json").read_text())
    for _ in range(chosen.randint(1, 2)):
        request["settings"] = value_changed(request["settings"], chosen)
    if chosen.random() < 0.2:
        request = value_changed(request, chosen)
    Path("bad/fit.json").write_text(as_json(request))
    return ["fit", "t.csv", "--out", "bad", "--resume", "--evaluations", "3"], {}


def knowledge(chosen: random.Random) -> Case:
    """What was learned from other tables, or what it is learned from."""
    fit = ["fit", "t.csv", "--target", "y", "--evaluations", "1", "--space", "tensor_oboe", "--include", "gaussian_nb"]
    if chosen.random() < 0.6:
        content = Path("known.npz").read_bytes()
        parts = members(BytesIO(content))
        name = chosen.choice(sorted(parts))
        parts[name] = array_changed(parts[name], chosen)
        changed = archived(parts) if chosen.random() < 0.8 else bytes_changed(content, chosen)
        Path("bad.npz").write_bytes(changed)
        return [*fit, "--knowledge", "bad.npz"], {}
    shutil.copytree("known.meta", "bad.meta")
    file = chosen.choice(sorted(path for path in Path("bad.meta").rglob("*") if path.is_file()))
    if file.suffix == ".json" and chosen.random() < 0.7:
        file.write_text(as_json(value_changed(json.loads(file.read_text()), chosen)))
    else:
        file.write_bytes(bytes_changed(file.read_bytes(), chosen, 3))
    commands = [["replay", "bad.meta", "--method", "random", "--evaluations", "3"], ["meta", "info", "bad.meta"]]
    return chosen.choice(commands), {}


def options(chosen: random.Random) -> Case:
    """Any option of any command with any value."""
    import typer.main

    from headstart.cli.main import app

    every = list(leaves(typer.main.get_command(app), []))
    name, found = chosen.choice([(n, c) for n, c in every if n[:2] != ["meta", "fetch"]])
    named = {
        "table": "t.csv", "model": "m", "store": "m/store", "fit": "m", "out": "o", "meta": "known.meta",
        "source": "known.meta",
    }  # fmt: skip
    args: list[str] = list(name)
    for param in found.params:
        if param.param_type_name == "argument" and param.required:
            args.append(chosen.choice(WORDS) if chosen.random() < 0.3 else named.get(str(param.name), "t.csv"))
    if name == ["fit"]:
        args += ["--target", "y", "--evaluations", "1", "--include", "decision_tree", "--out", "o"]
    possible = [
        p for p in found.params if p.param_type_name == "option" and not p.is_flag and p.name != "install_completion"
    ]
    for param in chosen.sample(possible, min(len(possible), chosen.randint(1, 2))):
        args += [param.opts[0], chosen.choice(WORDS)]
    return args, {}


def leaves(found: Any, name: list[str]) -> Iterator[tuple[list[str], Any]]:
    """The commands of a group, with what is typed for them."""
    for key, inner in getattr(found, "commands", {}).items():
        yield from leaves(inner, [*name, key]) if hasattr(inner, "commands") else [([*name, key], inner)]


def python(chosen: random.Random) -> Case:
    return [], {"python": [chosen.randrange(10**6)]}


def in_python(seed: int) -> int:
    """The estimators with a bad parameter, bad data or bad calls; 2 for an error that says what to do."""
    from headstart import HeadstartClassifier, HeadstartRegressor
    from headstart.errors import HeadstartError

    chosen = random.Random(seed)
    kind = chosen.choice([HeadstartClassifier, HeadstartRegressor])
    table = good_table("binary" if kind is HeadstartClassifier else "regression")
    X, y = table.drop(columns="y"), table["y"]
    params: dict[str, Any] = {"evaluations": 1, "include": ["decision_tree"], "sandbox": False}
    warnings.simplefilter("ignore")
    names = sorted(kind().get_params())
    strange: list[Any] = [
        X.to_numpy(), X.assign(y=y), X.iloc[:0], X.iloc[:1], X.iloc[:, :0], y, [], [[]], "t.csv", "nowhere.csv", None, 5, X.T,
        [[1, 2], [3]], np.zeros((80, 3, 2)), np.full((80, 3), np.inf), pd.concat([X, X], axis=1), X.assign(a=object()),
        X.assign(a=[[1]] * 80), X.assign(a=1j), X.set_axis(range(5), axis=1), {"a": [1]}, X.assign(a=10**400),
        X.assign(city=pd.Series(["\ud800"] * 80, dtype=object)), X.astype(str), iter([1]), np.array([["a"] * 3] * 80, dtype=object), b"a,b", X.assign(a=pd.NA),
    ]  # fmt: skip
    targets: list[Any] = [
        y, y[:5], None, [], ["a"] * 80, np.arange(80), [None] * 80, np.full(80, np.nan), np.full(80, np.inf), "y", "nowhere", 5,
        np.zeros((80, 2)), [[1]] * 80, [object()] * 80, y.to_frame(), [10**400] * 80, np.arange(80) * 1j, ["\ud800"] * 80, {1: 2},
    ]  # fmt: skip
    try:
        match chosen.randrange(4):
            case 0:
                for name in chosen.sample(names, chosen.randint(1, 2)):
                    params[name] = chosen.choice(
                        [*NASTY, *WORDS, object(), print, X, b"x", ("a",), {1}, np.float64("nan")]
                    )
                kind(**params).fit(X, y)
            case 1:
                kind(**params).fit(chosen.choice(strange), chosen.choice(targets))
            case 2:
                roles = {
                    name: chosen.choice([*targets, "a", "nowhere", -1, -np.ones(80)])
                    for name in chosen.sample(["sample_weight", "groups", "times"], chosen.randint(1, 2))
                }
                kind(**params).fit(X, y, **roles)
            case _:
                model = kind(**params).fit(X, y)
                given = chosen.choice(strange)
                call = chosen.choice(["predict", "leaderboard", "feature_importance", "score"])
                if call == "predict":
                    model.predict(given)
                else:
                    getattr(model, call)(given, chosen.choice(targets))
    except (HeadstartError, ValueError, TypeError) as error:
        message = " ".join(str(error).split())
        ours = any("/headstart/" in frame.filename for frame in traceback.extract_tb(error.__traceback__)[-1:])
        print(f"headstart: {type(error).__name__}: {message[:300]}", file=sys.stderr)
        if not isinstance(error, HeadstartError) and not ours:
            # sklearn's own conventions and checks raise plain ones; anything deeper is an accident
            last = traceback.extract_tb(error.__traceback__)[-1].filename
            if "sklearn/utils" not in last and "sklearn/base" not in last:
                traceback.print_exc()
        return 2
    return 0


FAMILIES: list[Callable[[random.Random], Case]] = [
    delimited, binary, workbook, records, attributes, model_header, model_parts, booster, store, settings, knowledge, options,
    options, python, python,
]  # fmt: skip


def prepare(folder: Path) -> None:
    """Good inputs, to be changed."""
    from headstart.cli.main import main
    from headstart.knowledge import Knowledge
    from headstart.knowledge.files import learner
    from headstart.metadata import MetaDataset
    from headstart.metadata.files import save_meta
    from headstart.space import Encoded, catalog

    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    good_table("binary").to_csv("t.csv", index=False)
    fit = ["fit", "t.csv", "--target", "y", "--evaluations", "3", "--include", "lightgbm", "--include", "decision_tree"]
    try:
        main([*fit, "--include", "knn", "--out", "m", "--quiet", "--jobs", "1"])
    except SystemExit:
        shutil.copy("m/model.headstart", "m.headstart")
    rng = np.random.default_rng(0)
    drawn = catalog.load("tensor_oboe").sample(rng, 60).unique()
    pipelines = Encoded(drawn.space, drawn.values, drawn.active, drawn.choice, ids=np.arange(len(drawn)))
    losses = rng.random((6, len(drawn)))
    splits = {"train": [0, 1, 2, 3], "validation": [4], "test": [5]}
    meta = MetaDataset(pipelines, losses, [f"t{i}" for i in range(6)], splits=splits, name="known")
    save_meta(meta, Path("known.meta"))
    Knowledge.learn(learner("average_rank"), meta, [0, 1, 2, 3], [4]).save("known.npz")


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
