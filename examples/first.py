# SPDX-License-Identifier: Apache-2.0
"""A first program: a product in bf16 and one with 4-bit weights on a Hopper GPU. Needs a GPU, torch and sluice.

All tokens are 1 and all weights 15, so every element is 15 * 4096. Four bits round 15 to 14, a code of 7 times a scale of 2.
After the plan it prints

    bf16: every element is 61440
    int4: every element is 57344, weights of 8.7 MB
"""
import torch

import sluice
import sluice.torch as st


def main(device: str = "cuda") -> None:
    m, n, k = 16, 4096, 4096
    print(sluice.explain(m=m, n=n, k=k))  # the kernel that runs, and the model's breakdown of its time; needs no GPU
    x = torch.ones(m, k, dtype=torch.bfloat16, device=device)
    w = torch.full((n, k), 15, dtype=torch.bfloat16, device=device)
    print("bf16: every element is", *st.linear(x, w).unique().long().tolist())
    packed = st.pack_int4(w, group=128)  # 4-bit codes, and one scale per 128 of k
    print("int4: every element is", *st.packed_mm(x, packed).unique().long().tolist(), end=", ")
    print(f"weights of {packed.nbytes / 1e6:.1f} MB")


if __name__ == "__main__":
    if not torch.cuda.is_available():
        raise SystemExit("examples/first.py needs a Hopper GPU, and torch finds none: `sluice doctor` says what this machine has")
    main()
