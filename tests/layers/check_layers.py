#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Enforces the include rule of the tree: which folder may include which, and where foreign libraries may appear.
Also that the tuner names no kernel, that no compiler can drop the prefetches of one, and that tests make files in
directories of their own.

CONTRIBUTING.md explains the ladder in a table; this file enforces it, and checks that the table says the same. It reads
lines only, knows nothing of CMake, and needs no build: well under a second for the whole tree.

  check_layers.py [ROOT]      exit status 1 and one line per violation: FILE:LINE: what and why
"""

import os
import re
import sys

SOURCE_SUFFIXES = (".h", ".cc", ".cuh", ".cu")
SOURCE_FOLDERS = ("engine", "server", "client", "proto", "bench", "tests")

# Engine folder -> engine folders it may include, besides itself. An entry lists all of them, so that each line can be
# read alone; `check_ladder` refuses a table with a cycle.
BASE = {"base"}
COMMON = BASE | {"api", "memory"}
DEVICE = COMMON | {"device"}
GRAPH = DEVICE | {"graph"}
PREPARED = GRAPH | {"reorder", "profile", "kernels", "tune", "prepared"}
STORED = PREPARED | {"model", "store"}
EXECUTED = STORED | {"plan", "prepare"}
ENGINE_LADDER = {
    "base": set(),
    "memory": BASE,
    "api": BASE | {"memory"},
    "device": COMMON,
    "graph": DEVICE,
    "reorder": GRAPH,
    "profile": GRAPH,
    "kernels": GRAPH,
    "cuda": GRAPH | {"kernels"},  # the backend: a library of its own, which nobody includes
    "tune": GRAPH | {"kernels"},
    "prepared": PREPARED - {"prepared"},
    "model": COMMON,
    "store": PREPARED | {"model"},
    "state": BASE,
    "durable": STORED | {"state"},
    "prepare": STORED,
    "plan": PREPARED | {"model"},
    "execute": EXECUTED,
    "tuning": EXECUTED | {"execute"},
    # What takes several of the above at once: the only one that sees both the request path and the state directory.
    "coordination": EXECUTED | {"execute", "tuning", "state", "durable"},
}

# Foreign headers: pattern of the include -> (pattern of the files that may have it, why).
FOREIGN = [
    (r"^(grpc|grpcpp|grpc\+\+)/|\.grpc\.pb\.h$",
     r"^(server/(services/|rpc|server\.(h|cc)$|errors|health|security|main\.cc$)|client/|bench/|tests/)",
     "gRPC stops at the thin services; handlers and the engine are free of it"),
    (r"^google/protobuf/|\.pb\.h$", r"^(proto|server|client|bench|tests)/",
     "protobuf messages never enter the engine"),
    (r"^prometheus/", r"^(server/metrics|tests/server/metrics)",
     "Prometheus stops at server/metrics; the engine reports through engine/base/stats.h"),
    (r"^openssl/", r"^(proto/tls/|tests/)",
     "OpenSSL stops at proto/tls, beside gRPC's own use of it"),
    (r"^absl/flags/", r"^(server/(main\.cc$|flags)|client/cpp/cli/|bench/|tests/)",
     "flags are read in main and passed on as options"),
    (r"^(cuda|cublas|cusparse|cudnn|nccl|nvrtc|curand|cusolver|cub/|thrust/|mma\.h$)|\.cuh$", r"(^|/)cuda/",
     "CUDA lives under */cuda/ only: every other header compiles with plain g++"),
    (r"^absl/synchronization/", r"^(server/main\.cc$|client/cpp/cli/main\.cc$|bench/serving\.cc$|bench/serving/bare_server\.cc$)",
     "locks are engine/base/mutex.h: the thread sanitizer does not see into Debian's Abseil; main only sets how gRPC's behave"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
GETENV = re.compile(r"\b(secure_)?getenv\s*\(")
GETENV_ALLOWED = re.compile(r"^(server/main\.cc|client/cpp/cli/|tests/|bench/)")

# CTest runs tests at the same time, so two of them would write a fixed name of the shared directory. Python's tempfile is
# right by itself.
TEMPORARY = re.compile(r'\b(TempDir|temp_directory_path|mkdtemp|mkstemp|tmpnam)\s*\(|"/(tmp|dev/shm)/')
TEMPORARY_DIRECTORY = "tests/support/temporary_directory.h"


def check_ladder(ladder):
    """The table itself must name known folders only and have no cycle."""
    for folder, allowed in ladder.items():
        for other in allowed:
            if other not in ladder:
                raise ValueError(f"{folder}: unknown folder {other}")
            if folder == other or folder in ladder[other]:
                raise ValueError(f"{folder} and {other} may include each other")
            if not ladder[other] <= allowed:
                raise ValueError(f"{folder} may include {other}, but not all that {other} may")


LADDER_ROW = re.compile(r"^\| `engine/([a-z_]+)` \|[^|]*\| ([^|]+) \|$", re.MULTILINE)


SERVER_ROW = re.compile(r"^\| `server/` \|[^|]*\| ([^|]+) \|$", re.MULTILINE)


def documented_server(text):
    """Engine folders that the server's row of CONTRIBUTING.md names; None without such a row."""
    row = SERVER_ROW.search(text)
    return None if row is None else set(re.findall(r"`engine/([a-z_]+)`", row.group(1)))


def check_server_row(text):
    documented = documented_server(text)
    if documented == SERVER_ENGINE_FOLDERS:
        return []
    return [f"CONTRIBUTING.md: server/ may include {sorted(documented or [])} of the engine according to the table, "
            f"{sorted(SERVER_ENGINE_FOLDERS)} according to SERVER_ENGINE_FOLDERS"]


def documented_ladder(text):
    """The table of CONTRIBUTING.md as {folder: folders it may include, directly or through those}."""
    rows = {}
    for folder, cell in LADDER_ROW.findall(text):
        names = set() if cell == "nothing of ours" else {name.strip() for name in cell.split(",")}
        unknown = names - set(rows)
        if folder in rows or unknown:
            raise ValueError(f"engine/{folder}: listed twice, or before what it may include: {sorted(unknown)}")
        rows[folder] = names.union(*(rows[name] for name in names))
    return rows


def check_contributing(text, ladder):
    """Where the table of CONTRIBUTING.md differs from the ladder that is enforced: one line per folder."""
    try:
        documented = documented_ladder(text)
    except ValueError as error:
        return [f"CONTRIBUTING.md: {error}"]
    violations = []
    for folder in sorted(set(documented) | set(ladder)):
        if folder not in documented or folder not in ladder:
            where = "ENGINE_LADDER" if folder in documented else "the table"
            violations.append(f"CONTRIBUTING.md: engine/{folder} is missing from {where}")
        elif documented[folder] != ladder[folder]:
            violations.append(f"CONTRIBUTING.md: engine/{folder} may include {sorted(documented[folder])} according to "
                              f"the table, {sorted(ladder[folder])} according to ENGINE_LADDER")
    return violations


# Files directly in engine/: the wiring, which may include every folder, and the header with which tests replace a part.
ENGINE_ROOT = ("engine/engine.cc", "engine/create_engine.h")
PUBLIC_API = "engine/api/engine.h"

# What server/ may include of the engine: requests and resources, what they are made of, and the reservations that
# uploads and replies hold.
SERVER_ENGINE_FOLDERS = {"api", "base", "memory"}


def engine_folder(path):
    """'engine/graph/csr.h' -> 'graph'; 'engine/engine.cc' -> ''; outside of the engine -> None."""
    parts = path.split("/")
    if parts[0] != "engine":
        return None
    return parts[1] if len(parts) > 2 else ""


def from_engine(path, include):
    target = engine_folder(include)
    if target is None:
        return "the engine includes only engine/"
    folder = engine_folder(path)
    if folder == "" and path not in ENGINE_ROOT:
        return f"every file of the engine belongs to a folder; only {', '.join(ENGINE_ROOT)} stand beside them"
    if folder == "":
        return None  # the wiring puts everything together
    if folder not in ENGINE_LADDER:
        return f"engine/{folder}/ is not on the ladder (add it to ENGINE_LADDER and to CONTRIBUTING.md)"
    if target == "" or include == PUBLIC_API:
        return f"{include} is for callers of the engine, not for its own folders"
    if target != folder and target not in ENGINE_LADDER[folder]:
        return f"engine/{folder}/ may not include engine/{target}/"
    return None


def from_server(_path, include):
    if include.startswith(("server/", "proto/", "vicinal/")):
        return None
    if engine_folder(include) in SERVER_ENGINE_FOLDERS:
        return None
    folders = ", ".join(f"engine/{folder}/" for folder in sorted(SERVER_ENGINE_FOLDERS))
    return f"of the engine the server includes {folders} only"


# The one command that works on the server's files instead of talking to a server.
STATE_COMMANDS = "client/cpp/cli/state_commands.cc"
STATE_COMMANDS_ENGINE_FOLDERS = {"base", "state"}


def from_client(path, include):
    if include.startswith(("client/", "proto/", "vicinal/")):
        return None
    if path == STATE_COMMANDS and engine_folder(include) in STATE_COMMANDS_ENGINE_FOLDERS:
        return None
    return "the client includes client/ and proto/ only"


def from_proto(_path, include):
    if include.startswith(("proto/", "vicinal/")):
        return None
    return "proto/ includes proto/ only"


RULES = {"engine": from_engine, "server": from_server, "client": from_client, "proto": from_proto}
OUR_FOLDERS = ("engine/", "server/", "client/", "proto/", "bench/", "tests/", "vicinal/")


def check_include(path, quote, include):
    """What is wrong with `path` including `include`, or None."""
    for pattern, allowed, why in FOREIGN:
        if re.search(pattern, include) and not re.search(allowed, path):
            return why
    if include.startswith(OUR_FOLDERS):
        rule = RULES.get(path.split("/")[0])
        return rule(path, include) if rule else None
    # Quotes are for this tree, and for libraries that are spelled so; a bare name would hide which folder it is from.
    if quote == '"' and "/" not in include:
        return "give the path from the repository's root"
    return None


def check_file(root, path):
    violations = []
    if path.endswith((".cu", ".cuh")) and "cuda" not in path.split("/")[:-1]:
        violations.append(f"{path}:1: CUDA sources live under */cuda/ only")
    with open(os.path.join(root, path), encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            match = INCLUDE.match(line)
            if match:
                problem = check_include(path, match.group(1), match.group(2))
                if problem:
                    violations.append(f"{path}:{number}: {match.group(2)}: {problem}")
            elif GETENV.search(line.split("//")[0]) and not GETENV_ALLOWED.search(path):
                violations.append(f"{path}:{number}: getenv: the environment is read in main only")
            elif path.startswith("tests/") and path != TEMPORARY_DIRECTORY:
                shared = TEMPORARY.search(line.split("//")[0])
                if shared:
                    violations.append(f"{path}:{number}: {shared.group()}: tests run at the same time; make files in a "
                                      f"TemporaryDirectory ({TEMPORARY_DIRECTORY})")
    return violations


KERNEL_NAME = re.compile(r'name\(\) const override \{ return "(\w+)"|^  (?:explicit )?\w+\([^()]*\)\s+: \w+(?:<\w+>)?\("(\w+)"[,)]', re.MULTILINE)
KERNEL_SOURCES = re.compile(r"^engine/(kernels/cpu/.*\.(h|cc)|cuda/.*_kernel\.cc)$")


def kernel_names(text):
    """Names of the kernels that a source defines."""
    return {first or second for first, second in KERNEL_NAME.findall(text)}


def check_kernel_names(path, text, names):
    """The tuner knows kernels by their interface: engine/tune/ names none. Plain words count in quotes only."""
    violations = []
    for number, line in enumerate(text.splitlines(), start=1):
        for name in sorted(names):
            pattern = rf"\b{name}\b" if "_" in name else f'"{name}"'
            if re.search(pattern, line):
                violations.append(f"{path}:{number}: {name}: engine/tune/ names no kernel; ask the kernel's interface")
    return violations


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def check_tuner(root, paths):
    names = set()
    for path in paths:
        if KERNEL_SOURCES.match(path):
            names |= kernel_names(read(root, path))
    violations = []
    for path in paths:
        if path.startswith("engine/tune/"):
            violations += check_kernel_names(path, read(root, path), names)
    return violations


PREFETCH = re.compile(r"\b(hwy::Prefetch|__builtin_prefetch|_mm_prefetch)\(")
# The first line of a function's definition.
FUNCTION = re.compile(r"^ {0,2}(?:[\w:<>&*]+ )+&?\*?\w+\(.*$")
RETURNS_NOTHING = re.compile(r"\bvoid \w+\(")


def check_prefetches(path, text):
    """To GCC a function that only prefetches has no effects: it removes the calls before it would inline them."""
    violations, head, const = [], "", False
    for number, line in enumerate(text.splitlines(), start=1):
        if FUNCTION.match(line):
            head, const = line, False
        if line.endswith(") const {"):
            const = True
        in_danger = RETURNS_NOTHING.search(head) and (const or "static " in head) and "VICINAL_INLINE" not in head
        if PREFETCH.search(line.split("//")[0]) and in_danger:
            violations.append(f"{path}:{number}: a const or static function that prefetches must be VICINAL_INLINE, or GCC removes its calls")
    return violations


def source_files(root):
    for top in SOURCE_FOLDERS:
        for folder, subfolders, names in os.walk(os.path.join(root, top)):
            subfolders[:] = sorted(s for s in subfolders if not s.startswith("."))
            for name in sorted(names):
                if name.endswith(SOURCE_SUFFIXES):
                    yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def check_tree(root):
    """(number of files read, violations)."""
    check_ladder(ENGINE_LADDER)
    paths, violations = list(source_files(root)), []
    for path in paths:
        violations += check_file(root, path)
        if path.startswith("engine/kernels/cpu/"):
            violations += check_prefetches(path, read(root, path))
    return len(paths), violations + check_tuner(root, paths)


def main(arguments):
    default_root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    root = arguments[1] if len(arguments) > 1 else default_root
    count, violations = check_tree(root)
    guide = os.path.join(root, "CONTRIBUTING.md")
    if os.path.exists(guide):
        with open(guide, encoding="utf-8") as file:
            guide_text = file.read()
        violations += check_contributing(guide_text, ENGINE_LADDER) + check_server_row(guide_text)
    else:
        violations.append("CONTRIBUTING.md: missing; its table explains the ladder")
    for violation in violations:
        print(violation)
    if count == 0:
        print(f"no sources under {root}")
        return 1
    print(f"{count} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
