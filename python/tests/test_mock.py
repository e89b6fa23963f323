"""What only the mock has: its books, its policies, its own errors."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import mockspore
from tests.conftest import REPOSITORY


def drop_hooks(ms: Any, count: int) -> None:
    """Register hooks on operator outputs and drop the handles."""
    x = ms.Tensor(np.ones((2, 2), np.float32))

    def forward(t: Any) -> Any:
        outputs = []
        for _ in range(count):
            y = ms.mint.mul(t, t)
            y.register_hook(lambda grad: grad)
            outputs.append(y)
        return tuple(outputs)

    sens = (ms.Tensor(np.ones((2, 2), np.float32)),) * count
    ms.ops.GradOperation(sens_param=True)(forward)(x, sens)


def test_a_dropped_handle_keeps_an_entry_and_a_control_block(ms: Any) -> None:
    drop_hooks(ms, 7)
    census = ms.census()
    assert (census["hook_entry"], census["control_block"]) == (7, 7)
    assert census["op_node"] == census["hook_fn"] == census["tensor"] == 0


def test_clear_res_returns_all_but_the_bucket_array(ms: Any) -> None:
    drop_hooks(ms, 7)
    ms.graph.api._pynative_executor.clear_res()
    left = {kind for kind, live in ms.census().items() if live}
    assert left == {"hook_buckets"}


def test_a_map_that_erases_with_the_node_keeps_nothing(ms: Any) -> None:
    ms.reset(policies={"hook_map": "erases_with_node"})
    drop_hooks(ms, 7)
    assert ms.census()["hook_entry"] == 0
    ms.reset("fixed")
    drop_hooks(ms, 7)
    assert ms.census()["hook_entry"] == 0


def test_the_callable_of_a_dropped_hook_is_released(ms: Any) -> None:
    import sys

    def hook(grad: Any) -> Any:
        return grad

    before = sys.getrefcount(hook)
    x = ms.Tensor([1.0])

    def forward(t: Any) -> Any:
        y = ms.mint.mul(t, t)
        y.register_hook(hook)
        return y

    ms.grad(forward)(x)
    gc.collect()
    assert sys.getrefcount(hook) == before


def test_numpy_goes_in_and_out_with_its_shape(ms: Any) -> None:
    for data in (np.arange(6, dtype=np.float32).reshape(2, 3), np.float32(4), [1, 2]):
        tensor = ms.Tensor(data)
        np.testing.assert_array_equal(tensor.asnumpy(), np.asarray(data, np.float32))
        assert tensor.shape == np.shape(data)
    transposed = np.arange(6, dtype=np.float32).reshape(2, 3).T
    np.testing.assert_array_equal(ms.Tensor(transposed).asnumpy(), transposed)


def test_errors_have_one_base_and_the_builtin_type(ms: Any) -> None:
    with pytest.raises(ms.MockSporeError) as caught:
        ms.mint.add(ms.Tensor([1, 2]), ms.Tensor([1, 2, 3]))
    assert isinstance(caught.value, ValueError)
    assert "the shapes [2] and [3] do not broadcast" in str(caught.value)
    with pytest.raises(ms.MockSporeError) as caught:
        ms.graph.api._pynative_executor.queue_backward_final_callback(lambda: None)
    assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"version": "2.11"}, "version must be one of 2.7.2, 2.8.0, 2.9.0, 2.10.0"),
        ({"device": "GPU"}, "device must be 'CPU' or 'Ascend', but got 'GPU'"),
        ({"policies": {"hook_map": "maybe"}}, "unknown variant `maybe`"),
        ({"policies": {"hook_mop": "keeps_dead"}}, "unknown field `hook_mop`"),
    ],
)
def test_a_bad_reset_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(mockspore.MockValueError, match=message):
        mockspore.reset(**arguments)


def test_graph_mode_and_higher_order_are_not_modelled(ms: Any) -> None:
    with pytest.raises(ms.MockValueError, match="graph mode is not modelled"):
        ms.set_context(mode=ms.GRAPH_MODE)
    from mockspore._c_expression import run_backward

    with pytest.raises(ms.MockSporeError, match="are not modelled"):
        run_backward((), (), False, True, ())


def test_a_tensor_of_an_older_runtime_is_refused(ms: Any) -> None:
    x = ms.Tensor([1.0])
    ms.reset()
    with pytest.raises(ms.MockRuntimeError, match="belongs to another Runtime"):
        ms.grad(lambda t: ms.mint.mul(t, t))(x)


def test_the_version_is_said_once_for_rust_and_python() -> None:
    from mockspore.harness.rows import MOCKSPORE_VERSION

    cargo = (REPOSITORY / "Cargo.toml").read_text()
    assert f'version = "{mockspore.__version__}"' in cargo
    assert mockspore.__version__ == MOCKSPORE_VERSION


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Tensr'"):
        mockspore.__getattr__("Tensr")
    assert {"Tensor", "grad", "mint"} <= set(dir(mockspore))
