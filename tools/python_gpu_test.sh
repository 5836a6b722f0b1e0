#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package on a machine with a Hopper GPU and PyTorch, but no network and no compiler: installs the wheels of a
# folder beside what is there, runs all of tests/python, then the cost of a call and the block
# of examples/llama_block.py.
#   tools/python_gpu_test.sh WHEELS [arguments of pytest]
# WHEELS: made elsewhere by tools/python_wheels.sh. Results (pytest.log, junit.xml, cost.json, llama_block.json) go to $OUT.
set -uo pipefail
cd "$(dirname "$0")/.."
wheels=$(realpath "${1:?which folder of wheels}")
shift
out=${OUT:-build/python_gpu_results}
mkdir -p "$out"
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade --target "$site" "$wheels"/*.whl || exit 2
export PYTHONPATH=$site PYTHONUNBUFFERED=1 SLUICE_CACHE_DIR=${SLUICE_CACHE_DIR:-$site/kernels}
SLUICE_WHEEL=$(echo "$wheels"/sluice_gemm-*.whl)
export SLUICE_WHEEL
failed=0
python3 -m pytest -q -p no:cacheprovider --junitxml="$out/junit.xml" tests/python "$@" 2>&1 | tee "$out/pytest.log" || failed=1
python3 tests/python/gpu_cost.py "$out/cost.json" 2>&1 | tee "$out/cost.log" || failed=1
python3 examples/llama_block.py --json "$out/llama_block.json" 2>&1 | tee "$out/llama_block.log" || failed=1
exit $failed
