"""The one loop: optimizer × objective × executor × budget × store."""

from headstart.study.study import Callback, InlineExecutor, Study

__all__ = ["Callback", "InlineExecutor", "Study"]
