# SPDX-License-Identifier: Apache-2.0
"""Chains in C and Python on the fake driver: steps from arrays, parts and gaps, and misuse."""
import ctypes

import pytest

import sluice
from fake_gpu import FORMAT, OnGpu, a_blob, launches_of, lib, on_gpu
from sluice import _binding as f
from sluice._library import ChainOptionsStruct, GapStruct, RangeStruct, default_device

OFF, WEIGHTS_FIRST, TUNED = 0, 2, 3
AS_PLANNED, GUARDED, TUNE = 0, 1, 2


class Chain:
    """Steps and the chain of them, freed with the object."""

    def __init__(self):
        self.steps, self.chain = ctypes.c_void_p(), ctypes.c_void_p()
        lib.sluice_steps_create(ctypes.byref(self.steps))

    def __del__(self):
        lib.sluice_chain_free(self.chain)
        lib.sluice_steps_free(self.steps)

    def product(self, *pairs, name="product"):
        f.add_product(f.STEPS, self.steps.value, *pairs)
        lib.sluice_steps_name(self.steps, name.encode())

    def gap(self, writes=(), waits=1, triggers=1, nodes=1, count=None, stand_in_us=5.0):
        ranges = (RangeStruct * max(len(writes), 1))(*[RangeStruct(w.managed.data, 64) for w in writes])
        gap = GapStruct(nodes, 0, waits, triggers, len(writes) if count is None else count, ranges, stand_in_us)
        lib.sluice_steps_add_gap(self.steps, ctypes.byref(gap))

    def make(self, overlap=TUNED, search=AS_PLANNED, seconds=0.0, device=0):
        options = ChainOptionsStruct(overlap, search, seconds, 0)
        lib.sluice_chain_create(default_device(device), self.steps, ctypes.byref(options), ctypes.byref(self.chain))
        return self

    def run(self, part):
        return launches_of(lambda: f.chain_run(f.CHAIN, self.chain.value, f.PART, part, f.A, on_gpu("fp32", (1,))))

    @property
    def text(self):
        return lib.sluice_chain_text(self.chain).decode()


@pytest.fixture
def layer():
    """norm, qkv, a gap, o, norm with a quantiser, a packed product."""
    chain = Chain()
    x, normed, qkv, att, o = (on_gpu("bf16", (16, 256)) for _ in range(5))
    codes, one, out = on_gpu("e4m3", (16, 256)), on_gpu("fp32", (1,)), on_gpu("bf16", (16, 192))
    gamma = on_gpu("bf16", (256,))
    written = OnGpu("bf16", (16, 256))
    f.add_norm(f.STEPS, chain.steps.value, f.INPUT, x, f.GAMMA, gamma, f.OUTPUT, normed)
    chain.product(f.INPUT, normed, f.WEIGHT, on_gpu("bf16", (256, 256)), f.OUT, qkv, name="qkv")
    chain.gap([written])
    chain.product(f.INPUT, att, f.WEIGHT, on_gpu("bf16", (256, 256)), f.OUT, o, f.C, x, f.BETA, 1.0, name="o")
    f.add_norm(f.STEPS, chain.steps.value, f.INPUT, o, f.GAMMA, gamma, f.OUTPUT, codes, f.SCALES, one, f.GRANULARITY, 0)
    chain.product(f.X, o, f.PACKED_BLOB, a_blob(192, 256), f.OUT, out, *f.weights_fields((*FORMAT.values, 192, 256)), name="packed")
    return chain


def test_a_layer_is_enqueued_part_by_part(layer):
    assert lib.sluice_steps_count(layer.steps) == 6
    layer.make()
    assert (lib.sluice_chain_parts(layer.chain), lib.sluice_chain_kernels(layer.chain)) == (2, 6)
    assert lib.sluice_chain_programmatic_edges(layer.chain) == 5
    assert [layer.run(part) for part in (0, 1, 0)] == [2, 3, 2]
    for word in ("qkv", "1 of a gap, waits, overlapped", "packed", "all 6 steps"):
        assert word in layer.text, layer.text
    with pytest.raises(sluice.InternalError, match="no tensor on a GPU"):
        f.chain_run(f.CHAIN, layer.chain.value, f.PART, 0)
    for part in (-1, 2):
        with pytest.raises(sluice.InvalidArgument, match=r"must be in 0\.\.1"):
            layer.run(part)


def test_steps_outlive_their_arrays_descriptions_and_may_be_used_twice(layer):
    layer.make(OFF)
    assert lib.sluice_chain_programmatic_edges(layer.chain) == 1, "the gap's own promise"
    again = Chain()
    options = ChainOptionsStruct(WEIGHTS_FIRST, AS_PLANNED, 0.0, 0)
    lib.sluice_chain_create(default_device(0), layer.steps, ctypes.byref(options), ctypes.byref(again.chain))
    lib.sluice_chain_free(layer.chain)
    layer.chain = ctypes.c_void_p()
    assert again.run(0) == 2


def test_chains_are_guarded_and_tuned(layer):
    layer.make(TUNED, GUARDED)
    assert lib.sluice_chain_parts(layer.chain) == 2
    with pytest.raises(sluice.InvalidArgument, match="times the .* MB of L2"):
        Chain.make(layer, TUNED, TUNE, 0.1)
    with pytest.raises(sluice.InvalidArgument, match="seconds = -1"):
        Chain.make(layer, TUNED, TUNE, -1.0)


def test_misuse_is_refused():
    chain = Chain()
    x, w, out = on_gpu("bf16", (16, 256)), on_gpu("bf16", (128, 256)), on_gpu("bf16", (16, 128))
    with pytest.raises(sluice.InvalidSize, match="out has shape"):
        chain.product(f.INPUT, x, f.WEIGHT, w, f.OUT, on_gpu("bf16", (16, 64)))
    with pytest.raises(sluice.InvalidArgument, match="nodes = 0"):
        chain.gap(nodes=0)
    with pytest.raises(sluice.InvalidArgument, match="waits = 2"):
        chain.gap(waits=2)
    with pytest.raises(sluice.InvalidArgument, match="write_count = -2"):
        chain.gap(count=-2)
    for bad in (RangeStruct(None, 64), RangeStruct(4096, -1)):
        gap = GapStruct(1, 0, 1, 1, 1, (RangeStruct * 1)(bad), 5.0)
        with pytest.raises(sluice.InvalidArgument, match=r"writes\[0\] has"):
            lib.sluice_steps_add_gap(chain.steps, ctypes.byref(gap))
    with pytest.raises(sluice.InvalidArgument, match="no step to name"):
        lib.sluice_steps_name(chain.steps, b"x")
    with pytest.raises(sluice.InvalidArgument, match="overlap"):
        chain.make(overlap=4)
    workspace = sluice.Workspace(0, 1024)
    with pytest.raises(sluice.InvalidArgument, match="workspace is given"):
        chain.product(f.INPUT, x, f.WEIGHT, w, f.OUT, out, f.WORKSPACE, workspace.address)
    assert lib.sluice_steps_count(chain.steps) == 0
    chain.product(f.INPUT, x, f.WEIGHT, w, f.OUT, out)
    chain.gap(count=-1)
    chain.product(f.INPUT, x, f.WEIGHT, w, f.OUT, out, name="behind")
    with pytest.raises(sluice.Aliasing, match="behind.*does not say what it writes"):
        chain.make()
    scale = on_gpu("fp32", (1,))
    f.add_quantizer(f.STEPS, chain.steps.value, f.INPUT, x, f.OUTPUT, on_gpu("e4m3", (16, 256)), f.SCALES, scale)
    with pytest.raises(sluice.InvalidArgument, match="takes two kernels"):
        chain.make(OFF)


def test_arrays_of_another_gpu_are_refused():
    chain = Chain()
    x, w, out = (on_gpu("bf16", shape, device=1) for shape in ((16, 256), (128, 256), (16, 128)))
    chain.product(f.INPUT, x, f.WEIGHT, w, f.OUT, out, name="far")
    with pytest.raises(sluice.WrongDevice, match=r"step 0 \(far\)"):
        chain.make()
