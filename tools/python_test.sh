#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a wheel of a build, installs it into a clean venv, and runs tests/python there. Without --torch it
# runs without torch (called by ctest). With --torch it downloads 3 GB once (make test-torch).
#   tools/python_test.sh [--torch] BUILD_FOLDER [arguments of pytest]
#   tools/python_test.sh [--torch] --venv-only   installs the packages and runs nothing
# The venv is kept in .venv. If pip cannot download packages, the exit status is 77 (skipped), or 1 with
# SLUICE_NO_SKIPS.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=python
if [ "${1:-}" = --torch ]; then
  kind=torch
  shift
fi
build=${1:?which build folder}
shift

venv=.venv/$kind
requirements=tools/$kind-requirements.txt
stamp=$venv/requirements
wanted=$(cat tools/python-requirements.txt $requirements)
if [ "$(cat $stamp 2> /dev/null)" != "$wanted" ]; then
  rm -rf $venv
  python3 -m venv $venv
  $venv/bin/python -m pip install -q --disable-pip-version-check -r $requirements \
    || { echo "skipped: pip cannot install $requirements"; exit $((${SLUICE_NO_SKIPS:+1} + 0 ? 1 : 77)); }
  echo "$wanted" > $stamp
fi
[ "$build" != --venv-only ] || exit 0
build=$(realpath "$build")

wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
$venv/bin/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --no-index -w "$wheels" \
  --config-settings build-dir="$wheels/build" --config-settings cmake.define.SLUICE_PREBUILT="$build" .
$venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-index --force-reinstall "$wheels"/*.whl
pytest=("$venv/bin/python" -m pytest -q -p no:cacheprovider)
SLUICE_WHEEL=$(echo "$wheels"/*.whl) "${pytest[@]}" tests/python "$@"
# Tests of launches use the fake driver, which is another library and so needs another process.
SLUICE_LIBRARY=$build/tests/libsluice_c_fake.so SLUICE_CACHE_DIR=$wheels/kernels "${pytest[@]}" tests/python/test_fake_*.py
