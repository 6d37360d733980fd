# SPDX-License-Identifier: Apache-2.0
"""vicinal-export SCRIPT.py:MODEL, also python -m vicinal export: runs a script and exports a module that it makes. Stands outside of
vicinal.exporting, which needs torch, so that it can say where torch is missing."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from typing import Optional, Sequence

from vicinal._arguments import TARGETS, check_target
from vicinal.errors import Error, InputError


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="vicinal-export", description="Exports a trained module for vicinal-server.")
    parser.add_argument("module", metavar="SCRIPT.py:MODEL", help="the script is run; MODEL is the name of the module that it makes")
    parser.add_argument("--data", default="data", metavar="NAME", help="name of the graph in the script: a PyG Data or a DGL graph")
    parser.add_argument("--out", metavar="PATH", help="writes PATH.json, PATH.safetensors, PATH.reference.safetensors; default: MODEL")
    parser.add_argument("--target", metavar="TARGET", help=f"what an answer is: {', '.join(TARGETS)}; default: as forward ends")
    args = parser.parse_args(arguments)
    script, colon, name = args.module.rpartition(":")
    if not colon or not os.path.isfile(script):
        parser.error(f"{args.module!r} is not SCRIPT.py:MODEL with an existing script")
    try:
        check_target(args.target)  # the script may train for hours
    except InputError as error:
        print(f"vicinal-export: {error}", file=sys.stderr)
        return 1
    try:
        from vicinal.exporting import export
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        print(f"vicinal-export: {sys.executable} has no torch. Export with the Python that trains the model and has the package vicinal, too: "
              f"python -m vicinal export {args.module}", file=sys.stderr)
        return 1
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    made = runpy.run_path(script)
    missing = [one for one in (name, args.data) if one not in made]
    if missing:
        parser.error(f"{script} does not define {' or '.join(map(repr, missing))} at its top level")
    try:
        exported = export(made[name], made[args.data], target=args.target)
    except Error as error:
        print(f"vicinal-export: {error}", file=sys.stderr)
        return 1
    files = exported.save(args.out or name)
    for note in exported.notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"wrote {', '.join(files)}\nnext: vicinal model upload {files[0]} --weights {files[1]} --reference {files[2]} --name {name.lower()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
