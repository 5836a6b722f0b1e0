#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collects the files that tools/python_gpu_test.sh installs: the wheel of a build, and the wheels that it and
# its tests need. They may be for another Python than this machine's.
#   tools/python_wheels.sh BUILD_FOLDER TARGET_FOLDER [PYTHON_VERSION]      (default 3.12)
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:?which build folder}")
target=${2:?which folder for the wheels}
version=${3:-3.12}
mkdir -p "$target"
python=.venv/python/bin/python
[ -x $python ] || { echo "python_wheels: run tools/python_test.sh $build first: it makes $python" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -f "$target"/*.whl
$python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --no-index -w "$target" \
  --config-settings build-dir="$work" --config-settings cmake.define.SLUICE_PREBUILT="$build" .
grep -E '^(apache-tvm-ffi|pytest)==' tools/python-requirements.txt | sed 's/;.*//' | sort -u | grep -v 'pytest==8' > "$work/pinned"
$python -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --implementation cp \
  --python-version "$version" --platform manylinux_2_28_x86_64 --platform manylinux_2_24_x86_64 \
  --platform manylinux2014_x86_64 -d "$target" -r "$work/pinned" typing-extensions iniconfig pluggy packaging pygments
ls -l "$target"
