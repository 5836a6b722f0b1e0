# SPDX-License-Identifier: Apache-2.0
"""A layer of experts from a gpt-oss checkpoint's tensors, without a GPU: MXFP4 becomes FP8 in blocks, and st.moe.experts takes it.

The reference is the layer token by token of the same weights in fp32. Planted once, and seen here: rows that stay interleaved.
"""
import pytest

torch = pytest.importorskip("torch")

import sluice.torch as st  # noqa: E402
import sluice.weights as sw  # noqa: E402
from test_moe import EXPERTS, TOKENS, dense_layer, inputs, layer_on_host, on_host  # noqa: E402,F401 (fixtures)


def drawn(rows, k):
    """Returns blocks and scales, and their weights in fp32."""
    blocks = torch.randint(0, 256, (EXPERTS, rows, k // 32, 16), dtype=torch.uint8)
    scales = torch.randint(116, 124, (EXPERTS, rows, k // 32), dtype=torch.uint8)
    return blocks, scales, torch.stack([sw.dequantize(one, "fp32") for one in sw.from_gpt_oss(blocks, scales)])


@pytest.mark.parametrize("inner", [128, 96], ids=["blocks of one half", "a block of gate and up"])
def test_a_layer_of_mxfp4_experts(layer_on_host, inner):  # noqa: F811
    torch.manual_seed(11)
    x, (_, ids, weights, _) = torch.randn(TOKENS, 256).bfloat16(), inputs()
    blocks_13, scales_13, wide_13 = drawn(2 * inner, 256)
    blocks_2, scales_2, wide_2 = drawn(256, inner)
    w13, scale_w13 = sw.mxfp4_to_block_fp8(blocks_13, scales_13, interleaved=True)
    w2, scale_w2 = sw.mxfp4_to_block_fp8(blocks_2, scales_2)
    made = st.moe.experts(x, ids, weights, w13, w2, scale_w13=scale_w13, scale_w2=scale_w2)
    wanted = dense_layer(x, ids, weights, torch.cat([wide_13[:, 0::2], wide_13[:, 1::2]], 1), wide_2)
    error = (made.float() - wanted).norm() / wanted.norm()
    assert error < 0.06, error  # that of tokens and hidden rows, which are quantised
