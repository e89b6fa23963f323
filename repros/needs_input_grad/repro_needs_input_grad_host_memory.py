"""A ``needs_input_grad`` tuple lost in each apply: one step as a function of ``ms``.

The same step on the mock runtime in Rust is in ``mock.rs``.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

# The harness lies beside this folder, in the checkout and in a copy of both.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
harness: Any = importlib.import_module("harness")


def make_function(ms: Any, clear: str, inputs: int) -> Any:
    """Make the custom function: it doubles its first input."""

    class Double(ms._Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            output = ms.mint.add(inputs[0], inputs[0])
            if clear == "cleared_in_forward":
                ctx.needs_input_grad = None
            return output

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            twice = ms.mint.add(grad, grad)
            if clear == "cleared_in_backward":
                ctx.needs_input_grad = None
            return (twice,) + (None,) * (inputs - 1)

    return Double


class Applies:
    """The tensors that outlive a step."""

    def __init__(self, setting: Any) -> None:
        ms = setting.ms
        where = setting.choice("apply")
        applies = 0 if where == "nowhere" else setting.integer("applies_per_step")
        clear = setting.policy("needs_input_grad", "kept")
        self.inputs = setting.integer("inputs_per_apply")
        self.function = make_function(ms, clear, self.inputs)
        self.under_grad = where != "outside_grad"
        self.applies = applies
        self.x = setting.random_tensor(2, 2)
        self.x.requires_grad_()
        self.sens = (setting.random_tensor(2, 2),) * max(applies, 1)
        self.mul = ms.mint.mul
        self.grad = ms.ops.GradOperation(sens_param=True)(self.forward)

    def step(self) -> Any:
        """Apply under grad, with a backward, or outside of it."""
        if self.under_grad:
            return self.grad(self.x, self.sens)
        return self.forward(self.x)[-1]

    def forward(self, x: Any) -> tuple[Any, ...]:
        """All applies, from the same input; a product if there is none."""
        if self.applies == 0:
            return (self.mul(x, x),)
        # All but the first are no tensors: one True in each tuple.
        inputs = (x, *(None,) * (self.inputs - 1))
        return tuple(self.function.apply(*inputs) for _ in range(self.applies))


def build(setting: Any) -> Any:
    """Make the step."""
    return harness.Step(run=Applies(setting).step)


if __name__ == "__main__":
    sys.exit(harness.main(__file__, build))
