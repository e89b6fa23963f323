"""The runtime config as a C struct: the kernel's write, really performed.

A C program is written from the layout, compiled, and run: each worker writes its
group list at the address that the kernel computes, into a config with canaries
behind it. Offsets come from ``offsetof`` and are not computed here.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path
from typing import Any

# The harness lies beside this folder, in the checkout and in a copy of both.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
harness: Any = importlib.import_module("harness")

NUM_WORKERS_CUBE, MAX_GROUP_LIST, SLOT_ENTRIES = 24, 512, 16

PROGRAM = r"""
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int64_t word[72]; } task_desc;
typedef struct { int64_t word[2]; } event_desc;

typedef struct {
    int32_t header[%(header)d];
    int32_t event_triggers[%(events)d];
    task_desc tasks[%(tasks)d];
    event_desc event_list[%(events)d];
    int32_t task_index_num[4];
    int32_t cube_queue[%(tasks)d];
    int32_t vector_queue[%(tasks)d];
    int32_t mix_queue[%(tasks)d];
    int64_t dynamic_data[2];
    int64_t group_list[%(entries)d];
    int32_t atomic_add[8];
} runtime_config;

enum { WORKERS = %(workers)d, EXPERTS = %(experts)d, SLOT = %(slot)d, LINE = 128 };

static size_t slot_of(size_t worker) {
    size_t first = offsetof(runtime_config, group_list);
    return (first + LINE - 1) / LINE * LINE + worker * SLOT;
}

int main(void) {
    size_t list_end = offsetof(runtime_config, atomic_add);
    size_t end = list_end + sizeof(((runtime_config *)0)->atomic_add);
    size_t whole = slot_of(WORKERS) + 8 * EXPERTS;
    whole = whole < sizeof(runtime_config) ? sizeof(runtime_config) : whole;
    unsigned char *image = malloc(whole);
    if (image == NULL) return 1;
    for (size_t worker = 0; worker < WORKERS; ++worker) {
        memset(image + list_end, 0xA5, whole - list_end);
        int64_t *list = (int64_t *)(image + slot_of(worker));
        for (int expert = 0; expert < EXPERTS; ++expert) list[expert] = 4096;
        long atomic_from = -1, past = 0;
        for (size_t at = list_end; at < whole; at += 8) {
            int64_t word;
            memcpy(&word, image + at, 8);
            if (word != 4096) continue;
            if (at >= end) past += 8;
            else if (atomic_from < 0) atomic_from = (at - slot_of(worker)) / 8;
        }
        printf("%%ld %%ld\n", atomic_from, past);
    }
    printf("%%zu\n", (list_end - slot_of(0)) / SLOT);
    free(image);
    return 0;
}
"""


def members(knobs: dict[str, Any]) -> dict[str, int]:
    """Return the counts of the struct's members."""
    dense = knobs["layout"] == "dense"
    experts: int = knobs["experts"]
    stride = -(-(experts if dense else 1) // SLOT_ENTRIES) * SLOT_ENTRIES
    entries = max(MAX_GROUP_LIST, NUM_WORKERS_CUBE * stride + SLOT_ENTRIES)
    return {
        "header": 16 if dense else 4,
        "tasks": knobs["tasks"] if dense else 25_600,
        "events": knobs["events"] if dense else 1024,
        "entries": entries if dense else MAX_GROUP_LIST,
        "slot": 8 * stride,
        "workers": knobs["to_cores"],
        "experts": experts,
    }


def compiler() -> str:
    """Return the C compiler."""
    found = shutil.which(os.environ.get("CC", "cc"))
    if found is None:
        raise harness.UnsupportedError("there is no C compiler: install one, or set CC")
    return found


def observe(arm: Any) -> dict[str, Any]:
    """Compile the arm's layout and have each worker write."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "config.c", Path(folder) / "config"
        source.write_text(PROGRAM % members(arm.knobs), encoding="utf-8")
        build = [compiler(), "-O1", "-o", str(program), str(source)]
        subprocess.run(build, check=True)
        done = subprocess.run([program], check=True, capture_output=True, text=True)
    *workers, slots = done.stdout.splitlines()
    numbered = [(worker, line) for worker, line in enumerate(workers)]
    groups = []
    for line, same in groupby(numbered, key=lambda pair: pair[1]):
        of_group = [worker for worker, _ in same]
        atomic_from, past = (int(word) for word in line.split())
        groups.append(
            {
                "workers": [of_group[0], of_group[-1]],
                "atomic_from": None if atomic_from < 0 else atomic_from,
                "past_image_bytes": past,
            }
        )
    return {"by_worker": groups, "slots": int(slots)}


def version() -> str:
    """Return the compiler's version."""
    command = [compiler(), "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[0].split()[-1]


LIBRARIES = {"cc": harness.finding.Library(observe, version)}

if __name__ == "__main__":
    sys.exit(harness.finding.main(__file__, sys.argv[1:], LIBRARIES))
