#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the checking kernels and the dense kernels of tests/gpu into a cache folder, on a machine without a
# GPU. Copy the folder to the GPU machine and set SLUICE_CACHE_DIR there (tools/certify.py sets it to
# build/gpu_cache).
# Usage: tools/gpu_pool.sh [build folder] [cache folder]
set -euo pipefail
build=${1:-build/release}
export SLUICE_CACHE_DIR=${2:-$PWD/build/gpu_cache}
exec "$build/tests/sluice_gpu_tests" --gtest_filter='pool.*'
