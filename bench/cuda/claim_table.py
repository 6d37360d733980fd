# SPDX-License-Identifier: Apache-2.0
"""The published claims: what each says, which measurements of ours test it, and whether it holds in this run. Uses the
standard library only, so that it is tested without a GPU."""

import collections
import math

from bench.cuda.claim_cells import Timing

SMALL = ("cora", "citeseer", "pubmed")
MOLECULES = ("molecules",)
LARGE = ("artist", "blogcatalog", "amazon0505")
DENSE = ("mann-a81", "rmat5", "proteins", "reddit")
FAN = ("rand-100K", "rand-100K-out")
GRAPHS = SMALL + LARGE + ("amazon0505-ord",) + MOLECULES + DENSE + FAN

# Runs of vicinal_bench_cuda: the graphs and widths of each, and its flags.
Study = collections.namedtuple("Study", "name graphs widths flags")
# Selective mode alone (nothing is dense), as ours and as published; some thresholds; blocks of a partition.
_DUAL = "--configurations=" + ",".join(
    f"partition_dual:{text}" for text in ("theta=1001", "theta=1001:selective=1", "theta=5", "theta=40", "theta=80", "theta=160",
                                          "theta=40:parts=32", "theta=40:selective=1"))
STUDIES = (
    Study("groups", SMALL + LARGE + ("amazon0505-ord",) + MOLECULES, (16, 64),
          ("--operations=sum", "--orders=none,community", "--kernels=neighbor_group")),
    Study("blocks", LARGE, (64,),
          ("--operations=sum", "--orders=none,community", "--kernels=neighbor_group_atomics",
           "--configurations=" + ",".join(f"neighbor_group_atomics:gs={gs}:dw=16:tpb=128:apart={apart}"
                                          for gs in (4, 16) for apart in (0, 1)))),
    Study("rows", SMALL + LARGE, (128, 256, 512),
          ("--operations=sum_weighted", "--kernels=row_cache",
           "--configurations=row_cache:uncached=1,row_cache:cf=1,row_cache:cf=2,row_cache:cf=4")),
    Study("maxima", ("pubmed", "artist", "blogcatalog", "amazon0505"), (16, 64),
          ("--operations=max", "--kernels=row_cache")),
    Study("dense", ("mann-a81", "rmat5"), (64, 128),
          ("--operations=sum,sum_weighted", "--kernels=neighbor_group,partition_dual,dense_tiles", _DUAL)),
    Study("templates", FAN, (32, 128, 256), ("--operations=sum,edge_dot", "--kernels=template_spmm,template_sddmm",
          "--configurations=template_sddmm,template_sddmm:serial=1")),
    Study("attention", ("amazon0505",) + FAN, (64, 256),
          ("--operations=dot_1,edge_dot", "--kernels=fused_rows,template_sddmm",
           "--configurations=template_sddmm,template_sddmm:serial=1")),
    Study("templates on large graphs", ("proteins", "reddit"), (32, 64, 128),
          ("--operations=sum,edge_dot,dot_1", "--kernels=template_spmm,template_sddmm,fused_rows",
           "--configurations=template_sddmm,template_sddmm:serial=1")),
    Study("dense, in the order of communities", ("proteins", "reddit"), (64, 128),
          ("--operations=sum,sum_weighted", "--orders=community", "--kernels=neighbor_group,partition_dual,dense_tiles",
           _DUAL)),
)

# Whole models of models.py: (device, graphs, models).
MODEL_RUNS = (
    ("cuda:0", MOLECULES, ("gcn", "gin")),
    ("cuda:0", ("mann-a81", "rmat5", "proteins"), ("gcn",)),
    ("cuda:0", ("pubmed", "artist", "amazon0505"), ("gcn", "sagemax", "gat")),
    ("cpu", ("artist", "amazon0505"), ("gcn", "sage", "gat")),
)
# Graph and widths of claim_cpu.py: of the settings, and of the threads.
CPU_GRAPH, CPU_WIDTH, CPU_SCALING_WIDTH = "rand-100K", 512, 128

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
    # Claims that do not hold, beside the kernel of cuSPARSE that is faster, or as fast.
    Profile("small graphs against cuSPARSE", "cora", 64, "NeighborGroupKernel|csrmm|spmm",
            ("--operations=sum", "--kernels=neighbor_group")),
    Profile("a warp per row against cuSPARSE", "blogcatalog", 128, "RowCache|csrmm|spmm",
            ("--operations=sum_weighted", "--kernels=row_cache", "--configurations=row_cache:cf=1,row_cache:cf=2")),
    Profile("dual mode with weights against cuSPARSE", "rmat5", 64, "FullMode|SelectiveRows|NeighborGroupKernel|csrmm|spmm",
            ("--operations=sum_weighted", "--kernels=partition_dual", _DUAL)),
    Profile("a message per edge against cuSPARSE", "rand-100K", 128, "MessageRows|StagedRows|csrmm|spmm",
            ("--operations=sum", "--kernels=template_spmm")),
    Profile("attention in one kernel against three", "rand-100K", 256, "FusedAttention|EdgeProductsSerial|csrmm|spmm",
            ("--operations=dot_1,edge_dot", "--kernels=fused_rows,template_sddmm",
             "--configurations=template_sddmm:serial=1")),
)

# `pair(cells, graph, width)`: (the peer's Timing, ours, the (order, operation) that determines the floors or None). A
# Timing may be None. Width 0: a whole model's. `over`: the "mean" or the maximum ("most") of the ratios is compared to `at_least`, the published figure.
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


def _order_of_dense(graph):
    return "community" if graph in ("proteins", "reddit") else "none"


def _dense(kernel, operation="sum"):
    def pair(cells, graph, width):
        order = _order_of_dense(graph)
        return (cells.cusparse(graph, order, operation, width), cells.kernel(graph, order, operation, width, kernel),
                (order, operation))
    return pair


def _selective(operation="sum", **selective):
    """Dual mode over selective mode alone, in which nothing is dense."""
    def pair(cells, graph, width):
        order = _order_of_dense(graph)
        return (cells.kernel(graph, order, operation, width, "partition_dual", {"theta": 1001, **selective}),
                cells.kernel(graph, order, operation, width, "partition_dual"), (order, operation))
    return pair


def _model(model, device="cuda:0", form="edge_index"):
    return lambda cells, graph, _: (*cells.model(device, graph, model, form), None)


def _pooled(cells, graph, width):
    return cells.pool(graph, width), cells.kernel(graph, "none", "max", width, "row_cache"), ("none", "max")


def _on_cpu(peer, ours, peer_threads=0, threads=0):
    """Two of claim_cpu.py's cells; 0 threads: as many as there are."""
    return lambda cells, graph, width: (cells.cpu(peer, peer_threads or cells.cpu_threads(), width),
                                        cells.cpu(ours, threads or cells.cpu_threads(), width), None)


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
_PYG = "whole models; PyG eagerly with edge_index, the form that the paper had; ours tuned"
_CPU_DGL = "for DGL stands PyG with edge_index, which makes messages, too; all threads; ours tuned"

CLAIMS = (
    Claim("aggregation of a GCN (hidden width) over DGL", _ADVISOR + ", 8.2", "4.03 mean", 4.03, "mean",
          SMALL + LARGE, (16,), _advisor, _DGL),
    Claim("aggregation of a GIN (wider rows) over DGL", _ADVISOR + ", 8.2", "2.02 mean", 2.02, "mean",
          SMALL + LARGE, (64,), _advisor, _DGL),
    Claim("aggregation of a GCN on graphs of type II over DGL", _ADVISOR + ", 8.2", "4.02 mean", 4.02, "mean", MOLECULES,
          (16,), _advisor, _DGL + "; molecules in one batch"),
    Claim("aggregation of a GIN on graphs of type II over DGL", _ADVISOR + ", 8.2", "2.86 mean", 2.86, "mean", MOLECULES,
          (64,), _advisor, "as above"),
    Claim("GCN over PyG, graphs of type II", _ADVISOR + ", 8.3", "46.24 mean", 46.24, "mean", MOLECULES, (0,),
          _model("gcn"), _PYG),
    Claim("GIN over PyG, graphs of type II", _ADVISOR + ", 8.3", "13.39 mean", 13.39, "mean", MOLECULES, (0,),
          _model("gin"), _PYG),
    Claim("GCN over PyG's fastest form, graphs of type II", _ADVISOR + ", 8.3", "not given", None, "mean", MOLECULES, (0,),
          _model("gcn", form=None), "PyG's CSR or a CUDA graph, which the paper did not have"),
    Claim("GIN over PyG's fastest form, graphs of type II", _ADVISOR + ", 8.3", "not given", None, "mean", MOLECULES, (0,),
          _model("gin", form=None), "as above"),
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
    Claim("SpMM-like operation (maximum) of GraphSAGE-pool", _GE + ", table IX", "2.39 to 6.15", 2.39, "mean",
          ("pubmed", "artist", "blogcatalog", "amazon0505"), (16, 64), _pooled,
          "for DGL's own kernel stands PyG's, edge by edge; `row_cache`"),
    Claim("SpMM-like operation (maximum) of GraphSAGE-pool, the most", _GE + ", table IX", "up to 6.15", 6.15, "most",
          ("pubmed", "artist", "blogcatalog", "amazon0505"), (16, 64), _pooled, "as above"),
    Claim("GCN end to end over PyG", _GE + ", V-F", "up to 3.67", 3.67, "most", ("pubmed", "artist", "amazon0505"), (0,),
          _model("gcn"), _PYG),
    Claim("GraphSAGE with maxima end to end", _GE + ", table IX", "1.09 to 1.14 over DGL", 1.14, "most",
          ("pubmed", "artist", "amazon0505"), (0,), _model("sagemax"), "as above"),
    Claim("`partition_dual`, propagation on dense graphs over the best baseline (GTX 1080Ti)", _PC + ", table IV",
          "up to 11.7", 11.7, "most", DENSE, (64,), _dense("partition_dual"), "cuSPARSE's best algorithm, prepared"),
    Claim("`partition_dual`, the same (RTX 2080Ti, tensor cores)", _PC + ", table IV", "up to 15.4", 15.4, "most", DENSE,
          (64,), _dense("partition_dual"), "as above"),
    Claim("`dense_tiles`, our own kernel, the same", _PC + ", table IV", "up to 15.4", 15.4, "most", DENSE, (64,),
          _dense("dense_tiles"), "as above"),
    Claim("`partition_dual` with weights per edge", _PC + ", table IV", "up to 11.7", 11.7, "most", DENSE, (64,),
          _dense("partition_dual", "sum_weighted"), "as above, full mode with weights"),
    Claim("GCN end to end on dense graphs over the best baseline", _PC + ", table II", "up to 8.8", 8.8, "most",
          ("mann-a81", "rmat5", "proteins"), (0,), _model("gcn", form=None), "PyG's fastest form; ours tuned"),
    Claim("GCN end to end on dense graphs over PyG as it was", _PC + ", table II", "up to 441 (MANN-a81)", 441.0, "most",
          ("mann-a81", "rmat5", "proteins"), (0,), _model("gcn"), _PYG),
    Claim("dual mode over selective alone, as published", _PC + ", table III", "up to 9.2 (MANN-a81)", 9.2, "most", DENSE,
          (64,), _selective(selective=1), "the paper's selective kernel over all edges"),
    Claim("dual mode over selective alone, ours", _PC + ", table III", "up to 9.2 (MANN-a81)", 9.2, "most", DENSE, (64,),
          _selective(), "`neighbor_group` over all edges"),
    Claim("dual mode over selective alone, weights per edge", _PC + ", table III", "up to 9.2 (MANN-a81)", 9.2, "most",
          DENSE, (64,), _selective("sum_weighted"), "as above"),
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
    Claim("CPU: tiles of features alone", _FEAT + ", figure 13", "1.2", 1.2, "mean", (CPU_GRAPH,), (CPU_WIDTH,),
          _on_cpu("neither", "tiles"), "`tiled_rows` in both, all threads"),
    Claim("CPU: partitions of sources alone", _FEAT + ", figure 13", "1.7", 1.7, "mean", (CPU_GRAPH,), (CPU_WIDTH,),
          _on_cpu("neither", "partitions"), "as above"),
    Claim("CPU: tiles and partitions", _FEAT + ", figure 13", "2.2", 2.2, "mean", (CPU_GRAPH,), (CPU_WIDTH,),
          _on_cpu("neither", "both"), "as above"),
    Claim("CPU: 16 threads over one", _FEAT + ", figure 10", "12.6 (reddit)", 12.6, "mean", (CPU_GRAPH,),
          (CPU_SCALING_WIDTH,), _on_cpu("both", "both", peer_threads=1), "`tiled_rows`, tiles and partitions"),
    Claim("CPU: 16 threads over one, all threads on one partition", _FEAT + ", figure 10", "12.6 (reddit)", 12.6, "mean", (CPU_GRAPH,),
          (CPU_SCALING_WIDTH,), _on_cpu("shared", "shared", peer_threads=1), "`tiled_rows` with `shared`, as published"),
    Claim("CPU: a partition per thread over all threads on one", "our own form", "not given", None, "mean", (CPU_GRAPH,),
          (CPU_WIDTH, CPU_SCALING_WIDTH), _on_cpu("shared", "both"), "`tiled_rows` with `shared` and without, all threads"),
    Claim("CPU: over MKL, one thread", _FEAT + ", table III", "up to 4.4 (rand-100K)", 4.4, "most", (CPU_GRAPH,),
          (CPU_SCALING_WIDTH,), _on_cpu("torch", "both", 1, 1), "for MKL stands PyTorch's product of CSR matrices"),
    Claim("CPU: over MKL, all threads", _FEAT + ", figure 10", "not given", None, "mean", (CPU_GRAPH,),
          (CPU_WIDTH, CPU_SCALING_WIDTH), _on_cpu("torch", "both"), "as above"),
    Claim("CPU: GCN end to end over DGL, inference", _FEAT + ", table VI", "21.3 (reddit)", 21.3, "most",
          ("artist", "amazon0505"), (0,), _model("gcn", "cpu"), _CPU_DGL),
    Claim("CPU: GraphSAGE end to end over DGL, inference", _FEAT + ", table VI", "20.2 (reddit)", 20.2, "most",
          ("artist", "amazon0505"), (0,), _model("sage", "cpu"), _CPU_DGL),
    Claim("CPU: GAT end to end over DGL, inference", _FEAT + ", table VI", "22.1 (reddit); 32.2 in training", 22.1, "most",
          ("artist", "amazon0505"), (0,), _model("gat", "cpu"), _CPU_DGL),
)

# Headline figures without a row of their own above, and why.
UNMEASURED = (
    ("over NeuGraph, end to end", _ADVISOR + ", 8.4", "up to 4.10", "its code was never published"),
    ("over GunRock, GraphSAGE", _ADVISOR + ", 8.5", "27.18 to 100.01", "GunRock is not on the machine, and its GNN code was dropped"),
    ("GE-SpMM over GraphBLAST", _GE + ", table VII", "1.42 to 1.81 mean", "GraphBLAST is not on the machine"),
    ("GE-SpMM over ASpT, prepared", _GE + ", table VIII", "0.85 to 1.00 mean", "ASpT is not on the machine"),
    ("training on a GPU and on a CPU", _FEAT + ", table VI", "2.1 to 2.9 and 21.4 to 32.2", "the engine serves, it does not train"),
    ("over Ligra and Gunrock", _FEAT + ", tables III and IV", "1.4 to 6.0 and 24 to 206", "neither is on the machine"),
)

Ratio = collections.namedtuple("Ratio", "graph width value low high peer ours floors")


def ratios(claim, cells):
    """One ratio per graph and width that was measured. Above 1: ours, or the claimed technique, is faster."""
    found = []
    for graph in claim.graphs:
        for width in claim.widths:
            peer, ours, where = claim.pair(cells, graph, width)
            if peer is None or ours is None:
                continue
            floors = None if where is None else cells.floors(graph, where[0], where[1], width)
            found.append(Ratio(graph, width, peer.us / ours.us, peer.low / ours.high, peer.high / ours.low, peer, ours,
                               floors))
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
        widths = ", ".join(str(width) if width else "models" for width in dict.fromkeys(ratio.width for ratio in found))
        ours = "not measured" if figure is None else f"{figure:.2f} {claim.over}"
        verdict = {None: "-", True: "yes", False: "no"}[holds]
        lines.append(f"| {claim.text} | {claim.paper} | {claim.published} | {graphs}; {widths} | {ours} | "
                     f"{_spread(found) if found else '-'} | {verdict} |")
    lines += [f"| {text} | {paper} | {published} | - | not measured: {why} | - | - |" for text, paper, published, why in UNMEASURED]
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
            text += (f"  {r.graph} {r.width or 'model'}: {r.value:.2f} [{r.low:.2f} - {r.high:.2f}]  {r.peer.us:.1f} us "
                     f"({r.peer.name}) / {r.ours.us:.1f} us ({r.ours.name})")
            if r.floors:
                dram, gather = r.floors
                text += (f"; x DRAM floor {r.peer.us / dram:.1f} / {r.ours.us / dram:.1f}, x gather floor "
                         f"{r.peer.us / gather:.2f} / {r.ours.us / gather:.2f}")
            text += "\n"
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
    found = [f"{cell['graph']} {cell['ratio']:.1f}" for cell in cells
             if cell["model"] == "gat" and "ratio" in cell and cell.get("device") != "cpu"]
    return f"\nGAT, whole models, times PyTorch Geometric: {', '.join(found)}\n" if found else ""
