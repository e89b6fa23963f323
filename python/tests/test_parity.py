"""The same rules on the mock and on real MindSpore, body for body.

What passing on both entitles a reader to believe: that the mock's hooks,
backward paths and errors behave as the framework's do, where a scenario uses
them. The real half runs where MindSpore is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conftest import executor, run_backward, tensor


def array(values: list[list[float]]) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def test_operators_agree_with_numpy(framework: Any) -> None:
    random = np.random.default_rng(5)
    a, b = (random.standard_normal((3, 3)).astype(np.float32) for _ in range(2))
    x, y = framework.Tensor(a), framework.Tensor(b)
    mint, ops = framework.mint, framework.ops
    for got, expected in (
        (mint.mul(x, y), a * b),
        (mint.add(x, y), a + b),
        (mint.sub(x, y), a - b),
        (mint.matmul(x, y), a @ b),
        (mint.sum(x), a.sum()),
        (ops.relu(x), np.maximum(a, 0)),
        (ops.norm(x), np.linalg.norm(a)),
        (mint.mul(x, framework.Tensor(b[0])), a * b[0]),
    ):
        np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_numpy(framework: Any) -> None:
    a, b = array([[1, -2], [3, 4]]), array([[0.5, 1], [-1, 2]])
    x, y = framework.Tensor(a), framework.Tensor(b)
    mint, ops = framework.mint, framework.ops
    sens = array([[1, 2], [3, 4]])

    def matmul(u: Any, v: Any) -> Any:
        return mint.matmul(u, v)

    grads = framework.grad(matmul, (0, 1), sens_param=True)(
        x, y, framework.Tensor(sens)
    )
    np.testing.assert_allclose(grads[0].asnumpy(), sens @ b.T, rtol=1e-6)
    np.testing.assert_allclose(grads[1].asnumpy(), a.T @ sens, rtol=1e-6)
    cases = (
        (lambda u: mint.sum(mint.mul(u, u)), 2 * a),
        (lambda u: ops.norm(u), a / np.linalg.norm(a)),
        (lambda u: mint.sum(ops.relu(u)), (a > 0).astype(np.float32)),
        (lambda u: mint.sum(mint.sub(y, u)), -np.ones_like(a)),
    )
    for function, expected in cases:
        got = framework.grad(function)(x).asnumpy()
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_hooks_run_in_order_and_a_tensor_replaces_the_gradient(framework: Any) -> None:
    x, w = tensor(framework, 1, 2), tensor(framework, 3, 4)
    two = tensor(framework, 2, 2)
    order: list[str] = []

    def doubles(grad: Any) -> Any:
        order.append("doubles")
        return framework.mint.mul(grad, two)

    def forward(t: Any) -> Any:
        y = framework.mint.mul(t, w)
        y.register_hook(doubles)
        y.register_hook(lambda grad: order.append("keeps"))
        return y

    grad = framework.grad(forward, sens_param=True)(x, tensor(framework, 1, 1))
    assert order == ["doubles", "keeps"]
    assert grad.asnumpy().tolist() == [6, 8]


def test_a_hook_registered_by_a_running_hook_runs_too(framework: Any) -> None:
    x, log = tensor(framework, 1), list[str]()

    def forward(t: Any) -> Any:
        y = framework.mint.mul(t, t)

        def first(grad: Any) -> None:
            log.append("first")
            y.register_hook(lambda grad: log.append("second"))

        y.register_hook(first)
        return y

    framework.grad(forward, sens_param=True)(x, tensor(framework, 1))
    assert log == ["first", "second"]


def test_a_hook_on_the_input_runs_in_every_later_backward(framework: Any) -> None:
    x, calls = tensor(framework, 1), list[int]()

    def forward(t: Any) -> Any:
        t.register_hook(lambda grad: calls.append(1))
        return framework.mint.mul(t, t)

    step = framework.grad(forward, sens_param=True)
    for _ in range(4):
        step(x, tensor(framework, 1))
    assert len(calls) == 1 + 2 + 3 + 4


def test_a_removed_hook_does_not_run_and_removing_twice_is_silent(
    framework: Any,
) -> None:
    x, calls = tensor(framework, 1), list[int]()

    def forward(t: Any) -> Any:
        y = framework.mint.mul(t, t)
        handle = y.register_hook(lambda grad: calls.append(1))
        handle.remove()
        handle.remove()
        return y

    framework.grad(forward, sens_param=True)(x, tensor(framework, 1))
    assert not calls


def test_ids_rise_by_one_and_are_not_reused(framework: Any) -> None:
    z = framework.mint.mul(tensor(framework, 1), tensor(framework, 1))
    first = z.register_hook(lambda grad: None)
    first.remove()
    executor(framework).clear_res()
    assert z.register_hook(lambda grad: None).id == first.id + 1


def test_registering_makes_a_plain_tensor_a_leaf_that_requires_grad(
    framework: Any,
) -> None:
    z = framework.mint.mul(tensor(framework, 1), tensor(framework, 1))
    assert (z._requires_grad, z._is_leaf) == (False, True)
    z.register_hook(lambda grad: None)
    assert (z._requires_grad, z._is_leaf) == (True, True)


def test_an_input_stays_a_leaf_and_other_tensors_do_not_become_one(
    framework: Any,
) -> None:
    x, w = tensor(framework, 1), tensor(framework, 2)
    seen = []

    def forward(t: Any) -> Any:
        y = framework.mint.mul(t, w)
        seen.append((y._requires_grad, y._is_leaf, framework.mint.mul(w, w)))
        return y

    framework.grad(forward, sens_param=True)(x, tensor(framework, 1))
    requires_grad, is_leaf, constant = seen[0]
    assert (requires_grad, is_leaf) == (True, False)
    assert not constant._requires_grad
    assert (x._requires_grad, w._requires_grad) == (True, False)


def test_clear_res_resets_the_grad_flag_and_orphans_leaf_hooks(framework: Any) -> None:
    switch = executor(framework)
    p, calls = tensor(framework, 1), list[int]()
    p.requires_grad_()
    handle = p.register_hook(lambda grad: calls.append(1))
    switch.set_grad_flag(True)
    switch.clear_res()
    assert not switch.grad_flag()
    handle.remove()
    switch.set_grad_flag(True)
    y = framework.mint.mul(p, p)
    run_backward(framework, (y,), (tensor(framework, 1),), False, False, (), True)
    assert len(calls) == 1, "its entry was gone, so the handle removed nothing"


def test_run_backward_accumulates_and_a_released_graph_refuses(framework: Any) -> None:
    executor(framework).set_grad_flag(True)
    p, one = tensor(framework, 3), tensor(framework, 1)
    p.requires_grad_()
    y = framework.mint.mul(p, p)
    run_backward(framework, (y,), (one,), True, False, (), True)
    run_backward(framework, (y,), (one,), False, False, (), True)
    assert p._grad.asnumpy().tolist() == [12]
    with pytest.raises(RuntimeError, match="Try to backward the graph twice"):
        run_backward(framework, (y,), (one,), False, False, (), True)


def test_a_final_callback_runs_once_after_the_hooks(framework: Any) -> None:
    switch = executor(framework)
    x, log = tensor(framework, 1), list[str]()

    def forward(t: Any) -> Any:
        t.register_hook(lambda grad: log.append("input"))
        y = framework.mint.mul(t, t)

        def queues(grad: Any) -> None:
            log.append("output")
            switch.queue_backward_final_callback(lambda: log.append("final"))

        y.register_hook(queues)
        return y

    framework.grad(forward, sens_param=True)(x, tensor(framework, 1))
    assert log == ["output", "input", "final"]
    with pytest.raises(RuntimeError, match="can only be installed during backward"):
        switch.queue_backward_final_callback(lambda: None)


def test_what_a_hook_may_not_return_and_may_not_be(framework: Any) -> None:
    x = tensor(framework, 1)

    def forward(t: Any) -> Any:
        y = framework.mint.mul(t, t)
        y.register_hook(lambda grad: 3)
        return y

    message = "Tensor hook should be return Tensor, but get type: int"
    with pytest.raises(RuntimeError, match=message):
        framework.grad(forward, sens_param=True)(x, tensor(framework, 1))
    with pytest.raises(TypeError, match="Expected a callable hook function"):
        x.register_hook(3)


def test_what_a_hook_raises_comes_out_as_it_was(framework: Any) -> None:
    x = tensor(framework, 1)

    def forward(t: Any) -> Any:
        y = framework.mint.mul(t, t)

        def raises(grad: Any) -> None:
            raise KeyError("boom")

        y.register_hook(raises)
        return y

    with pytest.raises(KeyError, match="boom"):
        framework.grad(forward, sens_param=True)(x, tensor(framework, 1))


def test_shapes_that_do_not_broadcast_are_value_errors(framework: Any) -> None:
    with pytest.raises(ValueError, match="broadcast"):
        framework.mint.add(tensor(framework, 1, 2), tensor(framework, 1, 2, 3))


def test_a_wrong_output_gradient_is_a_value_error(framework: Any) -> None:
    step = framework.grad(lambda t: framework.mint.mul(t, t), sens_param=True)
    with pytest.raises(ValueError, match="shape"):
        step(tensor(framework, 1, 2), tensor(framework, 1, 2, 3))


def test_a_hook_that_changes_the_shape_is_a_value_error(framework: Any) -> None:
    x = tensor(framework, 1, 2)

    def forward(t: Any) -> Any:
        y = framework.mint.add(t, t)
        y.register_hook(lambda grad: tensor(framework, 1, 2, 3))
        return y

    with pytest.raises(ValueError, match="shape"):
        framework.grad(forward, sens_param=True)(x, tensor(framework, 1, 1))
