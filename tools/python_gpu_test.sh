#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Python package on a machine with a Hopper GPU and PyTorch, but no network and no compiler: installs the wheels of a
# folder beside what is there, runs all of tests/python, then the cost of a call and the block
# of examples/llama_block.py.
#   tools/python_gpu_test.sh WHEELS [arguments of pytest]        SECTIONS="tests cost block" picks; JOBS=4 test files at once; FILES="tests/python/test_plan.py ..."
# WHEELS: made elsewhere by tools/python_wheels.sh. Results (logs, junit, cost.json, llama_block.json) go to $OUT, with
# SLUICE_COMMIT in them, the commit that the wheels were made of.
# Each test file is a process of its own, several at once: compiling kernels takes most of a first run's time.
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
  [ $status = 5 ] && status=0  # nothing of this file was asked for
  echo "$name: rc $status, $(tail -n 1 "$out/$name.log")"
  return $status
}
export -f test_file
export out
for section in ${SECTIONS:-tests cost block}; do
  case $section in
    tests) command=(xargs -P "${JOBS:-4}" -I{} bash -c 'test_file "$@"' _ {} "$@") ;;
    cost) command=(python3 tests/python/gpu_cost.py "$out/cost.json") ;;
    block) command=(python3 examples/llama_block.py --json "$out/llama_block.json") ;;
    *) echo "no section called $section" >&2; exit 2 ;;
  esac
  echo "=== $section"
  # shellcheck disable=SC2086
  printf '%s\n' ${FILES:-tests/python/test_*.py} | "${command[@]}" 2>&1 | tee "$out/$section.log" || failed=$((failed + 1))
done
exit $failed
