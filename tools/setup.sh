#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes sure that a build's needs are there: installs missing packages of tools/apt-packages.txt, after saying
# so, and looks for the headers of a CUDA toolkit. `--tool` leaves out what only tests and checks need. Silent
# when all is well. Called by `make`.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
while read -r package; do
  case $package in
    '# For the tests'*) [ "${1:-}" != --tool ] || break ;;
    '' | '#'*) ;;
    *) dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package") ;;
  esac
done < tools/apt-packages.txt

if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "setup: missing ${missing[*]}; this is not a Debian system: install their equivalents" >&2
    exit 1
  fi
  root=()
  [ "$(id -u)" -eq 0 ] || root=(sudo)
  echo "setup: installs these Debian packages, which are missing: ${missing[*]}"
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

for folder in "${CUDA_PATH:-}" /usr/local/cuda; do
  [ -n "$folder" ] && compgen -G "$folder/include/cuda.h" >/dev/null && exit 0
done
echo "setup: no CUDA toolkit headers in /usr/local/cuda: install a toolkit (13.0 or newer) or set CUDA_PATH" >&2
exit 1
