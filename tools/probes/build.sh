#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the probes for a machine that has a GPU but nothing to build with: no library but the driver is needed.
#     tools/probes/build.sh [FOLDER]     (build/probes if none is given)
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build/probes}
mkdir -p "$out"
flags=(-arch=sm_90a -O3 -std=c++20 -cudart static -I . -I include --threads "${JOBS:-2}")
nvcc "${flags[@]}" -o "$out/im2col" tools/probes/im2col.cu tools/probes/harness.cu tools/probes/im2col/*.cu
if [ -e tools/probes/sum_parts.cu ]; then
  nvcc "${flags[@]}" -o "$out/sum_parts" tools/probes/sum_parts.cu tools/probes/harness.cu tools/probes/sum_parts/*.cu
fi
echo "$out/im2col and $out/sum_parts are built"
