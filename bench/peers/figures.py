# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the comparison: medians, spreads, geometric means, memory floors, verdicts. Standard library only,
so that it is tested without PyTorch."""

import bisect
import math


def percentile(samples, share):
    """The `share` quantile (0 to 1) of `samples`, linear between neighbours, as numpy's default is."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def summarise(samples):
    """Median, 10th and 90th percentile, count."""
    return {
        "median_us": percentile(samples, 0.5),
        "p10_us": percentile(samples, 0.1),
        "p90_us": percentile(samples, 0.9),
        "samples": len(samples),
    }


def geometric_mean(values):
    if not values or min(values) <= 0:
        raise ValueError("a geometric mean needs positive numbers")
    return math.exp(math.fsum(math.log(v) for v in values) / len(values))


def interpolate(xs, ys, x):
    """`ys` over ascending positive `xs`, linear in log(x), constant outside."""
    if x <= xs[0]:
        return ys[0]
    if x >= xs[-1]:
        return ys[-1]
    i = bisect.bisect_right(xs, x)
    share = math.log(x / xs[i - 1]) / math.log(xs[i] / xs[i - 1])
    return ys[i - 1] + (ys[i] - ys[i - 1]) * share


def aggregation_bytes(nodes, edges, width, weighted):
    """What an aggregation cannot avoid moving: ids (and weights), row offsets, each source row and each result once."""
    return edges * (8 if weighted else 4) + nodes * 8 + 2 * nodes * width * 4


def aggregation_floors(nodes, edges, width, weighted, speeds):
    """Two lower bounds in microseconds. `memory`: aggregation_bytes at the speed this machine copies. `gather`: each
    neighbour's row loaded once per edge, at the speed this machine reads a working set of the size of the sources;
    only reuse in registers or a nearer cache than that goes below it."""
    memory = aggregation_bytes(nodes, edges, width, weighted) / speeds["copy"]
    read = interpolate(speeds["working_sets"], speeds["read"], nodes * width * 4)
    return {"memory_us": 1e6 * memory, "gather_us": 1e6 * edges * width * 4 / read}


def paired_ratio(ours, peer):
    """Median over rounds of (median of the peer's samples / median of ours): both lists hold one list of samples a
    round. A machine that is shared runs faster and slower by turns; what happened within a round happened to both."""
    return percentile([percentile(p, 0.5) / percentile(o, 0.5) for o, p in zip(ours, peer)], 0.5)


def add_processor_time(cell, rounds):
    """Adds the medians and the lowest ratio of processor time, which other programs disturb less. `rounds`: as cell_verdict's."""
    cell["ours"]["processor_median_us"] = percentile([us for samples in rounds["ours"] for us in samples], 0.5)
    ratios = {}
    for name, samples_of_rounds in rounds.items():
        if name != "ours":
            ratios[name] = paired_ratio(rounds["ours"], samples_of_rounds)
            samples = [us for samples in samples_of_rounds for us in samples]
            cell["peers"][name].update(processor_median_us=percentile(samples, 0.5), processor_ratio=ratios[name])
    if ratios:
        cell["best_peer_by_processor"] = min(ratios, key=ratios.get)
        cell["processor_ratio"] = min(ratios.values())
    return cell


def cell_verdict(cell, rounds):
    """Adds to a cell what was measured: `rounds` holds for "ours" and each peer one list of samples a round. The best
    peer is the one with the lowest paired ratio to ours; the cell's ratio is that: above 1 we are faster."""
    cell["ours"] = summarise([us for samples in rounds["ours"] for us in samples])
    ratios = {}
    for name, samples_of_rounds in rounds.items():
        if name == "ours":
            continue
        ratios[name] = paired_ratio(rounds["ours"], samples_of_rounds)
        cell["peers"][name].update(
            summarise([us for samples in samples_of_rounds for us in samples]), ratio=ratios[name]
        )
    if ratios:
        cell["best_peer"] = min(ratios, key=ratios.get)
        cell["ratio"] = ratios[cell["best_peer"]]
    floors = cell.get("floors")
    if floors:
        cell["over_memory_floor"] = cell["ours"]["median_us"] / floors["memory_us"]
        cell["over_gather_floor"] = cell["ours"]["median_us"] / floors["gather_us"]
    return cell


def slow_peers(known, screen):
    """{name: what was found} of the peers of a cell of an earlier run (or None) that need not be tried again: those
    that failed, and those that were screened out at twice the limit or more."""
    if known is None:
        return {}
    times = [peer["screened_us"] for peer in known["peers"].values() if "screened_us" in peer]
    return {
        name: {**peer, "from_earlier_run": True}
        for name, peer in known["peers"].items()
        if "median_us" not in peer and ("failed" in peer or peer.get("screened_us", 0) > 2 * screen * min(times))
    }
