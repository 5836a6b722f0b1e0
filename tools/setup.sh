#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes sure that everything a build needs is installed. Installs missing packages of tools/apt-packages.txt,
# after printing their names, and looks for the headers of a CUDA toolkit. `--tool` leaves out what only tests
# and checks need. With `--quiet` it prints nothing if nothing is missing. Called by `make`.
set -euo pipefail
cd "$(dirname "$0")/.."

part=all quiet=no
for word; do
  case $word in
    --tool) part=tool ;;
    --quiet) quiet=yes ;;
    *) echo "setup: $word is no flag: give --tool, --quiet or nothing" >&2; exit 2 ;;
  esac
done

missing=()
while read -r package; do
  case $package in
    '# For the tests'*) [ "$part" != tool ] || break ;;
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
  if [ -n "$folder" ] && [ -e "$folder/include/cuda.h" ]; then
    [ "$quiet" = yes ] || echo "setup: all is there: Debian packages, and the CUDA headers of $folder"
    exit 0
  fi
done
echo "setup: no CUDA toolkit headers in /usr/local/cuda: install a toolkit (13.0 or newer) or set CUDA_PATH" >&2
exit 1
