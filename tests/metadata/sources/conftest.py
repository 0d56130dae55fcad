"""Small wheels instead of the real ones."""

from small_wheels import fake_pip, wheels

__all__ = ["fake_pip", "wheels"]
