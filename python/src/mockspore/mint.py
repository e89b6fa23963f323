"""The operators of ``mindspore.mint`` that the scenarios use."""

from mockspore._mockspore import add, matmul, mul, sub, sum

__all__ = ["add", "matmul", "mul", "sub", "sum"]
