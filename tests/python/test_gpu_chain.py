# SPDX-License-Identifier: Apache-2.0
"""Chains on a GPU: the bits of the ops, gaps filled by a dependent kernel, graphs and their check."""
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from gpu_helpers import BF16, E4M3, needs_gpu, real  # noqa: E402

pytestmark = needs_gpu
ROWS, WIDTH, INNER = 4, 1024, 2048


@triton.jit
def _halve(x, out, n, DEPENDENT: tl.constexpr, BLOCK: tl.constexpr):
    if DEPENDENT:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, (tl.load(x + at, mask=at < n).to(tl.float32) * 0.5).to(out.dtype.element_ty), mask=at < n)


def halve(x, out, dependent):
    _halve[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), dependent, 256, launch_pdl=dependent, num_warps=4)


class Layer:
    """A layer of a model with its buffers: norm, qkv, a gap, o, norm, gate and up, down."""

    def __init__(self, recipe, layers=3, dependent=True):
        self.dependent, self.x = dependent, real(ROWS, WIDTH) * 0.1
        self.steps, self.outputs, self.gaps = st.Steps(), [], []
        self.recipe = recipe
        hidden = self.x
        for layer in range(layers):
            hidden = getattr(self, recipe)(hidden, layer)

    def weights(self, n, k, seed):
        return real(n, k, seed=seed) * k**-0.5

    def gap(self, y, out):
        self.steps.gap("halve", writes=[out], waits=self.dependent, triggers=self.dependent)
        self.gaps.append((y, out))
        return out

    def keep(self, *tensors):
        self.outputs += tensors
        return tensors[0]

    def bf16(self, x, seed):
        s, gamma = self.steps, torch.ones(WIDTH, device="cuda", dtype=BF16)
        y = self.keep(s.linear(s.rms_norm(x, gamma), self.weights(WIDTH, WIDTH, 4 * seed), name="qkv"))
        y = self.gap(y, torch.empty_like(y))
        x = self.keep(s.linear(y, self.weights(WIDTH, WIDTH, 4 * seed + 1), c=x, name="o"))
        h = s.linear(s.rms_norm(x, gamma), self.weights(2 * INNER, WIDTH, 4 * seed + 2), gated=True, activation="silu", name="gate_up")
        return self.keep(s.linear(h, self.weights(WIDTH, INNER, 4 * seed + 3), c=x, name="down"))

    def row(self, x, seed):
        s, gamma = self.steps, torch.ones(WIDTH, device="cuda", dtype=BF16)

        def product(x8, scale, n, k, seed, name):
            w8, w_scale = st.quantize(self.weights(n, k, seed), "row")
            return self.keep(s.scaled_mm(x8, w8.t(), scale, w_scale.t(), name=name))
        y = product(*s.rms_norm_quantize(x, gamma), WIDTH, WIDTH, 4 * seed, "qkv")
        y = self.gap(y, torch.empty_like(y))
        y = product(*s.quantize(y, "row"), WIDTH, WIDTH, 4 * seed + 1, "o")
        x8, scale, x = s.rms_norm_quantize(y, gamma, residual=x)
        y = product(x8, scale, 2 * INNER, WIDTH, 4 * seed + 2, "gate_up")
        return product(*s.silu_mul_quantize(y, "row"), WIDTH, INNER, 4 * seed + 3, "down")

    def tensor(self, x, seed):
        s, gamma = self.steps, torch.ones(WIDTH, device="cuda", dtype=BF16)
        one = torch.full((1,), 1 / 64, device="cuda")

        def product(x8, n, k, seed, name, **more):
            w8, w_scale = st.quantize(self.weights(n, k, seed), "tensor")
            return self.keep(s.scaled_mm(x8, w8.t(), one, w_scale, name=name, **more))
        y = product(s.rms_norm_quantize(x, gamma, "tensor", scale=one)[0], WIDTH, WIDTH, 4 * seed, "qkv")
        y = self.gap(y, torch.empty_like(y, dtype=E4M3))
        y = product(y, WIDTH, WIDTH, 4 * seed + 1, "o")
        x8, _, x = s.rms_norm_quantize(y, gamma, "tensor", scale=one, residual=x)
        h = product(x8, 2 * INNER, WIDTH, 4 * seed + 2, "gate_up", gated=True, activation="silu", scale_d=one, out_dtype=E4M3)
        return product(h, WIDTH, INNER, 4 * seed + 3, "down")

    def int4(self, x, seed):
        s, gamma = self.steps, torch.ones(WIDTH, device="cuda", dtype=BF16)

        def product(x, n, k, seed, name, **more):
            packed = st.pack_int4(self.weights(n, k, seed), gated=more.get("gated", False))
            return self.keep(s.packed_mm(x, packed, name=name, **more))
        y = product(x, WIDTH, WIDTH, 4 * seed, "qkv", gamma=gamma)
        y = self.gap(y, torch.empty_like(y))
        x = product(y, WIDTH, WIDTH, 4 * seed + 1, "o", c=x)
        h = product(x, 2 * INNER, WIDTH, 4 * seed + 2, "gate_up", gamma=gamma, gated=True, activation="silu")
        return product(h, WIDTH, INNER, 4 * seed + 3, "down", c=x)

    def run(self, chain, dependent=None):
        for part in range(chain.parts):
            chain.run(part)
            if part < len(self.gaps):
                halve(*self.gaps[part], self.dependent if dependent is None else dependent)

    def poison(self):
        for out in self.outputs:
            out.view(torch.uint8).fill_(0xFF)
        for _, out in self.gaps:
            out.view(torch.uint8).fill_(0xFF)

    def results(self):
        torch.cuda.synchronize()
        return [out.view(torch.uint8).clone() for out in self.outputs]


def same(first, second):
    return all(torch.equal(x, y) for x, y in zip(first, second))


def captured(layer, chain, dependent=None, between=None):
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    layer.run(chain, dependent)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        layer.run(chain, dependent)
        if between is not None:
            between()
            layer.run(chain, dependent)
    return graph


@pytest.mark.parametrize("recipe", ["bf16", "row", "tensor", "int4"])
def test_overlap_changes_no_bit(recipe):
    layer = Layer(recipe)
    off = st.Chain(layer.steps, "off")
    layer.poison()
    layer.run(off)
    wanted = layer.results()
    assert all(torch.isfinite(out.float()).all() for out in layer.outputs), "not all was written"
    assert layer.outputs[-1].float().abs().max() > 0
    for overlap in ("wait_first", "weights_first"):
        chain = st.Chain(layer.steps, overlap)
        assert chain.parts == 4 and chain.programmatic_edges == chain.kernels - 1
        graph = captured(layer, chain)
        chain.check(graph)
        for _ in range(100):
            layer.poison()
            graph.replay()
            assert same(layer.results(), wanted)
        layer.poison()
        layer.run(chain)
        assert same(layer.results(), wanted), "eager"


def test_bits_are_those_of_the_ops():
    layer = Layer("bf16", layers=1)
    layer.poison()
    layer.run(st.Chain(layer.steps, "off"))
    got = layer.results()
    x, gamma = layer.x, torch.ones(WIDTH, device="cuda", dtype=BF16)
    y = st.linear(st.rms_norm(x, gamma), layer.weights(WIDTH, WIDTH, 0))
    half = (y.float() * 0.5).to(BF16)
    x = st.linear(half, layer.weights(WIDTH, WIDTH, 1), c=x)
    h = st.linear(st.rms_norm(x, gamma), layer.weights(2 * INNER, WIDTH, 2), gated=True, activation="silu")
    assert same(got, [t.view(torch.uint8) for t in (y, x, st.linear(h, layer.weights(WIDTH, INNER, 3), c=x))])


def test_check_finds_what_is_wrong():
    layer = Layer("row")
    chain = st.Chain(layer.steps, "weights_first")
    with pytest.raises(sluice.InternalError, match="halve.*ordinary edge"):
        chain.check(captured(layer, chain, dependent=False))
    other = Layer("bf16")
    with pytest.raises(sluice.InternalError, match="step 0"):
        chain.check(captured(other, st.Chain(other.steps, "off")))
    scratch = torch.zeros(64, device="cuda")
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        for part in range(chain.parts):
            chain.run(part)
            scratch.add_(1)
            if part < len(layer.gaps):
                halve(*layer.gaps[part], True)
    with pytest.raises(sluice.InternalError, match="behind the gap|in its place"):
        chain.check(graph)


def test_ordinary_gaps_have_ordinary_edges():
    layer = Layer("row", dependent=False)
    chain = st.Chain(layer.steps, "weights_first")
    assert chain.programmatic_edges == chain.kernels - 1 - 2 * 3
    chain.check(captured(layer, chain))


def test_a_guarded_chain_gives_the_bits_of_a_plain_one():
    layer = Layer("tensor")
    guarded = st.Chain.guarded(layer.steps)
    layer.poison()
    layer.run(guarded)
    assert all(torch.isfinite(out.float()).all() for out in layer.outputs)
    assert "qkv" in guarded.explain()


def test_misuse_is_refused():
    layer = Layer("bf16", layers=1)
    chain = st.Chain(layer.steps)
    with pytest.raises(sluice.InvalidArgument, match=r"part = 2 must be in 0\.\.1"):
        chain.run(2)
    with pytest.raises(sluice.InvalidArgument, match="steps is empty"):
        st.Chain(st.Steps())
    with pytest.raises(sluice.InvalidArgument, match="overlap"):
        st.Chain(layer.steps, "on")
    with pytest.raises(sluice.InvalidType, match="steps"):
        st.Chain([])
    steps = st.Steps()
    with pytest.raises(sluice.WrongDevice):
        steps.linear(torch.zeros(4, 64, dtype=BF16), torch.zeros(64, 64, dtype=BF16))
    with pytest.raises(sluice.InvalidSize, match="weight"):
        steps.linear(layer.x, torch.zeros(64, 64, device="cuda", dtype=BF16))
    assert len(steps) == 0
