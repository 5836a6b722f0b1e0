# SPDX-License-Identifier: Apache-2.0
"""The table of everything that needs a GPU: sections, and their parts. `make certify` and `make test-gpu` run
it (tools/certify.py); docs/testing.md shows it. A part is one process, short enough that an early end loses
little. A section is done when all its parts are.
"""
import dataclasses
import os
import pathlib

# Tests of sluice_gpu_tests that are in no section. pool.* and changes need no GPU (CONTRIBUTING.md, ctest).
# identity.* runs before all sections, planted.* is for the sanitizers, and companion_times.* are timings run
# by hand.
ELSEWHERE = "pool.*:*changes.*:changes_of_nothing.*:identity.*:planted.*:companion_times.*"
RATES = "pack.keeps_up_with_memory"  # measures time, so nothing else may run

# Host files that a section exercises, in addition to the kernels that it runs. Sections without any test
# machine code only. That the host requests and launches it correctly is tested by `smoke` and the sections on
# calls.
LAUNCH = ("sluice/run/ops/*", "sluice/run/ops/experts/*", "sluice/run/driver/*")
UNITS = ("sluice/plan/text/units.*", "sluice/plan/text/*_units.*", "sluice/plan/text/field*", "sluice/plan/text/printer.cc",
         "sluice/plan/text/conv_text.*", "sluice/plan/text/overlap_text.h", "include/sluice/names.h")
LENT = ("sluice/run/device/workspace*", "sluice/run/device/capture*")
PLANNER = ("sluice/plan/*", "sluice/plan/dense/*", "sluice/plan/packed/*")
PACKAGE = ("python/sluice/**/*.py", "sluice/c_api/*")


@dataclasses.dataclass(frozen=True)
class Part:
    name: str
    typical: int  # seconds on an H200 with a pool of cubins; a part starts only if so much time is left
    limit: int  # seconds after which the part counts as hanging
    filter: str = ""  # for sluice_gpu_tests; "": run `command`
    # "{seconds}" stands for its time limit; status 3 means that it stopped early and can resume.
    command: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    tests: tuple[str, ...] = ()  # patterns of files that check results, if `filter` does not determine them


@dataclasses.dataclass(frozen=True)
class Section:
    name: str
    what: str  # description for pages
    parts: tuple[Part, ...]
    host: tuple[str, ...] = ()   # patterns of the host files that it exercises
    tests: tuple[str, ...] = ()  # as a part's `tests`, for all its parts
    names: str = ""       # test filter of parts that have no filter of their own
    reads: str = "gtest"  # format of the results: gtest, junit, records, rows, sanitizer (certify_results.py)
    seeded: bool = False
    # Parts may run at the same time as others on a GPU; false if one measures time or occupancy.
    shares: bool = False
    times: bool = False   # measures host time, so nothing else runs at the same time on any GPU
    spreads: bool = False  # each part uses all GPUs


@dataclasses.dataclass(frozen=True)
class Setting:
    """The options of a run. `{seed}` in a part's environment stands for the section's seed plus the part's
    first case."""
    build: pathlib.Path
    logs: pathlib.Path
    kept: pathlib.Path = pathlib.Path()  # folder of the certificate
    wheels: pathlib.Path | None = None
    quick: bool = False


def split(total: int, each: int) -> list[tuple[int, int]]:
    """Returns (first, count) for each part of `total` cases."""
    return [(first, min(each, total - first)) for first in range(0, total, each)]


def fuzz_parts(setting: Setting) -> tuple[Part, ...]:
    total = 20_000 if setting.quick else 100_000
    return tuple(Part(f"from {first}", 12, 240, "fuzz.*",
                      env=(("SLUICE_FUZZ_SEED", "{seed}"), ("SLUICE_FUZZ_FIRST", str(first)), ("SLUICE_FUZZ_COUNT", str(count))))
                 for first, count in split(total, 20_000))


def packed_parts(setting: Setting) -> tuple[Part, ...]:
    """Returns the parts of the packed cases. These are mostly host work (data, checks, copies), so several
    processes run them, each with its own cases."""
    total = 3_000 if setting.quick else 20_000
    random = "packed_products.of_random_problems_are_right_to_the_bit"
    parts = [Part(f"from {first}", 60, 280, random,
                  env=(("SLUICE_PACKED_SEED", f"{{seed}}+{first}"), ("SLUICE_PACKED_CASES", str(count))))
             for first, count in split(total, 2_500)]
    return (*parts, Part("others", 60, 280, f"packed_products.*:packed_codes.*-{random}"))


def each(limit: int, *filters: str) -> tuple[Part, ...]:
    return tuple(Part(words.split(":")[0].removesuffix(".*").strip("*"), min(limit // 5, 40), limit, words) for words in filters)


def python_folder(setting: Setting, part: str) -> pathlib.Path:
    return setting.logs / f"python_{part}"


def python_parts(setting: Setting) -> tuple[Part, ...]:
    """Returns one part per file that needs a GPU, and one part for the other files."""
    wheels = str(setting.wheels or setting.build / "wheels")
    files = sorted(path.name for path in (pathlib.Path(__file__).resolve().parent.parent / "tests/python").glob("test_*.py"))
    alone = [name for name in files if name.startswith("test_gpu")]
    groups = [*((name.removesuffix(".py"), [name]) for name in alone), ("others", [name for name in files if name not in alone])]
    return tuple(Part(name, 80, 540, command=("tools/python_gpu_test.sh", wheels),
                      tests=(*(f"tests/python/{file}" for file in group), *(["examples/*.py"] if name == "others" else [])),
                      env=(("SECTIONS", "tests"), ("JOBS", "3"), ("FILES", " ".join(f"tests/python/{file}" for file in group)),
                           ("OUT", str(python_folder(setting, name))))) for name, group in groups)


def verb_parts(setting: Setting, name: str, told: str, *words: str) -> tuple[Part, ...]:
    """Returns the one part of a verb of the lab that writes logs/`told`."""
    return (Part(name, 120, 540, command=(str(setting.build / "sluice_lab"), *words, "--json", str(setting.logs / told))),)


TOOLS = ("racecheck", "memcheck", "initcheck", "synccheck")


def sanitizer_parts(setting: Setting) -> tuple[Part, ...]:
    """Returns the parts of the sanitizers' tool. It keeps one line per class in the certificate's folder and resumes from it."""
    command = ("python3", "tools/gpu_sanitize.py", str(setting.build), str(setting.kept), "--jobs", str(max(1, (os.cpu_count() or 1) - 2)),
               "--seconds", "{seconds}", "--tools")
    return tuple(Part(name, 30, 580, command=(*command, name)) for name in TOOLS)


def all_sections(setting: Setting) -> tuple[Section, ...]:
    return (
        Section("smoke", "small products of each class of kernel, exact", each(240, "*sanitize*"), host=(*LAUNCH, *UNITS)),
        Section("fuzz", "random dense problems, whole numbers, no wrong bit", fuzz_parts(setting), seeded=True, shares=True),
        Section("packed", "random products of packed weights, whole numbers, no wrong bit; edge cases; plans of the planner", packed_parts(setting), seeded=True, shares=True),
        Section("real", "real data within the bounds of docs/numerics.md; NaN and Inf", each(240, "real_data.*", "special_values.*"), shares=True),
        Section("splits", "sums split along k, a million launches on one workspace; products added to D", each(500, "split*.*", "added.*", "convolutions.*")),
        Section("contracts", "dependent launches: no kind of kernel reads or writes too early",
                each(280, "gemm_overlap.*", "overlap_contract.*", "packed_contract.*:packed_overlap.*")),
        Section("graphs", "graphs, threads, chains of launches", each(240, "graphs.*:threads.*", "chains.*"), host=(*LAUNCH, *LENT, "sluice/chain/**/*")),
        Section("companions", "norms, quantisers, packing, gated and grouped products, compared with the reference",
                each(240, "*quantize.*", "silu_times_up.*", "norms.*", f"pack.*-{RATES}", "gated.*", "scale_columns.*", "group_products.*", "packed_groups.*", "experts.*"), shares=True),
        Section("races", "plans timed at a first call give equal results; no graph capture of another thread is broken", each(240, "races.*"),
                host=(*LAUNCH, *LENT, "sluice/plan/records/*", "sluice/run/records/*")),
        Section("misuse", "bad calls are refused and launch nothing", each(120, "misuse.*"), host=LAUNCH),
        Section("repeatability", "the same bits in each of a hundred runs", each(240, "repeatability.*")),
        Section("records", "every shipped tuning record, exact and real data", verb_parts(setting, "all", "records.json", "verify", "--records"), reads="records", shares=True,
                tests=("sluice/plan/records/shipped/*.json", "lab/verify.cc", "lab/verify_records.*", "sluice/check/*")),
        Section("rows", "at most 12 kernels for 1 to 512 rows: right, and the time they lose to a kernel per number of rows", verb_parts(setting, "1 to 512", "rows.json", "rows", "--rows", "1:512", "--shapes", "bench/shapes/rows.txt"), reads="rows",
                host=PLANNER, tests=("bench/shapes/rows.txt", "lab/rows.cc", "lab/rows/*", "cli/row_range.*", "sluice/check/*")),
        Section("cost", "host time of a planned launch; packing keeps up with memory", each(60, f"host_cost.*:{RATES}"), host=LAUNCH, times=True),
        Section("python", "the Python package's tests with PyTorch", python_parts(setting), reads="junit", shares=True, host=PACKAGE,
                tests=("tools/python_gpu_test.sh",)),
        Section("sanitizers", "compute-sanitizer's four tools: a planted bug found, then every class of kernel", sanitizer_parts(setting), reads="sanitizer",
                shares=True, spreads=True, names="*sanitize*:norms.*:pack.*:all/quantize.*", tests=("tools/gpu_sanitize.py", "tests/gpu/kernel_changes.*", "tests/gpu/changed_units.*")),
    )
