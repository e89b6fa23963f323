"""Custom functions: the same rules on the mock and on real MindSpore."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import tensor

mortal = pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="bools are immortal from Python 3.12 on"
)


def function(
    framework: Any,
    forward: Callable[..., Any],
    backward: Callable[..., Any] = lambda ctx, *grads: grads,
) -> Any:
    """Make a custom function."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Custom", (framework._Function,), body)


def grad(framework: Any, custom: Any, *others: Any) -> Any:
    """Differentiate ``custom`` by its first input."""

    def call(x: Any) -> Any:
        return custom.apply(x, *others)

    ones = tensor(framework, 1.0, 1.0)
    return framework.grad(call, sens_param=True)(tensor(framework, 3.0, 4.0), ones)


def test_each_input_has_its_place_in_needs_input_grad(framework: Any) -> None:
    seen = []

    def forward(ctx: Any, x: Any, *rest: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return framework.mint.add(x, x)

    def backward(ctx: Any, g: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return g, None, None, None

    custom = function(framework, forward, backward)
    plain = tensor(framework, 1.0, 1.0)
    grad(framework, custom, plain, 3, "text")
    assert seen == [(True, False, False, False)] * 2
    custom.apply(plain, 3)
    assert seen[-1] == (False, False), "outside of grad, on a plain tensor"


def test_fields_take_any_object_and_none_or_del_clears(framework: Any) -> None:
    ctx = function(framework, lambda ctx, x: x)()
    names = ("needs_input_grad", "dirty_tensors", "non_differentiable")
    for name in names:
        assert getattr(ctx, name) is None
        setattr(ctx, name, [1, 2])
        assert getattr(ctx, name) == [1, 2]
        setattr(ctx, name, None)
        assert getattr(ctx, name) is None
        setattr(ctx, name, (True,))
        delattr(ctx, name)
        assert getattr(ctx, name) is None
    assert ctx.saved_tensors == ()
    ctx.saved_tensors = (1, 2)
    assert ctx.saved_tensors == (1, 2)
    del ctx.saved_tensors
    assert ctx.saved_tensors == ()
    with pytest.raises(AttributeError, match="materialize_grads"):
        _ = ctx.materialize_grads


def test_no_gradient_flows_into_a_marked_output(framework: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        first, second = framework.mint.add(x, x), framework.mint.mul(x, x)
        ctx.mark_non_differentiable(second)
        return first, second

    custom = function(framework, forward, lambda ctx, g, _: framework.mint.add(g, g))

    def call(x: Any) -> Any:
        first, second = custom.apply(x)
        assert (first._requires_grad, second._requires_grad) == (True, False)
        return framework.mint.mul(first, second)

    x, ones = tensor(framework, 3.0, 4.0), tensor(framework, 1.0, 1.0)
    result = framework.grad(call, sens_param=True)(x, ones)
    assert result.asnumpy().tolist() == [18.0, 32.0]


def test_an_input_that_is_returned_has_a_graph_of_its_own(framework: Any) -> None:
    custom = function(
        framework, lambda ctx, x: x, lambda ctx, g: framework.mint.add(g, g)
    )
    assert grad(framework, custom).asnumpy().tolist() == [2.0, 2.0]


@pytest.mark.parametrize("name", ["dirty_tensors", "non_differentiable"])
def test_marks_are_checked_only_when_apply_reads_them(
    framework: Any, name: str
) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        setattr(ctx, name, [x])
        return framework.mint.add(x, x)

    with pytest.raises(RuntimeError, match=f"{name} of functionbase should be a tuple"):
        grad(framework, function(framework, forward))


def test_what_is_saved_is_there_in_the_backward_and_not_before(framework: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        assert ctx.saved_tensors == ()
        return framework.mint.mul(x, x)

    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        assert ctx.saved_tensors is not ctx.saved_tensors
        return framework.mint.mul(g, framework.mint.add(x, x))

    result = grad(framework, function(framework, forward, backward))
    assert result.asnumpy().tolist() == [6.0, 8.0]


def test_a_gradient_that_does_not_arrive_is_zeros_unless_switched_off(
    framework: Any,
) -> None:
    seen = []

    def make(materialize: bool) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(materialize)
            return framework.mint.add(x, x), framework.mint.mul(x, x)

        def backward(ctx: Any, first: Any, second: Any) -> Any:
            seen.append(None if second is None else second.asnumpy().tolist())
            return first

        return function(framework, forward, backward)

    for materialize in (True, False):
        custom = make(materialize)

        def call(x: Any, custom: Any = custom) -> Any:
            return custom.apply(x)[0]

        ones = tensor(framework, 1.0, 1.0)
        framework.grad(call, sens_param=True)(tensor(framework, 3.0, 4.0), ones)
    assert seen == [[0.0, 0.0], None]
    ctx = make(True)()
    with pytest.raises(RuntimeError, match="should be bool! but got int"):
        ctx.set_materialize_grads(3)


def test_a_wrong_number_of_gradients_is_a_runtime_error(framework: Any) -> None:
    custom = function(
        framework, lambda ctx, x, y: framework.mint.mul(x, y), lambda ctx, g: g
    )
    with pytest.raises(RuntimeError):
        grad(framework, custom, tensor(framework, 1.0, 1.0)).asnumpy()


def test_the_ctx_dies_at_the_end_of_its_own_backward(framework: Any) -> None:
    alive: list[weakref.ref[Any]] = []

    def forward(ctx: Any, x: Any) -> Any:
        alive.append(weakref.ref(ctx))
        ctx.save_for_backward(x)
        return framework.mint.add(x, x)

    gc.disable()
    try:
        grad(framework, function(framework, forward, lambda ctx, g: g)).asnumpy()
        assert alive[0]() is None
    finally:
        gc.enable()


def test_an_output_kept_as_an_attribute_is_a_cycle_that_nothing_collects(
    framework: Any,
) -> None:
    alive: list[weakref.ref[Any]] = []

    def forward(ctx: Any, x: Any) -> Any:
        alive.append(weakref.ref(ctx))
        output = framework.mint.add(x, x)
        ctx.kept = output
        return output

    custom = function(framework, forward, lambda ctx, g: g)
    grad(framework, custom).asnumpy()
    gc.collect()
    assert alive[-1]() is None, "a backward releases it"
    # A forward that is recorded, and no backward.
    x = tensor(framework, 3.0, 4.0)
    x.requires_grad_()
    executor = framework.graph.api._pynative_executor
    executor.set_grad_flag(True)
    custom.apply(x).asnumpy()
    executor.set_grad_flag(False)
    gc.collect()
    assert alive[-1]() is not None


@mortal
@pytest.mark.parametrize(
    ("clear", "lost"), [("nowhere", 3), ("in forward", 0), ("by del", 0)]
)
def test_each_apply_loses_one_reference_for_each_entry(
    framework: Any, clear: str, lost: int
) -> None:
    def forward(ctx: Any, *inputs: Any) -> Any:
        if clear == "in forward":
            ctx.needs_input_grad = None
        if clear == "by del":
            del ctx.needs_input_grad
        return framework.mint.add(inputs[0], inputs[0])

    custom = function(framework, forward)
    inputs = (tensor(framework, 1.0), 2, "text")
    applies = 300
    for _ in range(applies):
        custom.apply(*inputs)
    before = sys.getrefcount(False)
    for _ in range(applies):
        custom.apply(*inputs)
    after = sys.getrefcount(False)
    assert after - before == lost * applies
