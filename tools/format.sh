#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats each C++ and CUDA file (with --check only names those that need it) with clang-format 14, as other
# versions lay out the style differently. Generated files are left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

format=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$format" ] || ! "$format" --version | grep -q 'version 14\.'; then
  venv=.venv/format
  [ -x $venv/bin/clang-format ] || { python3 -m venv $venv && $venv/bin/pip install -q -r tools/requirements.txt; }
  format=$venv/bin/clang-format
fi

files() {
  git ls-files -z --cached --others --exclude-standard -- '*.h' '*.cc' '*.cuh' '*.cu' ':!**/generated/**'
}
if [ "${1:-}" = --check ]; then
  files | xargs -0 -r "$format" --dry-run -Werror
else
  files | xargs -0 -r "$format" -i
fi
