#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `make demo` shows: one product planned, compiled at run time, run and verified. `--device auto` takes the
# GPU (timed beside cuBLASLt) or, without one, the host twin, which runs the same plan on a small problem.
set -euo pipefail
sluice=$1
if ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
  problem=(-m 8192 -n 8192 -k 8192)
else
  problem=(-m 256 -n 384 -k 512)
fi
set -x
"$sluice" doctor || true
"$sluice" plan "${problem[@]}"
"$sluice" run "${problem[@]}" --device auto
