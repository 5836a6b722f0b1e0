# SPDX-License-Identifier: Apache-2.0
"""Plans, their text and compiles, which need neither a GPU nor torch nor tvm-ffi."""
import dataclasses
import subprocess
import sys

import pytest

import sluice


def test_import_brings_neither_torch_nor_tvm_ffi():
    code = "import sys, sluice; sluice.plan(m=64, n=64, k=64); sys.exit(any(m in sys.modules for m in ('torch', 'tvm_ffi')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_torch_sluice_torch_says_what_is_missing():
    code = "import sys; sys.modules['torch'] = None\nimport sluice.torch"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert failed.returncode == 1 and "sluice-gemm[torch]" in failed.stderr


def test_a_plan_says_what_runs_and_what_it_costs():
    plan = sluice.plan(m=4096, n=4096, k=4096, a="e4m3", accumulate="fast")
    assert plan.estimate_us > 10
    assert "4096" in plan.text and str(plan) == plan.text
    assert "e4m3" in plan.config and len(plan.units) == 2 and "sluice_entry" in plan.units[0]
    assert "numbered by GPC" in plan.text and "sluice::locate" in plan.units[1]
    assert len(sluice.plan(m=4096, n=4096, k=4096, a="e4m3", accumulate="fast", cluster=(1, 1)).units) == 1  # not numbered
    with pytest.raises(sluice.InvalidArgument, match="raster.*along_m.*along_n"):
        sluice.plan(m=4096, n=4096, k=4096, a="e4m3", accumulate="fast", raster="along_k")
    swapped = sluice.plan(m=192, n=4096, k=4096, swapped=True)
    assert "d_major = sluice::Major::mn" in swapped.config and "swapped" in swapped.text
    assert "d_major" not in sluice.plan(m=192, n=4096, k=4096, swapped=False).config
    with pytest.raises(sluice.InvalidConfig, match="swapped operands need a 16-bit D"):
        sluice.plan(m=192, n=4096, k=4096, d="fp32", swapped=True)
    assert plan.workspace_bytes == 0
    assert sluice.explain(m=4096, n=4096, k=4096, a="e4m3", accumulate="fast") == plan.text == sluice.explain(plan)


def test_a_plan_is_for_the_gpu_that_is_named():
    problem = sluice.Problem(128, 14336, 4096, a="e4m3", scale_a="vector", scale_b="vector")
    h100, h200 = sluice.plan(problem, gpu="h100"), sluice.plan(problem, gpu="h200")
    assert "NVIDIA H100" in h100.text and "NVIDIA H200" in h200.text and h100.config != h200.config
    assert "as no GPU was" not in h200.text + sluice.explain(problem, gpu="H100")
    packed = sluice.Problem(16, 4096, 4096, packed=sluice.WeightFormat())
    assert "NVIDIA H100" in sluice.plan(packed, gpu="h100").text and "NVIDIA H20," in sluice.explain(packed, gpu="h20")
    assert "NVIDIA H100" in sluice.plan_rows(problem, (1, 2), gpu="h100").plans[0].text
    with pytest.raises(sluice.InvalidArgument, match="h100-pcie"):
        sluice.plan(problem, gpu="b200")
    with pytest.raises(sluice.InvalidArgument, match="give one of them"):
        sluice.plan(problem, gpu="h100", device=0)
    with pytest.raises(sluice.InvalidArgument, match="which is planned"):
        sluice.compile(h100, gpu="h100")


def test_a_plan_says_that_no_gpu_was_found():
    text = sluice.explain(m=64, n=64, k=64)
    try:
        sluice.plan(m=64, n=64, k=64, device=0)
    except sluice.DriverError:
        assert "\nfor        an NVIDIA H200, as no GPU was found or named\n" in text
    else:
        assert text == sluice.explain(m=64, n=64, k=64, device=0)


def test_kernels_are_compiled_for_the_gpu_that_is_named(cache, has_nvrtc):
    if not has_nvrtc:
        pytest.skip("no NVRTC")
    problem = sluice.Problem(128, 14336, 4096, a="e4m3", scale_a="vector", scale_b="vector")
    assert sluice.compile(problem, gpu="h200").already_there == 0
    assert sluice.compile(problem, gpu="h200").compiled == 0
    assert sluice.compile(problem, gpu="h100").compiled > 0


def test_a_plan_is_the_same_every_time():
    assert sluice.plan(m=37, n=480, k=2048).text == sluice.plan(sluice.Problem(37, 480, 2048)).text


@pytest.mark.parametrize("name", ["bf16", "torch.bfloat16", "bfloat16"])
def test_types_are_called_as_others_call_them(name):
    assert sluice.plan(m=64, n=64, k=64, a=name).text == sluice.plan(m=64, n=64, k=64).text


def test_choices_overrule_the_planner():
    plan = sluice.plan(m=512, n=512, k=4096, schedule="cooperative", tile=(128, 128), cluster=(1, 1), splits=2)
    assert "cooperative" in plan.config and ".m = 128, .n = 128" in plan.config
    assert plan.workspace_bytes > 0
    assert plan.source == "model"


@pytest.mark.parametrize("arguments, error, mention", [
    (dict(candidates=0), sluice.InvalidArgument, r"candidates = 0 must be in 1\.\.16: pass 3"),
    (dict(candidates=17), sluice.InvalidArgument, r"candidates = 17 must be in 1\.\.16"),
    (dict(candidates=-1), sluice.InvalidArgument, "candidates = -1 must"),
    (dict(candidates=2**32 + 3), sluice.InvalidArgument, "candidates = 4294967299 must"),
    (dict(candidates=3.0), sluice.InvalidType, "candidates = 3.0 must be an integer"),
    (dict(candidates=None), sluice.InvalidType, "candidates = None must be an integer"),
    (dict(candidates=True), sluice.InvalidType, "candidates = True must be an integer"),
    (dict(a="int3"), sluice.InvalidArgument, "a = 'int3' must be one of"),
    (dict(device=None), sluice.InvalidType, "device = None must be the number of a GPU"),
    (dict(device=64), sluice.InvalidArgument, "device 64 must be in 0..63"),
    (dict(stages=3), sluice.InvalidArgument, "takes no 'stages'"),
    (dict(problem=sluice.Problem(8, 8, 8)), sluice.InvalidArgument, "not both"),
])
def test_a_race_is_refused_before_a_gpu_is_looked_for(arguments, error, mention):
    with pytest.raises(error, match=mention):
        sluice.race(**{"m": 64, "n": 64, "k": 64, **arguments})


@pytest.mark.parametrize("problem", ["x", 3, [sluice.Problem(8, 8, 8)], sluice.plan(m=64, n=64, k=64)], ids=lambda p: type(p).__name__)
def test_a_race_is_of_one_problem(problem):
    with pytest.raises(sluice.InvalidType, match="must be a sluice.Problem"):
        sluice.race(problem)


def test_a_problem_survives_the_way_through_c():
    problem = sluice.Problem(64, 512, 256, batch=2, a="e4m3", b="e5m2", d="fp32", a_ld=256, b_ld=512, scale_a="vector",
                             scale_b="tensor", bias="bf16", activation="gelu", c="fp32", accumulate="promoted")
    assert sluice.Problem.from_struct(problem.struct()) == problem
    gated = sluice.Problem(64, 512, 256, b="bf16", d="e4m3", activation="silu", gated=True, scale_d="tensor")
    assert sluice.Problem.from_struct(gated.struct()) == gated
    gradient = sluice.Problem(64, 512, 256, b="bf16", d="fp32", update="add", deterministic=False)
    assert sluice.Problem.from_struct(gradient.struct()) == gradient
    for packed in (sluice.WeightFormat("int8", 0, "bf16", True), sluice.WeightFormat(order="byte")):
        few_bits = sluice.Problem(64, 512, 256, packed=packed, a_ld=264, c="bf16", c_ld=520, d="bf16", activation="silu", norm_a=True)
        assert sluice.Problem.from_struct(few_bits.struct()) == few_bits


def test_gradients_are_added_to_d():
    sizes = dict(m=256, n=512, k=65536, d="fp32", update="add")
    ordered, any_order = sluice.plan(**sizes), sluice.plan(**sizes, deterministic=False)
    assert "Update::add" in ordered.config and "Update::add" in any_order.config
    assert "Combine::add" not in ordered.config
    assert "Combine::add" in any_order.config and any_order.workspace_bytes == 0


def test_a_plan_of_two_kernels_shows_both():
    plan = sluice.plan(m=64, n=256, k=4096, schedule="cooperative", tile=(128, 128), cluster=(1, 1), splits=4,
                       combine="separate")
    assert ["sum_parts" in unit for unit in plan.units] == [False, True]
    assert sluice.plan(m=0, n=256, k=64).units == ()


BAD = [
    (dict(m=-1, n=8, k=8), sluice.InvalidSize, ValueError, ["m = -1", "negative"]),
    (dict(m=8, n=8, k=8, a="int8"), sluice.InvalidArgument, ValueError, ["int8", "e4m3"]),
    (dict(m=8, n=8, k=8, a="fp32"), sluice.InvalidType, TypeError, ["fp32"]),
    (dict(m=8, n=8, k=100, a="e4m3"), sluice.Misaligned, ValueError, ["100", "16"]),
    (dict(m=8.5, n=8, k=8), sluice.InvalidType, TypeError, ["8.5", "integer"]),
    (dict(m=8, k=8), sluice.InvalidArgument, ValueError, ["n is missing"]),
    (dict(m=8, n=8, k=8, update="sum"), sluice.InvalidArgument, ValueError, ["update = 'sum'", "set, add"]),
    (dict(m=8, n=8, k=8, deterministic="no"), sluice.InvalidArgument, ValueError, ["deterministic = 'no'", "True or False"]),
    (dict(m=8, n=8, k=8, update="add"), sluice.InvalidType, TypeError, ["fp32"]),
    (dict(m=8, n=8, k=8, colour=1), sluice.InvalidArgument, ValueError, ["plan takes no 'colour'", "a_ld", "norm_a", "schedule", "ctas"]),
    (dict(m=8, n=8, k=8, norm_a=True), sluice.InvalidArgument, ValueError, ["norm_a = True and packed = None"]),
    (dict(m=8, n=8, k=8, schedule="narrow"), sluice.InvalidConfig, ValueError, ["schedule = narrow is for packed weights"]),
    (dict(m=8, n=8, k=8, k_groups=2), sluice.InvalidConfig, ValueError, ["k_groups", "for packed weights"]),
    (dict(m=8, n=8, k=8, lda=8), sluice.InvalidArgument, ValueError, ["'lda'", "did you mean a_ld?"]),
    (dict(m=8, n=8, k=8, act="relu"), sluice.InvalidArgument, ValueError, ["'act'", "did you mean activation?"]),
    (dict(m=8, n=8, k=8, a="fp8"), sluice.InvalidArgument, ValueError, ["'fp8'", "did you mean e4m3?"]),
    (dict(m=8, n=8, k=8, activation="gleu"), sluice.InvalidArgument, ValueError, ["did you mean gelu?"]),
    (dict(m=8, n=8, k=8, schedule="pong"), sluice.InvalidArgument, ValueError, ["pong", "ping_pong"]),
    (dict(m=8, n=8, k=8, tile=(64,)), sluice.InvalidArgument, ValueError, ["tile"]),
    (dict(m=8, n=8, k=8, tile=(63, 64)), sluice.InvalidConfig, ValueError, ["63"]),
    (dict(m=8, n=8, k=8, a="e4m3", b_major="mn"), sluice.InvalidType, TypeError, ["mn"]),
    (dict(m=2**63, n=8, k=8), sluice.InvalidSize, ValueError, ["2^63"]),
]


@pytest.mark.parametrize("fields, kind, builtin, mentions", BAD, ids=[str(sorted(row[0].items())) for row in BAD])
def test_bad_problems_raise_what_fits_and_say_why(fields, kind, builtin, mentions):
    with pytest.raises(kind) as caught:
        sluice.plan(**fields)
    assert isinstance(caught.value, builtin) and isinstance(caught.value, sluice.Error)
    for word in mentions:
        assert word in str(caught.value)


def test_an_unknown_keyword_of_a_class_or_function_is_named():
    with pytest.raises(sluice.InvalidArgument, match="Problem takes no 'scale': did you mean scale_a?"):
        sluice.Problem(8, 8, 8, scale="vector")
    with pytest.raises(sluice.InvalidArgument, match="WeightFormat takes no 'groups': did you mean group?"):
        sluice.WeightFormat(groups=64)
    with pytest.raises(sluice.InvalidArgument, match="holdings takes no 'gpu': it takes device"):
        sluice.holdings(gpu=0)


@pytest.mark.parametrize("name, here", [("bfloat16", "bf16"), ("torch.bfloat16", "bf16"), ("float16", "fp16"), ("half", "fp16"),
                                        ("torch.float16", "fp16"), ("float8_e4m3fn", "e4m3"), ("torch.float8_e4m3fn", "e4m3"),
                                        ("float8_e5m2", "e5m2")])
def test_torchs_names_of_types_are_taken(name, here):
    assert bytes(sluice.Problem(16, 64, 64, a=name).struct()) == bytes(sluice.Problem(16, 64, 64, a=here).struct())
    conv = [sluice.Convolution("fprop", (2, 64, 8, 8), (64, 3, 3), dtype=kind).struct() for kind in (name, here)]
    assert bytes(conv[0]) == bytes(conv[1])
    if here in ("bf16", "fp16"):
        assert sluice.WeightFormat(scale=name).number == sluice.WeightFormat(scale=here).number
        packed = [sluice.Problem(16, 64, 128, packed=sluice.WeightFormat(), a=kind, d=kind, bias=kind).struct() for kind in (name, here)]
        assert bytes(packed[0]) == bytes(packed[1])


@pytest.mark.parametrize("names, mention", [(dict(dtype="e4m3"), "did you mean a?"), (dict(out_dtype="fp32"), "did you mean d?"),
                                            (dict(epilogue="relu"), "did you mean activation?"), (dict(tille=(8, 8)), "did you mean tile?"),
                                            (dict(use_fast_accum=True), "did you mean accumulate?"),
                                            (dict(scale_x="vector"), "did you mean scale_a?"), (dict(x="bf16"), "did you mean a?"),
                                            (dict(norm_x=True), "did you mean norm_a?"), (dict(weights=None), "did you mean packed?"),
                                            (dict(token_blocks=1), "did you mean tile?"), (dict(parts=2), "did you mean cluster?"),
                                            (dict(x_stages=2), "did you mean stages?"), (dict(stage=2), "did you mean stages?"),
                                            (dict(k_group=2), "did you mean k_groups?"), (dict(pack=None), "did you mean packed?")])
def test_names_of_other_interfaces_are_understood(names, mention):
    with pytest.raises(sluice.InvalidCall) as caught:
        sluice.explain(m=8, n=64, k=64, **names)
    assert mention in str(caught.value)


@pytest.mark.parametrize("kind", [sluice.Problem, sluice.WeightFormat])
def test_docstrings_list_every_field_with_its_default(kind):
    for field in dataclasses.fields(kind):
        if field.default is dataclasses.MISSING:
            assert f"``{field.name}``" in kind.__doc__, field.name
        else:
            default = f'"{field.default}"' if isinstance(field.default, str) else field.default
            assert f"``{field.name}`` = {default}" in kind.__doc__, field.name


def test_check_raises_what_the_product_would_and_plans_nothing():
    sluice.Problem(8, 8, 8).check()
    with pytest.raises(sluice.Misaligned, match="100 must be a multiple of 16"):
        sluice.Problem(8, 8, 100, a="e4m3").check()
    sluice.Problem(8, 8, 100).check()


def test_compile_fills_a_cache_and_finds_it_again(cache, has_nvrtc):
    if not has_nvrtc:
        pytest.skip("no NVRTC")
    problems = [sluice.Problem(64, 256, 256), sluice.plan(m=64, n=256, k=256)]
    assert sluice.compile(problems) == (1, 0, 0)
    assert sluice.compile(problems, cache_dir=cache) == (0, 1, 0)
    assert any(cache.iterdir())


def test_quantisers_are_compiled_ahead_too(cache, has_nvrtc):
    if not has_nvrtc:
        pytest.skip("no NVRTC")
    # Quantisers with a gate, without one, and a gate without a quantiser.
    assert sluice.compile(quantizers=["bf16"]) == (22, 0, 0)
    assert sluice.compile(quantizers=["torch.bfloat16"]) == (0, 22, 0)
    with pytest.raises(sluice.InvalidType):
        sluice.compile(quantizers=["e4m3"])


def test_norms_are_compiled_ahead_too(cache, has_nvrtc):
    if not has_nvrtc:
        pytest.skip("no NVRTC")
    assert sluice.compile(norms=["bf16"]) == (8, 0, 0)
    with pytest.raises(sluice.InvalidType, match="bf16 or fp16"):
        sluice.compile(norms=["fp32"])


def test_compile_says_where_there_is_no_compiler(cache, tmp_path):
    with pytest.raises(sluice.ToolchainError) as caught:
        sluice.compile(sluice.Problem(64, 256, 256), nvrtc=tmp_path)
    assert str(tmp_path) in str(caught.value) and isinstance(caught.value, RuntimeError)


def test_compile_refuses_a_read_only_cache(cache, monkeypatch):
    monkeypatch.setenv("SLUICE_CACHE_READ_ONLY", "1")
    with pytest.raises(sluice.InvalidArgument, match="read-only"):
        sluice.compile([])


def test_without_a_gpu_prepare_says_so():
    try:
        sluice.prepare(sluice.Problem(64, 64, 64))
    except sluice.Error as error:
        assert error.code in ("driver", "unsupported_arch")
