"""How good the models are: Headstart, AutoGluon, FLAML, LightGBM and random search side by side on the same tables.

Run: python benchmarks/quality.py --data DIR [--large] [--autogluon PYTHON] [--flaml PYTHON] [--jobs 2] [--write]

DIR holds ``index.csv`` and ``classification/NAME.parquet``, ``regression/NAME.parquet`` with a column ``target``. Every
system gets the same training rows, metric, seconds and one thread, in a process of its own; its predictions of the test
rows come back in a file of numbers and are scored here, by the same code for all. What is finished is kept in a JSON
file at once, so the command can be stopped and started again. --write makes docs/results/quality.md from these files;
without --data nothing is run.

AutoGluon and FLAML want other versions of libraries than ours, so each is run by the interpreter of an environment of
its own; without one it is left out::

    pip install "autogluon.tabular[lightgbm,catboost,xgboost,fastai]==1.6.3" torch
    pip install "flaml[automl]==2.7.0" pyarrow

AutoGluon has ``presets="best_quality"``, and these extras are all the models that it asks for (torch's CPU build will
do). ray is left out: with one processor it trains nothing at the same time, and with it fits of 8 s and 20 s (shuttle,
busy machine) broke off for lack of time; whether it helps at 60 s has not been settled.

The 20 tables were drawn once (seed 2026) from those with at least 500 rows: 12 with two classes, 4 with more, 4 with
numbers to predict, a third of the rows for the test. --large takes nine others of more than 10,000 rows, by the rule of
`large_tables`, and three generated ones of 100,000 rows (`generated`), a fifth for the test. No two tables share rows.
Nothing was tuned on them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock
from typing import Any, NamedTuple

TABLES = {
    "classification": [
        "boston_corrected_bin", "stock_bin", "kc2", "banana", "pc1", "letter_bin", "fri_c0_500_25_bin", "credit.g",
        "fri_c1_500_10_bin", "xd6", "puma8NH_bin", "profb", "semeion", "led24", "mfeat_fourier", "led7",
    ],
    "regression": ["fried", "529_pollen", "666_rmftsa_ladata", "sensory"],
}  # fmt: skip
GENERATED = {
    "generated_binary": "classification",
    "generated_multiclass": "classification",
    "generated_regression": "regression",
}
SYSTEMS = ("headstart", "autogluon", "flaml", "lightgbm", "random")
ELSEWHERE = ("autogluon", "flaml")  # run by the interpreter of another environment
METRICS = {  # of scikit-learn, and what the others call them
    "roc_auc": {"autogluon": "roc_auc", "flaml": "roc_auc"},
    "neg_log_loss": {"autogluon": "log_loss", "flaml": "log_loss"},
    "neg_root_mean_squared_error": {"autogluon": "root_mean_squared_error", "flaml": "rmse"},
}
KEPT = 1.1  # a budget counts as kept up to this multiple of it
HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "docs/results"


class Suite(NamedTuple):
    """A set of tables and how they are split."""

    title: str
    file: str
    test_share: float


SMALL = Suite("Small and middle-sized tables", "quality.json", 1 / 3)
LARGE = Suite("Large tables", "quality_large.json", 1 / 5)


# -- tables ----------------------------------------------------------------------------------------------------------


def large_tables(index: Any, number: int = 9, above: int = 10_000) -> list[tuple[str, str]]:
    """Task and name of tables with more than `above` rows.

    The tables are sorted by name and shuffled (seed 2026); then several classes, two classes and numbers take turns and
    take their next table. A group (tables that share their rows) is taken once, and none of the 20 tables' groups.
    """
    import numpy as np

    def group(row: Any) -> str:
        return str(row.group).lower().replace("_", "")  # one of them is written in two ways

    taken = {group(row) for row in index.itertuples() if row.name in TABLES.get(row.task, ())}
    candidates = index[index["rows"] > above].sort_values("name")
    candidates = candidates.iloc[np.random.default_rng(2026).permutation(len(candidates))]
    waiting: dict[int, list[Any]] = {3: [], 2: [], 0: []}  # most seldom first
    for row in candidates.itertuples():
        waiting[min(3, int(row.classes))].append(row)
    found: list[tuple[str, str]] = []
    while len(found) < number and any(waiting.values()):
        for kind in waiting:
            waiting[kind] = [row for row in waiting[kind] if group(row) not in taken]
            if waiting[kind] and len(found) < number:
                row = waiting[kind].pop(0)
                taken.add(group(row))
                found.append((row.task, row.name))
    return found


def generated(name: str, n: int = 100_000) -> Any:
    """A table of mixed columns with gaps, always the same: what it tells is in curves, steps, pairs and categories."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng([2026, list(GENERATED).index(name)])
    numbers = rng.normal(size=(n, 12))
    numbers[:, 6:9] = np.exp(numbers[:, 6:9])  # skewed
    numbers[:, 9] = np.floor(5 * np.abs(numbers[:, 9]))  # counts
    sizes = {"few": 4, "some": 15, "many": 300}
    codes = {c: np.minimum(rng.geometric(3 / size, n) - 1, size - 1) for c, size in sizes.items()}
    effects = {c: rng.normal(size=(size, 5)) for c, size in sizes.items()}

    def signal_of(k: int) -> Any:
        a, b, c, d, e, f = (numbers[:, (i + k) % 6] for i in range(6))
        smooth = np.sin(2 * a) + 0.5 * b * c + 0.3 * d**2
        steps = np.where((e > 0.3) & (numbers[:, 9] > 2), 1.0, 0.0) - 0.5 * (f > 1) + 0.4 * np.log(numbers[:, 6])
        categories = sum(effects[column][code, k] for column, code in codes.items())
        return smooth + steps + 0.7 * categories + 0.5 * effects["few"][codes["few"], k] * a

    if name == "generated_regression":
        target = 10 * signal_of(0) + 5 * rng.standard_t(4, size=n)
    elif name == "generated_binary":
        target = (signal_of(0) + rng.logistic(size=n) > 2.5).astype(int)
    else:
        target = np.argmax(np.stack([1.5 * signal_of(k) for k in range(5)], axis=1) + rng.gumbel(size=(n, 5)), axis=1)
    table = pd.DataFrame(numbers, columns=[f"x{i}" for i in range(12)])
    for column in ("x1", "x7", "x10"):
        table.loc[rng.random(n) < 0.15, column] = np.nan
    table.loc[(table["x4"] > 1) & (rng.random(n) < 0.5), "x4"] = np.nan  # a gap that tells something
    for column, code in codes.items():
        table[column] = pd.Categorical.from_codes(code, [f"{column}{i}" for i in range(sizes[column])])
    table.loc[rng.random(n) < 0.1, "some"] = np.nan
    return table.assign(target=target)


def split(table: Any, task: str, test_share: float) -> tuple[Any, Any, Any, str]:
    """Training rows with their target, test rows without, the test rows' target, and the metric."""
    import pandas as pd
    from sklearn.model_selection import train_test_split

    X, y = table.drop(columns="target"), table["target"]
    if task == "classification":
        y = pd.Series(pd.factorize(y, sort=True)[0], name="target")
        metric = "roc_auc" if y.nunique() == 2 else "neg_log_loss"
    else:
        metric = "neg_root_mean_squared_error"
    stratify = y if task == "classification" and y.value_counts().min() > 1 else None
    X, X_test, y, y_test = train_test_split(X, y, test_size=test_share, random_state=0, stratify=stratify)
    return X.assign(target=y.to_numpy()), X_test, y_test.to_numpy(), metric


def score(metric: str, y: Any, predicted: Any) -> float:
    from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error

    if metric == "roc_auc":
        return float(roc_auc_score(y, predicted[:, 1]))
    if metric == "neg_log_loss":
        return -float(log_loss(y, predicted, labels=list(range(predicted.shape[1]))))
    return -float(root_mean_squared_error(y, predicted))


# -- one system on one table: what runs in a process, and perhaps an environment, of its own ---------------------------
#
# The process gets a folder with job.json, train.parquet and test.parquet, and leaves predicted.npy (numbers, or one
# column of probabilities per class) and facts.json in it.


def processor_seconds() -> float:
    """Of this process and of those it has started and that have ended."""
    return sum(os.times()[:4])


class Fit:
    """Times a fit: ``wall`` and, to see that one thread was kept, ``cpu``."""

    def __enter__(self) -> Fit:
        self.started = time.monotonic(), processor_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        self.facts = {"wall": time.monotonic() - self.started[0], "cpu": processor_seconds() - self.started[1]}


def by_class(predicted: Any, classes: Iterable[Any], number: int) -> Any:
    """Probabilities with a column for each of `number` classes, those the system has not seen being 0."""
    import numpy as np

    found = np.zeros((len(predicted), number))
    found[:, [int(c) for c in classes]] = predicted
    return found


def run_headstart(job: dict[str, Any], X: Any, y: Any, X_test: Any) -> Any:
    from headstart import HeadstartClassifier, HeadstartRegressor

    kind = HeadstartClassifier if job["task"] == "classification" else HeadstartRegressor
    optimizer = "default" if job["system"] == "headstart" else "random"
    model = kind(time_budget=job["seconds"], metric=job["metric"], n_jobs=1, optimizer=optimizer)
    with Fit() as fit:
        model.fit(X, y)
    ok = sum(t.outcome.seconds for t in model.history_ if t.outcome.ok)
    facts = {
        **fit.facts,
        "ok_share": ok / fit.facts["wall"],
        "pipelines": len(model.history_),
        "members": len(model.model_.members),
    }
    if job["task"] == "regression":
        return model.predict(X_test), facts
    return by_class(model.predict_proba(X_test), model.classes_, job["classes"]), facts


def run_autogluon(job: dict[str, Any], X: Any, y: Any, X_test: Any) -> Any:
    """``best_quality``; where it breaks off, it gets the whole time once more for a fit without dynamic stacking.

    Dynamic stacking spends a quarter of the time on a trial fit. If that trains no model in time, as may happen on
    large tables, AutoGluon 1.6.3 without ray ends the whole fit with "Learner is already fit." Its user would switch
    that off and fit again, so only the second fit is counted.
    """
    from autogluon.tabular import TabularPredictor  # type: ignore[import-not-found,unused-ignore]

    regression = job["task"] == "regression"
    problem = "regression" if regression else "binary" if job["classes"] == 2 else "multiclass"
    metric = METRICS[job["metric"]]["autogluon"]
    given = {"time_limit": job["seconds"], "presets": "best_quality", "num_cpus": 1, "num_gpus": 0}
    table, noted = X.assign(target=y), {}

    def empty(path: str) -> Any:
        return TabularPredictor("target", problem_type=problem, eval_metric=metric, path=path, verbosity=0)

    model = empty("first")
    try:
        with Fit() as fit:
            model.fit(table, **given)
    except Exception as error:
        noted = {"note": f"fitted again, without dynamic stacking, after: {str(error)[:200]}"}
        model = empty("second")
        with Fit() as fit:
            model.fit(table, dynamic_stacking=False, **given)
    facts = {**fit.facts, **noted}
    if regression:
        return model.predict(X_test).to_numpy(), facts
    predicted = model.predict_proba(X_test)
    return by_class(predicted.to_numpy(), predicted.columns, job["classes"]), facts


def run_flaml(job: dict[str, Any], X: Any, y: Any, X_test: Any) -> Any:
    from flaml import AutoML  # type: ignore[import-not-found,unused-ignore]

    model, metric = AutoML(), METRICS[job["metric"]]["flaml"]
    with Fit() as fit:
        model.fit(X, y, task=job["task"], metric=metric, time_budget=job["seconds"], n_jobs=1, verbose=0, seed=0)
    if job["task"] == "regression":
        return model.predict(X_test), fit.facts
    return by_class(model.predict_proba(X_test), model.classes_, job["classes"]), fit.facts


def run_lightgbm(job: dict[str, Any], X: Any, y: Any, X_test: Any) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor

    kind = LGBMClassifier if job["task"] == "classification" else LGBMRegressor
    model = kind(n_jobs=1, random_state=0, verbose=-1)
    with Fit() as fit:
        model.fit(X, y)
    if job["task"] == "regression":
        return model.predict(X_test), fit.facts
    return by_class(model.predict_proba(X_test), model.classes_, job["classes"]), fit.facts


RUNS = {
    "headstart": (run_headstart, "headstart"),
    "autogluon": (run_autogluon, "autogluon.tabular"),
    "flaml": (run_flaml, "flaml"),
    "lightgbm": (run_lightgbm, "lightgbm"),
    "random": (run_headstart, "headstart"),
}


def run(folder: Path) -> None:
    """Do the job of a folder."""
    import warnings
    from importlib.metadata import PackageNotFoundError, version

    import numpy as np
    import pandas as pd

    warnings.simplefilter("ignore")
    job = json.loads((folder / "job.json").read_text())
    train, test = pd.read_parquet(folder / "train.parquet"), pd.read_parquet(folder / "test.parquet")
    function, package = RUNS[job["system"]]
    predicted, facts = function(job, train.drop(columns="target"), train["target"], test)
    np.save(folder / "predicted.npy", np.asarray(predicted, dtype=float), allow_pickle=False)
    try:
        facts["version"] = version(package)
    except PackageNotFoundError:  # run from its sources
        facts["version"] = ""
    (folder / "facts.json").write_text(json.dumps(facts))


# -- all of them -----------------------------------------------------------------------------------------------------


class Failed(Exception):
    """A system that gave no predictions, and why."""


class Programs:
    """Starts the processes of jobs and ends them, with all they have started, in time or when asked to."""

    def __init__(self) -> None:
        self.stopped = Event()
        self._running: set[int] = set()
        self._lock = Lock()

    def call(self, command: list[str], folder: Path, environment: dict[str, str], limit: float) -> None:
        """Run a command in a folder; `Failed` with its last words if it does not end well."""
        errors = folder / "stderr"
        with errors.open("wb") as file, self._lock:
            if self.stopped.is_set():
                raise Failed("stopped")
            out = subprocess.DEVNULL
            try:
                process = subprocess.Popen(
                    command, cwd=folder, env=environment, stdout=out, stderr=file, start_new_session=True
                )
            except OSError as error:
                raise Failed(f"cannot be started: {error}") from None
            self._running.add(process.pid)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            raise Failed(f"killed after {limit:g} s") from None
        finally:
            with self._lock:
                self._running.discard(process.pid)
                _kill(process.pid)  # its children too, if it has left any
            process.wait()
        if code:
            words = errors.read_text(errors="replace").strip().splitlines() or ["no message"]
            raise Failed(f"exit code {code}: {words[-1][:300]}")

    def stop(self) -> None:
        """End all of them and start none any more."""
        with self._lock:
            self.stopped.set()
            for pid in self._running:
                _kill(pid)


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def read_predictions(file: Path, n: int, classes: int) -> Any:
    """The numbers that a system has left, checked: nothing of another environment is unpickled."""
    import numpy as np

    try:
        predicted = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Failed(f"predictions cannot be read: {error}") from None
    shape = (n, classes) if classes else (n,)
    if predicted.shape != shape or predicted.dtype.kind not in "fiu":
        raise Failed(f"predictions must be numbers of shape {shape}, found {predicted.dtype} of {predicted.shape}")
    if not np.isfinite(predicted).all():
        raise Failed("predictions are not finite")
    if classes:
        if (predicted < 0).any() or not np.allclose(predicted.sum(axis=1), 1, atol=1e-3):
            raise Failed("probabilities must be at least 0 and sum to 1 in each row")
        predicted = predicted / predicted.sum(axis=1, keepdims=True)  # single precision sums to nearly 1
    return predicted


def read_facts(file: Path) -> dict[str, Any]:
    """What a system says of its fit, ``wall`` at least."""
    try:
        facts = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise Failed(f"facts cannot be read: {error}") from None
    if not isinstance(facts, dict) or not isinstance(facts.get("wall"), float):
        raise Failed(f"facts must have wall, the seconds of the fit; found {facts}")
    return facts


def evaluate(
    programs: Programs, python: str, system: str, task: str, table: Any, seconds: float, test_share: float, limit: float
) -> dict[str, Any]:
    """Score and facts of one system on one table, or the reason why there is none."""
    train, test, y_test, metric = split(table, task, test_share)
    classes = int(table["target"].nunique()) if task == "classification" else 0
    known = {"metric": metric, "rows": len(train)}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment["PYTHONSAFEPATH"] = "1"  # files beside this one have the names of packages
    if system in ELSEWHERE:
        environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as place:  # some libraries leave files where they are run
        folder = Path(place)
        job = {"system": system, "task": task, "metric": metric, "seconds": seconds, "classes": classes}
        (folder / "job.json").write_text(json.dumps(job))
        train.to_parquet(folder / "train.parquet", index=False)
        test.to_parquet(folder / "test.parquet", index=False)
        try:
            programs.call([python, str(Path(__file__).resolve()), "--run", place], folder, environment, limit)
            predicted = read_predictions(folder / "predicted.npy", len(test), classes)
            facts = read_facts(folder / "facts.json")
        except Failed as error:
            return {**known, "error": str(error)}
    return {**facts, **known, "score": score(metric, y_test, predicted)}


def write(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.replace(path)


def run_all(args: argparse.Namespace, suite: Suite, tables: list[tuple[str, str]]) -> dict[str, Any]:
    """Results of all systems on all tables, those of an earlier run included."""
    import pandas as pd

    found: dict[str, Any] = json.loads(args.results.read_text()) if args.results.exists() else {}
    if found and found["seconds"] != args.seconds:
        raise SystemExit(f"{args.results} has results for {found['seconds']} s, not {args.seconds}; give another file")
    found.setdefault("seconds", args.seconds)
    cells: dict[str, dict[str, Any]] = found.setdefault("results", {})
    pythons = {s: getattr(args, s) if s in ELSEWHERE else sys.executable for s in args.system or SYSTEMS}
    for system in args.system or ():
        if not pythons[system]:
            raise SystemExit(f"--system {system} needs an interpreter that has it: --{system} PYTHON")
    programs, lock = Programs(), Lock()

    def do(system: str, task: str, name: str) -> None:
        if programs.stopped.is_set():
            return
        table = generated(name) if name in GENERATED else pd.read_parquet(args.data / task / f"{name}.parquet")
        limit = 10 * args.seconds + 60
        result = evaluate(programs, pythons[system], system, task, table, args.seconds, suite.test_share, limit)
        with lock:
            if programs.stopped.is_set():  # it was ended by us
                return
            cells.setdefault(name, {})[system] = result
            write(args.results, json.dumps(found, indent=1, sort_keys=True) + "\n")
            print(f"{name:22} {system:10} {json.dumps(result)}", flush=True)

    wanted = [
        (system, task, name)
        for task, name in tables
        for system, python in pythons.items()
        if python and system not in cells.get(name, {})
    ]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ThreadPoolExecutor(args.jobs) as pool:
        try:
            for _ in pool.map(lambda item: do(*item), wanted):
                pass
        finally:
            programs.stop()
    return found


# -- the page --------------------------------------------------------------------------------------------------------


def ranks(scores: dict[str, float]) -> dict[str, float]:
    """1 for the best; equals share the mean of their places, a system without a score comes last."""
    from scipy.stats import rankdata

    names = list(scores)
    places = rankdata([-scores[name] for name in names])
    return dict(zip(names, places.tolist(), strict=True))


def shown(cell: dict[str, Any], seconds: float) -> str:
    """Score of a table's cell, with the time where it was overrun."""
    if "score" not in cell:
        return "killed" if cell["error"].startswith("killed") else "failed"
    over = cell["wall"] / seconds
    return f"{cell['score']:.5g}" + (f" ({over:.1f} ×)" if over > KEPT else "")


def section(suite: Suite, found: dict[str, Any]) -> Iterator[str]:
    """Lines about one set of tables."""
    import numpy as np

    cells, seconds = found["results"], found["seconds"]
    systems = [s for s in SYSTEMS if any(s in row for row in cells.values())]
    complete = [n for n in cells if all(s in cells[n] for s in systems)]
    yield f"\n## {suite.title}\n"
    if not complete:
        yield "No table has been finished by all systems yet."
        return
    names = sorted(complete, key=lambda n: (list(METRICS).index(cells[n][systems[0]]["metric"]), n))
    placed = {n: ranks({s: cells[n][s].get("score", -np.inf) for s in systems}) for n in names}
    versions = {s: next((v for n in names if (v := cells[n][s].get("version"))), "") for s in systems}
    others = ", ".join(f"{s} {versions[s]}" for s in systems if versions[s])
    yield (
        f"{len(names)} tables, {100 * suite.test_share:.0f} % of the rows for the test, {seconds:g} s"
        + (f"; {others}" if others else "")
        + ".\n"
    )
    if found.get("note"):
        yield found["note"] + "\n"
    yield "| table | training rows | metric | " + " | ".join(systems) + " |"
    yield "|---|---|---|" + "---|" * len(systems)
    for n in names:
        best = min(placed[n].values())
        texts = {s: shown(cells[n][s], seconds) for s in systems}
        marked = [f"**{texts[s]}**" if placed[n][s] == best and "score" in cells[n][s] else texts[s] for s in systems]
        first = cells[n][systems[0]]
        yield f"| {n} | {first['rows']} | {first['metric']} | " + " | ".join(marked) + " |"
    yield "\n| system | mean rank (95 %) | Headstart better, equal, worse | failed | budgets kept | longest | cores |"
    yield "|---|---|---|---|---|---|---|"
    for s in systems:
        places = [placed[n][s] for n in names]
        error = f" ± {1.96 * np.std(places, ddof=1) / np.sqrt(len(names)):.2f}" if len(names) > 1 else ""
        ours = [np.sign(placed[n][s] - placed[n]["headstart"]) for n in names] if "headstart" in systems else []
        against = ", ".join(str(ours.count(sign)) for sign in (1, 0, -1)) if ours and s != "headstart" else ""
        failed = sum("score" not in cells[n][s] for n in names)
        walls = [cells[n][s]["wall"] for n in names if "wall" in cells[n][s]]
        killed = sum(cells[n][s].get("error", "").startswith("killed") for n in names)
        kept = f"{sum(w <= KEPT * seconds for w in walls)} of {len(walls) + killed}"
        longest = f"{max(walls):.0f} s" if walls and not killed else "killed" if killed else ""
        cores = [cells[n][s]["cpu"] / cells[n][s]["wall"] for n in names if cells[n][s].get("cpu")]
        used = f"{np.median(cores):.2f}" if cores else ""
        yield f"| {s} | {np.mean(places):.2f}{error} | {against} | {failed} | {kept} | {longest} | {used} |"
    shares = [c["ok_share"] for n in names if "ok_share" in (c := cells[n].get("headstart", {}))]
    if shares:
        yield f"\nOf Headstart's time {100 * np.median(shares):.0f} % (median) went into evaluations that ended well."
    for n in names:
        for s in systems:
            if said := cells[n][s].get("error") or cells[n][s].get("note"):
                yield f"\n{s} on {n}: {said}"


def page(results: Iterable[tuple[Suite, dict[str, Any]]]) -> str:
    """docs/results/quality.md"""
    lines = [
        "# Quality of the models\n",
        "Written by `benchmarks/quality.py --write` from `data/quality.json` and `data/quality_large.json`. Every "
        "system has the same training rows, metric, seconds and one thread. Scores are of the test rows, higher is "
        "better: ROC AUC for two classes, negative log loss for more, negative root mean squared error for numbers. "
        "`autogluon`: `best_quality`; `lightgbm`: its defaults, no search; `random`: Headstart with random search in "
        f"the same space, everything else equal. A budget is kept if the fit takes at most {KEPT:g} times as long; "
        "beyond, the multiple is beside the score. `longest`: the longest fit. `cores`: its processor time by its wall "
        "time, median.",
    ]
    for suite, found in results:
        lines += section(suite, found)
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="directory with index.csv and the tables; without it nothing is run")
    parser.add_argument("--large", action="store_true", help="the large tables instead of the 20")
    parser.add_argument("--autogluon", help="a Python interpreter that has AutoGluon; without one it is left out")
    parser.add_argument("--flaml", help="a Python interpreter that has FLAML; without one it is left out")
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="only this system; repeat it")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, each with one thread")
    parser.add_argument("--results", type=Path, help="file of the results instead of the one in docs/results/data")
    parser.add_argument("--write", action="store_true", help="write docs/results/quality.md from the results")
    parser.add_argument("--table", action="append", help="TASK/NAME instead of the tables listed here; repeat it")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run(args.run)
        return
    suite = LARGE if args.large else SMALL
    files = {s: RESULTS / "data" / s.file for s in (SMALL, LARGE)}
    args.results = files[suite] = args.results or files[suite]
    if args.data:
        if args.table:
            tables = [(task, name) for task, name in (table.split("/", 1) for table in args.table)]
        elif args.large:
            import pandas as pd

            tables = large_tables(pd.read_csv(args.data / "index.csv"))
            tables += [(task, name) for name, task in GENERATED.items()]
        else:
            tables = [(task, name) for task, names in TABLES.items() for name in names]
        run_all(args, suite, tables)
    text = page((s, json.loads(file.read_text())) for s, file in files.items() if file.exists())
    print(text)
    if args.write:
        write(RESULTS / "quality.md", text)


if __name__ == "__main__":
    main()
