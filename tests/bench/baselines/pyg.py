"""PyG 2.8 with torch-sparse: PyG's rule, a hop expands the nodes new in the hop before."""

import baseline
import torch
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE
from torch_sparse import SparseTensor


def main():
    args = baseline.arguments()
    torch.set_num_threads(args.threads)
    indptr, indices = baseline.load(args.graph, "indptr"), baseline.load(args.graph, "indices").long()
    nodes = len(indptr) - 1
    labels = baseline.load(args.graph, "labels")
    # adj_t: row = destination, so that its rows are the in-neighbours.
    data = Data(
        adj_t=SparseTensor(rowptr=indptr, col=indices, sparse_sizes=(nodes, nodes), is_sorted=True),
        num_nodes=nodes,
    )
    trainer = None
    if args.mode != "sample":
        data.x = baseline.load(args.graph, "features")
        data.y = labels
        trainer = baseline.Trainer(
            GraphSAGE(data.x.shape[1], 256, 3, int(labels.max()) + 1, dropout=0.5)
        )
    loader = NeighborLoader(
        data,
        num_neighbors=args.fanout,
        batch_size=args.batch_size,
        input_nodes=baseline.load(args.graph, "seeds"),
    )

    def step(batch):
        if args.mode == "train":
            trainer.step(batch.y[: batch.batch_size], batch.x, batch.adj_t)
        return batch.adj_t.nnz(), batch.num_nodes

    baseline.measure("PyG torch-sparse", args, loader, step)


if __name__ == "__main__":
    main()
