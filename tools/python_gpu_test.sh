#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package on a machine with a Hopper GPU and PyTorch, but no network and no compiler: installs the wheels of a
# folder beside what is there, runs all of tests/python, then the cost of a call and the block
# of examples/llama_block.py.
#   tools/python_gpu_test.sh WHEELS [arguments of pytest]        SECTIONS="tests cost block" picks
# WHEELS: made elsewhere by tools/python_wheels.sh. Results (logs, junit.xml, cost.json, llama_block.json) go to $OUT.
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
for section in ${SECTIONS:-tests cost block}; do
  case $section in
    tests) command=(-m pytest -q -p no:cacheprovider --durations=10 --junitxml="$out/junit.xml" tests/python "$@") ;;
    cost) command=(tests/python/gpu_cost.py "$out/cost.json") ;;
    block) command=(examples/llama_block.py --json "$out/llama_block.json") ;;
    *) echo "no section called $section" >&2; exit 2 ;;
  esac
  echo "=== $section"
  python3 "${command[@]}" 2>&1 | tee "$out/$section.log" || failed=$((failed + 1))
done
exit $failed
