"""GraphLearn-for-PyTorch 0.2.4 on the CPU: PyG's rule, but with replacement below the degree."""

import sys
import types

import baseline
import torch

# GLT imports torch_sparse for COO conversions alone, which CSR input doesn't need.
stub = types.ModuleType("torch_sparse")
stub.SparseTensor = type("SparseTensor", (), {})
sys.modules["torch_sparse"] = stub

import graphlearn_torch as glt  # noqa: E402
from torch_geometric.nn import GraphSAGE  # noqa: E402


def main():
    args = baseline.arguments()
    torch.set_num_threads(args.threads)
    labels = baseline.load(args.graph, "labels")
    dataset = glt.data.Dataset(edge_dir="in")
    dataset.init_graph(
        # For CSC, GLT wants rows first and then the pointers.
        edge_index=(baseline.load(args.graph, "indices").long(), baseline.load(args.graph, "indptr")),
        layout="CSC",
        graph_mode="CPU",
        directed=True,
    )
    dataset.init_node_labels(node_label_data=labels)  # its loader reads them in any case
    trainer = None
    # Its loader gathers in any case: where sampling alone is timed, rows of one number.
    rows = torch.zeros(len(labels), 1)
    if args.mode != "sample":
        rows = baseline.load(args.graph, "features")
    dataset.init_node_features(node_feature_data=rows, with_gpu=False)
    if args.mode == "train":
        trainer = baseline.Trainer(GraphSAGE(rows.shape[1], 256, 3, int(labels.max()) + 1, dropout=0.5))
    loader = glt.loader.NeighborLoader(
        dataset,
        args.fanout,
        input_nodes=baseline.load(args.graph, "seeds"),
        batch_size=args.batch_size,
        as_pyg_v1=False,
        device=torch.device("cpu"),
        seed=1,  # without one it is 13 to 30 times slower
    )

    def step(batch):
        if args.mode == "train":
            trainer.step(batch.y[: batch.batch_size], batch.x, batch.edge_index)
        return batch.edge_index.shape[1], len(batch.node)

    baseline.measure("GraphLearn-for-PyTorch", args, loader, step)


if __name__ == "__main__":
    main()
