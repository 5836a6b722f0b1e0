#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Formats each C++ and CUDA file with clang-format 14, because other versions format differently. With --check
# it only names the files that are not formatted. Generated files are skipped.
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
