#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the four tools of compute-sanitizer over every class of kernel, after each has been shown to find a planted bug
# and to say nothing about the same kernel without it. Writes sanitize.json and one log a run into the out folder.
# Usage: tools/gpu_sanitize.sh [build folder] [out folder]. Exit: 0 clean, 1 not, 77 no sanitizer works here.
set -uo pipefail
export SLUICE_PLANTED=1
build=${1:-build/release}
out=${2:-${OUT:-$build/sanitize}}
tests=$build/tests/sluice_gpu_tests
tool_timeout=${SLUICE_SANITIZE_TIMEOUT:-150}
mkdir -p "$out"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
if [[ -z $sanitizer ]]; then
  echo "compute-sanitizer is not installed here"
  echo '{"available": false, "why": "not installed"}' > "$out/sanitize.json"
  exit 77
fi

declare -A plant=(
  [memcheck]=planted.memcheck_finds_a_write_past_the_end
  [racecheck]=planted.racecheck_finds_a_missing_barrier
  [initcheck]=planted.initcheck_finds_a_read_of_what_nobody_wrote
  [synccheck]=planted.synccheck_finds_a_warp_barrier_with_a_wrong_mask
)

# run TOOL FILTER LOG: the tool's own count of findings in $found ("" if it gave none) and $seconds.
run() {
  local start=$SECONDS
  timeout -k 5 "$tool_timeout" "$sanitizer" --tool "$1" "$tests" --gtest_filter="$2" > "$3" 2>&1
  local code=$?
  seconds=$((SECONDS - start))
  # "ERROR SUMMARY: 3 errors" or "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"
  found=$(sed -nE 's/.*(ERROR|RACECHECK) SUMMARY: ([0-9]+).*/\2/p' "$3" | tail -1)
  passed=$(grep -c '^\[       OK \]' "$3")
  [[ $code == 124 || $code == 137 ]] && found=timeout
  return 0
}

if "$tests" --gtest_filter=planted.nothing_is_found_in_the_sound_kernel | grep -q SKIPPED; then
  echo "no GPU here"
  echo '{"available": false, "why": "no GPU"}' > "$out/sanitize.json"
  exit 77
fi

rows=()
verdict=0
for tool in ${SLUICE_SANITIZE_TOOLS:-memcheck racecheck initcheck synccheck}; do
  run "$tool" "${plant[$tool]}" "$out/$tool.planted.log"
  planted=$found
  if grep -qi "device not supported" "$out/$tool.planted.log"; then
    echo "compute-sanitizer does not support this machine's device"
    echo '{"available": false, "why": "device not supported"}' > "$out/sanitize.json"
    exit 77
  fi
  run "$tool" planted.nothing_is_found_in_the_sound_kernel "$out/$tool.sound.log"
  sound=$found
  run "$tool" 'sanitize.*' "$out/$tool.ours.log"
  ours=$found
  clean=true
  [[ $planted =~ ^[1-9][0-9]*$ && $sound == 0 && $ours == 0 && $passed -ge 1 ]] || { clean=false; verdict=1; }
  printf '%-10s planted bug: %s found; sound kernel: %s; our kernels: %s (%s s, test passed: %s) -> %s\n' \
    "$tool" "${planted:-none}" "${sound:-?}" "${ours:-?}" "$seconds" "$passed" "$clean"
  rows+=("{\"tool\": \"$tool\", \"planted\": \"$planted\", \"sound\": \"$sound\", \"ours\": \"$ours\", \"passed\": $passed, \"seconds\": $seconds, \"clean\": $clean}")
done
# A second bug for synccheck, for information: a tool that reports it and lets it run on may hang.
tool_timeout=40 run synccheck planted.divergent_barrier_is_what_half_a_warp_misses "$out/synccheck.divergent.log"
divergent=$found
echo "synccheck  divergent __syncthreads: ${divergent:-none} found"
{
  echo "{\"available\": true, \"version\": \"$("$sanitizer" --version | tail -1)\", \"divergent\": \"$divergent\", \"tools\": ["
  (IFS=$',\n'; echo "${rows[*]}")
  echo "]}"
} > "$out/sanitize.json"
exit $verdict
