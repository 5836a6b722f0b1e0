#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes everything that comes from bench/results: CSV files beside the records, with a line per shape;
docs/performance.md and performance-losses.md; pictures; blocks of README.md, docs/testing.md and docs/conv.md.

    tools/report.py              writes all of that (`make report`)
    tools/report.py --check      names pages and tables that differ from the records or the kernels
    tools/report.py --self-test  makes pages from made-up records, with wrong results and claims

No measured number is typed by hand, and a claim is made only if the rows show it. Claims of correctness come
from certificates. The modules are in tools/report/.
"""
import argparse
import pathlib
import sys

from report import pages
from report.records import ROOT


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "bench/results")
    parser.add_argument("--docs", type=pathlib.Path, default=ROOT / "docs")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        from report import self_test
        return self_test.run()
    return (pages.check if arguments.check else pages.write)(arguments.results, arguments.docs)


if __name__ == "__main__":
    sys.exit(main())
