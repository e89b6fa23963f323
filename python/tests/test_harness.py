"""The harness and the script: rows, errors and exit codes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mockspore.harness import errors, probes, protocol
from mockspore.harness.setting import Step
from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "repros/hook_handle"
SCRIPT = FOLDER / "repro_hook_handle_host_memory.py"


def script_of(scenario: str) -> Path:
    """Return the script of a scenario in the checkout."""
    folder = REPOSITORY / "repros" / scenario
    return folder / f"repro_{scenario}_host_memory.py"


def run(
    *arguments: str | Path,
    script: Path = SCRIPT,
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    return subprocess.run(
        [sys.executable, script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
        timeout=120,
    )


def mock(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run("--backend", "mockspore", *arguments)


def refused(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 2, result.stderr
    return result.stderr


def test_a_run_writes_the_rows_of_the_schema(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    result = mock("--arm", "dropped", "--steps", "4", "--every", "2", "--out", out)
    assert result.returncode == 0, result.stderr
    head, *samples = map(json.loads, out.read_text().splitlines())
    assert list(head)[:4] == ["schema_version", "record", "scenario", "arm"]
    assert head["knobs"] == {"hooks_per_step": 182, "hook_on": "operator_outputs"}
    assert (head["backend"], head["role"], head["steps"]) == ("mockspore", "defect", 4)
    assert [sample["step"] for sample in samples] == [0, 2, 4]
    entries = [sample["metrics"]["objects.hook_entry"] for sample in samples]
    assert entries == [1820, 1820 + 364, 1820 + 728], "ten steps of warm-up"


@pytest.mark.parametrize(
    ("arm", "kept"),
    [
        ("none", 0),
        ("removed", 0),
        ("removed_in_callback", 0),
        ("erased_with_node", 0),
        ("one_tensor_dropped", 5),
        ("leaf_dropped", 5),
        ("leaf_removed", 0),
    ],
)
def test_each_arm_keeps_what_it_declares(tmp_path: Path, arm: str, kept: int) -> None:
    out = tmp_path / "rows.jsonl"
    plan = ("--steps", "8", "--every", "4", "--warmup", "1", "--out", out)
    result = mock("--arm", arm, "--set", "hooks_per_step=5", *plan)
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    entries = [row["metrics"]["objects.hook_entry"] for row in rows[1:]]
    assert entries == [kept, kept * 5, kept * 9]


def test_the_folder_and_the_harness_alone_run_elsewhere(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "hook_handle")
    harness = REPOSITORY / "python/src/mockspore/harness"
    shutil.copytree(harness, tmp_path / "harness")
    script = tmp_path / "hook_handle" / SCRIPT.name
    plan = ("--steps", "4", "--every", "2", "--set", "hooks_per_step=3")
    result = run("--backend", "mockspore", "--arm", "dropped", *plan, script=script)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1].startswith("4 ")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise RuntimeError('half installed')", "importing mindspore failed: half"),
        ("import mindspore.lost", "importing mindspore failed: No module named"),
    ],
)
def test_a_framework_whose_import_fails_is_invalid(
    tmp_path: Path, body: str, message: str
) -> None:
    package = tmp_path / "mindspore"
    package.mkdir()
    (package / "__init__.py").write_text(body)
    result = run("--arm", "none", environment={"PYTHONPATH": str(tmp_path)})
    assert result.returncode == 3
    assert message in result.stderr


def test_what_a_framework_raises_in_a_step_is_invalid(tmp_path: Path) -> None:
    package = tmp_path / "mindspore"
    package.mkdir()
    stand_in = """
from types import SimpleNamespace
PYNATIVE_MODE, __version__ = 1, "0"
Tensor = set_context = lambda *a, **k: None
set_device = Tensor
runtime = SimpleNamespace(synchronize=Tensor)
mint = SimpleNamespace(add=None)
"""
    (package / "__init__.py").write_text(stand_in)
    result = run(
        "--arm",
        "fits",
        script=script_of("op_exception_output"),
        environment={"PYTHONPATH": str(tmp_path)},
    )
    assert result.returncode == 3
    assert "Traceback" in result.stderr


def test_a_closed_stdout_keeps_the_rows_and_is_no_error(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    plan = ("--steps", "2000", "--every", "1", "--set", "hooks_per_step=1")
    head = (sys.executable, str(SCRIPT), "--backend", "mockspore")
    command: list[str] = [*head, *plan, "--out", str(out)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors_seen = process.stderr.read()
    assert (process.returncode, errors_seen) == (0, "")
    assert len(out.read_text().splitlines()) == 2002


def test_an_absent_framework_is_bad_usage() -> None:
    # -S hides every installed package, whatever this environment has.
    result = subprocess.run(
        [sys.executable, "-S", SCRIPT, "--arm", "none"],
        capture_output=True,
        text=True,
        check=False,
        env={name: os.environ[name] for name in os.environ if name != "PYTHONPATH"},
    )
    assert "has no mindspore: install it there" in refused(result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arm", "droped"], "unknown arm 'droped': did you mean 'dropped'?"),
        (["--set", "hook=1"], "unknown knob 'hook': did you mean 'hook_on'?"),
        (["--set", "hooks_per_step=0"], "it is a whole number from 1 to 100000"),
        (
            ["--arm", "dropped", "--set", "hook_on=roof"],
            "it is one of nothing, operator_outputs",
        ),
        (["--set", "hook_on"], "write it as KNOB=VALUE"),
        (["--steps", "0"], "'0' is not a whole number from 1 to 1000000000"),
        (["--steps", "-5"], "'-5' is not a whole number"),
        (["--steps", "1000000001"], "is not a whole number from 1 to 1000000000"),
        (["--steps", "x"], "'x' is not a whole number"),
        (["--out", "/nonexistent/rows"], "there is no folder /nonexistent"),
        (
            ["--arm", "none", "--set", "hook_on=one_tensor"],
            "arm 'none' sets it itself",
        ),
        (["--steps", "10", "--every", "3"], "--steps must be a multiple of --every"),
    ],
)
def test_a_bad_request_is_refused(arguments: list[str], message: str) -> None:
    assert message in refused(mock(*arguments))


def test_an_arm_that_only_the_mock_has_is_refused_elsewhere() -> None:
    message = refused(run("--backend", "mindspore", "--arm", "erased_with_node"))
    assert "arm 'erased_with_node' has no real counterpart" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{\n "schema_version": 1,\n "name":', "scenario.json:3: "),
        ('{"schema_version": 2}', "scenario.json:1: schema_version must be 1"),
        ('{"schema_version": 1}', "'name' is missing or misplaced"),
        (None, "scenario.json:1: No such file"),
    ],
)
def test_a_damaged_scenario_is_named_with_its_line(
    tmp_path: Path, text: str | None, message: str
) -> None:
    shutil.copytree(FOLDER, tmp_path / "hook_handle")
    shutil.copytree(REPOSITORY / "python/src/mockspore/harness", tmp_path / "harness")
    file = tmp_path / "hook_handle/scenario.json"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    script = tmp_path / "hook_handle" / SCRIPT.name
    assert message in refused(run(script=script))


def test_a_proc_that_cannot_be_read_is_invalid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ms: Any
) -> None:
    read = probes.Probes(ms, (), mock=True).read
    assert read()["proc.anon"] > 0
    monkeypatch.setattr(probes, "SMAPS", tmp_path / "absent")
    with pytest.raises(errors.InvalidError, match=r"cannot read .*absent"):
        read()
    (tmp_path / "short").write_text("Rss: 12 kB\n")
    monkeypatch.setattr(probes, "SMAPS", tmp_path / "short")
    with pytest.raises(errors.InvalidError, match="no field 'Anonymous'"):
        read()
    assert errors.InvalidError.exit_code == 3


def test_work_that_stays_in_flight_is_invalid(
    monkeypatch: pytest.MonkeyPatch, ms: Any
) -> None:
    monkeypatch.setattr(protocol, "SETTLE_SECONDS", 0.05)
    step = Step(run=lambda: None, settled=lambda: False)
    table = protocol.readings(ms, step, dict, warmup=1, steps=1, every=1)
    with pytest.raises(errors.InvalidError, match="work is still in flight"):
        list(table)


def test_readings_lie_on_the_grid_after_the_warm_up(ms: Any) -> None:
    done: list[int] = []
    step = Step(run=lambda: done.append(1))
    table = protocol.readings(
        ms, step, lambda: {"steps": len(done)}, warmup=3, steps=6, every=2
    )
    assert [(at, row["steps"]) for at, row in table] == [(0, 3), (2, 5), (4, 7), (6, 9)]
    assert len(done) == 9


def test_the_harness_needs_no_extension(tmp_path: Path) -> None:
    shutil.copytree(
        REPOSITORY / "python/src/mockspore",
        tmp_path / "mockspore",
        ignore=shutil.ignore_patterns("*.so"),
    )
    code = "import mockspore.harness; print(mockspore.harness.main.__name__)"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (result.returncode, result.stdout) == (0, "main\n"), result.stderr


def test_a_collective_without_a_kernel_is_unsupported_and_no_pass() -> None:
    script = script_of("collective_event")
    arm = ("--arm", "all_gather_into_tensor", "--steps", "2", "--every", "1")
    on_cpu = run("--backend", "mockspore", "--device", "CPU", *arm, script=script)
    assert on_cpu.returncode == 3
    assert "unsupported: The kernel DistCommAllGatherInto" in on_cpu.stderr
    on_ascend = run("--backend", "mockspore", *arm, script=script)
    assert on_ascend.returncode == 0, on_ascend.stderr


def test_a_knob_of_the_mock_is_refused_on_a_real_framework() -> None:
    result = run("--set", "drops=7", script=script_of("node_abs_cache"))
    assert "knob 'drops' exists on the mock only" in refused(result)


def test_tuples_are_counted_by_references_where_bools_are_mortal(ms: Any) -> None:
    read = probes.Probes(ms, ("py.refs_true",), mock=True).read
    assert ("py.refs_true" in read()) == (sys.version_info < (3, 12))
