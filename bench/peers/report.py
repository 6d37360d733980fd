# SPDX-License-Identifier: Apache-2.0
"""Lines and tables of the comparison, for people."""

from bench.peers import figures

NEVER_SLOWER = 0.97  # of the best peer; what is below is named
WANTED = {"aggregate": 1.5, "forward": 3.0, "edge_layer": 5.0}


def title(cell):
    width = f" {cell['width']}" if "width" in cell else f" A={cell['edge_dim']}" if "edge_dim" in cell else ""
    return f"{cell['graph']} {cell['name']}{width}, {cell['threads']} thread{'s' if cell['threads'] > 1 else ''}"


def line(cell):
    text = f"{title(cell):<44}"
    if "ours" in cell:
        ours = cell["ours"]
        text += f" {ours['median_us']:>11.1f} [{ours['p10_us']:.1f} - {ours['p90_us']:.1f}] us" f"{'':<2}"
    if "ratio" in cell:
        best = cell["peers"][cell["best_peer"]]
        text += (
            f" best peer {best['median_us']:>11.1f} [{best['p10_us']:.1f} - {best['p90_us']:.1f}] "
            f"ratio {cell['ratio']:.2f} ({cell['best_peer']})"
        )
    if "processor_ratio" in cell:
        text += f"; of processor time {cell['processor_ratio']:.2f} ({cell['best_peer_by_processor']})"
    if "ours_peak_bytes" in cell:
        peaks = [f"{name} {peer['peak_bytes'] / 1e6:.1f}" for name, peer in cell["peers"].items() if "peak_bytes" in peer]
        text += f"; peak {cell['ours_peak_bytes'] / 1e6:.1f} MB, " + ", ".join(peaks)
    if "over_memory_floor" in cell:
        text += f"; {cell['over_memory_floor']:.2f} x memory floor, {cell['over_gather_floor']:.2f} x gather floor"
    return text


def summary(cells):
    """Markdown: geometric means per kind of cell and number of threads, then every cell that is not fast enough."""
    compared = [c for c in cells if "ratio" in c]
    groups = {}
    for cell in compared:
        groups.setdefault((cell["threads"], cell["kind"], "all"), []).append(cell)
        groups.setdefault((cell["threads"], cell["kind"], cell["name"]), []).append(cell)
    lines = [
        "| threads | what | cells | geometric mean | lowest | x memory floor | x gather floor | below 0.97 |",
        "|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (threads, kind, name), members in sorted(
        groups.items(), key=lambda item: (item[0][0], item[0][1], item[0][2] != "all")
    ):
        ratios = [c["ratio"] for c in members]
        floors = [
            figures.geometric_mean([c[key] for c in members]) if all(key in c for c in members) else None
            for key in ("over_memory_floor", "over_gather_floor")
        ]
        shown = [f"{f:.2f}" if f else "" for f in floors]
        what = f"{kind}, {name}"
        lines.append(
            f"| {threads} | {what} | {len(members)} | {figures.geometric_mean(ratios):.2f} | {min(ratios):.2f} | "
            f"{shown[0]} | {shown[1]} | {sum(r < NEVER_SLOWER for r in ratios)} |"
        )
    slower = sorted((c for c in compared if c["ratio"] < WANTED[c["kind"]]), key=lambda c: c["ratio"])
    lines += [
        "",
        "Below the ratio that is wanted of the mean (aggregation 1.5, forward pass 3), slowest first:",
        "",
        "| cell | ours us | best peer us | ratio | x memory floor | x gather floor | best peer |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for cell in slower:
        floors = [f"{cell[k]:.2f}" if k in cell else "" for k in ("over_memory_floor", "over_gather_floor")]
        lines.append(
            f"| {title(cell)} | {cell['ours']['median_us']:.1f} | "
            f"{cell['peers'][cell['best_peer']]['median_us']:.1f} | {cell['ratio']:.2f} | {floors[0]} | {floors[1]} | "
            f"{cell['best_peer']} |"
        )
    return "\n".join(lines)
