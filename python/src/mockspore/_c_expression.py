"""``mindspore._c_expression``: the backward without a top cell."""

from __future__ import annotations

from collections.abc import Sequence

from mockspore._errors import MockRuntimeError
from mockspore._mockspore import Tensor
from mockspore._mockspore import run_backward as _native_run_backward

__all__ = ["run_backward"]


def run_backward(
    tensors: Sequence[Tensor],
    grad_tensors: Sequence[Tensor],
    keep_graph: bool,
    create_graph: bool,
    inputs: Sequence[Tensor],
    allow_unreachable: bool = True,
    *,
    accumulate_grad: bool = True,
) -> None:
    """Accumulate the gradients of all leaves behind ``tensors``.

    Higher order (``create_graph``), chosen ``inputs`` and a backward that does
    not accumulate are not modelled.
    """
    del allow_unreachable
    if create_graph or inputs or not accumulate_grad:
        raise MockRuntimeError(
            "create_graph, inputs and accumulate_grad=False are not modelled"
        )
    _native_run_backward(list(tensors), list(grad_tensors), keep_graph)
