"""``grad`` and ``value_and_grad`` over the native backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mockspore._errors import MockRuntimeError, MockTypeError
from mockspore._mockspore import Tensor
from mockspore._mockspore import grad as _native_grad
from mockspore.nn import Cell

_Function = Callable[..., Any]
_Positions = int | tuple[int, ...]


def value_and_grad(
    fn: _Function,
    grad_position: _Positions = 0,
    weights: None = None,
    has_aux: bool = False,
    return_ids: bool = False,
    sens_param: bool = False,
) -> Callable[..., tuple[Any, Any]]:
    """Return a function of the output and the gradient of ``fn``.

    With ``sens_param`` the last argument of a call is the output's gradient (a
    tuple of gradients for a tuple of outputs), else it is ones. Weights,
    auxiliary outputs and ids are not modelled.
    """
    if weights is not None or has_aux or return_ids:
        raise MockRuntimeError("weights, has_aux and return_ids are not modelled")
    positions = (
        (grad_position,) if isinstance(grad_position, int) else tuple(grad_position)
    )

    def call(*args: Any) -> tuple[Any, Any]:
        sens: Sequence[Tensor] | None = None
        if sens_param:
            if not args:
                raise MockTypeError("sens_param=True needs the output gradient")
            *inputs, last = args
            sens = [last] if isinstance(last, Tensor) else list(last)
        else:
            inputs = list(args)
        # A kept forward of the cell is consumed instead of running it again.
        cell = fn._id if isinstance(fn, Cell) else None
        output, grads = _native_grad(fn, inputs, list(positions), sens, cell)
        if isinstance(grad_position, int):
            return output, grads[0]
        return output, tuple(grads)

    return call


def grad(
    fn: _Function,
    grad_position: _Positions = 0,
    weights: None = None,
    has_aux: bool = False,
    return_ids: bool = False,
    sens_param: bool = False,
) -> Callable[..., Any]:
    """Return a function of the gradient of ``fn``; see ``value_and_grad``."""
    both = value_and_grad(fn, grad_position, weights, has_aux, return_ids, sens_param)

    def call(*args: Any) -> Any:
        return both(*args)[1]

    return call
