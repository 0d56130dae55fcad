"""The command ``headstart``. Commands are only declared here; each imports what it needs when it is called."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from time import time as time_now
from typing import Annotated, Any, NoReturn

import typer

from headstart import cli
from headstart.cli import complete, meta
from headstart.cli.options import (
    AsJson,
    Best,
    Data,
    Deploy,
    Drop,
    Groups,
    Kinds,
    Meta,
    Missing,
    Model,
    Refit,
    SplitFile,
    Table,
    Target,
    TaskKind,
    Times,
    Weights,
    budget_option,
    duration,
    folds_or_share,
    gigabytes,
    jobs,
    model_option,
    option,
    output_option,
    search_option,
)

app = typer.Typer(
    name="headstart",
    help="AutoML with a head start: a strong model for a table, within a time budget.",
    epilog="Begin with: headstart fit train.csv --target COLUMN",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_USE, _COMPARE, _KNOW = "Fit and use a model", "Compare methods", "Look around"


def _version(wanted: bool) -> None:
    if wanted:
        from headstart import __version__

        typer.echo(f"headstart {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(rich_help_panel=_USE)
def fit(
    ctx: typer.Context,
    table: Table,
    target: Target = None,
    task: TaskKind = None,
    weights: Weights = None,
    groups: Groups = None,
    times: Times = None,
    time_budget: Annotated[
        float | None,
        budget_option(
            "--time",
            parser=duration,
            metavar="SECONDS",
            help="Time for everything: 90, 10m, 1.5h. 60 seconds if neither this nor --evaluations is given.",
        ),
    ] = None,
    evaluations: Annotated[
        int | None,
        budget_option(
            min=1,
            metavar="N",
            help="Number of pipelines to try, in total. With this alone, the same command gives the same model.",
        ),
    ] = None,
    patience: Annotated[
        int | None,
        budget_option(min=1, metavar="N", help="Stop after this many pipelines in a row without an improvement."),
    ] = None,
    evaluation_seconds: Annotated[
        float | None,
        budget_option(
            "--evaluation-time",
            parser=duration,
            metavar="SECONDS",
            help="Time limit of one pipeline. By default a sixth of the time budget.",
        ),
    ] = None,
    n_jobs: Annotated[
        int | None,
        budget_option(
            "--jobs",
            "-j",
            parser=jobs,
            metavar="N",
            help="Pipelines at once; -1 for all cores. By default as many as cores and memory allow.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        budget_option(
            metavar="ADDRESS",
            help="Evaluate pipelines on the workers of a Dask scheduler, such as tcp://10.0.0.1:8786.",
        ),
    ] = None,
    memory_limit: Annotated[
        int | None,
        budget_option(
            "--memory",
            parser=gigabytes,
            metavar="GB",
            help="Memory that the run may use. By default most of what is free.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        search_option(
            metavar="NAME",
            help="What to optimise: auc, logloss, f1, rmse, mae, r2, … or scikit-learn's name. By default what suits.",
            autocompletion=complete.metrics,
        ),
    ] = None,
    constraints: Annotated[
        list[str] | None,
        search_option(
            "--constraint",
            metavar="BOUND",
            help="What the model must satisfy, such as 'latency <= 1ms'; may be repeated.",
        ),
    ] = None,
    optimizer: Annotated[
        str | None,
        search_option(
            metavar="NAME", help="How to search; 'headstart methods' lists them.", autocompletion=complete.optimizers
        ),
    ] = None,
    warm_start: Annotated[
        str | None,
        search_option(
            metavar="NAME",
            help="Begin with the first pipelines of another optimizer, such as nearest or dida, if in --knowledge.",
            autocompletion=complete.optimizers,
        ),
    ] = None,
    n_initial: Annotated[
        int | None, search_option("--initial", min=1, metavar="N", help="Pipelines of the warm start; 5 by default.")
    ] = None,
    knowledge: Annotated[
        list[Path] | None,
        search_option(
            metavar="FILE",
            resolve_path=True,
            help="What an optimizer learned from other tables: a file that 'headstart metatrain' wrote. May be "
            "repeated: one for the warm start, one for the optimizer.",
        ),
    ] = None,
    space: Annotated[
        str | None,
        search_option(
            metavar="NAME",
            help="What to search; 'headstart show-space' lists them. By default the one for the kind of target.",
            autocompletion=complete.spaces,
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        search_option(
            metavar="ALGORITHM",
            help="Use only these in their stage; may be repeated.",
            autocompletion=complete.algorithms,
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        search_option(
            metavar="ALGORITHM", help="Do not use these; may be repeated.", autocompletion=complete.algorithms
        ),
    ] = None,
    drop: Drop = None,
    kinds: Kinds = None,
    missing: Missing = None,
    splitter: Annotated[
        Any,
        search_option(
            parser=folds_or_share,
            metavar="N|SHARE",
            help="Number of folds, or the share of the rows to validate on. By default what suits table and budget.",
        ),
    ] = None,
    random_state: Annotated[
        int | None,
        search_option("--seed", min=0, metavar="N", help="Seed of everything random; 0 by default."),
    ] = None,
    ensemble: Annotated[
        bool | None,
        model_option(
            "--ensemble/--no-ensemble", help="Combine the best pipelines (the default), or use only the best one."
        ),
    ] = None,
    max_members: Annotated[
        int | None, model_option("--members", min=1, metavar="N", help="Most pipelines in the ensemble; 10 by default.")
    ] = None,
    refit: Annotated[
        Refit | None,
        model_option(
            help="Predict with the models of all folds (bag, the default), with one refitted on all rows (full), or "
            "with the model of one fold (single)."
        ),
    ] = None,
    calibrate: Annotated[
        bool | None,
        model_option(
            "--calibrate/--no-calibrate",
            help="Calibrate probabilities, or leave them as they are. By default if the metric is one of "
            "probabilities (neg_log_loss) and it helps.",
        ),
    ] = None,
    tune_threshold: Annotated[
        bool | None,
        model_option(
            "--tune-threshold/--no-tune-threshold",
            help="Tune the thresholds between classes for the metric, or take the most likely class. By default if the "
            "metric is one of labels (f1) and it helps.",
        ),
    ] = None,
    deploy: Annotated[
        Deploy | None,
        model_option(
            help="Make the best model (the default), or a small and fast one within 1 % of it, refitted on all rows."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        output_option(
            "--out",
            "-o",
            metavar="DIR",
            help="Directory for the model and its reports. By default named after the table, with .headstart.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        output_option(
            metavar="PLACE",
            help="Where trials are kept: a directory, or a database that a team shares, such as postgresql://host/db. "
            "By default in --out.",
        ),
    ] = None,
    resume: Annotated[
        bool, output_option("--resume", help="Resume the fit in that directory: same settings, new time.")
    ] = False,
    report: Annotated[
        bool | None,
        output_option("--report/--no-report", help="Write a page about the fit, report.html (the default), or not."),
    ] = None,
    as_json: Annotated[bool, output_option("--json", help="Print one JSON object at the end.")] = False,
    quiet: Annotated[bool, output_option("--quiet", "-q", help="Show only warnings and errors.")] = False,
) -> None:
    """Find a good model for a table within a budget.

    Whether to predict a class or a number is inferred from the target.

    Ctrl-C stops the search and makes the model from what was found. Pressed
    twice, it quits immediately; --resume continues later.

    \b
    Examples:
      headstart fit train.csv --target price
      headstart fit train.csv -t churned --time 10m --metric f1 --out churn
      headstart fit train.csv --out churn --resume --time 1h
      headstart fit train.parquet -t y --include lightgbm --include catboost
    """
    given = dict(locals())  # by the names of the settings; what was not typed is None
    from headstart.cli.fit import fit as run

    code = run(**given)
    if code:
        raise typer.Exit(code)


@app.command(rich_help_panel=_USE)
def predict(
    model: Model,
    table: Table,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities, a column per class.")] = False,
    coverage: Annotated[
        float | None,
        option(
            metavar="SHARE",
            help="Also what contains the true value so often, such as 0.9: bounds of a number, or a column per class.",
        ),
    ] = None,
    id: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column of the table to carry along; may be repeated.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="A .csv or .parquet file; by default CSV is printed."),
    ] = None,
) -> None:
    """Predict every row of a table.

    \b
    Examples:
      headstart predict train.headstart new.csv > predictions.csv
      headstart predict train.headstart new.csv --proba --out predictions.parquet
      headstart predict train.headstart new.csv --coverage 0.9
      headstart predict train.headstart new.csv --id customer --out predictions.csv
    """
    from headstart.cli.predict import predict as run

    run(model, table, proba, coverage, id or [], out)


@app.command(rich_help_panel=_USE)
def leaderboard(
    model: Model,
    table: Annotated[
        Path | None, typer.Argument(help="A test table with the target: score the model and its members on it.")
    ] = None,
    best: Best = None,
    json: AsJson = False,
) -> None:
    """List the pipelines that were tried, best first.

    \b
    Examples:
      headstart leaderboard train.headstart
      headstart leaderboard train.headstart test.csv
    """
    from headstart.cli.reports import leaderboard as run

    run(model, table, best, json)


@app.command(rich_help_panel=_USE)
def importance(
    model: Model,
    table: Table,
    best: Best = None,
    time_budget: Annotated[
        float,
        typer.Option("--time", parser=duration, metavar="SECONDS", help="Time for it: 90, 10m; 60 seconds by default."),
    ] = 60.0,
    json: AsJson = False,
) -> None:
    """Show how much each column matters to a model.

    It is how much the score drops when the column's values are shuffled. Best
    use a table that was not trained on; it must have the target. Columns that
    the model does not use are left out.

    \b
    Example:
      headstart importance train.headstart test.csv
    """
    from headstart.cli.reports import importance as run

    run(model, table, best, json, time_budget)


@app.command(rich_help_panel=_USE)
def report(
    model: Model,
    table: Annotated[
        Path | None, typer.Argument(help="A test table with the target: score the model on it, too.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="An .html file; by default report.html in the directory."),
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="The training table, if it is not where it was at the fit."),
    ] = None,
    time_budget: Annotated[
        float | None,
        typer.Option("--time", parser=duration, metavar="SECONDS", help="Time for it: 90, 10m; 60 seconds by default."),
    ] = None,
) -> None:
    """Write a page about a fit: how good the model is, how it was found, what it does.

    'headstart fit' does so at its end, in the time that is left. Parts that
    take longer are made here, and a test table can be added. The page is one
    HTML file that needs no network.

    \b
    Examples:
      headstart report train.headstart
      headstart report train.headstart test.csv --out report.html
    """
    from headstart.cli.report import report as run

    run(model, table, out, train, time_budget)


@app.command(rich_help_panel=_USE)
def explain(
    model: Model,
    table: Table,
    rows: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="How many rows, from the first on.")] = 5,
    label: Annotated[
        str | None, option("--class", metavar="LABEL", help="Explain the probability of this class.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Show how much each column contributes to each prediction.

    Contributions are Shapley values: with the prediction for typical values of
    all columns they sum to the prediction for the row.

    \b
    Example:
      headstart explain train.headstart new.csv --rows 3
    """
    from headstart.cli.explain import explain as run

    run(model, table, rows, label, json)


@app.command(rich_help_panel=_USE)
def serve(
    model: Model,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 for any that is free.")] = 8000,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; by default only this machine can reach it.")
    ] = "127.0.0.1",
) -> None:
    """Answer requests for predictions over HTTP.

    The page at the address shows how; /openapi.json is for programs.

    \b
    Example:
      headstart serve train.headstart --port 8000
    """
    from headstart.cli.serve import serve as run

    run(model, host, port)


@app.command(rich_help_panel=_USE)
def export(
    model: Model,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where to write it; printed by default.")
    ] = None,
    onnx: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the fitted model as an ONNX file instead.")
    ] = None,
    best: Annotated[
        bool, typer.Option("--best", help="With --onnx: the best pipeline alone, not the ensemble.")
    ] = False,
) -> None:
    """Write the best pipeline as a Python script, or the model as an ONNX file; neither needs Headstart.

    \b
    Examples:
      headstart export train.headstart --out pipeline.py
      headstart export train.headstart --onnx model.onnx
    """
    from headstart.cli.predict import export, export_onnx

    if onnx is None:
        export(model, out, best)
    else:
        export_onnx(model, onnx, best, out)


@app.command(rich_help_panel=_KNOW)
def inspect(
    table: Table,
    target: Target = None,
    task: TaskKind = None,
    weights: Weights = None,
    groups: Groups = None,
    times: Times = None,
    drop: Drop = None,
    kinds: Kinds = None,
    missing: Missing = None,
) -> None:
    """Show what is inferred from a table: kinds of columns, the task, anything suspicious.

    \b
    Example:
      headstart inspect train.csv --target price
    """
    from headstart.cli.reports import inspect as run

    roles = {"weights": weights, "groups": groups, "times": times, "missing": missing}
    run(table, target, task, drop or [], kinds or [], **roles)


@app.command(rich_help_panel=_KNOW)
def metafeatures(
    table: Table,
    target: Target = None,
    set_name: Annotated[
        str,
        typer.Option("--set", metavar="NAME", help="Which set: mf1, mf2, auto_sklearn, landmark, scot, byu or full."),
    ] = "mf1",
    task: TaskKind = None,
    drop: Drop = None,
    kinds: Kinds = None,
    missing: Missing = None,
    json: AsJson = False,
    knowledge: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Show the most similar tables by Metabu: a file of 'metatrain' that has it."),
    ] = None,
    map_file: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE", help="Draw the table among those learned from: .svg, .png or .pdf."),
    ] = None,
) -> None:
    """Describe a table by hand-crafted meta-features: sizes, statistics, landmarks and more.

    \b
    Examples:
      headstart metafeatures train.csv --target price
      headstart metafeatures train.csv --target price --set full --json
      headstart metafeatures train.csv --target price --knowledge near.npz --map map.svg
    """
    from headstart.cli.metafeatures import show

    show(table, target, set_name, task, drop or [], kinds or [], missing or [], json, knowledge, map_file)


@app.command(rich_help_panel=_COMPARE)
def replay(
    meta: Meta,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            metavar="M",
            help="An optimizer or a surrogate: gp, or with settings, 'gp(kernel=linear)'; may be repeated.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Tasks to replay: test, or validation to choose settings on.")] = "test",
    split_file: SplitFile = None,
    evaluations: Annotated[int, typer.Option(min=1, metavar="N", help="Evaluations per run, with initial ones.")] = 100,
    seeds: Annotated[int, typer.Option(min=1, metavar="K", help="Runs of each method on each task.")] = 1,
    warm_start: Annotated[
        str | None,
        option(
            metavar="M",
            help="Have all methods begin with the first pipelines of this one, such as nearest, instead of the task's.",
        ),
    ] = None,
    n_initial: Annotated[
        int | None, option("--initial", min=1, metavar="N", help="Pipelines of the warm start; 5 by default.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs at once; results do not depend on it.")] = 1,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on the workers of a Dask scheduler, such as tcp://10.0.0.1:8786."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="JSON file of results; methods already in it are not rerun."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot mean rank and mean regret, as .svg, .png or .pdf.")
    ] = None,
    knowledge: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What the methods have learned: a file that 'headstart metatrain' wrote from the same training tasks. "
            "By default they learn first.",
        ),
    ] = None,
    data: Data = None,
    json: AsJson = False,
) -> None:
    """Compare methods on recorded results: what would each have found, after how many evaluations?

    Methods that learn from other tasks use only the training tasks. A replay
    that was stopped continues when it is started again.

    \b
    Example:
      headstart replay pmf --method random --method gp --jobs 2 --out pmf.json
      headstart replay pmf --method gp --warm-start nearest --data DIR --out pmf.json
    """
    from headstart.cli.replay import run

    run(
        meta,
        method or [],
        split,
        split_file,
        evaluations,
        seeds,
        warm_start,
        n_initial,
        cluster or jobs,
        out,
        plot,
        data,
        json,
        knowledge,
    )


@app.command(rich_help_panel=_COMPARE)
def metatrain(
    meta: Meta,
    method: Annotated[
        str,
        typer.Option("--method", "-m", metavar="M", help="What learns: oboe, or with settings, 'oboe(max_rank=10)'."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write what was learned.")],
    split_file: SplitFile = None,
    data: Data = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Fail rather than discard an unfinished training with other settings."),
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--time",
            parser=duration,
            metavar="SECONDS",
            help="Time for a training, such as 90 or 1h; what it has learned by then is written, and the same command "
            "continues it.",
        ),
    ] = None,
) -> None:
    """Train a method on recorded results, for 'fit --knowledge'.

    It learns from the training tasks and stops by the validation tasks; test
    tasks are left alone. A meta-dataset without splits is learned from whole.
    Meta-features that the method needs are learned first, from raw tables.

    \b
    Example:
      headstart metatrain tensor_oboe --method deeppipe --out deeppipe.npz
      headstart fit train.csv -t y --space tensor_oboe --knowledge deeppipe.npz
    """
    from headstart.cli.metatrain import run

    run(meta, method, out, split_file, data, resume, seconds)


app.add_typer(meta.app, name="meta", rich_help_panel=_COMPARE)


@app.command(rich_help_panel=_KNOW)
def methods() -> None:
    """List the optimizers, surrogates, acquisitions and meta-features: what each is, and where it is published."""
    from headstart.cli.methods import show_methods

    show_methods()


@app.command("show-space", rich_help_panel=_KNOW)
def show_space(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of a space; omit it to list all.", autocompletion=complete.spaces),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the space as JSON.")] = False,
) -> None:
    """Show the stages, algorithms and hyper-parameters of a search space."""
    from headstart.space import catalog

    if name is None:
        typer.echo("\n".join(catalog.names()))
        return
    from headstart.cli.reports import show_space as show

    show(catalog.load(name), json)


@app.command(rich_help_panel=_KNOW)
def tree(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a fit.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write it as .html, .svg or .txt instead.")
    ] = None,
) -> None:
    """Show the tree of structures that a search has grown: how often each was tried, its median and best result.

    Mosaic searches with such a tree (fit --optimizer mosaic); of other searches the first decision is shown.
    """
    from headstart.cli.tree import show_tree

    show_tree(directory, out)


@app.command(rich_help_panel=_KNOW)
def studies(
    store: Annotated[str, typer.Argument(help="Directory or database URL of a store.")],
    name: Annotated[
        str | None, typer.Argument(help="Show the best trials of this study instead of all studies.")
    ] = None,
    best: Annotated[int, typer.Option(help="How many trials to show.", min=1)] = 10,
    json: AsJson = False,
) -> None:
    """List the studies of a store, or the best trials of one."""
    from headstart.cli.reports import show_studies, show_trials
    from headstart.errors import InvalidInput
    from headstart.store import Store

    if "://" not in store and not Path(store).exists():
        raise InvalidInput(f"there is no store at {store}; check the path")
    with Store.open(f"sqlite:///{store}" if Path(store).is_file() else store, create=False) as opened:
        if name is None:
            show_studies(opened, json)
        else:
            show_trials(opened, name, best, json)


@app.command(rich_help_panel=_KNOW)
def grant(
    store: Annotated[str, typer.Argument(help="Database URL of a store, as the owner of its tables.")],
    write: Annotated[
        list[str] | None, typer.Option(metavar="ROLE", help="Who may read and add to it.", show_default=False)
    ] = None,
    read: Annotated[
        list[str] | None, typer.Option(metavar="ROLE", help="Who may only read it.", show_default=False)
    ] = None,
) -> None:
    """Make a store in a database that a team shares, and give people the rights that they need.

    A store of an older version of Headstart is migrated. Nobody needs the right
    to change or remove what is stored.

    \b
    Example:
      headstart grant postgresql://owner@host/team --write fitters --read guests
    """
    from headstart.store import Store

    with Store.open(store) as opened:
        for roles, may_write in ((write or [], True), (read or [], False)):
            for role in roles:
                opened.grant(role, write=may_write)
        granted = [f"{role} may read and add" for role in write or []] + [f"{role} may read" for role in read or []]
        typer.echo("; ".join([f"the store at {opened.location} is ready", *granted]))


def main(args: Sequence[str] | None = None) -> None:
    """Run the command; an error is one line on standard error, never a traceback."""
    from headstart.cli.messages import MISTAKE, plain_warnings, report, say

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character still shows the rest
    if args is not None:  # called by a program, which may have loaded this long ago
        cli.began = time_now()
    code: int | None
    try:
        with plain_warnings():
            code = app(args, prog_name="headstart", standalone_mode=False)
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        # What the parser raises has no public class that all versions of typer share.
        if hasattr(error, "format_message"):
            message = error.format_message()
            if message:  # none if the help was shown because there were no arguments
                path = getattr(getattr(error, "ctx", None), "command_path", "headstart")
                say(f"{message.rstrip('.')}; see '{path} --help'")
            code = getattr(error, "exit_code", MISTAKE)
        else:
            code = report(error)
    if args is not None:
        sys.exit(code or 0)
    leave(code or 0)


def leave(code: int) -> NoReturn:
    """End this program as Python does, except for freeing all that is loaded, which takes a third of a second."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    atexit._run_exitfuncs()
    os._exit(code)


if __name__ == "__main__":
    main()
