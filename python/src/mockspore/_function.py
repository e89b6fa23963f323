"""``_Function``: a custom function with its own backward."""

from __future__ import annotations

from typing import Any

from mockspore import _mockspore
from mockspore._mockspore import FunctionBase

__all__ = ["_Function"]


class _Function(FunctionBase):
    """Base of custom functions: ``forward`` and ``backward`` are static methods.

    ``forward(ctx, *inputs)`` returns a tensor or a tuple of tensors,
    ``backward(ctx, *grads)`` one gradient (or None) for each input.
    ``setup_context`` is not modelled.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError

    @classmethod
    def apply(cls, *inputs: Any) -> Any:
        """Apply the function."""
        return _mockspore.apply(cls, *inputs)
