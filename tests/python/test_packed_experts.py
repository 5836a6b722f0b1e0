# SPDX-License-Identifier: Apache-2.0
"""Packed weights of experts without a GPU: stacking, parts, problems, errors, and the op's traced form."""
import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402


def weights_of(n=256, k=128, group=64, gated=False, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return st.pack_int4(torch.randn(n, k, generator=generator).bfloat16(), group, gated=gated)


def test_stacked_weights_are_those_of_each_expert():
    each = [weights_of(seed=seed) for seed in range(3)]
    made = st.stack_packed(each)
    assert len(made) == 3 and made.blob.shape == (3, each[0].nbytes) and made.nbytes == 3 * each[0].nbytes
    for i, own in enumerate(each):
        assert torch.equal(made.expert(i).blob, own.blob) and made.expert(i).format == own.format
        assert made.expert(i).blob.data_ptr() == made.blob[i].data_ptr(), "a view"
    assert "3 x 256x128" in repr(made)
    with pytest.raises(sluice.InvalidSize, match="number = 3 must be in 0..2"):
        made.expert(3)


def test_numpy_arrays_are_stacked_too():
    np = pytest.importorskip("numpy")
    each = [sluice.pack_int4(np.random.default_rng(seed).standard_normal((64, 128)).astype(np.float16), 64) for seed in range(2)]
    assert (sluice.stack_packed(each).blob == np.stack([own.blob for own in each])).all()


def test_their_problem_has_groups():
    made = st.stack_packed([weights_of()] * 4)
    problem = made.problem(40)
    assert (problem.m, problem.n, problem.k, problem.batch, problem.groups) == (40, 256, 128, 4, "ends")
    assert "narrow" in sluice.plan(problem).config
    assert made.problem(40, groups="counts", group_pitch=10).groups == "counts"


def test_what_is_no_stack_is_refused():
    with pytest.raises(sluice.InvalidArgument, match="weights is empty"):
        st.stack_packed([])
    with pytest.raises(sluice.InvalidArgument, match=r"weights\[1\] is .* must have one size and format"):
        st.stack_packed([weights_of(), weights_of(n=128)])
    with pytest.raises(sluice.InvalidType, match=r"weights\[0\]"):
        st.stack_packed([torch.ones(3)])
    with pytest.raises(sluice.InvalidSize, match="blob has shape .* two dimensions"):
        sluice.PackedExperts(weights_of().blob, 256, 128, weights_of().format)
    with pytest.raises(sluice.InvalidSize, match="the bytes of 128 x 128 weights"):
        sluice.PackedExperts(st.stack_packed([weights_of()]).blob, 128, 128, weights_of().format)
    permuted = sluice.pack(*weights_of().unpack()[:2], group=64, permutation=torch.arange(128))
    with pytest.raises(sluice.InvalidArgument, match="act-order"):
        st.stack_packed([permuted])
    odd = st.stack_packed([weights_of(n=160, gated=True)])
    with pytest.raises(sluice.InvalidConfig, match="packed for a gated product"):
        odd.problem(8)


def test_a_traced_call_has_the_results_shape_and_checks_it():
    made = st.stack_packed([weights_of()] * 4)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        x, ends = mode.from_tensor(torch.ones(24, 128, dtype=torch.bfloat16)), mode.from_tensor(torch.zeros(4, dtype=torch.int32))
        assert st.packed_grouped_mm(x, made, ends).shape == (24, 256)
        assert st.packed_grouped_mm(x, made, ends, gated=True, activation="silu").shape == (24, 128)
        with pytest.raises(sluice.InvalidSize, match="offs"):
            st.packed_grouped_mm(x, made, ends[:3])
    with pytest.raises(sluice.InvalidArgument, match="packed_grouped_mm has no backward"):
        st.packed_grouped_mm(torch.ones(24, 128, dtype=torch.bfloat16, requires_grad=True), made, torch.zeros(4, dtype=torch.int32))
