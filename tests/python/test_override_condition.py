# SPDX-License-Identifier: Apache-2.0
"""Tests of what ``st.override`` takes: its condition on tensors without memory, beside torch's own checks and sluice's, and its table of
measured speeds beside bench/results. Needs no GPU."""
import csv
import itertools
import json
import lzma
import math
import random

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sluice.torch")

from sluice.torch._library import SCALED_MM  # noqa: E402
from sluice.torch import _override_dense as dense, _override_reasons as why  # noqa: E402
from test_override import BF16, E4M3, E5M2, FP16, FP32, operands  # noqa: E402


def reason(mat_a, mat_b, scale_a, scale_b, bias=None, scale_result=None, out_dtype=BF16, out=None):
    return dense.why_torch(mat_a, mat_b, scale_a, scale_b, bias, scale_result, out_dtype, out)


def on_meta(*shape, dtype=FP32):
    return torch.empty(shape, dtype=dtype, device="meta")


def test_what_both_compute_is_let_pass():
    for scales, m, n, result in itertools.product(("tensor", "row"), (1, 7, 16), (16, 48), (BF16, FP16, FP32)):
        call = operands(m, n, 256, scales=scales, device="meta")
        assert reason(*call, out_dtype=result) is None
        assert reason(*call, out_dtype=None, out=on_meta(m, n, dtype=result)) is None
        if result is not FP32:
            assert reason(*call, on_meta(n, dtype=result), out_dtype=result) is None
    assert reason(*operands(1, 256, 512, scales="block", device="meta")) is None
    for shape in ((1,), (1, 1), (1, 1, 1)):
        a, b, _, _ = operands(device="meta")
        assert reason(a, b, on_meta(*shape), on_meta()) is None


def test_operands_of_e5m2_beside_e4m3_are_let_pass_and_two_of_them_are_not():
    a, b, *scales = operands(device="meta")
    assert reason(a.to(E5M2), b, *scales) is None and reason(a, b.to(E5M2), *scales) is None
    assert reason(a.to(E5M2), b.to(E5M2), *scales) == why.TYPES
    assert reason(a.bfloat16(), b, *scales) == why.TYPES


def test_a_padded_pitch_is_let_pass_and_one_that_tma_cannot_step_is_not():
    a, b, *scales = operands(16, 32, 256, device="meta")
    wide = on_meta(16, 272, dtype=E4M3)[:, :256]
    assert reason(wide, b, *scales) is None and reason(a, on_meta(32, 272, dtype=E4M3)[:, :256].t(), *scales) is None
    odd = on_meta(16, 264, dtype=E4M3)[:, :256]
    assert reason(odd, b, *scales) == why.LAYOUT and reason(a, on_meta(32, 264, dtype=E4M3)[:, :256].t(), *scales) == why.LAYOUT
    assert reason(odd[:1], b, *scales) is None  # one row has no pitch


@pytest.mark.parametrize("change, wanted", [
    (lambda c: c.update(scale_result=on_meta()), "SCALE_RESULT"),
    (lambda c: c.update(out_dtype=None), "RESULT"),
    (lambda c: c.update(out_dtype=E4M3), "RESULT"),
    (lambda c: c.update(mat_a=c["mat_a"][:, :128]), "SIZES"),
    (lambda c: c.update(mat_a=on_meta(16, 264, dtype=E4M3), mat_b=on_meta(32, 264, dtype=E4M3).t()), "SIZES"),
    (lambda c: c.update(mat_b=on_meta(24, 256, dtype=E4M3).t()), "SIZES"),
    (lambda c: c.update(mat_a=on_meta(2, 16, 256, dtype=E4M3)), "SIZES"),
    (lambda c: c.update(mat_a=on_meta(0, 256, dtype=E4M3)), "EMPTY"),
    (lambda c: c.update(mat_b=on_meta(0, 256, dtype=E4M3).t()), "EMPTY"),
    (lambda c: c.update(mat_a=on_meta(16, 0, dtype=E4M3), mat_b=on_meta(32, 0, dtype=E4M3).t()), "EMPTY"),
    (lambda c: c.update(mat_a=on_meta(256, 16, dtype=E4M3).t()), "LAYOUT"),
    (lambda c: c.update(mat_b=on_meta(256, 32, dtype=E4M3)), "LAYOUT"),
    (lambda c: c.update(mat_a=on_meta(1, 256, dtype=E4M3).expand(16, 256)), "LAYOUT"),
    (lambda c: c.update(bias=on_meta(32)), "BIAS"),
    (lambda c: c.update(bias=on_meta(32, dtype=FP16)), "BIAS"),
    (lambda c: c.update(bias=on_meta(1, 32, dtype=BF16)), "BIAS"),
    (lambda c: c.update(bias=on_meta(32, 1, dtype=BF16)), "BIAS"),
    (lambda c: c.update(bias=on_meta(16, dtype=BF16)), "BIAS"),
    (lambda c: c.update(bias=on_meta(64, dtype=BF16)[::2]), "BIAS"),
    (lambda c: c.update(bias=on_meta(32), out_dtype=FP32), "BIAS"),
    (lambda c: c.update(out=on_meta(16, 48, dtype=BF16)), "OUT"),
    (lambda c: c.update(out=on_meta(16, 32, dtype=FP16)), "OUT"),
    (lambda c: c.update(out=on_meta(32, 16, dtype=BF16).t()), "OUT"),
    (lambda c: c.update(out=on_meta(16, 64, dtype=BF16)[:, ::2]), "OUT"),
    (lambda c: c.update(scale_a=on_meta(dtype=torch.float64)), "SCALES"),
    (lambda c: c.update(scale_a=on_meta(16, 1)), "SCALES"),  # torch takes rows with columns only
    (lambda c: c.update(scale_a=on_meta(16), scale_b=on_meta(32)), "SCALES"),
    (lambda c: c.update(scale_a=on_meta(16, 2)[:, :1], scale_b=on_meta(1, 32)), "SCALES"),
    (lambda c: c.update(scale_a=on_meta(16, 1), scale_b=on_meta(1, 64)[:, ::2]), "SCALES"),
    (lambda c: c.update(scale_a=on_meta(16, 2), scale_b=on_meta(2, 1)), "SCALES"),  # blocks by rows: sluice's, not torch's
    (lambda c: c.update(scale_a=on_meta(2, 16).t(), scale_b=on_meta(2, 1)), "SCALES"),  # by columns: torch's, not sluice's
    (lambda c: c.update(scale_a=on_meta(1, 2), scale_b=on_meta(32, 2).t()), "SCALES"),
])
def test_each_reason_is_found(change, wanted):
    names = ("mat_a", "mat_b", "scale_a", "scale_b")
    call = dict(zip(names, operands(16, 32, 256, device="meta")), out_dtype=BF16)
    assert reason(**call) is None
    change(call)
    assert reason(**call) == getattr(why, wanted)


def test_blocks_of_b_lie_by_columns():
    """By rows, two by two, sluice would read them transposed."""
    a, b, scale_a, scale_b = operands(1, 256, 256, scales="block", device="meta")
    assert scale_b.shape == (2, 2) and reason(a, b, scale_a, scale_b) is None
    assert reason(a, b, scale_a, on_meta(2, 2)) == why.SCALES


def test_one_row_has_scales_of_rows_where_b_has():
    a, b, scale_a, scale_b = operands(1, 32, 256, scales="row", device="meta")
    assert dense.scales_of(1, 32, 256, scale_a, scale_b) == "row"
    assert dense.scales_of(1, 32, 256, scale_a, on_meta(1, 1)) == "tensor"
    problem = dense.problem_of_call(a, b, scale_a, scale_b, None, BF16, True)
    assert (problem.scale_a, problem.scale_b) == ("tensor", "vector")  # a scale of shape (1, 1) is one for the whole matrix, to the library


def drawn(pick):
    """Returns a call of random metadata on a GPU that is not there; about a third are wrong in some way."""
    def empty(*shape, dtype=FP32):
        return torch.empty(shape, dtype=dtype, device="cuda")

    def maybe(value, *others):
        return pick.choice(others) if pick.random() < 0.08 else value

    m, n, k = pick.choice((1, 2, 16, 33, 128)), maybe(16 * pick.randint(1, 9), 24, 0), maybe(16 * pick.randint(1, 20), 40)
    pad_a, pad_b = (pick.choice((0, 0, 16)) if pick.random() < 0.9 else 8 for _ in range(2))
    kinds = maybe((E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3), (E5M2, E5M2))
    a = empty(m, k + pad_a, dtype=kinds[0])[:, :k]
    b = empty(n, k + pad_b, dtype=kinds[1])[:, :k].t()
    blocks, columns = -(-k // 128), -(-n // 128)
    scales = {"tensor": (empty(*maybe((), (1,), (1, 1))), empty(*maybe((), (1, 1)))), "row": (empty(m, 1), empty(1, n)),
              "block": (empty(blocks, m).t(), empty(columns, blocks).t()), "block, by rows": (empty(m, blocks), empty(columns, blocks).t()),
              "row of a": (empty(m, 1), empty()), "vectors": (empty(m), empty(n))}
    scale_a, scale_b = scales[pick.choice(("tensor", "row", "row", "block", "block, by rows", "row of a", "vectors"))]
    result = pick.choice((BF16, BF16, FP16, FP32))
    bias = maybe(None, empty(n, dtype=result), empty(n, dtype=BF16), empty(n))
    return a, b, scale_a, scale_b, bias, None, result, pick.random() < 0.5


def test_what_is_let_pass_is_accepted_by_torch_and_by_sluice_with_equal_results():
    from torch._subclasses.fake_tensor import FakeTensorMode
    pick, passed, kinds = random.Random(49), 0, set()
    with FakeTensorMode():
        for _ in range(3000):
            a, b, scale_a, scale_b, bias, _, result, fast = drawn(pick)
            if dense.why_torch(a, b, scale_a, scale_b, bias, None, result) is not None:
                continue
            passed += 1
            kinds.add(dense.scales_of(a.shape[0], b.shape[1], a.shape[1], scale_a, scale_b))
            theirs = torch._scaled_mm(a, b, scale_a, scale_b, bias, None, result, fast)  # raises if torch would refuse
            mine = SCALED_MM.fake(result, a, b, scale_a, scale_b, fast, bias, None, None, False, None, 0)  # raises if sluice would
            assert (mine.shape, mine.stride(), mine.dtype, mine.device) == (theirs.shape, theirs.stride(), theirs.dtype, theirs.device)
            dense.problem_of_call(a, b, scale_a, scale_b, bias, result, fast).check()
    assert passed > 600 and kinds == {"tensor", "row", "block"}


# ---- speed
def table(path):
    with (lzma.open(path, "rt") if path.suffix == ".xz" else open(path, encoding="utf-8")) as file:
        return list(csv.DictReader(file))


def measured(root):
    """Returns (scales, sums, planned_by, m, k, ratio) of each fp8 product of bench/results with both times."""
    found = []
    for path in ("h200/products.csv.xz", "h100/products.csv"):
        for line in table(root / "bench/results" / path):
            if line["a"] == "e4m3" and line["sums"] in ("fast", "promoted") and line["us"] and line["cublaslt_first_us"]:
                scales = "row" if line["set"].startswith("row") else "tensor"
                found.append((scales, line["sums"], line["planned_by"], int(line["m"]), int(line["k"]),
                              float(line["cublaslt_first_us"]) / float(line["us"])))
    for line in table(root / "bench/results/h200/row_torch.csv"):
        if line["us"] and line["torch_us"]:
            ratio = float(line["torch_us"]) / float(line["us"])
            found.append(("row", "promoted", line["planned_by"], int(line["m"]), int(line["k"]), ratio))
    for line in json.loads((root / "bench/results/h200/python/override.json").read_text())["races"]:
        found.append((line["scales"], line["sums"], line["planned_by"], line["m"], line["k"], line["ratio"]))
    return found


def test_the_table_of_speeds_is_what_was_measured(source_root):
    """Each line holds the least ratio that it covers, rounded down to 0.01 (to 0.05 above 1), and no measured product is uncovered."""
    found = measured(source_root)
    assert len(found) > 400
    least = {}
    for scales, sums, by, m, k, ratio in found:
        gain = dense.measured_gain(scales, sums == "fast", by, m, k)
        assert gain is not None and gain <= ratio, (scales, sums, by, m, k, ratio, gain)
        line = next(line for line in dense.MEASURED if line[:3] == (scales, sums, by) and line[3] <= m <= line[4] and k >= line[5])
        least[line] = min(least.get(line, math.inf), ratio)
    assert set(least) == set(dense.MEASURED)
    for line, ratio in least.items():
        assert ratio - line[-1] < (0.05 if ratio > 1.1 else 0.011), (line, ratio)


def test_by_default_no_kind_is_taken_that_lost_more_than_two_percent(source_root):
    lost = [line for line in measured(source_root) if line[-1] < 0.98]
    assert len(lost) > 5
    for scales, sums, by, m, k, _ in lost:
        assert dense.measured_gain(scales, sums == "fast", by, m, k) < 0.98
    taken = sum(dense.measured_gain(scales, sums == "fast", by, m, k) >= 0.98 for scales, sums, by, m, k, _ in measured(source_root))
    assert taken > 0.5 * len(measured(source_root))


def test_the_page_has_the_table(source_root):
    page = (source_root / "docs/override.md").read_text(encoding="utf-8")
    for scales, sums, by, low, high, least_k, gain in dense.MEASURED:
        rows, k = f"from {low}" if high == math.inf else f"{low} to {high}", "any" if least_k == 1 else f"from {least_k}"
        line = f"| {scales} | {sums} | {by} | {rows} | {k} | {gain:.2f} | {'taken' if gain >= 0.98 else 'torch'} |"
        assert line in page, line
    assert page.count("| taken |") + page.count("| torch |") == len(dense.MEASURED)
    reasons = [value for name, value in vars(why).items() if name.isupper() and isinstance(value, str) and not name.startswith("_")]
    for cell in (line.split("|")[1].strip(" `.").partition(": ...")[0] for line in page.partition("## Reasons")[2].splitlines()
                 if line.startswith("| `")):
        assert cell.startswith("sluice refused") or any(reason.startswith(cell) for reason in reasons), cell
