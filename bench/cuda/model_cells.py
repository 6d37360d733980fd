# SPDX-License-Identifier: Apache-2.0
"""The whole models and graphs that are compared on the GPU, and the evaluation of the samples. Uses the standard
library only, so that it is tested without PyTorch."""

from bench.peers import figures

# Graph -> width of features, hidden width, classes.
WIDTHS = {
    "cora": (1433, 16, 7),
    "citeseer": (3703, 16, 6),
    "pubmed": (500, 16, 3),
    "artist": (100, 16, 12),
    "blogcatalog": (128, 16, 39),
    "amazon0505": (96, 16, 22),
    "molecules": (32, 64, 2),
    "mann-a81": (128, 16, 8),
    "rmat5": (128, 64, 16),
    "rand-100K": (128, 64, 32),
    "proteins": (8, 64, 112),
    "reddit": (602, 64, 41),
    "amazon-photo": (745, 64, 8),
    "amazon-computers": (767, 64, 10),
    "coauthor-physics": (8415, 64, 5),
    "com-dblp": (128, 64, 16),
    "cnr-2000": (128, 64, 16),
    "eu-2005": (128, 64, 16),
    "road-bay": (32, 64, 8),
    "roadnet-pa": (32, 64, 8),
    "ogbg-molhiv": (32, 64, 2),
    "tu-proteins": (4, 64, 2),
    "flickr": (500, 64, 7),
}
MODELS = ("gcn", "sage", "sagemax", "gin", "gat")
_READY_MADE = {"gcn": ("GCN", {}), "sage": ("GraphSAGE", {}), "sagemax": ("GraphSAGE", {"aggr": "max"}), "gin": ("GIN", {})}


def architecture(model, graph):
    """The architecture file of a model for a graph: PyTorch Geometric's ready-made class with two layers; GAT as a list
    of layers, 8 heads of 8 and then one."""
    features, hidden, classes = WIDTHS[graph]
    if model == "gat":
        first = {"in_channels": features, "out_channels": 8, "heads": 8}
        second = {"in_channels": 64, "out_channels": classes}
        return {
            "format": "vicinal.model/1",
            "in_channels": features,
            "layers": [
                {"name": "conv1", "type": "GATConv", "args": first},
                {"name": "act", "type": "ELU"},
                {"name": "conv2", "type": "GATConv", "args": second},
            ],
        }
    name, more = _READY_MADE[model]
    kwargs = {"in_channels": features, "hidden_channels": hidden, "num_layers": 2, "out_channels": classes, **more}
    return {"class": "torch_geometric.nn.models." + name, "kwargs": kwargs}


def edge_buffer_bytes(model, graph, edges):
    """Lower bound of the memory that PyTorch Geometric needs at once for the edges with edge_index: the messages of the
    widest aggregation, before and after they are scaled or scattered."""
    features, hidden, classes = WIDTHS[graph]
    width = {"gcn": max(hidden, classes), "gat": max(64, classes)}.get(model, max(features, hidden))
    copies = 2 if model in ("gcn", "gat") else 1
    return 4 * edges * width * copies


def verdict(cell, ours, peers):
    """Completes a cell. `ours`: {"waited": [[us of a round]...], "queued": ...}; `peers`: name -> the same.
    "waited": the host waits for each run, like a request. "queued": runs are queued, like a loop that never waits. The
    second ratio is that of queued runs, theirs to ours."""
    cell["ours"] = figures.summarise([us for samples in ours["waited"] for us in samples])
    queued_us = cell["ours"]["median_us"]
    if ours.get("queued"):
        queued_us = figures.summarise([us for samples in ours["queued"] for us in samples])["median_us"]
        cell["ours"]["queued_us"] = queued_us
    for name, rounds in peers.items():
        peer = cell["peers"].setdefault(name, {})
        peer.update(figures.summarise([us for samples in rounds["waited"] for us in samples]))
        peer["ratio"] = figures.paired_ratio(ours["waited"], rounds["waited"])
        if rounds["queued"]:
            queued = figures.summarise([us for samples in rounds["queued"] for us in samples])
            peer["queued_us"] = queued["median_us"]
            peer["queued_ratio"] = queued["median_us"] / queued_us
    ran = {name: peer for name, peer in cell["peers"].items() if "ratio" in peer}
    if ran:
        cell["best_peer"] = min(ran, key=lambda name: ran[name]["ratio"])
        cell["ratio"] = ran[cell["best_peer"]]["ratio"]
        queued = [peer["queued_ratio"] for peer in ran.values() if "queued_ratio" in peer]
        cell["queued_ratio"] = min(queued) if queued else None
    return cell


def line(cell):
    ours = cell["ours"]
    text = f"{cell['graph']:<12} {cell['model']:<8} {ours['median_us']:>10.1f} us [{ours['p10_us']:.1f} - {ours['p90_us']:.1f}]"
    if "queued_us" in ours:
        text += f" queued {ours['queued_us']:.1f}"
    if "ratio" not in cell:
        return text + "  no peer ran: " + "; ".join(f"{n}: {p.get('failed')}" for n, p in cell["peers"].items())
    best = cell["peers"][cell["best_peer"]]
    queued = f", queued {cell['queued_ratio']:.2f}" if cell["queued_ratio"] else ""
    return f"{text}  PyG {best['median_us']:>10.1f} us ({cell['best_peer']})  ratio {cell['ratio']:.2f}{queued}"


def summary(cells):
    """Markdown: a row per graph with ours / PyG's fastest in microseconds and their ratio, then geometric means."""
    by_key = {(cell["graph"], cell["model"]): cell for cell in cells}
    graphs = [graph for graph in WIDTHS if any(key[0] == graph for key in by_key)]
    models = [model for model in MODELS if any(key[1] == model for key in by_key)]
    lines = [
        "Microseconds of a forward pass, ours / PyTorch Geometric's fastest form, and how many times as fast we are, with",
        "the host waiting for each pass; in brackets the same where passes of both are queued without waiting.",
        "",
        "| graph | layers | " + " | ".join(models) + " |",
        "|---|---|" + "---:|" * len(models),
    ]
    for graph in graphs:
        texts = [cell_text(by_key.get((graph, model))) for model in models]
        lines.append(f"| {graph} | {'-'.join(map(str, WIDTHS[graph]))} | " + " | ".join(texts) + " |")
    means = []
    for model in models:
        ratios = [cell["ratio"] for cell in cells if cell["model"] == model and "ratio" in cell]
        means.append(f"{figures.geometric_mean(ratios):.2f} (lowest {min(ratios):.2f})" if ratios else "-")
    lines.append("| geometric mean | | " + " | ".join(means) + " |")
    ratios = [cell["ratio"] for cell in cells if "ratio" in cell]
    if ratios:
        lines += ["", f"All {len(ratios)} cells: {figures.geometric_mean(ratios):.2f}, lowest {min(ratios):.2f}."]
    return "\n".join(lines)


def cell_text(cell):
    if cell is None:
        return ""
    ours = f"{cell['ours']['median_us']:.0f}"
    if "ratio" not in cell:
        return ours + " / -"
    queued = f" ({cell['queued_ratio']:.2f})" if cell["queued_ratio"] else ""
    return f"{ours} / {cell['peers'][cell['best_peer']]['median_us']:.0f} = {cell['ratio']:.2f}{queued}"
