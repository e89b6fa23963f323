"""Scenarios without a slope: their scripts, on what is here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mockspore.harness import finding
from mockspore.harness.errors import UnsupportedError
from tests.conftest import REPOSITORY
from tests.test_scenarios import load

SCENARIO: dict[str, Any] = {
    "schema_version": 1,
    "name": "some",
    "knobs": {"times": {"about": "times", "default": 1}},
    "arms": [
        {
            "name": "bad",
            "role": "defect",
            "finding": {"registered_times": {"calls": 1, "left": 1}},
            "real": {"here": {"same": ["calls"]}},
        },
        {
            "name": "good",
            "role": "fix",
            "policies": {"policy": "fixed"},
            "finding": {"registered_times": {"calls": 1, "left": 0}},
            "real": {"here": {"same": ["calls"], "figures": {"own": 7}}},
        },
        {"name": "mock_only", "role": "control", "finding": {"registered_times": {}}},
    ],
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "scenario.json").write_text(json.dumps(SCENARIO))
    return tmp_path / "repro.py"


def library(**found: Any) -> finding.Library:
    return finding.Library(lambda arm: dict(found), lambda: "1.0")


def run(script: Path, *arguments: str, **libraries: finding.Library) -> int:
    return finding.main(str(script), arguments, libraries)


def test_figures_as_declared_are_a_pass(script: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    assert run(script, "--out", str(out), here=library(calls=1, own=7, more=3)) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["record"] for row in rows] == ["run", "verdict"] * 2
    assert rows[1]["finding"] == {"registered_times": {"calls": 1}}
    assert rows[3]["expected_finding"] == {"registered_times": {"calls": 1, "own": 7}}
    assert rows[3]["evidence"] == {"calls": 1, "own": 7, "more": 3}


def test_another_figure_is_not(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(script, "--arm", "bad", here=library(calls=2)) == 1
    assert "NOT as declared" in capsys.readouterr().out
    # A figure that was not measured is not confirmed.
    assert run(script, "--arm", "good", here=library(calls=1)) == 1


def test_a_library_is_told_by_what_it_does(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def of(calls: int) -> finding.Library:
        return finding.Library(
            lambda arm: {"calls": calls}, lambda: "1.0", told_by="here"
        )

    assert run(script, "--library", "other", other=of(1)) == 0
    assert "as arm 'bad' declares" in capsys.readouterr().out
    assert run(script, "--library", "other", other=of(5)) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--arm", "goood"), "did you mean 'good'?"),
        (("--arm", "mock_only"), "has no counterpart on here"),
        (("--out", "/nowhere/rows"), "there is no folder"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(
    script: Path,
    arguments: tuple[str, ...],
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(script, *arguments, here=library(calls=1)) == 2
    assert says in capsys.readouterr().err


def test_a_damaged_file_is_named_with_its_line(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script.parent / "scenario.json"
    path.write_text('{"schema_version": 1,\n"name": "so')
    assert run(script, here=library()) == 2
    assert f"{path}:2:" in capsys.readouterr().err
    path.write_text('{"schema_version": 1}')
    assert run(script, here=library()) == 2
    assert "'name' is missing" in capsys.readouterr().err


def test_what_is_not_here_or_fails_is_no_pass(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = finding.Library(
        lambda arm: {}, lambda: "", module="no_such_module", mend="get it"
    )
    assert run(script, absent=absent) == UnsupportedError.exit_code
    assert "unsupported: " in capsys.readouterr().err

    def fail(arm: finding.Arm) -> dict[str, Any]:
        raise ValueError(f"{arm.name} broke")

    assert run(script, here=finding.Library(fail, lambda: "1.0")) == 3
    assert "bad broke" in capsys.readouterr().err


def on(name: str, wanted: str) -> int:
    path, module = load(name)
    return finding.main(str(path), ("--library", wanted), module.LIBRARIES)


def test_the_c_compiler_damages_what_the_mock_says() -> None:
    assert on("mega_moe_core_bound", "cc") == 0


@pytest.mark.mindspore
def test_the_real_framework_holds_what_the_mock_says() -> None:
    assert on("ep_combine_handle", "mindspore") == 0


def test_the_scripts_know_the_libraries_that_are_declared() -> None:
    for folder in sorted(REPOSITORY.glob("repros/*/scenario.json")):
        scenario = json.loads(folder.read_text())
        if scenario.get("judged_by") != "finding":
            continue
        _, module = load(folder.parent.name)
        declared = {name for arm in scenario["arms"] for name in arm.get("real", {})}
        assert declared <= set(module.LIBRARIES)
