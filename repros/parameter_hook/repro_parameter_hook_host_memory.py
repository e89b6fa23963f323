"""A hook on a leaf that lives on: one step as a function of ``ms``.

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


class ParameterHook:
    """The leaf and what outlives a step."""

    def __init__(self, setting: Any) -> None:
        self.mul = setting.ms.mint.mul
        self.backwards = setting.integer("backwards_per_step")
        self.each_step = setting.choice("register") == "each_step"
        self.release = setting.policy("hook_release", "dropped")
        self.executor = setting.executor()
        self.leaf = setting.random_tensor(2, 2)
        self.leaf.requires_grad_()
        self.weight = setting.random_tensor(2, 2)
        self.sens = setting.random_tensor(2, 2)
        self.handle: Any = None
        self.calls = 0
        self.grad = setting.ms.ops.GradOperation(sens_param=True)(self.forward)
        self.once = setting.choice("register") == "once"

    def step(self) -> Any:
        """Run the backwards, with a registration before each."""
        if self.once:
            self.leaf.register_hook(self.hook)
            self.once = False
        last = None
        for _ in range(self.backwards):
            last = self.grad(self.leaf, self.sens)
            if self.release == "removed_after_backward":
                self.remove()
        return last

    def forward(self, leaf: Any) -> Any:
        """Register on the leaf, and use it."""
        if self.each_step:
            handle = leaf.register_hook(self.hook)
            if self.release != "dropped":
                self.handle = handle
        return self.mul(leaf, self.weight)

    def hook(self, grad: Any) -> Any:
        """Count the call, and have the handle removed if the arm does."""
        self.calls += 1
        if self.release == "removed_in_final_callback":
            self.executor.queue_backward_final_callback(self.remove)
        return grad

    def remove(self) -> None:
        """Remove the step's handle."""
        if self.handle is not None:
            self.handle.remove()
            self.handle = None


def build(setting: Any) -> Any:
    """Make the step; it counts its own hook calls."""
    scenario = ParameterHook(setting)
    return harness.Step(
        run=scenario.step, counters=lambda: {"py.hook_calls": scenario.calls}
    )


if __name__ == "__main__":
    sys.exit(harness.main(__file__, build))
