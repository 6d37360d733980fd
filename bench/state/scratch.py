# SPDX-License-Identifier: Apache-2.0
"""The frame of every benchmark that starts servers: an empty folder to measure in, and what becomes of the results. Python alone,
since machines that have a bundle (deploy/bundle.sh) have no more."""

import json
import shutil
import tempfile


class Scratch:
    """`with Scratch(options.folder) as folder:` an empty folder, deleted in the end."""

    def __init__(self, parent):
        self.path = tempfile.mkdtemp(prefix="vicinal-bench-", dir=parent)

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def finish(options, rows):
    """Prints the rows and writes the file of results."""
    for row in rows:
        print(json.dumps(row, default=float), flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"rows": rows}, file, indent=1, default=float)
