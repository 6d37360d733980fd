# SPDX-License-Identifier: Apache-2.0
"""python -m vicinal export ..."""

import sys

from vicinal.export_command import main

if __name__ == "__main__":
    if sys.argv[1:2] != ["export"]:
        sys.exit("usage: python -m vicinal export SCRIPT.py:MODEL [--data NAME] [--out PATH]")
    sys.exit(main(sys.argv[2:]))
