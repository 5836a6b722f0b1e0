#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long run of hostile input, started by hand and at night. It has 500,000 mutated problem files, as many
# records, 200,000 command lines that are parsed and planned, and 100,000 C calls from eight threads. All run
# under the address and undefined-behaviour sanitizers with 1 GB of memory each. `run.sh short` runs a
# hundredth of each, in about a minute. Prints a line per part, and fails at the first finding.
set -euo pipefail
cd "$(dirname "$0")/../.."
share=1
[ "${1:-}" != short ] || share=100
tests/fuzz/run.sh build | tail -1

fuzz() {  # NAME COUNT
  local log=build/fuzz/hostile_$1.log
  SLUICE_FUZZ_RUNS=$(($2 / share)) tests/fuzz/run.sh "$1" >"$log" 2>&1 || { tail -40 "$log"; exit 1; }
  echo "$1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs," \
    "peak $(sed -n 's/^stat::peak_rss_mb: *//p' "$log") MB: nothing wrong"
}
fuzz problems 500000
fuzz records 500000
fuzz command_line 200000
build/fuzz/tests/fuzz/c_api_threads $((100000 / share)) "${SLUICE_SEED:-1}" tests/fuzz/seeds/c_api/*
