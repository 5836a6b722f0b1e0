# SPDX-License-Identifier: Apache-2.0
"""The kernel of greedy tokens: against sampling.py's torch operations, in Triton's interpreter in a process of its own; on a Hopper GPU
also as it runs there. Run by hand on a GPU: python tests/python/test_decode_greedy.py"""
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")


def compare(device, vocabs=(1, 7, 4096, 4097, 9001), all_rows=(1, 3, 64), steps=3):
    """Enters tokens of random logits, with ties, into two books, one by the kernel, and compares all of the books."""
    from sluice.torch.decode.greedy import Greedy
    from sluice.torch.decode.sampling import Books

    compared = 0
    for rows in all_rows:
        for vocab in vocabs:
            generator = torch.Generator().manual_seed(rows * 10007 + vocab)
            ours, theirs = (Books(rows, 8, vocab, device) for _ in range(2))
            for books in (ours, theirs):
                books.begin([5 + i for i in range(max(1, rows - 1))], [vocab - 1, 3], 11, 0, 0.0, 0, 1.0)
            kernel = Greedy(ours, rows, device, dependent=device != "cpu")
            pitch = -(-vocab // 8) * 8
            for _ in range(steps):
                values = torch.randint(-9, 9, (rows, pitch), generator=generator).float()
                values[:, vocab:] = 99
                logits = values.to(torch.float32 if device == "cpu" else torch.bfloat16).to(device)[:, :vocab]
                kernel.enter(logits)
                theirs.enter(first_of_the_largest(logits))
                for name in ("tokens", "lengths", "made", "step", "finished"):
                    assert torch.equal(getattr(ours, name), getattr(theirs, name)), (name, rows, vocab)
                    compared += 1
                assert not kernel._tickets.any(), "tickets are not back at 0"
    return compared


def first_of_the_largest(logits):
    return (logits == logits.amax(1, keepdim=True)).to(torch.int8).argmax(1)


def test_in_the_interpreter():
    done = subprocess.run([sys.executable, __file__], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True,
                          check=False, timeout=600)
    assert done.returncode == 0 and "compared" in done.stdout, done.stdout + done.stderr


if __name__ == "__main__":
    if os.environ.get("TRITON_INTERPRET") == "1":
        from test_attention import repair_interpreter

        repair_interpreter()
        found = compare("cpu", vocabs=(1, 7, 4097), all_rows=(1, 3), steps=2)
    else:
        found = compare("cuda", vocabs=(1, 7, 4096, 4097, 9001, 128256))
    print(found, "compared")
