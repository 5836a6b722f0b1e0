# SPDX-License-Identifier: Apache-2.0
"""sluice.torch.attention without a GPU: the kernel in Triton's interpreter against a definition in float64, the PTX of what it
compiles to, and misuse.

Triton reads TRITON_INTERPRET when it is imported, so functions named ``interpreted_*`` run in a pytest of their own, which one test
starts.
"""
import contextlib
import itertools
import os
import pathlib
import random
import re
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

import sluice  # noqa: E402
from gpu_attention import Case, random_case, same_bits  # noqa: E402
from sluice.torch import attention  # noqa: E402
from sluice.torch.attention import Attention, splits_for  # noqa: E402

E4M3 = torch.float8_e4m3fn
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
THIS = pathlib.Path(__file__)


# ------------------------------------------------------------------------------------------------- in the interpreter
def repair_interpreter():
    """Makes Triton 3.6's interpreter right where it is not. It truncates to bf16 and carries wrongly in e4m3. With numpy 2.4 it cannot
    convert its scalars to integers, for they are arrays of one element."""
    from triton.runtime import interpreter
    kinds = {"bf16": torch.bfloat16, "fp8e4nv": E4M3, "fp16": torch.float16, "fp32": torch.float32}
    holders = {torch.bfloat16: torch.int16, E4M3: torch.uint8, torch.float16: torch.int16, torch.float32: torch.int32}

    def convert(data, source, target, _rounding):
        source, target = kinds[str(source)], kinds[str(target)]
        bits = torch.from_numpy(data.copy()).contiguous().reshape(-1)
        return bits.view(source).to(target).view(holders[target]).reshape(data.shape).numpy().view(f"u{target.itemsize}")
    patched = interpreter._patch_lang_tensor

    def patch(tensor, scope):
        patched(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())
    interpreter._convert_float, interpreter._patch_lang_tensor = convert, patch


if INTERPRETED:
    repair_interpreter()


class Arrivals:
    """Runs the programs of each launch in a random order, so that any split may be the last."""

    def __init__(self, monkeypatch, seed):
        from triton.runtime.interpreter import interpreter_builder as builder
        put, begin, self.left, self.seen = builder.set_grid_idx, builder.set_grid_dim, [], []
        chosen = random.Random(seed)

        def set_grid_dim(*grid):
            begin(*grid)
            self.left = list(itertools.product(*map(range, grid)))
            chosen.shuffle(self.left)

        def set_grid_idx(*_):
            self.seen.append(self.left[-1])
            put(*self.left.pop())
        monkeypatch.setattr(builder, "set_grid_dim", set_grid_dim)
        monkeypatch.setattr(builder, "set_grid_idx", set_grid_idx)


@pytest.mark.parametrize("seed", range(40))
def interpreted_random_shapes(seed, monkeypatch):
    Arrivals(monkeypatch, seed)
    random_case(seed).make().check()


@pytest.mark.parametrize("splits, least", [(1, 1), (2, 1), (3, 1), (5, 64), (8, 1), (17, 1), (40, 1), (8, 200)])
def interpreted_all_splits(splits, least, monkeypatch):
    Arrivals(monkeypatch, splits)
    case = Case(seed=splits, dim=16, lengths=(1290, 0, 63, 64, 65, 600), kv_heads=1, group=2, most=1300, splits=splits, least=least)
    case.make().check()


@pytest.mark.parametrize("slope", [6.0, -6.0])
def interpreted_logits_that_rise_or_fall(slope, monkeypatch):
    """The largest logit is in the last block of the last split, or in the first: what was added up before must fade, or not."""
    Arrivals(monkeypatch, 1)
    case = Case(seed=2, dim=16, lengths=(1290, 100), kv_heads=1, group=1, most=1300, splits=40, least=1, rotary_dim=0).make()
    for row, length in enumerate(case.lengths):
        q = case.args["qkv"][row, :16]
        case.args["k_cache"][row, 0, :length] = torch.linspace(0, slope, length).half()[:, None] * q
    case.check()


@pytest.mark.parametrize("window", [None, 1, 2, 64, 65, 100, 256])
def interpreted_each_position_counts_once(window, monkeypatch):
    """All logits are 0, and position t adds to column t % 16 alone: the result has the count of each column, exactly."""
    Arrivals(monkeypatch, window or 0)
    lengths = (0, 1, 63, 64, 65, 128, 250)
    case = Case(seed=1, dim=16, kv_heads=1, group=1, lengths=lengths, most=256, splits=3, least=1, window=window, rotary_dim=0).make()
    qkv, out = case.args["qkv"], case.args["out"]
    qkv[:, :16] = 0
    for row, length in enumerate(lengths):
        for cache in (case.args["k_cache"], case.args["v_cache"]):
            cache[row, 0, :length] = torch.nn.functional.one_hot(torch.arange(length) % 16, 16).to(cache.dtype)
        qkv[row, 32:] = torch.nn.functional.one_hot(torch.tensor(length % 16), 16)
    case.attention(**case.args)
    for row, length in enumerate(lengths):
        seen = range(max(0, length + 1 - (window or 10**6)), length + 1)
        counts = torch.bincount(torch.tensor(seen) % 16, minlength=16)
        assert torch.equal((out[row].float() * len(seen)).round().long(), counts), (length, window)


def interpreted_two_calls_and_two_orders_give_the_same_bits(monkeypatch):
    outs = []
    for order in range(3):
        with monkeypatch.context() as patch:
            arrivals = Arrivals(patch, order)
            case = Case(seed=5, lengths=(150, 70, 1), splits=4, norms="qk", out_scale=0.01 if order == 2 else None).make()
            outs.append(case.check())
            assert any(split == 0 for split, *_ in arrivals.seen[-6:]) or order
            before = case.args["out"].clone()
            case.args["out"].fill_(float("nan"))
            case.attention(**case.args)
            assert same_bits(case.args["out"], before)
    assert torch.equal(outs[0], outs[1])


def interpreted_a_decode_of_steps(monkeypatch):
    """One object writes position after position, in turns for two layers, and reads what it wrote itself."""
    Arrivals(monkeypatch, 3)
    case = Case(seed=9, dim=32, lengths=(0, 62), most=80, splits=4, least=1, norms="qk").make()
    layers = [{**case.args, "k_cache": case.args["k_cache"].clone(), "v_cache": case.args["v_cache"].clone()} for _ in range(2)]
    for step in range(4):
        for layer in layers:
            layer["qkv"].copy_(torch.randn(layer["qkv"].shape, generator=torch.Generator().manual_seed(step)))
            case.args = layer
            case.check()
        case.args["lengths"] += 1
        case.lengths = tuple(case.args["lengths"].tolist())


def interpreted_a_row_does_not_depend_on_others(monkeypatch):
    full = Case(seed=11, lengths=(150, 70, 199, 0), splits=4).make()
    alone = Case(seed=11, lengths=(-1, 70, -1, -1), splits=4).make()
    for name in ("k_cache", "v_cache"):
        alone.args[name][1] = full.args[name][1]
    for case in (full, alone):
        case.attention(**case.args)
    assert same_bits(full.args["out"][1], alone.args["out"][1])
    assert not alone.args["out"][[0, 2, 3]].any()


def interpreted_large_logits_and_saturation():
    case = Case(seed=3, lengths=(130, 20), splits=4, least=1).make()
    case.args["qkv"].mul_(40.0)
    case.check()
    case = Case(seed=4, lengths=(130, 20), splits=4, least=1, out_scale=1e-4).make()
    case.check()
    assert (case.args["out"].float().abs() == 448).any()


def interpreted_inactive_rows():
    """Rows with a negative length, a length that no position is left for, or a slot that does not exist, write zeros alone."""
    case = Case(seed=6, lengths=(-2**31, -1, 64, 2**31 - 1, 5, 6, 7), most=64, window=3, mixed=True, out_scale=0.1).make()
    slots = case.args["slots"]
    slots[4], slots[5] = -1, case.args["k_cache"].shape[0]
    case.check()
    assert not case.args["out"][:6].float().any() and case.args["out"][6].float().any()


def interpreted_caches_in_one_tensor():
    case = Case(seed=7, lengths=(100, 3), kv_heads=1, dim=16).make()
    both = torch.stack((case.args["k_cache"], case.args["v_cache"]), 1)
    case.args.update(k_cache=both[:, 0], v_cache=both[:, 1])
    case.check()


def interpreted_writes_names_all_that_is_written():
    case = Case(seed=8, lengths=(150, 3), splits=4).make()
    written = case.attention.writes(*(case.args[name] for name in ("k_cache", "v_cache", "out")))
    owned = [x for x in vars(case.attention).values() if isinstance(x, torch.Tensor)]
    before = [(x, x.clone()) for x in (*case.args.values(), *owned) if x is not None]
    case.attention(**case.args)
    changed = [x for x, old in before if not same_bits(x, old)]
    assert len(changed) >= 5 and all(any(x is y for y in written) for x in [*changed, case.attention._tickets])


@pytest.mark.parametrize("least, splits", [(64, 3), (65, 2), (128, 2), (150, 1), (1000, 1)])
def interpreted_least_keeps_a_short_sequence_whole(least, splits):
    """Parts are written by as many splits as the length needs, and by none if one suffices."""
    case = Case(seed=8, lengths=(150,), splits=8, least=least).make()
    case.check()
    parts = case.attention._parts.view(2, 8, 4, 64)
    written = (~parts.isnan()).flatten(2).all(2).sum(1)
    assert written.tolist() == [splits if splits > 1 else 0] * 2


@pytest.mark.parametrize("order", range(6))
def interpreted_columns_behind_a_head_are_not_read(order, monkeypatch):
    """A head of 24 or 80 columns is padded: the padding is the next position, which is poisoned until split 0 writes it."""
    Arrivals(monkeypatch, order)
    for dim in (24, 80):
        Case(seed=order, dim=dim, lengths=(150, 127, 199), splits=8, least=1, kv_heads=1).make().check()


def misuse():
    good = dict(heads=4, kv_heads=2, head_dim=16, rotary=(torch.ones(32, 8), torch.ones(32, 8)), rows=2, max_length=32,
                dtype=torch.bfloat16, device="cpu")
    table = torch.ones(32, 8)
    for change, kind, text in (
            (dict(heads=5), sluice.InvalidArgument, "multiple of kv_heads"), (dict(heads=66), sluice.InvalidArgument, "at most 32 times"),
            (dict(kv_heads=0), sluice.InvalidArgument, "kv_heads = 0"), (dict(heads=True), sluice.InvalidArgument, "heads = True"),
            (dict(head_dim=20), sluice.InvalidArgument, "multiple of 8"), (dict(head_dim=512), sluice.InvalidArgument, "from 16 to 256"),
            (dict(rows=0), sluice.InvalidArgument, "rows = 0"), (dict(max_length=2**28), sluice.InvalidArgument, "31 bits"),
            (dict(epsilon=0), sluice.InvalidArgument, "epsilon"),
            (dict(softmax_scale=float("nan")), sluice.InvalidArgument, "softmax_scale"),
            (dict(window=0), sluice.InvalidArgument, "window"), (dict(softcap=-1.0), sluice.InvalidArgument, "softcap"),
            (dict(dtype=torch.float32), sluice.InvalidType, "bfloat16"), (dict(splits=0), sluice.InvalidArgument, "splits"),
            (dict(least=0), sluice.InvalidArgument, "least"), (dict(dependent=1), sluice.InvalidArgument, "dependent"),
            (dict(device="meta"), sluice.WrongDevice, "device = meta"), (dict(rotary=table), sluice.InvalidArgument, "two tensors"),
            (dict(rotary=(table, table[:31])), sluice.InvalidSize, "rotary's sin"),
            (dict(max_length=33), sluice.InvalidSize, "at least max_length"),
            (dict(rotary=(table.bfloat16(), table)), sluice.InvalidType, "rotary's cos"),
            (dict(rotary=(torch.ones(32, 9),) * 2), sluice.InvalidSize, "head_dim / 2 = 8"),
            (dict(rotary=(torch.ones(32, 16)[:, ::2],) * 2), sluice.InvalidStride, "contiguous")):
        yield lambda change=change: Attention(**{**good, **change}), kind, text
    case = Case(seed=1, lengths=(1, 2), dim=16, most=32).make()
    qkv, cache, out = (case.args[name] for name in ("qkv", "k_cache", "out"))
    for change, kind, text in (
            (dict(qkv=qkv.float()), sluice.InvalidType, "qkv has type"), (dict(qkv=qkv[:1]), sluice.InvalidSize, "qkv has shape"),
            (dict(qkv=None), sluice.InvalidType, "qkv is a NoneType"), (dict(qkv=qkv.to("meta")), sluice.WrongDevice, "qkv is on meta"),
            (dict(qkv=qkv.t().contiguous().t()), sluice.InvalidStride, "qkv has strides"),
            (dict(qkv=qkv[:1].expand(2, -1)), sluice.InvalidStride, "overlap"),
            (dict(k_cache=cache[:, :1]), sluice.InvalidSize, "k_cache has shape"),
            (dict(v_cache=cache[0]), sluice.InvalidSize, "v_cache has shape"),
            (dict(k_cache=cache.transpose(2, 3).contiguous().transpose(2, 3)), sluice.InvalidStride, "k_cache has strides"),
            (dict(k_cache=cache[:1]), sluice.InvalidSize, "the same number"),
            (dict(k_cache=cache[:1], v_cache=cache[:1].clone()), sluice.InvalidSize, "row i uses slot i"),
            (dict(v_cache=cache), sluice.Aliasing, "v_cache overlaps k_cache"),
            (dict(out=qkv[:, :out.shape[1]]), sluice.Aliasing, "out overlaps qkv"),
            (dict(out=cache.view(-1)[:out.numel()].view(out.shape)), sluice.Aliasing, "out overlaps k_cache"),
            (dict(lengths=case.args["lengths"].long()), sluice.InvalidType, "lengths has type"),
            (dict(lengths=case.args["lengths"][:1]), sluice.InvalidSize, "lengths has shape"),
            (dict(slots=torch.zeros(4, dtype=torch.int32)[::2]), sluice.InvalidSize, "slots has shape"),
            (dict(out=out.float()), sluice.InvalidType, "out has type"), (dict(out=out[:, 1:]), sluice.InvalidSize, "out has shape"),
            (dict(out_scale=torch.ones(1)), sluice.InvalidArgument, "out_scale is given"),
            (dict(out=out.to(E4M3)), sluice.InvalidArgument, "out_scale is given"),
            (dict(out=out.to(E4M3), out_scale=torch.ones(2)), sluice.InvalidSize, "out_scale has shape"),
            (dict(out=out.to(E4M3), out_scale=torch.ones(1).half()), sluice.InvalidType, "out_scale has type"),
            (dict(q_norm=torch.ones(8)), sluice.InvalidSize, "q_norm has shape"),
            (dict(k_norm=torch.ones(16).double()), sluice.InvalidType, "k_norm")):
        yield lambda change=change: case.attention(**{**case.args, **change}), kind, text


def interpreted_misuse():
    count = 0
    for call, kind, text in misuse():
        with pytest.raises(kind, match=re.escape(text)):
            call()
        count += 1
    assert count > 40


def test_the_interpreter_agrees_with_the_definition():
    """Runs all of the above in a pytest that has Triton's interpreter."""
    names = re.findall(r"^def (interpreted_\w+)", THIS.read_text(), re.M)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", "-o", "python_functions=interpreted_*",
                           str(THIS)], env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}, text=True, capture_output=True,
                          timeout=1500)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout.splitlines()[-1] and len(names) >= 10
    assert all("PASSED" in done.stdout and f"::{name}" in done.stdout for name in names)


# ------------------------------------------------------------------------------------------------- what it compiles to
class Hopper:
    """Stands in for Triton's driver: kernels are compiled for sm_90, and no GPU is there to launch them."""

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


@pytest.fixture
def compiled(monkeypatch, tmp_path):
    """Returns a function that compiles what a case would launch, and returns Triton's compiled kernel."""
    from triton.runtime.driver import driver
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    monkeypatch.setattr(driver, "_active", Hopper())
    monkeypatch.setattr(Attention, "_check_device", lambda self: None)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    kernel, made = attention._attend, []

    class Launcher:
        def __getitem__(self, grid):
            return lambda *args, **options: made.append(kernel.warmup(*args, grid=grid, **options))
    monkeypatch.setattr(attention, "_attend", Launcher())

    def compiled_of(case, **options):
        kernel.device_caches.clear()
        case.make(**options).attention(**case.args)
        return made[-1]
    return compiled_of


MEMORY = re.compile(r"^\s*(?:@!?%\w+ )?((?:ld|st|atom|red|cp|prefetch|membar|fence)\.[\w.]+)", re.M)


def touches(ptx):
    """Returns the instructions in front of the wait that read or write memory, but for the kernel's parameters."""
    return [found for found in MEMORY.findall(ptx[:ptx.index("griddepcontrol.wait")]) if not found.startswith("ld.param")]


CASES = {"8b": dict(dim=128, kv_heads=8, group=4, kind=torch.bfloat16, most=4096, lengths=(1,), least=None),
         "qwen3": dict(dim=128, kv_heads=8, group=4, kind=torch.bfloat16, most=256, lengths=(1,) * 16, norms="qk", mixed=True,
                       out_scale=0.1),
         "phi": dict(dim=80, kv_heads=32, group=1, rotary_dim=32, softcap=30.0), "wide": dict(dim=256, kv_heads=1, group=16, window=100),
         "multi-query": dict(dim=64, kv_heads=1, group=32, rotary_dim=0), "96": dict(dim=96, kv_heads=2, group=5, norms="q")}


@pytest.mark.skipif(INTERPRETED, reason="compiles")
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_touched_before_the_wait(name, compiled):
    """A load moved in front of gdc_wait() fails this, and so does gdc_launch_dependents() behind it."""
    kernel = compiled(Case(seed=1, **CASES[name]))
    ptx = kernel.asm["ptx"]
    assert kernel.metadata.launch_pdl
    assert ptx.count("griddepcontrol.launch_dependents") == ptx.count("griddepcontrol.wait;") == 1
    assert ptx.index("griddepcontrol.launch_dependents") < ptx.index("griddepcontrol.wait")
    assert touches(ptx) == [] and len(MEMORY.findall(ptx)) > 20
    assert not re.search(r"\bbra\b|\bret\b", ptx[ptx.index("{"):ptx.index("griddepcontrol.wait")]), "a CTA might leave without waiting"
    assert re.search(r"bar\.sync[^@]*@%p\d+ atom\.global\.gpu\.acq_rel\.add", ptx), "a ticket is taken behind a barrier of the CTA"
    assert "ld.global.nc" not in ptx
    assert kernel.metadata.shared <= 113 * 1024, "two CTAs fit one SM"
    ptxas = pathlib.Path(triton.__file__).parent / "backends/nvidia/bin/ptxas"
    spilled = subprocess.run([str(ptxas), "-arch=sm_90a", "-v", "-o", os.devnull, "-"], input=ptx, text=True, capture_output=True)
    assert "0 bytes spill stores" in spilled.stderr, spilled.stderr


@pytest.mark.skipif(INTERPRETED, reason="compiles")
def test_an_ordinary_launch_neither_waits_nor_triggers(compiled):
    case = Case(seed=1)
    kernel = compiled(case, dependent=False)
    assert not kernel.metadata.launch_pdl and "griddepcontrol" not in kernel.asm["ptx"]
    assert (case.attention.waits, case.attention.triggers) == (False, False)
    case.make()
    assert (case.attention.waits, case.attention.triggers, case.attention.nodes) == (True, True, 1)


@pytest.mark.skipif(INTERPRETED, reason="compiles")
def test_the_check_of_the_wait_can_fail():
    assert touches("ld.param.b64 %rd1, [p];\n ld.global.b32 %r1, [%rd1];\n @%p1 st.global.b32 [%rd2], 0;\n griddepcontrol.wait;") == [
        "ld.global.b32", "st.global.b32"]


@pytest.mark.skipif(INTERPRETED, reason="compiles")
def test_buckets_share_kernels(compiled):
    """Rows, slots, lengths of caches and splits are no constants of the kernel: 5 buckets compile at most 2."""
    hashes = {compiled(Case(seed=1, lengths=(1,) * rows, most=most, splits=splits)).hash
              for rows, most, splits in ((1, 200, 1), (2, 64, 2), (3, 128, 16), (5, 100, 5), (16, 256, 3))}
    assert len(hashes) <= 2


@pytest.mark.skipif(INTERPRETED, reason="on the host")
def test_splits_fill_the_sms():
    assert [splits_for(rows, 8, 8192, 128) for rows in (1, 2, 4, 8, 16, 32, 64)] == [16, 16, 8, 4, 1, 1, 1]
    assert splits_for(1, 2, 8192, 128) == 64 and splits_for(1, 8, 256, 128) == 2 and splits_for(1, 8, 1, 128) == 1
    assert all(1 <= splits_for(rows, kv, most, 128) <= 64 for rows in (1, 7, 999) for kv in (1, 5, 64) for most in (1, 127, 2**20))


@pytest.mark.skipif(INTERPRETED, reason="on the host")
def test_host_memory_is_refused():
    with pytest.raises(sluice.WrongDevice, match="device = cpu must be a GPU"):
        Attention(heads=1, kv_heads=1, head_dim=64, rotary=None, rows=1, max_length=8, device="cpu")
