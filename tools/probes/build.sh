#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the probes. They run on a machine that has a GPU and its driver, but no compiler and no other
# library.
#   tools/probes/build.sh [FOLDER]     (build/probes if none is given)
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build/probes}
mkdir -p "$out/objects"
# -gencode compiles for one architecture only. -arch=sm_90a would compile everything a second time for PTX.
flags=(-gencode arch=compute_90a,code=sm_90a -O3 -std=c++20 -I .)
objects() {  # program, sources: compiles those that have changed
  local source object
  for source in "${@:2}"; do
    object=$out/objects/$1-$(basename "${source%.*}").o
    if [ ! -e "$object" ] || [ -n "$(find tools/probes -newer "$object" \( -name '*.h' -o -name '*.cuh' \))" ] ||
      [ "$source" -nt "$object" ]; then
      nvcc "${flags[@]}" -c -o "$object" "$source"
    fi
    echo "$object"
  done
}
for program in im2col sum_parts; do
  list=$(objects $program tools/probes/$program.cc tools/probes/harness.cc tools/probes/$program/*.c[cu])
  # shellcheck disable=SC2086
  nvcc "${flags[@]}" -cudart static -Xcompiler -static-libstdc++,-static-libgcc -o "$out/$program" $list
  echo "$out/$program is built"
done
