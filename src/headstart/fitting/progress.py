"""What a run tells while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headstart.trials import Trial

if TYPE_CHECKING:
    from headstart.fitting.run import Run


def best_so_far(run: Run) -> Trial | None:
    """The best trial, or as long as none was on all rows the best one of the first look."""
    if run.history.best is not None:
        return run.history.best
    found = [t for t in run.history if t.outcome.ok and run.history.is_feasible(t)]
    return min(found, key=run.history.rank) if found else None


class Progress:
    """Is told what happens; this one does nothing with it."""

    def begin(self, run: Run) -> None:
        """The table is read and the search begins."""

    def trial(self, run: Run, trial: Trial) -> None:
        """An evaluation has ended."""

    def phase(self, run: Run, text: str) -> None:
        """Something else than searching begins, in words."""

    def making(self, run: Run) -> None:
        """The search is over and the model is made of what was found."""

    def end(self, run: Run) -> None:
        """The model is there, or the run failed."""


class Lines(Progress):
    """Plain lines: each improvement, and now and then how far it is.

    Parameters
    ----------
    write
        Takes a line.
    every
        Seconds between lines without an improvement.
    """

    def __init__(self, write: Callable[[str], None] = print, every: float = 10.0) -> None:
        self.write = write
        self.every = every
        self._last = 0.0

    def begin(self, run: Run) -> None:
        for line in [repr(run.table), *run.about_size, *run.plan.describe()]:
            self.write(line)

    def trial(self, run: Run, trial: Trial) -> None:
        from headstart.fitting.reports import in_words

        if trial is best_so_far(run):
            score = run.metric.shown(float(trial.outcome.loss or 0.0))
            steps = in_words(trial, [stage.name for stage in run.space.stages])
            look = "" if trial is run.history.best else ", at first look"
            self.write(f"{run.elapsed:7.1f} s  {score}{look}  {steps}")
        elif run.elapsed - self._last > self.every:
            tried, failed = len(run.history), sum(not t.outcome.ok for t in run.history)
            pipelines = "1 pipeline" if tried == 1 else f"{tried} pipelines"
            self.write(f"{run.elapsed:7.1f} s  {pipelines} tried, {failed} failed")
        else:
            return
        self._last = run.elapsed

    def phase(self, run: Run, text: str) -> None:
        self.write(f"{run.elapsed:7.1f} s  {text}")
