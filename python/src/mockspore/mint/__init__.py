"""The operators of ``mindspore.mint`` that the scenarios use."""

from mockspore._mockspore import add, matmul, mul, split, sub, sum
from mockspore.mint import distributed

__all__ = ["add", "distributed", "matmul", "mul", "split", "sub", "sum"]
