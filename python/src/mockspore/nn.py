"""``mindspore.nn``: the part of ``Cell`` that decides lifetimes."""

from __future__ import annotations

from typing import Any

from mockspore import _mockspore

__all__ = ["Cell"]


class Cell:
    """A callable with a ``construct``, recorded once ``set_grad`` is called.

    Parameters, hooks and cells within cells are not modelled.
    """

    _last_id = 0

    def __init__(self) -> None:
        Cell._last_id += 1
        self._id = Cell._last_id
        self._requires_grad = False

    def set_grad(self, requires_grad: bool = True) -> Cell:
        """Record every forward from now on, for a grad that may come."""
        self._requires_grad = requires_grad
        return self

    def construct(self, *inputs: Any) -> Any:
        """Compute the outputs; for subclasses."""
        raise NotImplementedError

    def __call__(self, *inputs: Any) -> Any:
        """Run ``construct``."""
        if self._requires_grad and not _mockspore.grad_flag():
            return _mockspore.forward_with_grad(self._id, self.construct, list(inputs))
        return self.construct(*inputs)
