#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks includes against the table of allowed includes ("rooms"). docs/tour.md shows the same table, and the
two must agree.

A `.h` under sluice/kernels is a table of values for both compilers (the registry). A `.cuh` is device code,
which the host carries as text and never includes. Also checks that only the files of PACKED ask whether weights are packed: elsewhere all
products are alike (docs/decisions/0035). Called by `make check` and ctest. `--self-test` plants bad includes,
tables and questions, and each must be found.
"""
import pathlib
import re
import sys

import tree

ANYTHING = {"anything"}
HEADING = "## Folders, and what each may include"  # heads the table in docs/tour.md
# Room (a folder, or a part of one) -> allowed includes: rooms, single files, and classes of outside headers.
ROOMS = {
    "spec": {"spec"},
    "device": {"spec", "device"},
    "kernels": {"spec", "device", "kernels", "registry"},
    "registry": {"spec", "registry"},
    "pure": {"pure", "spec", "std"},  # part of public: allowed wherever public is
    "public": {"public", "pure", "spec", "std", "stdint.h"},  # stdint.h: c_api.h is C
    "c_api": {"c_api", "plan", "run", "reference", "public", "spec", "std", "posix", "stdint.h"},
    "plan": {"plan", "pure", "spec", "registry", "std", "vendor"},
    "run": {"run", "plan", "public", "spec", "registry", "std", "posix", "vendor", "cuda"},
    "reference": {"reference", "public", "spec", "std"},
    "twin": {"twin", "public", "spec", "kernels", "sluice/device/pipeline.cuh", "reference", "std", "posix", "vendor"},
    "chain": {"chain", "plan", "run", "public", "spec", "std"},
    "check": {"check", "reference", "plan", "run", "public", "spec", "registry", "std", "vendor"},
    "messages": {"messages", "public", "std", "vendor"},
    "bench": {"bench", "messages", "chain", "check", "plan", "run", "reference", "registry", "twin", "public", "spec", "std", "posix", "vendor", "cuda"},
    "cli": {"cli", "messages", "public", "spec", "std", "posix", "vendor"},  # the tool: what a user's program may include
    "lab": ANYTHING,  # the authors' tool; no other room lists it
    "examples": {"public", "std", "cuda_runtime.h"},  # as a user's program would
}
# The two halves of the library. `plan` is pure: it reads no file and no environment, and knows no driver and no compiler.
# Public headers that the planning half may include. They reach no Device, Workspace or stream.
PURE = ("choices.h", "device_info.h", "names.h", "options.h", "plan.h", "records.h", "quantiles.h", "result.h", "rows.h", "text.h", "try.h")
ROOM_OF_FOLDER = [  # the first matching prefix decides
    *((f"include/sluice/{name}", "pure") for name in PURE),
    ("sluice/spec/", "spec"), ("sluice/device/", "device"), ("sluice/plan/", "plan"), ("sluice/run/", "run"), ("sluice/chain/", "chain"),
    ("sluice/check/", "check"), ("sluice/messages/", "messages"),
    ("sluice/reference/", "reference"), ("sluice/twin/", "twin"), ("sluice/c_api/", "c_api"), ("include/sluice/", "public"), ("cli/", "cli"),
    ("bench/", "bench"), ("lab/", "lab"), ("examples/", "examples"),
]
VENDOR = re.compile(r"^(fmt/|nlohmann/|CLI/|xxhash\.h$)")
CUDA = {"cuda.h", "nvrtc.h", "cublasLt.h", "cudaTypedefs.h"}  # types and enumerators; every call goes through dlopen
TOUR = "docs/tour.md"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def room_of(path: str) -> str | None:
    if path.startswith("sluice/kernels/"):
        return "registry" if path.endswith(".h") else "kernels"
    return next((room for prefix, room in ROOM_OF_FOLDER if path.startswith(prefix)), None)


def target_of(include: str, root: pathlib.Path) -> str:
    """Returns the room or the class of an included file."""
    if include.startswith("sluice/") and (root / "include" / include).is_file():
        return room_of(f"include/{include}")
    room = room_of(include)
    if room:
        return room
    if VENDOR.match(include):
        return "vendor"
    if include in CUDA:
        return "cuda"
    if re.fullmatch(r"[a-z0-9_]+", include):
        return "std"
    if re.fullmatch(r"(sys/)?[a-z]+\.h", include) and not include.startswith("cu"):
        return "posix"
    return "an unlisted header"


def faults_in(path: str, text: str, root: pathlib.Path) -> list[str]:
    room = room_of(path)
    if room is None:
        return []
    allowed = ROOMS[room]
    if allowed == ANYTHING:
        return []
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match or match[1] in allowed:
            continue
        target = target_of(match[1], root)
        if target not in allowed and not (target == "pure" and "public" in allowed):
            faults.append(f"{path}:{number}: {match[1]} is {target}, which {room} may not include "
                          f"(it may: {', '.join(sorted(allowed))})")
    return faults


def table_in(tour: str) -> dict[str, set[str]]:
    """Returns room -> allowed includes, from the first and last cell of the rows below HEADING."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in tour.partition(f"{HEADING}\n")[2].split("\n\n")[0].splitlines() if line.startswith("|")]
    return {row[0]: set(row[-1].split(", ")) for row in rows[2:]}


def table_faults(tour: str, rooms: set[str]) -> list[str]:
    """Returns the table's faults. `rooms`: the rooms that have files; a planned room needs no row."""
    table = table_in(tour)
    faults = [f"docs/tour.md: no room called {room} has files: drop its row" for room in table if room not in rooms]
    for room in sorted(rooms):
        if table.get(room) != ROOMS[room]:
            faults.append(f"docs/tour.md: the row of {room} must be in the table of rooms and end in "
                          f"'| {', '.join(sorted(ROOMS[room]))} |', as ROOMS in tools/check_includes.py says")
    return faults


# Where weights that are packed make a difference. Of the library: checks and search, the choice of a kernel
# (config, unit, name, launch), operands and keys, forms of records, C's struct, a chain's share of weights.
PACKED = re.compile(r"""sluice/(spec/.*|plan/(planner|row_plans)\.cc|plan/packed/.*
    |plan/dense/(problem_checks|candidates|tuned_choice)\.cc|run/ops/(gemm|gemm_load)\.cc|plan/text/units\.cc
    |plan/text/printer\.cc|plan/records/(recipe\.cc|record\.(cc|h)|record_fields\.h|tuned_chain\.cc)|c_api/(values|device)\.cc
    |chain/steps/products\.cc)
  |bench/(request|record|session|verify|host/host|chain/check|tune/gpu|tune/tune)\.cc|bench/operands/store\.h
  |cli/(bench_table|packed_bars|plan|requests|run|tune_table)\.cc|lab/(verify|recorded_plans)\.cc""", re.VERBOSE)
QUESTION = re.compile(r"\bis_packed\((?!const sluice_array|const PackedFlags|flags|x\b|\*|request\.packed)|\bdecodes\(|packed\.type [!=]= WeightType::none")


def packed_faults(path: str, text: str) -> list[str]:
    if path.startswith(("tests/", "examples/")) or PACKED.fullmatch(path):
        return []
    return [f"{path}:{number}: asks whether weights are packed: ask in one of the files of PACKED, or treat all products alike"
            for number, line in enumerate(text.splitlines(), 1) if QUESTION.search(line)]


def check() -> list[str]:
    faults, rooms = [], set()
    for path in tree.names(*tree.DEVICE_OR_HOST):
        faults += faults_in(path, tree.text_of(path), tree.ROOT) + packed_faults(path, tree.text_of(path))
        rooms.add(room_of(path))
    return faults + table_faults(tree.text_of(TOUR), rooms - {None})


PLANTED = [  # (file, line, must be caught)
    ("sluice/run/ops/gemm.cc", "#include <sluice/device/pipeline.cuh>", True),
    ("sluice/run/ops/gemm.cc", "#include <sluice/kernels/gemm.cuh>", True),
    ("sluice/run/ops/gemm.cc", "#include <cuda_runtime.h>", True),
    ("sluice/run/ops/gemm.cc", "#include <sluice/kernels/registry.h>", False),
    ("sluice/plan/planner.cc", "#include <sluice/plan/records/record.h>", False),
    ("sluice/plan/planner.cc", "#include <sluice/records.h>", False),
    ("sluice/plan/planner.cc", "#include <sluice/run/records/record_store.h>", True),
    ("sluice/plan/planner.cc", "#include <sluice/run/jit/fork_gate.h>", True),
    ("sluice/plan/planner.cc", "#include <sluice/gemm.h>", True),
    ("sluice/plan/planner.cc", "#include <unistd.h>", True),
    ("sluice/plan/text/lines.cc", "#include <sluice/run/text_file.h>", True),
    ("sluice/run/text_file.cc", "#include <sluice/plan/text/quoted.h>", False),
    ("include/sluice/plan.h", "#include <sluice/gemm.h>", True),
    ("include/sluice/plan.h", "#include <sluice/result.h>", False),
    ("include/sluice/gemm.h", "#include <sluice/plan.h>", False),
    ("sluice/plan/records/recipe.cc", "#include <sluice/plan/dense/problem_checks.h>", False),
    ("sluice/plan/records/recipe.cc", "#include \"bench/tune/tune.h\"", True),
    ("sluice/spec/config.h", "#include <cstdint>", True),
    ("sluice/spec/config.h", "#include <sluice/run/planner.h>", True),
    ("sluice/device/machine.cuh", "#include <cuda_bf16.h>", True),
    ("sluice/device/machine.cuh", "#include <sluice/kernels/gemm.cuh>", True),
    ("sluice/kernels/registry.h", "#include <sluice/kernels/gemm.cuh>", True),
    ("sluice/twin/machine.h", "#include <sluice/device/pipeline.cuh>", False),
    ("sluice/twin/machine.h", "#include <sluice/kernels/gemm.cuh>", False),
    ("sluice/twin/machine.h", "#include <sluice/device/ptx/tma.cuh>", True),
    ("sluice/twin/machine.h", "# include \"sluice/plan/planner.h\"", True),
    ("include/sluice/gemm.h", "#include <cuda.h>", True),
    ("include/sluice/gemm.h", "#include <vector>", False),
    ("include/sluice/c_api.h", "#include <stdint.h>", False),
    ("sluice/c_api/session.cc", "#include <Python.h>", True),
    ("sluice/c_api/tvm_ffi.cc", "#include <tvm/ffi/c_api.h>", True),
    ("examples/gemm.cc", "#include <sluice/check/verify.h>", True),
    ("sluice/reference/gemm.cc", "#include <sluice/check/verify.h>", True),
    ("cli/run.cc", "#include <sluice/text.h>", False),
    ("cli/run.cc", "#include <sluice/bench/session.h>", False),
    ("cli/run.cc", "#include \"bench/lab.h\"", True),
    ("cli/run.cc", "#include <sluice/plan/text/fields.h>", True),
    ("cli/doctor_checks.cc", "#include <sluice/check/verify_units.h>", True),
    ("cli/plan.cc", "#include \"lab/random/dice.h\"", True),
    ("cli/run.cc", "#include <cuda.h>", True),
    ("bench/lab.cc", "#include <sluice/run/device/device_impl.h>", False),
    ("bench/lab.cc", "#include \"cli/table.h\"", True),
    ("bench/verify.cc", "#include \"lab/verbs.h\"", True),
    ("include/sluice/bench/session.h", "#include <sluice/check/verify.h>", True),
    ("include/sluice/bench/session.h", "#include \"bench/lab.h\"", True),
    ("lab/verify.cc", "#include <sluice/run/driver/events.h>", False),
    ("lab/verify.cc", "#include \"cli/table.h\"", False),
    ("sluice/run/ops/gemm.cc", "#include \"lab/random/dice.h\"", True),
]


def self_test() -> list[str]:
    faults = [f"self-test: {path}: '{line}' {'was not caught' if bad else 'was refused'}"
              for path, line, bad in PLANTED if bool(faults_in(path, line, tree.ROOT)) != bad]
    for path, line, bad in [("sluice/run/ops/kept.h", "  if (is_packed(problem)) return;", True),
                            ("sluice/run/ops/gemm.cc", "  if (is_packed(problem)) return;", False),
                            ("cli/bench.cc", "  return decodes(plan.config.schedule);", True)]:
        if bool(packed_faults(path, line)) != bad:
            faults.append(f"self-test: {path}: '{line}' {'was not caught' if bad else 'was refused'}")
    good = "## Folders, and what each may include\n| folder | holds | may include |\n|---|---|---|\n| spec | values | spec |\n\n| not | a | room |\n"
    for tour, rooms, bad in [(good, {"spec"}, False), (good, {"spec", "device"}, True), (good, set(), True),
                             (good.replace("| spec |\n", "| spec, std |\n"), {"spec"}, True)]:
        if bool(table_faults(tour, rooms)) != bad:
            faults.append(f"self-test: the table {tour!r} with {rooms} {'was not caught' if bad else 'was refused'}")
    return faults


if __name__ == "__main__":
    sys.exit(tree.run("includes", check, self_test))
