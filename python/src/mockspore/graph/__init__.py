"""Where MindSpore keeps its executor."""

from mockspore.graph import api

__all__ = ["api"]
