"""``mindspore.mint.distributed``: the other ranks are replicas of this one."""

from __future__ import annotations

from collections.abc import Sequence

from mockspore import _mockspore
from mockspore._errors import MockRuntimeError
from mockspore._mockspore import CommHandle, Tensor

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "broadcast",
    "get_rank",
    "get_world_size",
    "reduce_scatter_tensor",
]


def _of_the_world(group: None) -> None:
    if group is not None:
        raise MockRuntimeError("groups are not modelled: every rank takes part")


def get_rank(group: None = None) -> int:
    """Return 0: the rank that this process plays."""
    _of_the_world(group)
    return 0


def get_world_size(group: None = None) -> int:
    """Return the number of ranks."""
    _of_the_world(group)
    return _mockspore.world_size()


def all_reduce(
    tensor: Tensor, op: str = "sum", group: None = None, async_op: bool = False
) -> CommHandle | None:
    """Reduce the tensors of all ranks into each, in place."""
    _of_the_world(group)
    return _mockspore.all_reduce(tensor, op, async_op)


def all_gather(
    tensor_list: Sequence[Tensor],
    tensor: Tensor,
    group: None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """Gather the tensor of each rank into its place of the list."""
    _of_the_world(group)
    return _mockspore.all_gather(tensor_list, tensor, async_op)


def all_gather_into_tensor(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """Gather the tensors of all ranks into one; no kernel on CPU, as there."""
    _of_the_world(group)
    return _mockspore.all_gather_into_tensor(output_tensor, input_tensor, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: str = "sum",
    group: None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """Reduce, and keep this rank's part; no kernel on CPU, as there."""
    _of_the_world(group)
    return _mockspore.reduce_scatter_tensor(output, input, op, async_op)


def broadcast(
    tensor: Tensor, src: int, group: None = None, async_op: bool = False
) -> CommHandle | None:
    """Copy the tensor of rank ``src`` into that of every rank."""
    _of_the_world(group)
    return _mockspore.broadcast(tensor, src, async_op)
