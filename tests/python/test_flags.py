# SPDX-License-Identifier: Apache-2.0
"""``flags()`` of a problem makes the tool treat exactly that problem: the same plan, by the same record, and
the same texts for NVRTC. Fails if a field has no flag, or if a default of Python and of the tool differs."""
import random
import subprocess

import pytest

import sluice
from sluice._library import tool_environment, tool_path

COUNT = 150  # number of problems of each kind


def _tool(*arguments):
    return subprocess.run([str(tool_path()), *arguments], capture_output=True, text=True, check=False, env=tool_environment())


def _product(dice):
    a = dice.choice(("bf16", "fp16", "e4m3", "e5m2"))
    fp8, size = a in ("e4m3", "e5m2"), lambda: dice.choice((1, 16, 48, 64, 100, 128, 200, 256, 1024, 4096))
    fields = dict(m=size(), n=size(), k=size(), batch=dice.choice((1, 1, 2, 3)), a=a,
                  b=dice.choice((None, "e5m2", "e4m3")) if fp8 else None, d=dice.choice((None, "bf16", "fp16", "fp32", "e4m3")),
                  scale_a=dice.choice(("none", "tensor", "vector", "block")), scale_b=dice.choice(("none", "tensor", "vector", "block", "vector128")),
                  bias=dice.choice((None, "bf16", "fp32")), activation=dice.choice(("none", "relu", "gelu", "silu")),
                  c=dice.choice((None, None, "bf16", "fp32")), accumulate=dice.choice(("promoted", "fast")) if fp8 else "promoted",
                  gated=dice.random() < 0.2, deterministic=dice.random() < 0.8, update=dice.choice(("set", "set", "add")),
                  scale_d=dice.choice(("none", "tensor")))
    if fields["scale_a"] == "block" and dice.random() < 0.5:
        fields["scale_a_ld"] = fields["m"] + dice.choice((0, 4))
    if not fp8:
        fields.update(a_major=dice.choice(("k", "mn")), b_major=dice.choice(("k", "mn")), a_unaligned=dice.random() < 0.2,
                      b_unaligned=dice.random() < 0.2, d_unaligned=dice.random() < 0.2)
    for name in ("a_ld", "b_ld", "c_ld", "d_ld"):
        if dice.random() < 0.3 and (name != "c_ld" or fields["c"]):
            fields[name] = 16 * dice.randint(256, 400)
            if dice.random() < 0.5:
                fields[f"{name[0]}_batch_stride"] = fields[name] * 4096 + 64
    return sluice.Problem(**fields)


def _packed(dice):
    weights = sluice.WeightFormat(dice.choice(("uint4", "int8", "e4m3")), dice.choice((0, 32, 64, 128)),
                                  dice.choice(("fp16", "bf16", "fp32")), dice.random() < 0.3, dice.choice(("half", "byte")))
    a, d = dice.choice(("bf16", "fp16", "e4m3")), dice.choice((None, "bf16", "fp16", "fp32", "e4m3"))
    return sluice.Problem(
        dice.choice((1, 4, 8, 16, 64, 300)), 8 * dice.randint(2, 200), 8 * dice.randint(4, 300), packed=weights, a=a, d=d,
        bias=dice.choice((None, "bf16", "fp32")), activation=dice.choice(("none", "gelu", "silu")),
        scale_a=dice.choice(("none", "none", "tensor", "vector")), gated=dice.random() < 0.3, c=(d or a) if dice.random() < 0.3 else None,
        scale_d=dice.choice(("none", "tensor")), norm_a=dice.random() < 0.2, a_ld=dice.choice((0, 2400)), d_ld=dice.choice((0, 1600)),
        accumulate=dice.choice(("promoted", "fast")), deterministic=dice.random() < 0.8)


def _convolution(dice):
    axes = dice.choice((1, 2, 2, 3))
    each = lambda low, high: tuple(dice.randint(low, high) for _ in range(axes))  # noqa: E731
    fp8 = dice.random() < 0.2
    op = "fprop" if fp8 else dice.choice(("fprop", "dgrad", "wgrad"))
    return sluice.Convolution(
        op, (dice.randint(1, 8), 16 * dice.randint(1, 8), *each(7, 30)), (16 * dice.randint(1, 8), *each(1, 3)), each(1, 2),
        dice.choice((0, 1, each(0, 2))), each(1, 2), dice.choice((None, each(0, 2))), "e4m3" if fp8 else dice.choice(("bf16", "fp16")),
        dice.choice((None, "fp32")), input_pitch=dice.choice((0, 256)), output_pitch=dice.choice((0, 256)),
        bias=dice.choice((None, "fp32")) if op == "fprop" else None, activation=dice.choice(("none", "silu")) if op == "fprop" else "none",
        scale_w="vector" if fp8 else "none", accumulate=dice.choice(("promoted", "fast")) if fp8 else "promoted", c=dice.choice((None, None, "bf16")),
        update=dice.choice(("set", "add")) if op == "wgrad" else "set", deterministic=dice.random() < 0.8)


def _valid(make, seed):
    """Returns ``COUNT`` different problems that a product accepts."""
    dice, found = random.Random(seed), {}
    while len(found) < COUNT:
        problem = make(dice)
        try:
            problem.check()
            found[problem] = sluice.explain(problem, gpu="h200")
        except sluice.Error:
            continue
    return list(found)


@pytest.mark.parametrize("make", [_product, _packed, _convolution])
def test_the_tool_treats_the_same_problem(make, tmp_path):
    problems = _valid(make, 7)
    (tmp_path / "shapes").write_text("".join(problem.flags() + "\n" for problem in problems), encoding="utf-8")
    printed = _tool("plan", "--shapes", str(tmp_path / "shapes"), "--unit", "--gpu", "h200")
    assert printed.returncode == 0, printed.stderr
    plans = [sluice.plan(p, gpu="h200") for p in problems]
    gpu = plans[0].text[plans[0].text.index("\ngpu ") + 1:]
    wanted = gpu + "".join(f"\n{plan.text.removesuffix(gpu)}" + "".join(f"\n{unit}\n" for unit in plan.units) for plan in plans)
    said = "".join(line for line in printed.stdout.splitlines(keepends=True) if "; a plain product, as nothing is gathered" not in line)
    assert said == wanted


@pytest.mark.parametrize("problem, flags", [
    (sluice.Problem(64, 4096, 4096), "--shape 64x4096x4096"),
    (sluice.Problem(1, 4096, 4096, a="e4m3", scale_a="vector", scale_b="vector"),
     "--shape 1x4096x4096 --dtype e4m3 --scale-a vector --scale-b vector"),
    (sluice.Problem(8, 16, 32, a="e4m3", b="e5m2", d="fp16", accumulate="fast"),
     "--shape 8x16x32 --a e4m3 --b e5m2 --d fp16 --accumulate fast"),
    (sluice.Problem(8, 16, 32, accumulate="fast"), "--shape 8x16x32"),
    (sluice.Problem(8, 16, 32, batch=2, a_batch_stride=999, c="fp32", c_ld=48, c_batch_stride=888, bias="fp32"),
     "--shape 8x16x32 --batch 2 --ld-c 48 --batch-stride-a 999 --batch-stride-c 888 --bias --bias-type fp32 --residual --c-type fp32"),
    (sluice.Problem(8, 16, 32, d="fp32", update="add", deterministic=False, b_major="mn", d_unaligned=True),
     "--shape 8x16x32 --b-layout mn --unaligned d --update add --any-order"),
    (sluice.Problem(16, 4096, 4096, packed=sluice.WeightFormat()), "--shape 16x4096x4096 --weights int4"),
    (sluice.Problem(8, 5760, 2880, packed=sluice.MXFP4), "--shape 8x5760x2880 --weights e2m1"),
    (sluice.Problem(16, 4096, 4096, packed=sluice.WeightFormat(zeros=True, group=0, scale="bf16", order="byte"), a="e4m3", scale_a="vector"),
     "--shape 16x4096x4096 --weights uint4 --group 0 --weight-scale bf16 --zero per_group --dtype e4m3 --scale-a vector"),
    (sluice.Problem(4, 64, 128, packed=sluice.WeightFormat("int8", 64), d="fp32", c="fp32", c_ld=72, a_ld=136, norm_a=True, accumulate="fast"),
     "--shape 4x64x128 --weights int8 --group 64 --d fp32 --ld-a 136 --ld-c 72 --residual --norm-a"),
    (sluice.Convolution("fprop", (32, 64, 56, 40), (128, 3, 1), (1, 2), (1, 0), 1, (2, 0), c="bf16"),
     "--conv fprop --input 32x64x56x40 --filter 128x3x1 --stride 1x2 --padding 1:2x0 --residual"),
])
def test_flags_are_short(problem, flags):
    assert problem.flags() == flags


def test_a_plan_has_the_flags_of_its_problem():
    problem = sluice.Problem(64, 64, 64, gated=True)
    assert sluice.plan(problem, gpu="h100").flags() == problem.flags() == "--shape 64x64x64 --gated"


def test_flags_of_an_unknown_type_are_refused():
    with pytest.raises(sluice.InvalidArgument, match="must be one of"):
        sluice.Problem(1, 1, 1, a="int3").flags()


@pytest.mark.parametrize("recipe", ["none", "tensor", "row", "block", "int4", "int8"])
def test_the_layers_of_a_model_are_those_that_convert_runs(recipe):
    torch = pytest.importorskip("torch")
    import sluice.torch as st
    tokens = (1, 16)
    printed = _tool("plan", "--model", "llama3-8b", "--recipe", recipe, "--tokens", "1,16", "--gpu", "h200", "--unit")
    assert printed.returncode == 0, printed.stderr
    wanted = []
    for n, k in ((4096, 4096), (1024, 4096), (14336, 4096), (4096, 14336)):
        linear = torch.nn.Linear(k, n, bias=False, device="meta", dtype=torch.bfloat16)
        if recipe in st.nn.PACKED_RECIPES:
            kind = st.nn.PACKED_RECIPES[recipe]
            layer = kind(k, n, False, format=sluice.WeightFormat(kind.DEFAULT.type, scale="bf16"), device="meta")
        else:
            layer = st.nn.Linear(k, n, bias=False, recipe=None if recipe == "none" else recipe, device="meta", dtype=linear.weight.dtype)
        wanted += [sluice.plan(layer.problem(m), gpu="h200") for m in tokens]
    gpu = wanted[0].text[wanted[0].text.index("\ngpu ") + 1:]
    assert printed.stdout == gpu + "".join(f"\n{plan.text.removesuffix(gpu)}" + "".join(f"\n{unit}\n" for unit in plan.units) for plan in wanted)


def test_scales_of_packed_layers_have_the_weights_type():
    """The scales are those that ``--recipe int4`` uses."""
    torch = pytest.importorskip("torch")
    import sluice.torch as st
    layer = st.nn.Linear4bit.from_linear(torch.nn.Linear(128, 64, bias=False, dtype=torch.bfloat16))
    assert layer.problem(16).flags() == "--shape 16x64x128 --weights int4 --weight-scale bf16"
    assert st.nn.Linear8bit.from_linear(torch.nn.Linear(128, 64, bias=False, dtype=torch.bfloat16)).problem(16).flags() == (
        "--shape 16x64x128 --weights int8 --weight-scale bf16")
