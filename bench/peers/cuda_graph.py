# SPDX-License-Identifier: Apache-2.0
"""Tasks of PyTorch as CUDA graphs."""

import torch

WARM_UPS_OF_CAPTURE = 3


def capture(task):
    """A function that replays the task, and what it writes each time. Raises RuntimeError where the task cannot be captured, as where it asks the GPU for a number."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS_OF_CAPTURE):
            task()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = task()

    def replay(_keeps=task):  # keeps the tensors alive that the graph reads; the graph does not own them
        graph.replay()

    return replay, result
