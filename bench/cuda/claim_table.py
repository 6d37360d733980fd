# SPDX-License-Identifier: Apache-2.0
"""The published claims: what each says, which measurements of ours test it, and whether it holds in this run. Uses the
standard library only, so that it is tested without a GPU."""

import collections
import math

from bench.cuda.claim_cells import Timing

SMALL = ("cora", "citeseer", "pubmed")
LARGE = ("artist", "blogcatalog", "amazon0505")
DENSE = ("mann-a81", "rmat5", "proteins", "reddit")
FAN = ("rand-100K", "rand-100K-out")
GRAPHS = SMALL + LARGE + ("amazon0505-ord",) + DENSE + FAN

# Runs of vicinal_bench_cuda: the graphs and widths of each, and its flags.
Study = collections.namedtuple("Study", "name graphs widths flags")
STUDIES = (
    Study("groups", SMALL + LARGE + ("amazon0505-ord",), (16, 64),
          ("--operations=sum", "--orders=none,community", "--kernels=neighbor_group")),
    Study("blocks", LARGE, (64,),
          ("--operations=sum", "--orders=none,community", "--kernels=neighbor_group_atomics",
           "--configurations=" + ",".join(f"neighbor_group_atomics:gs={gs}:dw=16:tpb=128:apart={apart}"
                                          for gs in (4, 16) for apart in (0, 1)))),
    Study("rows", SMALL + LARGE, (128, 256, 512),
          ("--operations=sum_weighted", "--kernels=row_cache",
           "--configurations=row_cache:uncached=1,row_cache:cf=1,row_cache:cf=2,row_cache:cf=4")),
    Study("dense", ("mann-a81", "rmat5"), (64, 128),
          ("--operations=sum", "--kernels=neighbor_group,partition_dual,dense_tiles",
           "--configurations=" + ",".join(f"partition_dual:theta={theta}" for theta in (5, 40, 80, 160)))),
    Study("templates", FAN, (32, 128, 256), ("--operations=sum,edge_dot", "--kernels=template_spmm,template_sddmm",
          "--configurations=template_sddmm,template_sddmm:serial=1")),
    Study("attention", ("amazon0505",) + FAN, (64, 256),
          ("--operations=dot_1,edge_dot", "--kernels=fused_rows,template_sddmm",
           "--configurations=template_sddmm,template_sddmm:serial=1")),
    Study("templates on large graphs", ("proteins", "reddit"), (32, 64, 128),
          ("--operations=sum,edge_dot,dot_1", "--kernels=template_spmm,template_sddmm,fused_rows",
           "--configurations=template_sddmm,template_sddmm:serial=1")),
    Study("dense, in the order of communities", ("proteins", "reddit"), (64, 128),
          ("--operations=sum", "--orders=community", "--kernels=neighbor_group,partition_dual,dense_tiles",
           "--configurations=" + ",".join(f"partition_dual:theta={theta}" for theta in (5, 40, 80, 160)))),
)

# Kernels whose counters are read if Nsight Compute is available.
Profile = collections.namedtuple("Profile", "name graph width pattern flags")
PROFILES = (
    Profile("block-level optimisation", "amazon0505", 64, "NeighborGroup(sApart|Atomics)",
            ("--operations=sum", "--kernels=neighbor_group_atomics",
             "--configurations=neighbor_group_atomics:gs=4:dw=16:tpb=128,"
             "neighbor_group_atomics:gs=4:dw=16:tpb=128:apart=1")),
    Profile("as shuffled", "amazon0505", 64, "NeighborGroupKernel",
            ("--operations=sum", "--kernels=neighbor_group", "--configurations=neighbor_group:gs=16:dw=16:tpb=128")),
    Profile("renumbered", "amazon0505", 64, "NeighborGroupKernel",
            ("--operations=sum", "--orders=community", "--kernels=neighbor_group",
             "--configurations=neighbor_group:gs=16:dw=16:tpb=128")),
    Profile("row caching and merging", "amazon0505", 512, "Row(Plain|Cache)",
            ("--operations=sum_weighted", "--kernels=row_cache",
             "--configurations=row_cache:uncached=1,row_cache:cf=1,row_cache:cf=2")),
    Profile("tree reduction", "rand-100K", 128, "EdgeProducts",
            ("--operations=edge_dot", "--configurations=template_sddmm,template_sddmm:serial=1")),
    Profile("hybrid partitioning", "rand-100K-out", 128, "StagedRows|MessageRows",
            ("--operations=sum", "--kernels=template_spmm")),
)

# `pair(cells, graph, width)`: (the peer's Timing, ours, the (order, operation) that determines the floors). A Timing
# may be None. `over`: the "mean" or the maximum ("most") of the ratios is compared to `at_least`, the published figure.
Claim = collections.namedtuple("Claim", "text paper published at_least over graphs widths pair note")


def _sum_pair(peer, ours, operation="sum", order="none"):
    return lambda cells, graph, width: (
        peer(cells, graph, order, operation, width), ours(cells, graph, order, operation, width), (order, operation))


def _kernel(kernel, **parameters):
    return lambda cells, graph, order, operation, width: cells.kernel(
        graph, order, operation, width, kernel, parameters or None)


def _exactly(kernel, **parameters):
    return lambda cells, graph, order, operation, width: cells.kernel(
        graph, order, operation, width, kernel, parameters)


def _cusparse(algorithm=None):
    return lambda cells, graph, order, operation, width: cells.cusparse(graph, order, operation, width, algorithm)


def _advisor(cells, graph, width):
    runs = [cells.kernel(graph, order, "sum", width, "neighbor_group") for order in ("none", "community")]
    return (cells.cusparse(graph, "none", "sum", width, "csr_alg2"), min(filter(None, runs), default=None),
            ("none", "sum"))


def _renumbered(cells, graph, width):
    before, after = (cells.kernel(graph, order, "sum", width, "neighbor_group") for order in ("none", "community"))
    return before, after, ("community", "sum")


def _apart(size):
    def pair(cells, graph, width):
        setting = {"gs": size, "dw": 16, "tpb": 128}
        one, other = (cells.kernel(graph, "none", "sum", width, "neighbor_group_atomics", {**setting, **more})
                      for more in ({"apart": 1}, {}))
        return one, other, ("none", "sum")
    return pair


def _dense(cells, graph, width):
    order = "community" if graph in ("proteins", "reddit") else "none"
    runs = [cells.kernel(graph, order, "sum", width, kernel) for kernel in ("partition_dual", "dense_tiles")]
    return cells.cusparse(graph, order, "sum", width), min(filter(None, runs), default=None), (order, "sum")


def _selective(cells, graph, width):
    order = "community" if graph in ("proteins", "reddit") else "none"
    return (cells.kernel(graph, order, "sum", width, "neighbor_group"),
            cells.kernel(graph, order, "sum", width, "partition_dual"), (order, "sum"))


def _staged(cells, graph, width):
    """Compares hybrid partitioning, at its best threshold, to none."""
    cell = cells.cell(graph, "none", "sum", width) or {"kernels": []}
    staged = {k["parameters"] for k in cell["kernels"] if k["kernel"] == "template_spmm" and k.get("parameters")}
    runs = [cells.kernel(graph, "none", "sum", width, "template_spmm", {"degree": int(text.split("=")[1])})
            for text in staged]
    return (cells.kernel(graph, "none", "sum", width, "template_spmm", {}), min(filter(None, runs), default=None),
            ("none", "sum"))


def _attention(cells, graph, width):
    dot = cells.kernel(graph, "none", "edge_dot", width, "template_sddmm", {"serial": 1})
    ours = cells.kernel(graph, "none", "dot_1", width, "fused_rows")
    cell = cells.cell(graph, "none", "dot_1", width)
    if dot is None or cell is None:
        return None, ours, ("none", "dot_1")
    # Maximum; exponential and sum; quotient: five passes over a float per edge.
    fixed = 1e6 * 5 * 4 * cell["edges"] / cells.copy_speed + cell["cusparse_sum_us"]
    peer = Timing(dot.us + fixed, dot.low + fixed, dot.high + fixed, "dot a thread + softmax at copy speed + cuSPARSE")
    return peer, ours, ("none", "dot_1")


_ADVISOR, _GE, _PC, _FEAT = "GNNAdvisor, OSDI'21", "GE-SpMM, SC'20", "PCGCN, IPDPS'20", "FeatGraph, SC'20"
_DGL = "for DGL stands what it calls, cuSPARSE's csr_alg2, here prepared; ours with the better of both orders"

CLAIMS = (
    Claim("aggregation of a GCN (hidden width) over DGL", _ADVISOR + ", 8.2", "4.03 mean", 4.03, "mean",
          SMALL + LARGE, (16,), _advisor, _DGL),
    Claim("aggregation of a GIN (wider rows) over DGL", _ADVISOR + ", 8.2", "2.02 mean", 2.02, "mean",
          SMALL + LARGE, (64,), _advisor, _DGL),
    Claim("renumbering, GCN", _ADVISOR + ", 8.6.2", "up to 1.74", 1.74, "most", LARGE, (16,), _renumbered,
          "shuffled ids against the order by communities, `neighbor_group` in both"),
    Claim("renumbering, GIN", _ADVISOR + ", 8.6.2", "up to 1.49", 1.49, "most", LARGE, (64,), _renumbered,
          "as above"),
    Claim("renumbering of an order that has locality", _ADVISOR + ", 8.6.2", "up to 1.74", 1.74, "most",
          ("amazon0505-ord",), (16, 64), _renumbered, "communities side by side already as sent"),
    Claim("block-level optimisation, time, groups of 4", _ADVISOR + ", 8.6.3", "counts only", None, "mean", LARGE,
          (64,), _apart(4), "the published form with atomic additions, against every group adding to memory"),
    Claim("block-level optimisation, time, groups of 16", _ADVISOR + ", 8.6.3", "counts only", None, "mean", LARGE,
          (64,), _apart(16), "as above"),
    Claim("GE-SpMM over cuSPARSE, N = 128", _GE + ", table VII", "1.18 to 1.20 mean", 1.18, "mean", SMALL + LARGE,
          (128,), _sum_pair(_cusparse(), _kernel("row_cache"), "sum_weighted"), "cuSPARSE's best algorithm, prepared"),
    Claim("GE-SpMM over cuSPARSE, N = 256", _GE + ", table VII", "1.30 to 1.34 mean", 1.30, "mean", SMALL + LARGE,
          (256,), _sum_pair(_cusparse(), _kernel("row_cache"), "sum_weighted"), "as above"),
    Claim("GE-SpMM over cuSPARSE, N = 512", _GE + ", table VII", "1.37 to 1.43 mean", 1.37, "mean", SMALL + LARGE,
          (512,), _sum_pair(_cusparse(), _kernel("row_cache"), "sum_weighted"), "as above"),
    Claim("coalesced row caching", _GE + ", V-B1", "1.25 mean (GTX 1080Ti; 1.01 on RTX 2080)", 1.25, "mean",
          SMALL + LARGE, (512,),
          _sum_pair(_exactly("row_cache", uncached=1), _exactly("row_cache", cf=1), "sum_weighted"),
          "Algorithm 2 against Algorithm 1"),
    Claim("caching and coarse-grained warp merging, CF = 2", _GE + ", V-B2", "1.51 mean", 1.51, "mean",
          SMALL + LARGE, (512,),
          _sum_pair(_exactly("row_cache", uncached=1), _exactly("row_cache", cf=2), "sum_weighted"),
          "Algorithm 3 against Algorithm 1, as the paper counts it"),
    Claim("coarse-grained warp merging alone, CF = 2", _GE + ", V-B2", "not given apart", None, "mean",
          SMALL + LARGE, (512,), _sum_pair(_exactly("row_cache", cf=1), _exactly("row_cache", cf=2), "sum_weighted"),
          "Algorithm 3 against Algorithm 2"),
    Claim("dual mode on dense graphs over the best baseline", _PC + ", tables II and IV",
          "up to 8.8 (propagation alone 11.7)", 8.8, "most", DENSE, (64,), _dense,
          "the best of `partition_dual` and `dense_tiles` against cuSPARSE's best"),
    Claim("dual mode over selective alone", _PC + ", table III", "up to 9.2 (MANN-a81)", 9.2, "most", DENSE, (64,), _selective,
          "`partition_dual` against `neighbor_group`, which is its selective mode"),
    Claim("FeatGraph against cuSPARSE, GCN aggregation", _FEAT + ", V-B", "0.9 to 1.2", 0.9, "mean",
          ("proteins", "reddit") + FAN, (32, 128), _sum_pair(_cusparse(), _kernel("template_spmm")),
          "cuSPARSE's best algorithm, prepared, with a weight per edge as it needs"),
    Claim("tree reduction, dot-product attention", _FEAT + ", V-C", "up to 2", 2.0, "most",
          ("rand-100K", "proteins"), (32, 64, 128, 256),
          _sum_pair(_exactly("template_sddmm", serial=1), _exactly("template_sddmm"), "edge_dot"),
          "against a thread per edge"),
    Claim("hybrid partitioning by degree", _FEAT + ", V-C", "1.1 to 1.2", 1.1, "most",
          ("rand-100K", "rand-100K-out", "proteins"), (32, 128, 256), _staged,
          "`template_spmm` with and without; on rand-100K no source has twice the mean degree"),
    Claim("attention (GAT) over DGL, inference", _FEAT + ", V-E", "7.1 (reddit, one head of 256)", 7.1, "most",
          ("amazon0505", "proteins", "reddit") + FAN, (64, 256), _attention,
          "for DGL stand edge-wise kernels: dot products by a thread per edge, a softmax at the speed of a copy, "
          "cuSPARSE's weighted sum"),
)

Ratio = collections.namedtuple("Ratio", "graph width value low high peer ours floors")


def ratios(claim, cells):
    """One ratio per graph and width that was measured. Above 1: ours, or the claimed technique, is faster."""
    found = []
    for graph in claim.graphs:
        for width in claim.widths:
            peer, ours, (order, operation) = claim.pair(cells, graph, width)
            if peer is None or ours is None:
                continue
            found.append(Ratio(graph, width, peer.us / ours.us, peer.low / ours.high, peer.high / ours.low, peer, ours,
                               cells.floors(graph, order, operation, width)))
    return found


def outcome(claim, found):
    """(figure, whether the claim holds). (None, None): nothing was measured. (figure, None): it states no figure."""
    if not found:
        return None, None
    values = [ratio.value for ratio in found]
    figure = max(values) if claim.over == "most" else math.exp(sum(map(math.log, values)) / len(values))
    return figure, None if claim.at_least is None else figure >= claim.at_least


def _spread(found):
    return f"{min(r.low for r in found):.2f} to {max(r.high for r in found):.2f}"


def table(cells):
    """Markdown: a row per claim."""
    lines = ["| claim | paper, section | published | graphs; widths | ours in this run | lowest and highest | holds |",
             "|---|---|---|---|---:|---:|---|"]
    for claim in CLAIMS:
        found = ratios(claim, cells)
        figure, holds = outcome(claim, found)
        graphs = ", ".join(dict.fromkeys(ratio.graph for ratio in found)) or "-"
        widths = ", ".join(str(width) for width in dict.fromkeys(ratio.width for ratio in found))
        ours = "not measured" if figure is None else f"{figure:.2f} {claim.over}"
        verdict = {None: "-", True: "yes", False: "no"}[holds]
        lines.append(f"| {claim.text} | {claim.paper} | {claim.published} | {graphs}; {widths} | {ours} | "
                     f"{_spread(found) if found else '-'} | {verdict} |")
    return "\n".join(lines) + "\n"


def details(cells):
    """Each ratio with its two times and their distance to the floors, which shows what limits them."""
    text = ""
    for claim in CLAIMS:
        found = ratios(claim, cells)
        if not found:
            continue
        text += f"\n{claim.text} ({claim.note}):\n"
        for r in found:
            dram, gather = r.floors
            text += (f"  {r.graph} {r.width}: {r.value:.2f} [{r.low:.2f} - {r.high:.2f}]  {r.peer.us:.1f} us "
                     f"({r.peer.name}) / {r.ours.us:.1f} us ({r.ours.name}); x DRAM floor {r.peer.us / dram:.1f} / "
                     f"{r.ours.us / dram:.1f}, x gather floor {r.peer.us / gather:.2f} / {r.ours.us / gather:.2f}\n")
    return text


def count_table(counts):
    """Atomic additions to memory that blocks save. `counts`: a list of (graph, group size, width, groups, leaders)."""
    lines = ["| graph | gs | width | additions to memory, every group | with block-level optimisation | fewer |",
             "|---|---:|---:|---:|---:|---:|"]
    for graph, size, width, groups, leaders in counts:
        lines.append(f"| {graph} | {size} | {width} | {groups * width:,} | {leaders * width:,} | "
                     f"{100 * (1 - leaders / groups):.0f} % |")
    return "\n".join(lines) + "\n"


def models_line(cells):
    """Whole models with attention compared to PyTorch Geometric, whose attention is edge-wise, too."""
    found = [f"{cell['graph']} {cell['ratio']:.1f}" for cell in cells if cell["model"] == "gat" and "ratio" in cell]
    return f"\nGAT, whole models, times PyTorch Geometric: {', '.join(found)}\n" if found else ""
