"""Stores: tasks, studies, proposals, trials and artefacts on disk or in a database, and the log that resume replays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headstart.store.store import Store, StudySummary, TaskRecord
    from headstart.store.study_log import StudyLog, StudyView

__all__ = ["Store", "StudyLog", "StudySummary", "StudyView", "TaskRecord"]


def __getattr__(name: str) -> Any:
    """Imported when first used: who only reads a model needs no database."""
    if name not in __all__:
        raise AttributeError(f"module 'headstart.store' has no attribute {name!r}")
    from headstart.store import store, study_log

    return getattr(store, name, None) or getattr(study_log, name)
