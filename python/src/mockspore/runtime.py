"""``mindspore.runtime``: on the mock only streams are ever in flight."""

from mockspore._mockspore import synchronize

__all__ = ["synchronize"]
