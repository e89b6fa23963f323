"""``mindspore.nn``: the part of ``Cell`` that decides lifetimes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mockspore import _mockspore

__all__ = ["Cell"]


class Cell:
    """A callable with a ``construct``, recorded once ``set_grad`` is called.

    Hooks of cells run in the order they were registered. Parameters, cells
    within cells, and the handles that end a hook are not modelled.
    """

    _last_id = 0

    def __init__(self) -> None:
        Cell._last_id += 1
        self._id = Cell._last_id
        self._requires_grad = False
        self._forward_pre_hooks: list[Callable[..., Any]] = []
        self._forward_hooks: list[Callable[..., Any]] = []

    def set_grad(self, requires_grad: bool = True) -> Cell:
        """Record every forward from now on, for a grad that may come."""
        self._requires_grad = requires_grad
        return self

    def register_forward_pre_hook(self, hook_fn: Callable[..., Any]) -> None:
        """Call ``hook_fn(cell, inputs)`` before; what it returns replaces them."""
        self._forward_pre_hooks.append(hook_fn)

    def register_forward_hook(self, hook_fn: Callable[..., Any]) -> None:
        """Call ``hook_fn(cell, inputs, output)`` behind; its output replaces."""
        self._forward_hooks.append(hook_fn)

    def construct(self, *inputs: Any) -> Any:
        """Compute the outputs; for subclasses."""
        raise NotImplementedError

    def __call__(self, *inputs: Any) -> Any:
        """Run ``construct`` with the hooks around it."""
        if self._requires_grad and not _mockspore.grad_flag():
            return _mockspore.forward_with_grad(self._id, self._hooked, list(inputs))
        return self._hooked(*inputs)

    def _hooked(self, *inputs: Any) -> Any:
        for hook in self._forward_pre_hooks:
            changed = hook(self, inputs)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
        output = self.construct(*inputs)
        for hook in self._forward_hooks:
            changed = hook(self, inputs, output)
            if changed is not None:
                output = changed
        return output
