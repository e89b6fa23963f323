"""Norms, whose abstracts a bounded cache keeps: one step as a function of ``ms``.

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


class Norms:
    """The tensors that outlive a step."""

    def __init__(self, setting: Any) -> None:
        self.ms = setting.ms
        self.norms = setting.integer("norms_per_step")
        self.cached = setting.choice("operator") == "norm"
        self.then = setting.choice("then")
        self.executor = setting.executor()
        self.x = setting.random_tensor(4, 4)
        self.x.requires_grad_()
        self.sens = setting.random_tensor(4, 4)
        self.grad = self.ms.ops.GradOperation(sens_param=True)(self.double)
        c_expression = importlib.import_module(f"{self.ms.__name__}._c_expression")
        self.run_backward = getattr(c_expression, "run_backward", None)
        if hasattr(self.ms, "set_abstract_limits"):
            self.ms.set_abstract_limits(
                setting.integer("threshold"), setting.integer("drops")
            )
        self.end()

    def step(self) -> Any:
        """Take the norms, and end the step."""
        last = None
        for _ in range(self.norms):
            if self.cached:
                last = self.ms.ops.norm(self.x)
            else:
                last = self.ms.mint.mul(self.x, self.x)
        self.end()
        return last

    def end(self) -> None:
        """Run a backward of an operator that the cache does not see."""
        if self.then == "grad":
            self.grad(self.x, self.sens)
        elif self.then == "run_backward":
            self.executor.set_grad_flag(True)
            output = self.double(self.x)
            self.run_backward((output,), (self.sens,), False, False, ())
            self.executor.set_grad_flag(False)

    def double(self, x: Any) -> Any:
        """An operator with a generated wrapper."""
        return self.ms.mint.add(x, x)


def build(setting: Any) -> Any:
    """Make the step."""
    return harness.Step(run=Norms(setting).step)


if __name__ == "__main__":
    sys.exit(harness.main(__file__, build))
