#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One call on the GPU machine does all that needs a GPU, in sections with a time limit each, and ends with a summary:
#   doctor  what is on this machine           smoke    one product of each class of kernel, first of all
#   fuzz    random exact problems             real     real data, special values, large products
#   split  products split along k, a million times on one workspace; graphs of them replayed at once
#   rest    misuse, graphs, threads, repeats, norms, quantisers, gated products, chains, dependent launches
#   cost    host cost of a launch
#   mixed  packed weights x 16-bit tokens: random exact problems (SLUICE_MIXED_CASES)
#   sanitize  compute-sanitizer               bench    sluice beside cuBLASLt
#   peers  Triton and torch on the decode sweep, only if named: it needs both, and five minutes
# Usage: tools/gpu_batch.sh [section ...]   (all others without arguments)
#        tools/gpu_batch.sh --check          (is every GPU test in a section? needs no GPU)
# SLUICE_BUILD (build/release), OUT (default $SLUICE_BUILD/gpu_results: summary.txt, logs.tgz, bench.json),
# SLUICE_FUZZ_COUNT, SLUICE_BENCH_ARGS, SLUICE_PEERS_ARGS, SLUICE_LIMIT_<SECTION> in seconds. Exit: how many sections failed.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${SLUICE_BUILD:-build/release}
out=${OUT:-$build/gpu_results}
tests=$build/tests/sluice_gpu_tests
logs=$build/gpu_logs

# What each section runs of sluice_gpu_tests.
declare -A filters=(
  [smoke]='sanitize.*'
  [fuzz]='fuzz.*'
  [real]='real_data.*:special_values.*'
  [rest]='misuse.*:graphs.*:threads.*:repeatability.*:*quantize.*:silu_times_up.*:norms.*:pack.*:gated.*:chains.*:*overlap*.*:mixed_contract.*'
  [split]='split.*:split_graphs.*:added.*'
  [mixed]='mixed_products.*'
  [cost]='host_cost.*'
)
# pool.* needs no GPU (tools/gpu_pool.sh, ctest); planted.* are the sanitizers' (tools/gpu_sanitize.sh);
# companion_times.* are timings for findings, by hand.
readonly elsewhere='pool.*:planted.*:companion_times.*'
if [[ ${1:-} == --check ]]; then
  all=$elsewhere
  for filter in "${filters[@]}"; do all+=:$filter; done
  left=$("$tests" --gtest_list_tests --gtest_filter="*-$all" | grep -v '^Running' || true)
  [[ -z $left ]] || { echo "in no section of tools/gpu_batch.sh: $left"; exit 1; }
  for filter in "${filters[@]}" $elsewhere; do
    for one in ${filter//:/ }; do
      "$tests" --gtest_list_tests --gtest_filter="$one" | grep -q '^  ' || { echo "$one matches no test"; exit 1; }
    done
  done
  exit 0
fi

mkdir -p "$out" "$logs"
if [[ -z ${SLUICE_CACHE_DIR:-} ]]; then
  export SLUICE_CACHE_DIR=$PWD/build/gpu_cache
fi
mkdir -p "$SLUICE_CACHE_DIR" && chmod 700 "$SLUICE_CACHE_DIR"
sections=("$@")
[[ $# -gt 0 ]] || sections=(doctor smoke fuzz real rest split mixed cost sanitize bench)
failed=0
summary=()

# limit SECTION DEFAULT: SLUICE_LIMIT_SECTION or the default.
limit() {
  local name=SLUICE_LIMIT_${1^^}
  echo "${!name:-$2}"
}

# section NAME SECONDS COMMAND...: runs it, logs it, notes how it ended.
section() {
  local name=$1 seconds=$2
  shift 2
  seconds=$(limit "$name" "$seconds")
  echo "=== $name (at most $seconds s)"
  local start=$SECONDS
  timeout -k 5 "$seconds" "$@" 2>&1 | tee "$logs/$name.log" | grep -vE '^\[( RUN|-----|=====)' | tail -n "${SLUICE_TAIL:-25}"
  local code=${PIPESTATUS[0]} word
  case $code in
    0)
      word=ok
      if [[ $1 == "$tests" ]] && ! grep -q '^\[       OK' "$logs/$name.log"; then
        word="NOTHING RAN" code=1  # no GPU, or no such test
      fi
      ;;
    77) word="not possible here" ;;
    124 | 137) word="OUT OF TIME" ;;
    *) word="FAILED ($code)" ;;
  esac
  [[ $code == 0 || $code == 77 ]] || failed=$((failed + 1))
  summary+=("$(printf '%-9s %-18s %4d s' "$name" "$word" $((SECONDS - start)))")
  printf '%s\n' "${summary[@]}" > "$out/summary.txt"
  tar -czf "$out/logs.tgz" -C "$build" gpu_logs  # after each section: a machine may be taken away
  return "$code"
}

# A batch that hangs or ends in a driver error does not say which problem it was: run it again one by one.
find_culprit() {
  local first
  first=$(grep -oE 'SLUICE_FUZZ_FIRST=[0-9]+' "$logs/fuzz.log" | tail -2 | head -1 | grep -oE '[0-9]+')
  first=${first:-0}
  first=$((first > 1000 ? first - 1000 : 0))
  SLUICE_FUZZ_FIRST=$first SLUICE_FUZZ_COUNT=2500 SLUICE_TEST_BATCH=1 \
    section culprit 90 "$tests" --gtest_filter='fuzz.*'
}

for name in "${sections[@]}"; do
  case $name in
    doctor) section doctor 60 "$build/sluice" doctor ;;
    smoke) section smoke 120 "$tests" --gtest_filter="${filters[smoke]}" ;;
    fuzz)
      section fuzz 240 "$tests" --gtest_filter="${filters[fuzz]}"
      code=$?
      grep -qE 'HANG|driver:' "$logs/fuzz.log" && [[ $code != 0 ]] && find_culprit
      ;;
    real) section real 180 "$tests" --gtest_filter="${filters[real]}" ;;
    rest) section rest 300 "$tests" --gtest_filter="${filters[rest]}" ;;
    split) section split 240 "$tests" --gtest_filter="${filters[split]}" ;;
    mixed) section mixed 180 "$tests" --gtest_filter="${filters[mixed]}" ;;
    cost) section cost 60 "$tests" --gtest_filter="${filters[cost]}" ;;
    sanitize) section sanitize 540 tools/gpu_sanitize.sh "$build" "$logs" ;;
    bench)
      # shellcheck disable=SC2086
      section bench 420 "$build/sluice" bench ${SLUICE_BENCH_ARGS:---json "$out/bench.json"}
      ;;
    peers)
      # shellcheck disable=SC2086
      section peers 330 python3 tools/triton_sweep.py --json "$out/triton.json" ${SLUICE_PEERS_ARGS:---seconds 280}
      ;;
    *)
      echo "no section called $name"
      failed=$((failed + 1))
      ;;
  esac
done
echo "=== summary"
cat "$out/summary.txt"
exit "$failed"
