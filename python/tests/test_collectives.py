"""Collectives of the mock's world: rank 0 among replicas of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.conftest import tensor


@pytest.fixture
def world(ms: Any) -> Any:
    """Three ranks on Ascend, as release 2.10.0 has it."""
    ms.reset(device="Ascend", ranks=3)
    ms.communication.init()
    return ms


@pytest.mark.parametrize("async_op", [False, True])
def test_values_are_those_of_numpy(world: Any, async_op: bool) -> None:
    dist = world.mint.distributed
    own = np.array([1.5, -2.0], np.float32)
    ranks = np.stack([own] * dist.get_world_size())
    for op, expected in (
        ("sum", ranks.sum(0)),
        ("prod", ranks.prod(0)),
        ("max", ranks.max(0)),
        ("min", ranks.min(0)),
    ):
        x = world.Tensor(own)
        finish(dist.all_reduce(x, op=op, async_op=async_op), async_op)
        np.testing.assert_array_equal(x.asnumpy(), expected)
    x, whole = world.Tensor(own), world.Tensor(np.zeros(6, np.float32))
    finish(dist.all_gather_into_tensor(whole, x, async_op=async_op), async_op)
    np.testing.assert_array_equal(whole.asnumpy(), ranks.ravel())
    finish(dist.reduce_scatter_tensor(x, whole, async_op=async_op), async_op)
    np.testing.assert_array_equal(x.asnumpy(), 3 * own)
    parts = [tensor(world, 0.0, 0.0) for _ in range(3)]
    finish(dist.all_gather(parts, x, async_op=async_op), async_op)
    np.testing.assert_array_equal([part.asnumpy() for part in parts], [3 * own] * 3)
    finish(dist.broadcast(x, 2, async_op=async_op), async_op)
    np.testing.assert_array_equal(x.asnumpy(), 3 * own)


def finish(handle: Any, async_op: bool) -> None:
    """Wait for the handle, which only an asynchronous call returns."""
    assert (handle is not None) == async_op
    if handle is not None:
        handle.wait()


def test_each_call_leaves_an_event_on_each_rank(world: Any) -> None:
    x = tensor(world, 1.0, 2.0)
    for _ in range(10):
        world.mint.distributed.all_reduce(x, op="max")
    assert world.census()["event"] == 30
    assert world.tallies()["hazards.destroyed_before_completion"] == 30
    world.reset(device="Ascend", policies={"event_release": {"pooled": {"cap": 4}}})
    x = tensor(world, 1.0, 2.0)
    for _ in range(10):
        world.mint.distributed.all_reduce(x, op="max")
    world.runtime.synchronize()
    assert world.census()["event"] == 1
    tallies = world.tallies()
    assert not any(tallies[name] for name in tallies if name.startswith("hazards."))


def test_what_does_not_fit_is_refused(world: Any) -> None:
    dist, x = world.mint.distributed, tensor(world, 1.0, 2.0)
    with pytest.raises(ValueError, match="op must be one of sum, prod, max, min"):
        dist.all_reduce(x, op="mean")
    with pytest.raises(ValueError, match="there is no rank 3"):
        dist.broadcast(x, 3)
    with pytest.raises(ValueError, match="of fitting shapes"):
        dist.all_gather_into_tensor(x, x)
    with pytest.raises(RuntimeError, match="groups are not modelled"):
        dist.all_reduce(x, group="other")
    world.reset(device="CPU", ranks=2)
    y = tensor(world, 1.0, 2.0)
    with pytest.raises(RuntimeError, match="DistCommAllGatherIntoTensor unregistered"):
        world.mint.distributed.all_gather_into_tensor(y, y)
    with pytest.raises(ValueError, match="at least 1 rank"):
        world.reset(ranks=0)
