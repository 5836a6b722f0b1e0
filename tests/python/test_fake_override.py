# SPDX-License-Identifier: Apache-2.0
"""Products of groups that ``st.override`` takes, down to the launch on the fake driver (test_fake_gpu.py). torch has no tensors on the fake
GPU. So a call runs on the host up to the library, and goes on with arrays of equal types, shapes and strides."""
import pytest

torch = pytest.importorskip("torch")
fake = pytest.importorskip("fake_gpu")
pytest.importorskip("sluice.torch")

import sluice  # noqa: E402
from sluice import _binding as binding  # noqa: E402
from sluice.torch import _override_groups as groups  # noqa: E402

BF16, FP16, FP32, E4M3 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn
KINDS = {BF16: "bf16", FP16: "fp16", FP32: "fp32", E4M3: "e4m3", torch.int32: "int32"}
launch = binding.product


def empty(*shape, dtype=BF16):
    return torch.zeros(shape, dtype=dtype)


def launched(op, call, monkeypatch):
    """Returns how many kernels a call launches."""
    seen = []
    monkeypatch.setattr(binding, "product", lambda *pairs: seen.append(pairs))
    op.compute(*call)
    monkeypatch.undo()
    assert len(seen) == 1
    on_gpu = [fake.on_gpu(KINDS[x.dtype], tuple(x.shape), x.stride()) if isinstance(x, torch.Tensor) else x for x in seen[0]]
    return fake.launches_of(lambda: launch(*on_gpu))


TABLE = empty(4, dtype=torch.int32)
CALLS = {
    "rows": (groups.CALLS, (empty(64, 512), empty(4, 512, 256), TABLE)),
    "rows of fp16, weights by columns": (groups.CALLS, (empty(64, 512, dtype=FP16), empty(4, 256, 512, dtype=FP16).transpose(1, 2), TABLE)),
    "rows, all padded": (groups.CALLS, (empty(64, 520)[:, :512], empty(4, 512, 264)[:, :, :252], TABLE)),
    "one row": (groups.CALLS, (empty(1, 512), empty(4, 512, 256), TABLE)),
    "sums": (groups.CALLS, (empty(64, 512).t(), empty(64, 256), TABLE)),
    "sums, a padded result": (groups.CALLS, (empty(64, 512).t(), empty(64, 256)[:, :252], TABLE)),
    "batches": (groups.CALLS, (empty(4, 64, 512), empty(4, 512, 256))),
    "batches, a padded result": (groups.CALLS, (empty(4, 512, 64).transpose(1, 2), empty(4, 252, 512).transpose(1, 2))),
    "fp8 rows": (groups.SCALED_CALLS, (empty(64, 512, dtype=E4M3), empty(4, 256, 512, dtype=E4M3).transpose(1, 2), empty(64, dtype=FP32),
                                       empty(4, 256, dtype=FP32), TABLE, None, None, None, True)),
    "one fp8 row": (groups.SCALED_CALLS, (empty(1, 512, dtype=E4M3), empty(4, 256, 512, dtype=E4M3).transpose(1, 2), empty(1, dtype=FP32),
                                          empty(4, 256, dtype=FP32), TABLE)),
}


@pytest.mark.parametrize("op, call", list(CALLS.values()), ids=list(CALLS))
def test_the_problem_of_a_call_is_the_one_that_is_launched(op, call, monkeypatch):
    judged = op.judge(*call)
    assert not isinstance(judged, str), judged
    sluice.prepare(judged.problem)
    before = sluice.holdings().kernels
    assert launched(op, call, monkeypatch) >= 1
    assert sluice.holdings().kernels == before, "the call needs a kernel that its problem does not"


def test_a_prepared_problem_of_another_layout_does_not_serve(monkeypatch):
    """The check above would see a problem that is not the call's."""
    op, call = groups.CALLS, (empty(64, 768), empty(4, 768, 320), TABLE)
    sluice.prepare(op.judge(call[0], empty(4, 320, 768).transpose(1, 2), TABLE).problem)
    before = sluice.holdings().kernels
    launched(op, call, monkeypatch)
    assert sluice.holdings().kernels > before
