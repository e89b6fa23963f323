"""The names of ``mindspore.ops`` that the scenarios use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mockspore._errors import MockRuntimeError
from mockspore._grad import grad
from mockspore._mockspore import norm, relu, sum

__all__ = ["GradOperation", "norm", "relu", "sum"]


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
