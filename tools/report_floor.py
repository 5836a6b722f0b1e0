# SPDX-License-Identifier: Apache-2.0
"""The section of docs/performance.md that says how near products are to what the machine can do at all, by rows: where there
is most left to gain. "" without records.
"""
from report_data import BEST, OURS, geometric_mean, groups_of, median, set_of, shape_name, table

SETS = ("decode", "tokens", "odd_rows", "engine", "long_k")
ROWS = ((1, 16), (17, 32), (33, 64), (65, 128), (129, 256), (257, 512), (513, 1024), (1025, 1 << 31))


def floor_us(run: dict, shape: dict) -> float:
    """Bytes that must move once at HBM's rate, or flops at the rate that tensor cores sustain: the longer of the two."""
    machine, problem = run["machine"], shape["problem"]
    peak = machine["fp16_peak_tflops" if problem["a"] in ("bf16", "fp16") else "fp8_peak_tflops"]
    return max(shape["bytes"] / machine["hbm_gbps"] * 1e-3, shape["flops"] / peak * 1e-6)


def floor_section(runs: list[dict]) -> str:
    shares: dict[tuple, list[tuple]] = {}
    for run in runs:
        if set_of(run) not in SETS:
            continue
        for types, shapes in groups_of(run).items():
            for shape in shapes:
                ours, peer = median(shape, OURS), median(shape, BEST)
                rows = next(r for r in ROWS if r[0] <= shape["problem"]["m"] <= r[1])
                if ours and peer:
                    floor = floor_us(run, shape)
                    shares.setdefault((types, rows, set_of(run) == "long_k"), []).append((floor / ours, floor / peer, shape_name(shape)))
    if not shares:
        return ""
    lines = []
    for (types, (first, last), long_k), found in sorted(shares.items()):
        least = min(found)
        words = "long sums, " if long_k else ""
        lines.append([types, words + (f"{first} to {last}" if last < 1 << 31 else f"over {first - 1}"), str(len(found)),
                      f"{geometric_mean([f[0] for f in found]):.2f}", f"{geometric_mean([f[1] for f in found]):.2f}",
                      f"{least[0]:.2f} ({least[2]})"])
    return ("## How near the floor\n\nThe floor is the longer of two times: bytes that must move once at the rate that HBM sustains, and flops at the rate that tensor "
            "cores sustain on random data. It is computed from bytes and flops, not measured; it leaves out the launch (about 2 us), and that what both need together is slower. Share of it, geometric mean:\n\n"
            + table(["types", "M", "shapes", "sluice", "cuBLASLt's best", "least of ours"], lines, left=2) + "\n")
