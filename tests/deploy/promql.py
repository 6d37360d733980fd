# SPDX-License-Identifier: Apache-2.0
"""Just enough of PromQL and of the text format of metrics to ask: does a query name only what is exported?"""

import re

# What Prometheus itself adds to every sample, and the one metric that it makes.
TARGET_LABELS = {"instance", "job"}
OWN_METRICS = {"up": set(TARGET_LABELS)}

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(.*)\})? \S+$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="(?:[^"\\]|\\.)*"')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"\b((?:vicinal|process)_[a-z0-9_]+|up)\b(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")


def exported(page):
    """{sample name: its label names} of a metrics page."""
    samples = {name: set(labels) for name, labels in OWN_METRICS.items()}
    for line in page.splitlines():
        match = _SAMPLE.match(line)
        if match and not line.startswith("#"):
            labels = set(_LABEL.findall(match.group(3) or ""))
            samples.setdefault(match.group(1), set(TARGET_LABELS)).update(labels)
    return samples


def families(page):
    """Names of the metrics a page declares."""
    return set(re.findall(r"^# TYPE (\S+) ", page, re.MULTILINE))


def problems(query, samples):
    """What `query` names that `samples` does not have: a list of sentences."""
    # Strings would confuse the search for names; their content does not matter here.
    bare = _STRING.sub('""', query)
    found, labels_there = [], set()
    selectors = _SELECTOR.findall(bare)
    if not selectors:
        found.append(f"no metric in it: {query}")
    for name, matchers in selectors:
        if name not in samples:
            found.append(f"no such metric: {name}")
            continue
        labels_there |= samples[name]
        for label in re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", matchers):
            if label not in samples[name]:
                found.append(f"{name} has no label {label}")
    for group in _GROUPING.findall(bare):
        for label in re.findall(r"[a-z_]+", group):
            if label not in labels_there:
                found.append(f"grouped by {label}, which no metric here has: {query}")
    return found
