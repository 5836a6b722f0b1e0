# SPDX-License-Identifier: Apache-2.0
"""The parts of tools/int4_peers.py that need torch and no GPU: its judge finds planted errors, and operands of Marlin and
Machete are laid out as their definitions say."""
import sys

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def peers(source_root):
    tools = str(source_root / "tools")
    sys.path.insert(0, tools)
    import int4_peers

    yield int4_peers
    sys.path.remove(tools)


def product(data, group, codes=None, scales=None):
    """Returns a right contender's result: weights rounded to the tokens' type, sums in fp32, D rounded."""
    codes, scales = data.codes if codes is None else codes, data.scales if scales is None else scales
    w = (codes.to(scales.dtype) - 8) * scales.repeat_interleave(group, 1)
    return (data.x.float() @ w.float().t()).to(data.x.dtype)


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("group", [32, 64, 128])
def test_a_right_result_passes_and_planted_errors_do_not(peers, dtype, group):
    p = peers.Problem("a list", 5, 256, 512, group, dtype)
    whole, real = (peers.Data.create(torch, p, kind, device="cpu") for kind in (True, False))
    for data in (whole, real):
        data.judge(product(data, group))

    def refused(data, d, words="elements are wrong"):
        with pytest.raises(ArithmeticError, match=words):
            data.judge(d)

    codes = whole.codes.clone()
    # One bit of one weight, which the first token is multiplied with.
    codes[200, whole.x[0].nonzero()[0]] ^= 1
    refused(whole, product(whole, group, codes=codes))
    for data in (whole, real):
        # Codes are those of neighbours along k.
        refused(data, product(data, group, codes=data.codes.roll(1, 1)))
        refused(data, product(data, group, codes=data.codes.roll(8, 0)))  # outputs are those of neighbours
        d = product(data, group)
        d[4, 255] = float("nan")
        refused(data, d)
    shifted = real.scales.clone()
    shifted[:, [0, 1]] = shifted[:, [1, 0]]  # two groups along k have exchanged scales
    refused(real, product(real, group, scales=shifted), "wrong|errors of all elements together")
    coarse = (product(real, group).float() * (1 + 2 * real.unit)).to(real.x.dtype)
    refused(real, coarse, "wrong|errors of all elements together")


def test_words_hold_eight_neighbours_of_k(peers):
    codes = torch.arange(32, dtype=torch.uint8).reshape(2, 16) % 16
    words = peers.in_words(torch, codes)
    assert words.shape == (2, 2) and words.dtype == torch.int32
    assert [hex(int(word) & 0xFFFFFFFF) for word in words[:, 1]] == ["0x76543210", "0xfedcba98"]


def test_scales_are_ordered_by_lanes(peers):
    scales = torch.arange(128 * 2).reshape(128, 2)
    ordered = peers.Marlin.ordered(scales)
    assert ordered.shape == (2, 128)
    assert ordered[0, :9].tolist() == [2 * n for n in (0, 8, 16, 24, 32, 40, 48, 56, 1)]
    assert ordered[1, 64:66].tolist() == [2 * 64 + 1, 2 * 72 + 1]
