# SPDX-License-Identifier: Apache-2.0
"""The kernel that chooses experts: against torch's softmax and topk, in Triton's interpreter in a process of its own; on a Hopper GPU also
as it runs there. Run by hand on a GPU: python tests/python/test_decode_router.py"""
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")


def compare(device, sizes=((1, 8, 1), (3, 6, 2), (2, 128, 8), (2, 257, 32), (64, 60, 4))):
    """Compares ids, which are equal, and weights of random logits. Some rows rest, and one is NaN."""
    from sluice.torch.decode.reference import choose_reference
    from sluice.torch.decode.router import Router

    compared = 0
    for rows, experts, chosen in sizes:
        for renormalised in (False, True):
            generator = torch.Generator().manual_seed(rows * 10007 + experts)
            pitch = -(-experts // 8) * 8
            whole = torch.stack([torch.randperm(4 * pitch, generator=generator)[:pitch] for _ in range(rows)]).float() / pitch  # no ties
            whole[:, experts:] = 99
            logits = whole.to(torch.float32 if device == "cpu" or pitch > 64 else torch.bfloat16).to(device)[:, :experts]
            lengths = torch.arange(rows, device=device) % 3 - int(rows > 2)  # -1: the row rests
            if rows > 3:
                logits[3] = float("nan")
            ids = torch.full((rows, chosen), 77, dtype=torch.int32, device=device)
            weights = torch.full((rows, chosen), 77.0, device=device)
            Router(rows, experts, chosen, renormalised, dependent=device != "cpu")(logits, lengths, ids, weights)
            wanted, shares = choose_reference(logits, chosen, renormalised)
            none = (lengths < 0) | logits.isnan().any(1)
            assert (ids[none] == -1).all() and torch.equal(ids[~none], wanted[~none]), (rows, experts, chosen)
            torch.testing.assert_close(weights[~none], shares[~none], rtol=1e-5, atol=1e-7)
            compared += int((~none).sum())
    return compared


def test_in_the_interpreter():
    done = subprocess.run([sys.executable, __file__], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True,
                          check=False, timeout=600)
    assert done.returncode == 0 and "compared" in done.stdout, done.stdout + done.stderr


def test_the_compiled_kernel_touches_no_memory_before_it_waits(monkeypatch):
    pytest.importorskip("triton.backends.nvidia")
    import triton
    from sluice.torch.decode.router import _choose
    from test_attention import Hopper, touches

    values = {"logits": "*bf16", "lengths": "*i32", "ids": "*i32", "weights": "*fp32", "pitch": "i32", "experts": "i32"}
    fixed = {"CHOSEN": 8, "ROUNDED": 8, "WIDTH": 128, "RENORMALISED": True, "DEPENDENT": True}
    source = triton.compiler.ASTSource(_choose, {**values, **dict.fromkeys(fixed, "constexpr")}, fixed)
    made = triton.compile(source, target=Hopper().get_current_target(), options={"num_warps": 1, "launch_pdl": True})
    ptx = made.asm["ptx"]
    assert ptx.index("griddepcontrol.launch_dependents") < ptx.index("griddepcontrol.wait") and not touches(ptx)
    assert "ld.local" not in ptx and "st.global" in ptx


if __name__ == "__main__":
    if os.environ.get("TRITON_INTERPRET") == "1":
        from test_attention import repair_interpreter

        repair_interpreter()
        found = compare("cpu")
    else:
        found = compare("cuda")
    print(found, "compared")
