"""Recorded forwards without a grad: one step as a function of ``ms``.

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


def make_cell(ms: Any, operators: int, weight: Any) -> Any:
    """Make a cell with a chain of operators."""

    class Chain(ms.nn.Cell):  # type: ignore[misc]
        def construct(self, x: Any) -> Any:
            for _ in range(operators):
                x = ms.mint.mul(x, weight)
            return x

    return Chain()


class Forwards:
    """The cell and tensors that outlive a step."""

    def __init__(self, setting: Any) -> None:
        self.then = setting.choice("forward")
        self.executor = setting.executor()
        self.x = setting.random_tensor(2, 2)
        self.sens = setting.random_tensor(2, 2)
        weight = setting.random_tensor(2, 2)
        self.cell = make_cell(setting.ms, setting.integer("operators"), weight)
        self.grad = setting.ms.ops.GradOperation(sens_param=True)(self.cell)
        if self.then != "no_set_grad":
            self.cell.set_grad()

    def step(self) -> Any:
        """Run one forward, and what follows it."""
        output = self.cell(self.x)
        if self.then == "grad":
            return self.grad(self.x, self.sens)
        if self.then == "clear_res":
            output.asnumpy()
            self.executor.clear_res()
        return output


def build(setting: Any) -> Any:
    """Make the step."""
    return harness.Step(run=Forwards(setting).step)


if __name__ == "__main__":
    sys.exit(harness.main(__file__, build))
