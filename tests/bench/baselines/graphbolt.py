"""DGL GraphBolt 2.1: DGL's rule, every node seen is sampled again at each hop."""

import itertools

import baseline
import dgl.graphbolt as gb
import torch


def build_model(in_channels, classes):
    from dgl.nn.pytorch import SAGEConv

    class Sage(torch.nn.Module):  # as DGL's "Multi-GPU node classification" tutorial
        def __init__(self):
            super().__init__()
            widths = [in_channels, 256, 256, classes]
            self.layers = torch.nn.ModuleList(
                SAGEConv(a, b, "mean") for a, b in itertools.pairwise(widths)
            )
            self.dropout = torch.nn.Dropout(0.5)

        def forward(self, blocks, x):
            for index, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
                x = layer(block, x)
                if index + 1 < len(self.layers):
                    x = self.dropout(torch.relu(x))
            return x

    return Sage()


def main():
    args = baseline.arguments()
    torch.set_num_threads(args.threads)
    graph = gb.fused_csc_sampling_graph(
        baseline.load(args.graph, "indptr"), baseline.load(args.graph, "indices")
    )
    seeds, labels = baseline.load(args.graph, "seeds"), baseline.load(args.graph, "labels")
    # Seeds must have the dtype of the indices; int32 is the faster one.
    items = gb.ItemSet((seeds.int(), labels[seeds]), names=("seed_nodes", "labels"))
    pipe = gb.ItemSampler(items, batch_size=args.batch_size, shuffle=False)
    # GraphBolt names the outermost hop first.
    pipe = pipe.sample_neighbor(graph, args.fanout[::-1])
    trainer = None
    if args.mode != "sample":
        rows = baseline.load(args.graph, "features")
        features = gb.BasicFeatureStore({("node", None, "feat"): gb.TorchBasedFeature(rows)})
        pipe = pipe.fetch_feature(features, node_feature_keys=["feat"])
        trainer = baseline.Trainer(build_model(rows.shape[1], int(labels.max()) + 1))

    def step(batch):
        edges = sum(len(layer.sampled_csc.indices) for layer in batch.sampled_subgraphs)
        if args.mode == "train":
            trainer.step(batch.labels, batch.blocks, batch.node_features["feat"])
        return edges, len(batch.input_nodes)

    baseline.measure("DGL GraphBolt", args, gb.DataLoader(pipe, num_workers=0), step)


if __name__ == "__main__":
    main()
