"""The rows of a result file: the schema of the Rust side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SCHEMA_VERSION = 1
MOCKSPORE_VERSION = "0.1.0"


class Rows:
    """Collects rows and writes them whole."""

    def __init__(self, scenario: str, arm: str, backend: str) -> None:
        self._of = {"scenario": scenario, "arm": arm, "backend": backend}
        self._lines: list[str] = []

    def run(
        self,
        *,
        role: str,
        version: str,
        device: str,
        seed: int,
        knobs: dict[str, int | str],
        steps: int,
    ) -> None:
        """Add the row that says what runs."""
        of = self._of
        self._add(
            "run",
            {
                "scenario": of["scenario"],
                "arm": of["arm"],
                "role": role,
                "backend": of["backend"],
                "version": version,
                "mockspore_version": MOCKSPORE_VERSION,
                "device": device,
                "seed": seed,
                "knobs": knobs,
                "steps": steps,
            },
        )

    def sample(self, step: int, metrics: dict[str, int]) -> None:
        """Add the readings after one step."""
        row = {**self._of, "step": step, "phase": "after_step", "metrics": metrics}
        self._add("sample", row)

    def finding(
        self,
        kind: str,
        found: dict[str, Any],
        expected: dict[str, Any],
        *,
        as_expected: bool,
        evidence: dict[str, Any],
    ) -> None:
        """Add the verdict of an arm that has no slope."""
        row = {
            **self._of,
            "metric": "finding",
            "finding": {kind: found},
            "shape": None,
            "slope_per_step": None,
            "per_call": None,
            "bound": None,
            "model_matches": None,
            "expected_finding": {kind: expected},
            "as_expected": as_expected,
            "evidence": evidence,
        }
        self._add("verdict", row)

    def lines(self) -> list[str]:
        """Return the rows as lines."""
        return list(self._lines)

    def write(self, path: Path) -> None:
        """Write the file through a neighbour, so that it is whole or absent."""
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text("".join(self._lines), encoding="utf-8")
        partial.replace(path)

    def _add(self, record: str, fields: dict[str, Any]) -> None:
        row = {"schema_version": SCHEMA_VERSION, "record": record, **fields}
        self._lines.append(json.dumps(row, separators=(",", ":")) + "\n")
