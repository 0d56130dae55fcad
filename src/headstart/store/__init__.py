"""Stores: tasks, studies, proposals, trials and artefacts on disk or in a database, and the log that resume replays."""

from headstart.store.store import Store, StudySummary, TaskRecord
from headstart.store.study_log import StudyLog, StudyView

__all__ = ["Store", "StudyLog", "StudySummary", "StudyView", "TaskRecord"]
