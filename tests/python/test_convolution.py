# SPDX-License-Identifier: Apache-2.0
"""Convolutions as problems: their fields, plans and errors, and the problem that arrays in host memory
describe."""
import ctypes
import dataclasses

import pytest

import sluice
from sluice import _library, convolutions
from sluice._library import lib

LAYER = dict(op="fprop", input=(2, 64, 14, 14), filter=(128, 3, 3), padding=1)


@pytest.mark.parametrize("op", convolutions.CONV_OPS)
def test_a_convolution_is_planned_as_a_product_is(op):
    convolution = sluice.Convolution(**{**LAYER, "op": op})
    plan = sluice.plan(convolution)
    assert plan.problem is convolution and plan.estimate_us > 1 and "sluice_entry" in plan.units[0]
    assert repr(plan).startswith(f"<sluice.Plan {op} 2x64x14x14 filter 128x3x3: ")
    assert sluice.explain(convolution) == plan.text
    assert op in plan.config
    convolution.check()


def test_a_convolution_survives_the_way_through_c():
    full = sluice.Convolution("fprop", (1, 64, 4, 6, 8), (128, 3, 2, 1), (2, 1, 1), (1, 0, 2), (1, 2, 1), (0, 0, 3), "e4m3", "fp32", 96,
                              256, "bf16", "gelu", "fp32", "tensor", "vector", "none", "fast")
    assert sluice.Convolution.from_struct(full.struct()) == full
    added = sluice.Convolution("wgrad", (2, 64, 14), (64, 3), out_dtype="fp32", update="add", deterministic=False)
    assert dataclasses.replace(added, stride=(1,), padding=(0,), dilation=(1,)) == sluice.Convolution.from_struct(added.struct())
    with pytest.raises(sluice.InvalidArgument, match="this struct is of a product"):
        sluice.Convolution.from_struct(sluice.Problem(64, 64, 64).struct())


def test_the_output_has_torchs_shape():
    assert sluice.Convolution(**LAYER).output == (2, 128, 14, 14)
    assert sluice.Convolution("dgrad", (2, 64, 17, 9), (8, 3, 5), stride=2, padding=(1, 0), dilation=(2, 1)).output == (2, 8, 8, 3)
    assert sluice.Convolution("fprop", (2, 64, 5), (8, 3), padding=2, padding_after=0, stride=3).output == (2, 8, 2)
    assert sluice.Convolution("fprop", (2, 64, 2), (8, 5)).output == (2, 8, 0)
    with pytest.raises(sluice.InvalidSize, match="stride = 0 must be 1 or more"):
        sluice.Convolution("fprop", (2, 64, 2), (8, 5), stride=0).output  # noqa: B018


def test_one_filter_of_one_pixel_is_a_product():
    convolution = sluice.Convolution("fprop", (2, 64, 14, 14), (128, 1, 1))
    text, product = sluice.plan(convolution).config, sluice.plan(m=2 * 14 * 14, n=128, k=64).config
    assert text == product


BAD = [(dict(op="forward"), sluice.InvalidArgument, "op = 'forward' must be one of fprop, dgrad, wgrad"),
       (dict(input=(2, 64)), sluice.InvalidSize, "must have 3 to 5 numbers"),
       (dict(input="2x64"), sluice.InvalidType, "must be a tuple of integers"),
       (dict(filter=(128, 3)), sluice.InvalidSize, "must have 3 numbers"),
       (dict(stride=(1, 2, 3)), sluice.InvalidArgument, "must be one number, or 2"),
       (dict(stride=1.5), sluice.InvalidType, "stride = 1.5 must be an integer"),
       (dict(stride=9), sluice.InvalidSize, "must be at most 8"),
       (dict(dilation=2**40), sluice.InvalidSize, r"dilation\[0\] = 1099511627776 must be in"),
       (dict(dtype="fp32"), sluice.InvalidType, "fp32"),
       (dict(op="wgrad", dtype="e4m3"), sluice.InvalidType, "WGMMA reads fp8 along k only"),
       (dict(input=(2, 60, 14, 14)), sluice.InvalidSize, "channels = 60 must be a multiple of 8"),
       (dict(update="add", out_dtype="fp32"), sluice.InvalidType, "only wgrad adds"),
       (dict(input_pitch=32), sluice.InvalidStride, "32 elements apart")]


@pytest.mark.parametrize("fields, kind, mention", BAD)
def test_what_no_kernel_takes_is_refused(fields, kind, mention):
    convolution = sluice.Convolution(**{**LAYER, **fields})
    for call in (convolution.check, lambda: sluice.plan(convolution)):
        with pytest.raises(kind, match=mention):
            call()


def test_what_products_have_and_convolutions_do_not():
    convolution = sluice.Convolution(**LAYER)
    with pytest.raises(sluice.InvalidArgument, match="give a Convolution or its fields"):
        sluice.plan(convolution, m=64)
    with pytest.raises(sluice.InvalidArgument, match="a convolution has no range of numbers of rows"):
        sluice.plan_rows(convolution, (1, 8))
    with pytest.raises(sluice.InvalidArgument, match="a convolution has no range of numbers of rows"):
        sluice.compile(convolution, m=(1, 8))
    with pytest.raises(sluice.InvalidType, match="sluice.Convolution"):
        sluice.compile([3])


def test_structs_of_a_call_are_checked_without_memory():
    """torch.compile's fake tensors are checked in this way."""
    def array(shape, strides):
        n = len(shape)
        return ctypes.pointer(_library.ArrayStruct(dtype=0, ndim=n, device_type=2, shape=(ctypes.c_int64 * n)(*shape),
                                                   strides=(ctypes.c_int64 * n)(*strides)))
    call = _library.new_call()
    call.problem.conv.op = call.problem.conv.spatial = 1
    given = (b"input", array((2, 64, 9), (576, 1, 64))), (b"weight", array((8, 64, 3), (192, 1, 64))), (b"out", array((2, 8, 7), (56, 1, 8)))
    for place, (name, values) in zip((0, 1, 3), given):
        call.names[place], call.operands[place] = name, values
    lib.sluice_describe(ctypes.byref(call))
    assert sluice.Convolution.from_struct(call.problem) == sluice.Convolution("fprop", (2, 64, 9), (8, 3), (1,), (0,), (1,), out_dtype="bf16")
    call.operands[0] = array((2, 64, 9), (576, 9, 1))
    with pytest.raises(sluice.InvalidStride, match="input has shape .* those of NCW"):
        lib.sluice_describe(ctypes.byref(call))


# ---- arrays, through tvm-ffi
def image(np, shape, dtype="float16", channels=None):
    """Returns a channels_last array in torch's order; with ``channels`` a slice of a wider one."""
    wide = np.zeros((shape[0], *shape[2:], channels or shape[1]), dtype)[..., :shape[1]]
    return np.moveaxis(wide, -1, 1)


@pytest.fixture
def np():
    pytest.importorskip("tvm_ffi")
    return pytest.importorskip("numpy")


def test_arrays_become_a_convolution(np):
    x, w, y = image(np, (2, 64, 14, 14), channels=96), image(np, (128, 64, 3, 3)), image(np, (2, 128, 7, 8), "float32")
    found = sluice.convolution_of("fprop", x, w, y, stride=(2, 2), padding=(1, 1), padding_after=(0, 3), dilation=1,
                                  bias=np.zeros(128, np.float32), activation="relu", c=y)
    assert found == sluice.Convolution("fprop", (2, 64, 14, 14), (128, 3, 3), (2, 2), (1, 1), (1, 1), (0, 3), "fp16", "fp32", 96, 0,
                                       "fp32", "relu", "fp32")
    total = image(np, (128, 64, 3, 3), "float32")
    added = sluice.convolution_of("wgrad", x, total, image(np, (2, 128, 7, 8)), stride=2, padding=1, padding_after=(0, 3), update="add",
                                  deterministic=False)
    assert (added.op, added.update, added.deterministic, added.out_dtype) == ("wgrad", "add", False, "fp32")
    assert sluice.convolution_of("dgrad", x, w, image(np, (2, 128, 7, 8)), stride=2, padding=1, padding_after=(0, 3)).op == "dgrad"


def test_filters_of_one_pixel_have_any_layout(np):
    x, y = image(np, (2, 64, 5, 5)), image(np, (2, 8, 5, 5))
    for w in (np.zeros((8, 64, 1, 1), np.float16), image(np, (8, 64, 1, 1))):
        assert sluice.convolution_of("fprop", x, w, y).filter == (8, 1, 1)


def test_bad_arrays_are_refused_in_the_callers_names(np):
    x, w, y = image(np, (2, 64, 14, 14)), image(np, (128, 64, 3, 3)), image(np, (2, 128, 12, 12))
    nchw = np.zeros((2, 64, 14, 14), np.float16)
    cases = [((nchw, w, y), {}, sluice.InvalidStride, r"input.contiguous\(memory_format=torch.channels_last\)"),
             ((x, np.ascontiguousarray(w), y), {}, sluice.InvalidStride, r"weight.contiguous\(memory_format"),
             ((x, w, y[:1]), {}, sluice.InvalidSize, r"out has shape \(1, 128, 12, 12\)"),
             ((None, w, y), {}, sluice.InvalidArgument, "input is missing"),
             ((x, w, None), {}, sluice.InvalidArgument, "out is missing"),
             ((x, w, [1]), {}, sluice.InvalidType, "output = "),
             ((x, w.astype(np.float32), y), {}, sluice.InvalidType, "weight is fp32 and must be fp16 as input is"),
             ((x, w, y), dict(stride=9), sluice.InvalidSize, r"\[x is input, w is weight, y is out\]"),
             ((x[0, 0], w, y), {}, sluice.InvalidSize, "input has shape .* must have 3 dimensions"),
             ((x, w, y), dict(scale_x=np.zeros(2, np.float32)), sluice.InvalidSize, "scale_x has shape")]
    for arrays, lists, kind, mention in cases:
        with pytest.raises(kind, match=mention):
            sluice.convolution_of("fprop", *arrays, **lists)
    with pytest.raises(sluice.InvalidStride, match="grad_output has shape .* those of NCHW"):
        sluice.convolution_of("dgrad", x, w, np.ascontiguousarray(y))
    with pytest.raises(sluice.InvalidArgument, match="bias is given and op is wgrad"):
        sluice.convolution_of("wgrad", x, w, y, bias=np.zeros(128, np.float32))


def test_the_binding_refuses_what_does_not_fit(np):
    from sluice import _binding as f

    x, w, y = image(np, (2, 64, 14, 14)), image(np, (128, 64, 3, 3)), image(np, (2, 128, 12, 12))
    call = (f.OP, f.FPROP, f.INPUT, x, f.WEIGHT, w, f.OUT, y)
    with pytest.raises(sluice.InvalidArgument, match="grad_output is given and the op computes it"):
        f.convolution(*call, f.GRAD_OUTPUT, y)
    with pytest.raises(sluice.InvalidArgument, match="op = 0 must be SLUICE_FPROP"):
        f.convolution(*call[2:])
    with pytest.raises(sluice.InvalidArgument, match=r"stride\[0\] = 1.5"):
        f.convolution(*call, *f.geometry_fields((1.5, 1), (0, 0), None, (1, 1)))
    with pytest.raises(sluice.WrongDevice, match="input is in host memory"):
        f.convolution(*call)


def test_only_lists_that_differ_from_their_defaults_are_passed(np):
    from sluice import _binding as f

    def named(*lists):
        pairs = f.geometry_fields(*lists)
        names = {number: name for name, number in f.FIELDS.items()}
        return {names[field]: value for field, value in zip(pairs[::2], pairs[1::2])}

    assert named((1, 1), (0, 0), None, (1, 1)) == {}
    assert named((2, 1), (1, 1), None, (1, 3)) == {"stride[0]": 2, "dilation[1]": 3, "padding[0]": 1, "padding[1]": 1}
    assert named((1,), (2,), (0,), (1,)) == {"padding[0]": 2, "uneven_padding": 1}
    assert named((1, 1, 4), (0, 0, 0), (0, 2, 0), (1, 1, 1)) == {"stride[2]": 4, "uneven_padding": 1, "padding_after[1]": 2}
