"""The chain of ``step.rs`` on a real library: microseconds of one step."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

HOOKS, APPLIES, REPEATS = 182, 133, 5


def mindspore(*, synchronize: bool = False) -> Callable[[], None]:
    """Make the step on MindSpore, with its queues or without."""
    import mindspore as ms
    import numpy as np

    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=synchronize)
    ms.set_device("CPU")
    function = importlib.import_module("mindspore.common._grad_function")._Function

    class Pass(function):  # type: ignore[misc,valid-type]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    values = np.array([[0.5, 1.0], [1.5, 2.0]], np.float32)
    weight, x, sens = ms.Tensor(values), ms.Tensor(values), ms.Tensor(values)
    handles: list[Any] = []

    def forward(x: Any) -> Any:
        for layer in range(HOOKS):
            x = ms.mint.mul(x, weight)
            handles.append(x.register_hook(lambda grad: None))
            if layer < APPLIES:
                x = Pass.apply(x)
        return x

    grad = ms.ops.GradOperation(sens_param=True)(forward)

    def step() -> None:
        grad(x, sens).asnumpy()
        for handle in handles:
            handle.remove()
        handles.clear()

    return step


def torch() -> Callable[[], None]:
    """Make the step on PyTorch, on one thread."""
    import torch

    torch.set_num_threads(1)

    class Pass(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    values = torch.tensor([[0.5, 1.0], [1.5, 2.0]])
    leaf = values.clone().requires_grad_()
    handles: list[Any] = []

    def step() -> None:
        x = leaf
        for layer in range(HOOKS):
            x = x * values
            handles.append(x.register_hook(lambda grad: None))
            if layer < APPLIES:
                x = Pass.apply(x)
        torch.autograd.grad(x, leaf, values)
        for handle in handles:
            handle.remove()
        handles.clear()

    return step


def main() -> int:
    """Print the fastest of some repeats."""
    parser = argparse.ArgumentParser(description=__doc__)
    libraries = {
        "mindspore": mindspore,
        "mindspore_synchronized": lambda: mindspore(synchronize=True),
        "torch": torch,
    }
    parser.add_argument("library", choices=tuple(libraries))
    step = libraries[parser.parse_args().library]()
    step()
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    print(f"{min(seconds) * 1e6:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
