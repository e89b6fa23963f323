"""Recompute, operators that raise, caches and collectives on both frameworks."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from tests.conftest import tensor


def live_tensors(framework: Any) -> int:
    """Count Tensors: the collector's on the real framework, else the census."""
    gc.collect()
    if framework.__name__ == "mockspore":
        return int(framework.census()["tensor"])
    return sum(issubclass(type(each), framework.Tensor) for each in gc.get_objects())


def test_a_recomputed_block_has_the_same_gradient(framework: Any) -> None:
    mint, ops = framework.mint, framework.ops
    w = tensor(framework, 2.0, -3.0)

    def block(x: Any) -> Any:
        return mint.mul(ops.relu(mint.mul(x, w)), x)

    def recomputed(x: Any) -> Any:
        return framework.recompute(block, x, use_reentrant=False)

    x, sens = tensor(framework, 3.0, -4.0), tensor(framework, 1.0, 0.5)
    plain = framework.grad(block, sens_param=True)(x, sens)
    again = framework.grad(recomputed, sens_param=True)(x, sens)
    assert again.asnumpy().tolist() == plain.asnumpy().tolist()


@pytest.mark.parametrize(
    ("options", "kept"), [({}, 1), ({"early_stop": False}, 0)], ids=["early", "end"]
)
def test_an_early_stop_keeps_one_tensor_for_each_call(
    framework: Any, options: dict[str, Any], kept: int
) -> None:
    w = tensor(framework, 2.0, 3.0)

    def block(x: Any) -> Any:
        return framework.mint.mul(framework.mint.mul(x, w), w)

    def forward(x: Any) -> Any:
        for _ in range(3):
            x = framework.recompute(block, x, use_reentrant=False, **options)
        return x

    grad = framework.grad(forward, sens_param=True)
    x, sens = tensor(framework, 1.0, 2.0), tensor(framework, 1.0, 1.0)
    grad(x, sens).asnumpy()
    before = live_tensors(framework)
    for _ in range(5):
        grad(x, sens).asnumpy()
    assert live_tensors(framework) - before == 15 * kept


@pytest.mark.parametrize(("sizes", "outputs"), [((), 1), ((1, 5), 2), ((1, 2, 3), 3)])
def test_an_operator_that_raises_keeps_each_of_its_outputs(
    framework: Any, sizes: tuple[int, ...], outputs: int
) -> None:
    x, other = tensor(framework, 1, 2, 3, 4), tensor(framework, 1, 2, 3)

    def operator() -> None:
        if sizes:
            framework.mint.split(x, list(sizes))
        else:
            framework.mint.add(x, other)

    def call() -> None:
        with pytest.raises(ValueError):  # noqa: PT011
            operator()

    call()
    before = live_tensors(framework)
    for _ in range(20):
        call()
    assert live_tensors(framework) - before == 20 * outputs


def test_split_and_its_gradient_are_those_of_numpy(framework: Any) -> None:
    x = framework.Tensor(np.arange(6, dtype=np.float32).reshape(3, 2))
    first, second = framework.mint.split(x, [1, 2])
    np.testing.assert_array_equal(first.asnumpy(), [[0, 1]])
    np.testing.assert_array_equal(second.asnumpy(), [[2, 3], [4, 5]])

    def last(x: Any) -> Any:
        return framework.mint.split(x, [1, 2])[1]

    sens = framework.Tensor(np.full((2, 2), 7, np.float32))
    result = framework.grad(last, sens_param=True)(x, sens)
    np.testing.assert_array_equal(result.asnumpy(), [[0, 0], [7, 7], [7, 7]])


def test_a_cell_with_set_grad_computes_the_same(framework: Any) -> None:
    w = tensor(framework, 2.0, 3.0)

    class Double(framework.nn.Cell):  # type: ignore[misc]
        def construct(self, x: Any) -> Any:
            return framework.mint.mul(x, w)

    cell = Double()
    x = tensor(framework, 1.0, 2.0)
    assert cell(x).asnumpy().tolist() == [2.0, 6.0]
    cell.set_grad()
    assert cell(x).asnumpy().tolist() == [2.0, 6.0]
    sens = tensor(framework, 1.0, 1.0)
    result = framework.grad(cell, sens_param=True)(x, sens)
    assert result.asnumpy().tolist() == [2.0, 3.0]
