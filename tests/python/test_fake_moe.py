# SPDX-License-Identifier: Apache-2.0
"""The steps around products of experts on the fake GPU of tests/unit, below sluice.torch: launches and refusals."""
import pytest

import sluice
from fake_gpu import CODES, launches_of, on_gpu
from sluice import _binding as f
from sluice import errors
from test_fake_chain import Chain

CODES.update({"int32": (0, 32), "int64": (0, 64)})


def routing(tokens=64, chosen=8, experts=32, rows=512, kind="int64", pitch=1, **more):
    arrays = {"topk_ids": on_gpu(kind, (tokens, chosen)), "ends": on_gpu("int32", (experts,)),
              "row_of_slot": on_gpu("int32", (tokens, chosen)), "token_of_row": on_gpu("int32", (rows,)), **more}
    return [part for name, value in arrays.items() for part in (f.FIELDS[name], value)] + [f.PITCH, pitch]


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_route_is_one_launch(kind):
    assert launches_of(lambda: f.route(*routing(kind=kind))) == 1
    assert launches_of(lambda: f.route(*routing(tokens=0, rows=0, kind=kind))) == 1, "ends are written"
    assert launches_of(lambda: f.route(*routing(topk_ids=on_gpu(kind, (64, 8), (16, 1)), pitch=128))) == 1


def test_route_refuses_what_it_cannot_read():
    for error, words, more in ((errors.InvalidType, "ids is fp32 and must be int32 or int64", {"topk_ids": on_gpu("fp32", (64, 8))}),
                               (errors.InvalidType, "ends is int64 and must be int32", {"ends": on_gpu("int64", (32,))}),
                               (errors.InvalidSize, r"row_of_slot has shape \(64, 4\)", {"row_of_slot": on_gpu("int32", (64, 4))}),
                               (errors.InvalidSize, r"experts = 2000: must be in 1..1024", {"ends": on_gpu("int32", (2000,))}),
                               (errors.InvalidSize, r"chosen = 40: must be in 1..32", {"topk_ids": on_gpu("int64", (64, 40)), "row_of_slot": on_gpu("int32", (64, 40))}),
                               (errors.InvalidStride, "token_of_row has shape", {"token_of_row": on_gpu("int32", (512,), (2,))}),
                               (errors.InvalidArgument, "token_of_row is missing", {"token_of_row": None})):
        with pytest.raises(error, match=words):
            f.route(*routing(**more))
    with pytest.raises(errors.InvalidSize, match="pitch = 0"):
        f.route(*routing(pitch=0))


def test_gather_copies_or_quantises():
    x, index = on_gpu("bf16", (64, 512)), on_gpu("int32", (200,))
    pairs = (f.INPUT, x, f.TOKEN_OF_ROW, index)
    codes = on_gpu("e4m3", (200, 512))
    assert launches_of(lambda: f.gather(*pairs, f.OUTPUT, on_gpu("bf16", (200, 512)))) == 1
    assert launches_of(lambda: f.gather(*pairs, f.OUTPUT, codes, f.SCALES, on_gpu("fp32", (200, 4)), f.GRANULARITY, 2)) == 1
    assert launches_of(lambda: f.gather(*pairs, f.OUTPUT, codes, f.SCALES, on_gpu("fp32", (200, 1)), f.GRANULARITY, 1)) == 1
    assert launches_of(lambda: f.gather(*pairs, f.OUTPUT, codes, f.SCALES, on_gpu("fp32", (1,)), f.GRANULARITY, 0, f.SCALE_GIVEN, True)) == 1
    assert launches_of(lambda: f.gather(*pairs, f.OUTPUT, codes, f.SCALES, on_gpu("fp32", (1,)), f.GRANULARITY, 0)) == 2, "amax first"
    with pytest.raises(errors.InvalidSize, match=r"output has shape \(64, 512\) and must have \(200, 512\)"):
        f.gather(*pairs, f.OUTPUT, on_gpu("bf16", (64, 512)))
    with pytest.raises(errors.InvalidSize, match="800 values"):
        f.gather(*pairs, f.OUTPUT, codes, f.SCALES, on_gpu("fp32", (200, 3)), f.GRANULARITY, 2)
    with pytest.raises(errors.InvalidArgument, match="only an e4m3 output has scales"):
        f.gather(*pairs, f.OUTPUT, on_gpu("bf16", (200, 512)), f.SCALES, on_gpu("fp32", (200, 4)))
    with pytest.raises(errors.InvalidType, match="input is fp32"):
        f.gather(f.INPUT, on_gpu("fp32", (64, 512)), f.TOKEN_OF_ROW, index, f.OUTPUT, on_gpu("fp32", (200, 512)))


def test_combine_with_and_without_its_options():
    y, rows, out = on_gpu("bf16", (512, 256)), on_gpu("int32", (4, 16, 8)), on_gpu("bf16", (4, 16, 256))
    weights, shared = on_gpu("fp32", (4, 16, 8)), on_gpu("bf16", (4, 16, 256))
    pairs = (f.Y, y, f.ROW_OF_SLOT, rows, f.OUT, out)
    assert launches_of(lambda: f.combine(*pairs)) == 1
    assert launches_of(lambda: f.combine(*pairs, f.TOPK_WEIGHTS, weights, f.SHARED, shared)) == 1
    assert launches_of(lambda: f.combine(*pairs, f.SHARED, out)) == 1, "in place"
    with pytest.raises(errors.InvalidType, match="weights is bf16 and must be fp32"):
        f.combine(*pairs, f.TOPK_WEIGHTS, on_gpu("bf16", (4, 16, 8)))
    with pytest.raises(errors.InvalidSize, match="shared"):
        f.combine(*pairs, f.SHARED, on_gpu("bf16", (4, 15, 256)))
    with pytest.raises(errors.InvalidType, match="out is fp16"):
        f.combine(f.Y, y, f.ROW_OF_SLOT, rows, f.OUT, on_gpu("fp16", (4, 16, 256)))
    with pytest.raises(errors.Aliasing, match="out"):
        f.combine(f.Y, y, f.ROW_OF_SLOT, on_gpu("int32", (512, 2)), f.OUT, y)


def test_a_layer_of_slots_is_a_chain():
    chain = Chain()
    x, ids, out = (on_gpu("e4m3", (2, 512)), on_gpu("fp32", (2, 4))), on_gpu("int32", (2, 8)), on_gpu("bf16", (2, 512))
    flat, hidden, y = on_gpu("int32", (16,)), on_gpu("bf16", (16, 256)), on_gpu("bf16", (16, 512))
    codes = on_gpu("e4m3", (16, 256)), on_gpu("fp32", (16, 2))
    slots = (f.STEPS, chain.steps.value, f.OFFS, flat, f.GROUPS, 4)
    f.add_product(*slots, f.GROUP_PITCH, 8, f.A, x[0], f.SCALE_A, x[1], f.B, on_gpu("e4m3", (32, 512, 512), (512 * 512, 1, 512)), f.SCALE_B,
                  on_gpu("fp32", (32, 4, 4)), f.GATED, True, f.ACTIVATION, 3, f.OUT, hidden)
    f.add_quantizer(f.STEPS, chain.steps.value, f.INPUT, hidden, f.OUTPUT, codes[0], f.SCALES, codes[1], f.GRANULARITY, 2)
    f.add_product(*slots, f.A, codes[0], f.SCALE_A, codes[1], f.B, on_gpu("e4m3", (32, 256, 512), (256 * 512, 1, 256)), f.SCALE_B,
                  on_gpu("fp32", (32, 4, 2)), f.OUT, y)
    f.add_combine(f.STEPS, chain.steps.value, f.Y, y, f.ROW_OF_SLOT, ids, f.OUT, out, f.EXPERTS, 32)
    chain.make()
    assert chain.run(0) == 4
    for words in ("16x512x512 in 32 groups", "16x512x256 in 32 groups", "combine 2x512 of 8 experts"):
        assert words in chain.text, chain.text
    with pytest.raises(errors.InvalidSize, match="experts = -1"):
        f.combine(f.Y, y, f.ROW_OF_SLOT, ids, f.OUT, out, f.EXPERTS, -1)


def test_experts_are_prepared_ahead():
    sluice.prepare_experts("bf16")
    with pytest.raises(errors.InvalidType, match="bf16 or fp16"):
        sluice.prepare_experts("fp32")
    done = sluice.compile(experts=["bf16"])
    assert done.failed == 0 and done.compiled + done.already_there == 2 + 2 * 5 + 2


def test_a_layer_is_a_chain():
    chain = Chain()
    x, y, out = on_gpu("bf16", (64, 512)), on_gpu("bf16", (512, 512)), on_gpu("bf16", (64, 512))
    ends, token_of_row, row_of_slot = on_gpu("int32", (32,)), on_gpu("int32", (512,)), on_gpu("int32", (64, 8))
    rows, inner = (on_gpu("e4m3", (512, 512)), on_gpu("fp32", (512, 4))), (on_gpu("e4m3", (512, 256)), on_gpu("fp32", (512, 2)))
    groups = (f.STEPS, chain.steps.value, f.OFFS, ends, f.GROUPS, 1)
    f.add_route(f.STEPS, chain.steps.value, *routing(ends=ends, token_of_row=token_of_row, row_of_slot=row_of_slot))
    f.add_gather(f.STEPS, chain.steps.value, f.INPUT, x, f.TOKEN_OF_ROW, token_of_row, f.OUTPUT, rows[0], f.SCALES, rows[1],
                 f.GRANULARITY, 2)
    f.add_product(*groups, f.A, rows[0], f.SCALE_A, rows[1], f.B, on_gpu("e4m3", (32, 512, 512), (512 * 512, 1, 512)), f.SCALE_B,
                  on_gpu("fp32", (32, 4, 4)), f.GATED, True, f.ACTIVATION, 3, f.OUT, inner[0], f.SCALE_OUT, inner[1])
    f.add_product(*groups, f.A, inner[0], f.SCALE_A, inner[1], f.B, on_gpu("e4m3", (32, 256, 512), (256 * 512, 1, 256)), f.SCALE_B,
                  on_gpu("fp32", (32, 4, 2)), f.OUT, y)
    f.add_combine(f.STEPS, chain.steps.value, f.Y, y, f.ROW_OF_SLOT, row_of_slot, f.OUT, out)
    chain.make()
    assert chain.run(0) == 5
    for words in ("route 64x8 to 32 experts", "512x512 of gathered rows by row_block", "combine 64x512 of 8 experts", "512x512x512 in 32 groups",
                  "512x512x256 in 32 groups"):
        assert words in chain.text, chain.text
    with pytest.raises(errors.InvalidArgument, match="scale_given"):
        wrong = Chain()
        f.add_gather(f.STEPS, wrong.steps.value, f.INPUT, x, f.TOKEN_OF_ROW, token_of_row, f.OUTPUT, on_gpu("e4m3", (512, 512)),
                     f.SCALES, on_gpu("fp32", (1,)), f.GRANULARITY, 0)
        wrong.make()
