"""Every arm of every scenario by its script, on the Python module of the mock."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import REPOSITORY

FOLDERS = sorted(path.parent for path in REPOSITORY.glob("repros/*/scenario.json"))
FILES = {
    path.name: json.loads((path / "scenario.json").read_text()) for path in FOLDERS
}
STEPS, EVERY, WARMUP = 4, 2, 1


def arms() -> Iterator[Any]:
    for name, scenario in FILES.items():
        for arm in scenario["arms"]:
            # What a script cannot do, it says itself.
            if arm["name"] not in ("on_wait_two_streams", "searched"):
                yield pytest.param(name, arm, id=f"{name}-{arm['name']}")


def load(name: str) -> tuple[Path, ModuleType]:
    """Load a scenario's script as a module."""
    path = REPOSITORY / "repros" / name / f"repro_{name}_host_memory.py"
    spec = importlib.util.spec_from_file_location(f"repro_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path, module


def value(scenario: dict[str, Any], arm: dict[str, Any], knob: str) -> int:
    """Return a knob's value in an arm."""
    own = arm.get("knobs", {})
    return int(own.get(knob, scenario["knobs"][knob]["default"]))


def declared(scenario: dict[str, Any], arm: dict[str, Any]) -> int:
    """Return the objects of the primary kind that one step keeps."""
    primary, mock = scenario["primary"], arm["mock"]
    if mock.get("replaces"):
        return 0
    kept = mock.get("keeps_per_call", {}).get(primary, 0)
    if isinstance(kept, str):
        kept = value(scenario, arm, kept)
    calls = value(scenario, arm, scenario["calls_per_step"])
    ranks = value(scenario, arm, scenario["ranks"]) if "ranks" in scenario else 1
    per_step = mock.get("keeps_per_step", {}).get(primary, 0)
    return int((kept * calls + per_step) * ranks)


@pytest.mark.parametrize(("name", "arm"), list(arms()))
def test_an_arm_keeps_what_it_declares(
    tmp_path: Path, name: str, arm: dict[str, Any]
) -> None:
    path, module = load(name)
    out = tmp_path / "rows.jsonl"
    plan = ("--steps", STEPS, "--every", EVERY, "--warmup", WARMUP, "--out", out)
    arguments = ["--backend", "mockspore", "--arm", arm["name"], *map(str, plan)]
    assert module.harness.main(str(path), module.build, arguments) == 0
    run, *samples = map(json.loads, out.read_text().splitlines())
    assert (run["arm"], run["device"]) == (arm["name"], arm.get("device", "CPU"))
    scenario = FILES[name]
    metric = f"objects.{scenario['primary']}"
    live = [sample["metrics"][metric] for sample in samples]
    # Few enough calls that no declared cap is met.
    steps = [step * declared(scenario, arm) for step in (0, EVERY, STEPS)]
    assert [objects - live[0] for objects in live] == steps


def test_there_is_a_script_for_every_folder() -> None:
    assert len(FILES) >= 8
    assert "harness" not in sys.modules or hasattr(sys.modules["harness"], "main")
