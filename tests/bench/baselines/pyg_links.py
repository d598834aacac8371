"""PyG 2.8's LinkNeighborLoader with torch-sparse: both directions of the links, binary negatives, 64 floats a node."""

import json
import os

import baseline
import torch
from torch_geometric.data import HeteroData
from torch_geometric.loader import LinkNeighborLoader


def main():
    args = baseline.arguments()
    torch.set_num_threads(args.threads)
    pairs = baseline.load(args.graph, "pairs")
    with open(os.path.join(args.graph, "sizes.json")) as file:
        users, items = json.load(file)
    data = HeteroData()
    data["user"].num_nodes, data["item"].num_nodes = users, items
    if args.mode != "sample":
        data["user"].x, data["item"].x = torch.ones(users, 64), torch.ones(items, 64)
    links = pairs.t().contiguous()
    data["user", "to", "item"].edge_index = links
    data["item", "rev_to", "user"].edge_index = links.flip(0)
    loader = LinkNeighborLoader(
        data,
        num_neighbors=args.fanout,
        edge_label_index=(("user", "to", "item"), links),
        neg_sampling="binary",
        batch_size=args.batch_size,
        shuffle=True,
    )

    def step(batch):
        edges = sum(store.edge_index.shape[1] for store in batch.edge_stores)
        return edges, batch["user"].num_nodes + batch["item"].num_nodes

    baseline.measure("PyG torch-sparse", args, loader, step)


if __name__ == "__main__":
    main()
