#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Verifies combine.pml with spin (Debian package "spin"), and checks that spin finds each planted bug. Exits
# with 77, "skipped" for ctest, if spin or a C compiler is missing, or with 1 if SLUICE_NO_SKIPS is set.
set -euo pipefail
cd "$(dirname "$0")"
for tool in spin gcc; do
  command -v $tool > /dev/null || { echo "skipped: no $tool here (apt-get install $tool)"; exit $((${SLUICE_NO_SKIPS:+1} + 0 ? 1 : 77)); }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
model=$PWD/combine.pml
cd "$work"

# Explores every reachable state of a model and prints spin's summary.
verify() {
  spin -a "$@" "$model" > spin.log || { cat spin.log; exit 1; }
  gcc -O2 -w -DSAFETY -DVECTORSZ=4096 -o pan pan.c
  ./pan -m1000000 > pan.log
  ! grep -q 'search depth too small\|out of memory' pan.log || { cat pan.log; exit 1; }
  sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log
}

status=0
for peers in 2 3 4; do
  errors=$(verify -DPEERS=$peers)
  echo "combine.pml, $peers peers, two launches: $errors errors, $(grep 'states, stored' pan.log | xargs)"
  [ "$errors" = 0 ] || { status=1; cat pan.log; }
done
for bug in NO_DRAIN EARLY_RESET NO_WRAP WRITE_BEFORE_WAIT COUNT_BEFORE_WAIT; do
  errors=$(verify -DPEERS=3 -D$bug)
  if [ "$errors" = 0 ]; then
    echo "$bug: NOT found"
    status=1
  else
    echo "$bug: found ($(grep -m1 'pan:1' pan.log | cut -c 8-))"
  fi
done
exit $status
