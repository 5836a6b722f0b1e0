#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Draws docs/performance.md and its plots from bench/results, with the pinned plotting packages in a virtual
# environment of their own (.venv, ignored by git). Called by `make report`.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv/report
if ! cmp -s tools/report-requirements.txt "$venv/installed.txt"; then
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r tools/report-requirements.txt
  cp tools/report-requirements.txt "$venv/installed.txt"
fi
exec "$venv/bin/python" tools/report.py "$@"
