"""Names that the shell completes. Nothing heavy is loaded."""

from __future__ import annotations

from collections.abc import Iterable

import typer


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})


def spaces(incomplete: str) -> list[str]:
    """Search spaces."""
    from headstart.space import catalog

    return _starting(catalog.names(), incomplete)


def optimizers(incomplete: str) -> list[str]:
    """Optimizers, those of plug-ins too."""
    from headstart.registry import names

    return _starting(names("optimizer"), incomplete)


def metrics(incomplete: str) -> list[str]:
    """The common metrics of all tasks."""
    from headstart.evaluation.scoring import SHORT_NAMES, fitting

    usual = [name for task in ("binary", "multiclass", "regression") for name in fitting(task)]
    return _starting([*SHORT_NAMES, *usual], incomplete)


def algorithms(ctx: typer.Context, incomplete: str) -> list[str]:
    """Algorithms of the space that is named before, or of the default ones."""
    from headstart.space import catalog

    given = ctx.params.get("space")
    wanted = [given] if given in catalog.names() else ["classification", "regression"]
    stages = [stage for name in wanted for stage in catalog.load(name).stages]
    return _starting([name for stage in stages for name in stage.names if name != "none"], incomplete)
