"""What was learned from other tasks, in files: how it is written, loaded and used."""

from headstart.knowledge.files import Knowledge

__all__ = ["Knowledge"]
