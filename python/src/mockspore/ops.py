"""The names of ``mindspore.ops`` that the scenarios use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mockspore import _mockspore
from mockspore._errors import MockRuntimeError
from mockspore._grad import grad
from mockspore._mockspore import Tensor, norm, relu, sum

__all__ = ["AllReduce", "GradOperation", "norm", "relu", "sum"]


class GradOperation:
    """The older way to differentiate: by the first input, or by all."""

    def __init__(
        self, get_all: bool = False, get_by_list: bool = False, sens_param: bool = False
    ) -> None:
        if get_by_list:
            raise MockRuntimeError("get_by_list is not modelled")
        self.get_all = get_all
        self.sens_param = sens_param

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that computes the gradient of ``fn``."""

        def call(*args: Any) -> Any:
            inputs = len(args) - int(self.sens_param)
            position = tuple(range(inputs)) if self.get_all else 0
            return grad(fn, position, sens_param=self.sens_param)(*args)

        return call


class AllReduce:
    """The older collective: a new tensor, and no handle."""

    def __init__(self, op: str = "sum") -> None:
        self.op = op
        # The input's copies on the other ranks; they live as long as it does.
        self._input: Tensor | None = None
        self._replicas: list[Tensor] = []

    def __call__(self, input_x: Tensor) -> Tensor:
        """Return the reduction of all ranks' tensors."""
        if self._input is not input_x:
            self._input = input_x
            self._replicas = _mockspore.replicate(input_x)
        return _mockspore.all_reduce_primitive(self._replicas, self.op)
