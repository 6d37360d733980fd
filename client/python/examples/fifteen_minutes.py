# SPDX-License-Identifier: Apache-2.0
"""Train with PyTorch Geometric, export, serve, ask. Start `vicinal-server` first; needs torch and torch_geometric."""
import torch
import torch.nn.functional as F
import vicinal
from torch_geometric.datasets import KarateClub
from torch_geometric.nn import GCN

data = KarateClub()[0]
model = GCN(data.num_features, 16, num_layers=2, out_channels=4, dropout=0.5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(200):
    model.train()
    optimizer.zero_grad()
    F.cross_entropy(model(data.x, data.edge_index)[data.train_mask], data.y[data.train_mask]).backward()
    optimizer.step()

with vicinal.Client() as client:
    client.upload_graph("karate", data, replace=True)
    client.upload_model("gcn", vicinal.export(model, data), replace=True)
    answer = client.classify("karate", "gcn")
print(f"accuracy {(answer.classes[:, 0] == data.y.numpy()).mean():.3f}")
