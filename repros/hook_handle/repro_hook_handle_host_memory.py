"""Hook handles dropped every step: one step as a function of ``ms``.

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


class HookHandle:
    """The tensors and handles that outlive a step."""

    def __init__(self, setting: Any) -> None:
        self.ms = setting.ms
        self.hooks = setting.integer("hooks_per_step")
        self.hook_on = setting.choice("hook_on")
        self.release = setting.policy("hook_release", "dropped")
        self.x = setting.random_tensor(2, 2)
        self.weight = setting.random_tensor(2, 2)
        self.handles: list[Any] = []
        self.executor = setting.executor()
        if setting.baseline == "report":
            # The reports' own loop: a gradient of ones and a sum, each of which
            # uploads kernel arguments that the CPU backend never frees.
            self.arguments = (self.x,)
            self.grad = self.ms.grad(self.forward_report)
        else:
            outputs = 1 if self.hook_on == "one_tensor" else self.hooks
            self.sens = (setting.random_tensor(2, 2),) * outputs
            self.arguments = (self.x, self.sens)
            operation = self.ms.ops.GradOperation(sens_param=True)
            self.grad = operation(self.forward)

    def step(self) -> Any:
        """Run forward and backward, and release handles as the arm does."""
        if self.hook_on == "fresh_leaf":
            for _ in range(self.hooks):
                self.register(self.ms.mint.mul(self.x, self.weight))
            # Not the last leaf: who holds it holds its hook.
            last = None
        else:
            last = self.grad(*self.arguments)
        if self.release == "removed_after_backward":
            self.remove_all()
        return last

    def forward(self, x: Any) -> tuple[Any, ...]:
        """One operator per hook (or one for all), from the same input."""
        outputs = []
        for _ in self.sens:
            output = self.ms.mint.mul(x, self.weight)
            if self.hook_on == "operator_outputs":
                self.register(output)
            elif self.hook_on == "one_tensor":
                for _ in range(self.hooks):
                    self.register(output)
            outputs.append(output)
        return tuple(outputs)

    def forward_report(self, x: Any) -> Any:
        """The reports' function, with a hook on its intermediate."""
        y = self.ms.mint.mul(x, self.weight)
        if self.hook_on == "operator_outputs":
            self.register(y)
        return self.ms.mint.sum(self.ms.mint.mul(y, y))

    def register(self, tensor: Any) -> None:
        """Register a hook, and keep its handle if the arm removes it."""
        if self.release == "dropped":
            tensor.register_hook(self.hook)
            return
        first = not self.handles
        removing = self.release == "removed_in_final_callback" and first
        hook = self.hook_that_queues_removal if removing else self.hook
        self.handles.append(tensor.register_hook(hook))

    @staticmethod
    def hook(grad: Any) -> Any:
        """Keep the gradient."""
        return grad

    def hook_that_queues_removal(self, grad: Any) -> Any:
        """Keep the gradient; remove all handles when the backward is done."""
        self.executor.queue_backward_final_callback(self.remove_all)
        return grad

    def remove_all(self) -> None:
        """Remove every handle of the step."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()


def build(setting: Any) -> Any:
    """Make the step; it is settled when no graph holds the hook any more."""
    scenario = HookHandle(setting)
    hook = HookHandle.hook
    idle = sys.getrefcount(hook)
    return harness.Step(
        run=scenario.step,
        settled=lambda: sys.getrefcount(hook) <= idle,
    )


if __name__ == "__main__":
    sys.exit(harness.main(__file__, build))
