# SPDX-License-Identifier: Apache-2.0
"""Reads the measurements behind the claims.

Times come from vicinal_bench_cuda's cells, by graph, order, operation and width; those of whole models from models.py,
of CPUs from claim_cpu.py, of maxima in PyTorch Geometric from claim_pool.py. Additions to memory by neighbour groups are
counted from a graph's rows. Counters come from Nsight Compute's CSV. Uses the standard library only."""

import array
import collections
import csv
import statistics
import struct
import sys

Timing = collections.namedtuple("Timing", "us low high name")


def _timing(entry, name):
    return Timing(entry["median_us"], entry["p10_us"], entry["p90_us"], name)


def parameters_of(text):
    """"cf=2 uncached=0" -> {"cf": 2}: the values other than zero, which means the default."""
    pairs = (word.split("=") for word in text.split())
    return {name: int(value) for name, value in pairs if int(value) != 0}


class Cells:
    """Cells of several runs. If two have the same key, the later one counts, with the kernels of both."""

    def __init__(self, documents, models=(), cpu=(), pool=()):
        """`models`: cells of models.py, each with "device"; `cpu`, `pool`: cells of claim_cpu.py and claim_pool.py."""
        self.copy_speed = max([d["copy_bytes_per_second"] for d in documents], default=0.0)
        self._models = {(c.get("device", "cuda:0"), c["graph"], c["model"]): c for c in models}
        self._cpu = {(c["what"], c["threads"], c["width"]): c for c in cpu}
        self._pool = {(c["graph"], c["width"]): c for c in pool}
        self._cells = {}
        for document in documents:
            for cell in document["cells"]:
                key = (cell["graph"], cell["order"], cell["operation"], cell["width"])
                kept = self._cells.get(key)
                if kept is not None:
                    cell = {**kept, **cell, "kernels": kept["kernels"] + cell["kernels"]}
                self._cells[key] = cell

    def cell(self, graph, order, operation, width):
        return self._cells.get((graph, order, operation, width))

    def kernel(self, graph, order, operation, width, kernel, parameters=None):
        """The fastest correct run of a kernel, or of its configuration `parameters` alone. None: there is none."""
        cell = self.cell(graph, order, operation, width) or {"kernels": []}
        runs = [
            _timing(entry, (kernel + " " + entry["parameters"]).strip())
            for entry in cell["kernels"]
            if entry["kernel"] == kernel
            and entry.get("right")
            and "median_us" in entry
            and (parameters is None or parameters_of(entry["parameters"]) == parameters)
        ]
        return min(runs, default=None)

    def cusparse(self, graph, order, operation, width, algorithm=None):
        """cuSPARSE's fastest correct algorithm, or the named one."""
        cell = self.cell(graph, order, operation, width) or {}
        runs = [
            _timing(peer, "cuSPARSE " + peer["algorithm"])
            for peer in cell.get("peers", [])
            if peer["right"] and algorithm in (None, peer["algorithm"])
        ]
        return min(runs, default=None)

    def model(self, device, graph, model, form=None):
        """(PyTorch Geometric's, ours) of a whole model. `form`: "edge_index", the one of the papers; None: its fastest."""
        cell = self._models.get((device, graph, model))
        if cell is None or "ratio" not in cell:
            return None, None
        name = form or cell["best_peer"]
        peer = cell["peers"].get(name, {})
        if "us" not in peer:
            return None, None
        theirs = peer if "median_us" in peer else {"median_us": peer["us"], "p10_us": peer["us"], "p90_us": peer["us"]}
        return _timing(theirs, f"PyG {name}"), _timing(cell["ours"], "ours, tuned")

    def cpu(self, what, threads, width):
        cell = self._cpu.get((what, threads, width))
        return cell and _timing(cell, f"{what} {cell.get('config', '')}, {threads} threads".replace(" ,", ","))

    def cpu_threads(self):
        """The most threads that a CPU was measured with."""
        return max((threads for _, threads, _ in self._cpu), default=0)

    def pool(self, graph, width):
        cell = self._pool.get((graph, width))
        return cell and _timing(cell, "PyG scatter")

    def floors(self, graph, order, operation, width):
        """(DRAM floor, gather floor) in microseconds."""
        cell = self.cell(graph, order, operation, width)
        return (cell["dram_floor_us"], cell["gather_floor_us"]) if cell else None


def row_lengths(path):
    """In-degrees of a graph in a file of vicinal_bench_graphs."""
    with open(path, "rb") as file:
        nodes, _ = struct.unpack("<qq", file.read(16))
        row_ptr = array.array("i")
        row_ptr.fromfile(file, nodes + 1)
    if sys.byteorder != "little":
        row_ptr.byteswap()
    return [end - begin for begin, end in zip(row_ptr, row_ptr[1:])]


def additions(lengths, group_size, groups_per_block):
    """(groups, leaders): the number of additions to sums in memory if every group adds its own, and if the groups of a
    row in a block are first added up in the block."""
    groups = leaders = 0
    for length in lengths:
        count = max(1, -(-length // group_size))
        leaders += (groups + count - 1) // groups_per_block - groups // groups_per_block + 1
        groups += count
    return groups, leaders


def read_counters(lines, wanted):
    """{kernel name: {metric: median over its launches}} of the wanted metrics, from `ncu --csv --page raw --print-units
    base`. Names keep template arguments, but not parameters and namespaces."""
    rows = list(csv.reader(line for line in lines if line.startswith('"')))
    if not rows:
        return {}
    header, samples = rows[0], collections.defaultdict(lambda: collections.defaultdict(list))
    name_at = header.index("Kernel Name")
    metrics = [(i, name) for i, name in enumerate(header) if name in wanted]
    for row in rows[1:]:
        if not row[name_at]:  # units
            continue
        for i, metric in metrics:
            try:
                samples[_short(row[name_at])][metric].append(float(row[i].replace(",", "")))
            except ValueError:
                pass
    return {name: {m: statistics.median(v) for m, v in by.items()} for name, by in samples.items()}


def _short(name):
    # Nsight Compute writes unnamed namespaces as "unnamed>::" or "<unnamed>::".
    name = name.replace("void ", "", 1).replace("vicinal::cuda::", "").replace("unnamed>::", "").lstrip("<")
    return name.split("(", 1)[0] if "<" not in name else name[: name.rindex(">") + 1]
