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
ALL = {path.name: json.loads((path / "scenario.json").read_text()) for path in FOLDERS}
# Those without a slope have a real side only: see test_findings.py.
FILES = {name: data for name, data in ALL.items() if data.get("judged_by") != "finding"}
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


def on_mock(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the knobs that are set where a script runs on the mock."""
    real = scenario["real"]
    return {**real.get("set", {}), **real.get("set_on_mock", {})}


def value(scenario: dict[str, Any], arm: dict[str, Any], knob: str) -> Any:
    """Return a knob's value in an arm."""
    own = {**on_mock(scenario), **arm.get("knobs", {})}
    return own.get(knob, scenario["knobs"][knob]["default"])


def number(scenario: dict[str, Any], arm: dict[str, Any], count: Any) -> int:
    """Return what a count stands for."""
    if isinstance(count, dict):
        return int(count["times"]) * number(scenario, arm, count["of"])
    if isinstance(count, int):
        return count
    named = scenario.get("counts", {}).get(count)
    if named is None:
        return int(value(scenario, arm, count))
    return int(named["of"][value(scenario, arm, named["by"])])


def declared(scenario: dict[str, Any], arm: dict[str, Any]) -> int:
    """Return the objects of the primary kind that one step keeps."""
    primary, mock = scenario["primary"], arm["mock"]
    if mock.get("replaces"):
        return 0
    kept = number(scenario, arm, mock.get("keeps_per_call", {}).get(primary, 0))
    calls = number(scenario, arm, scenario["calls_per_step"])
    ranks = number(scenario, arm, scenario["ranks"]) if "ranks" in scenario else 1
    per_step = mock.get("keeps_per_step", {}).get(primary, 0)
    return (kept * calls + number(scenario, arm, per_step)) * ranks


@pytest.mark.parametrize(("name", "arm"), list(arms()))
def test_an_arm_keeps_what_it_declares(
    tmp_path: Path, name: str, arm: dict[str, Any]
) -> None:
    path, module = load(name)
    scenario = FILES[name]
    out = tmp_path / "rows.jsonl"
    plan = ("--steps", STEPS, "--every", EVERY, "--warmup", WARMUP, "--out", out)
    arguments = ["--backend", "mockspore", "--arm", arm["name"], *map(str, plan)]
    for knob, setting in on_mock(scenario).items():
        arguments += ["--set", f"{knob}={setting}"]
    assert module.harness.main(str(path), module.build, arguments) == 0
    run, *samples = map(json.loads, out.read_text().splitlines())
    assert (run["arm"], run["device"]) == (arm["name"], arm.get("device", "CPU"))
    metric = f"objects.{scenario['primary']}"
    live = [sample["metrics"][metric] for sample in samples]
    # Few enough calls that no declared cap is met.
    steps = [step * declared(scenario, arm) for step in (0, EVERY, STEPS)]
    assert [objects - live[0] for objects in live] == steps


@pytest.mark.parametrize("units", list(FILES["hsdp_step"]["counts"]["hooks"]["of"]))
def test_a_sharded_step_counts_what_its_table_says(tmp_path: Path, units: str) -> None:
    path, module = load("hsdp_step")
    scenario = FILES["hsdp_step"]
    out = tmp_path / "rows.jsonl"
    sets = ("--set", f"units={units}", "--set", "ranks=1", "--out", str(out))
    plan = ("--steps", "4", "--every", "2", "--warmup", "1", "--arm", "as_reported")
    arguments = ["--backend", "mockspore", *plan, *sets]
    assert module.harness.main(str(path), module.build, arguments) == 0
    _, first, *_, last = map(json.loads, out.read_text().splitlines())
    counts = {name: count["of"][units] for name, count in scenario["counts"].items()}
    made = {
        name.removeprefix("step."): last["metrics"][name] - first["metrics"][name]
        for name in last["metrics"]
        if name.startswith("step.")
    }
    assert made == {
        "hooks_registered": 4 * counts["hooks"],
        "hook_calls": 4 * counts["hooks"],
        "applies": 4 * counts["applies"],
        "final_callbacks": 4 * counts["hooks"],
        "collectives": 4 * (counts["gathers"] + counts["reductions"]),
        "state_changes": 4 * counts["state_changes"],
        "backward_without_unshard": 0,
    }


def test_there_is_a_script_for_every_folder() -> None:
    assert len(FILES) >= 8
    assert "harness" not in sys.modules or hasattr(sys.modules["harness"], "main")
