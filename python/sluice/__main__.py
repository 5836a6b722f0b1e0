# SPDX-License-Identifier: Apache-2.0
"""``python -m sluice``: runs the ``sluice`` program of this package with the same arguments."""
import os
import sys

from ._library import tool_environment, tool_path


def main() -> None:
    tool = tool_path()
    try:
        os.execve(tool, ["sluice", *sys.argv[1:]], tool_environment())
    except OSError as error:
        sys.exit(f"sluice: io: {tool}: {error.strerror}; install the package again, or name a build's tool in SLUICE_TOOL")


if __name__ == "__main__":
    main()
