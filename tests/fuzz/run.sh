#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets with clang 14 (`run.sh build`), or runs one (`run.sh problems`). It runs for
# SLUICE_FUZZ_SECONDS, by default 20, or for a fixed number of inputs (SLUICE_FUZZ_RUNS). Exits with 77 if
# clang or its libFuzzer is missing. The corpus is kept in build/fuzz/corpus/NAME. An input that breaks
# something is printed and kept in build/fuzz/found. Called by ctest (label fuzz).
set -euo pipefail
cd "$(dirname "$0")/../.."
build=build/fuzz
target=${1:?build, or the name of a target}

compiler=$(command -v clang++-14 || true)
runtime=$(${compiler:-false} -print-file-name=libclang_rt.fuzzer-x86_64.a 2>/dev/null || true)
if [ ! -f "$runtime" ]; then
  echo "fuzz: clang++-14 or libclang-rt-14-dev is missing: make setup installs them"
  [ "${SLUICE_NO_SKIPS:-}" ] && exit 1
  exit 77
fi

if [ "$target" = build ]; then
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_C_COMPILER=clang-14 \
    -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1" -DSLUICE_FUZZ=ON -DSLUICE_SANITIZE=ON -DSLUICE_WERROR=OFF \
    -DSLUICE_BUILD_CLI=OFF -DSLUICE_BUILD_TESTS=OFF -DSLUICE_BUILD_EXAMPLES=OFF -DSLUICE_JOIN_SOURCES=ON >$build.log 2>&1 || { cat $build.log; exit 1; }
  exec ninja -C $build sluice_fuzzers
fi

[ -x "$build/tests/fuzz/${target}_fuzz" ] || { echo "fuzz: $target is not built: tests/fuzz/run.sh build"; exit 1; }
mkdir -p "$build/corpus/$target" $build/found
limits=(-max_total_time="${SLUICE_FUZZ_SECONDS:-20}")
[ -z "${SLUICE_FUZZ_RUNS:-}" ] || limits=(-runs="$SLUICE_FUZZ_RUNS")
dictionary=tests/fuzz/$target.dict
[ ! -f "$dictionary" ] || limits+=(-dict="$dictionary")
exec "$build/tests/fuzz/${target}_fuzz" "$build/corpus/$target" "tests/fuzz/seeds/$target" "${limits[@]}" \
  -max_len=4096 -error_exitcode=1 -timeout=20 -rss_limit_mb=1024 -malloc_limit_mb=1024 -print_final_stats=1 -artifact_prefix=$build/found/"$target"-
