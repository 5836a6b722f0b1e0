# SPDX-License-Identifier: Apache-2.0
"""Modules of tools/report.py. records.py makes tables (CSV) of bench/results, lines.py and losses.py make Markdown of
the tables, certificates.py makes it of certificates, pictures.py draws, and pages.py puts all into pages.
"""
