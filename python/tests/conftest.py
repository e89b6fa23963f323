"""Both frameworks under one name, and the harness from the checkout."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mockspore.harness.setting import Setting

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def ms() -> Iterator[Any]:
    """A fresh mock."""
    import mockspore

    mockspore.reset()
    yield mockspore
    mockspore.reset()


@pytest.fixture(
    params=["mockspore", pytest.param("mindspore", marks=pytest.mark.mindspore)]
)
def framework(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The mock, and the real framework where it is installed."""
    name: str = request.param
    module = importlib.import_module(name)
    if name == "mockspore":
        module.reset()
    module.set_context(mode=module.PYNATIVE_MODE, pynative_synchronize=True)
    module.set_device("CPU")
    yield module
    executor(module).clear_res()


def executor(module: ModuleType) -> Any:
    """Return the executor of either framework."""
    return Setting(module, "", {}, {}).executor()


def tensor(framework: Any, *values: float) -> Any:
    """Return a vector of f32."""
    return framework.Tensor(np.array(values, np.float32))


def run_backward(module: ModuleType, *arguments: Any) -> None:
    """Run either framework's backward without a top cell."""
    importlib.import_module(f"{module.__name__}._c_expression").run_backward(*arguments)
