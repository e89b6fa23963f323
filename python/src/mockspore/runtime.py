"""``mindspore.runtime``: on the mock nothing is ever in flight."""

__all__ = ["synchronize"]


def synchronize() -> None:
    """Return at once."""
