#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the Python package on a machine with a Hopper GPU and PyTorch, but without network and compiler.
# Installs the wheels of a folder beside what is there, then runs tests/python, the cost of a call,
# examples/llama_block.py and a step of ResNet-50.
#   tools/python_gpu_test.sh WHEELS [arguments of pytest]
#   SECTIONS="tests cost block resnet" and FILES="tests/python/test_plan.py ..." pick; JOBS=4 runs test files at once
# WHEELS comes from tools/python_wheels.sh. Results (logs, junit, cost.json, llama_block.json, resnet50.json) go
# to $OUT and contain SLUICE_COMMIT, the commit of the wheels. Each test file has its own process, several at
# once, because compiling kernels takes most of a first run.
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
test_file() {
  local name
  name=$(basename "$1" .py)
  python3 -m pytest -q -p no:cacheprovider --durations=3 --junitxml="$out/junit_$name.xml" "$@" > "$out/$name.log" 2>&1
  local status=$?
  [ $status = 5 ] && status=0  # no test of this file was selected
  echo "$name: rc $status, $(tail -n 1 "$out/$name.log")"
  return $status
}
export -f test_file
export out
for section in ${SECTIONS:-tests cost block resnet}; do
  case $section in
    tests) command=(xargs -P "${JOBS:-4}" -I{} bash -c 'test_file "$@"' _ {} "$@") ;;
    cost) command=(python3 tests/python/gpu_cost.py "$out/cost.json") ;;
    block) command=(python3 examples/llama_block.py --json "$out/llama_block.json") ;;
    resnet) command=(python3 tests/python/gpu_resnet.py --json "$out/resnet50.json") ;;
    *) echo "no section called $section" >&2; exit 2 ;;
  esac
  echo "=== $section"
  # shellcheck disable=SC2086
  printf '%s\n' ${FILES:-tests/python/test_*.py} | "${command[@]}" 2>&1 | tee "$out/$section.log" || failed=$((failed + 1))
done
exit $failed
