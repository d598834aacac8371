"""GraphLearn-for-PyTorch's server-client example on CPUs: one server with one sampling process, one client that trains.

    python glt_server_client.py server --data SET ...
    python glt_server_client.py client --data SET ...      # prints one line of JSON

SET is a native data set of products' shape. Model, optimizer, fan-out and loss are the example's; CUDA and NCCL are left out. With
--trim, which the example lacks, the model computes only the rows that the next layer needs.
"""

import argparse
import json
import sys
import time
import types

import numpy as np
import torch

# GLT imports torch_sparse for COO conversions alone, which CSC input doesn't need.
stub = types.ModuleType("torch_sparse")
stub.SparseTensor = type("SparseTensor", (), {})
sys.modules["torch_sparse"] = stub

import graphlearn_torch as glt  # noqa: E402
import torch.nn.functional as functional  # noqa: E402
from torch_geometric.nn import GraphSAGE  # noqa: E402


def load(data, name):
    return torch.from_numpy(np.load(f"{data}/{name}.npy"))


def serve(args):
    edges = "edges.node.to.node"
    labels = load(args.data, "nodes.node.labels").long()
    whole = torch.zeros(len(labels), dtype=torch.long)
    dataset = glt.distributed.DistDataset(num_partitions=1, partition_idx=0, node_pb=whole, edge_dir="in")
    dataset.init_graph(
        # For CSC, GLT wants rows first and then the pointers.
        edge_index=(load(args.data, f"{edges}.indices").long(), load(args.data, f"{edges}.indptr")),
        layout="CSC",
        graph_mode="CPU",
        directed=True,
    )
    dataset.edge_pb = torch.zeros(dataset.graph.edge_count, dtype=torch.long)
    dataset.init_node_features(node_feature_data=load(args.data, "nodes.node.features"), with_gpu=False)
    dataset.init_node_labels(node_label_data=labels)
    torch.save(load(args.data, "split.train").long(), args.seeds)
    glt.distributed.init_server(
        num_servers=1,
        num_clients=1,
        server_rank=0,
        dataset=dataset,
        master_addr=args.master,
        master_port=args.port,
        num_rpc_threads=args.rpc_threads,
    )
    glt.distributed.wait_and_shutdown_server()


def train(args):
    glt.distributed.init_client(
        num_servers=1,
        num_clients=1,
        client_rank=0,
        master_addr=args.master,
        master_port=args.port,
        num_rpc_threads=4,
    )
    loader = glt.distributed.DistNeighborLoader(
        data=None,
        num_neighbors=[int(number) for number in args.fanout.split(",")],
        input_nodes=[args.seeds],
        batch_size=args.batch_size,
        shuffle=True,
        collect_features=True,
        to_device=torch.device("cpu"),
        edge_dir="in",
        worker_options=glt.distributed.RemoteDistSamplingWorkerOptions(
            server_rank=[0],
            num_workers=1,
            worker_devices=[torch.device("cpu")],
            worker_concurrency=args.concurrency,
            master_addr=args.master,
            master_port=args.port + 1,
            buffer_size="1GB",
            prefetch_size=args.prefetch,
            worker_key="train",
        ),
        random_seed=1,
    )
    model = GraphSAGE(in_channels=100, hidden_channels=256, num_layers=3, out_channels=47)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    start = waited = None
    edges = rows = count = 0
    batches = iter(loader)
    while count < args.warm_up + args.steps:
        before = time.perf_counter()
        batch = next(batches)
        if count == args.warm_up:
            start, waited, edges, rows = before, 0.0, 0, 0
        if start is not None:
            waited += time.perf_counter() - before
        optimizer.zero_grad()
        hops = {}
        if args.trim:
            # GLT lists the edges hop by hop, from the seeds outward, as PyG wants them.
            hops["num_sampled_nodes_per_hop"] = [int(number) for number in batch.num_sampled_nodes]
            hops["num_sampled_edges_per_hop"] = [int(number) for number in batch.num_sampled_edges]
        out = model(batch.x, batch.edge_index, **hops)[: batch.batch_size].log_softmax(dim=-1)
        loss = functional.nll_loss(out, batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
        edges += batch.edge_index.shape[1]
        rows += batch.x.shape[0]
        count += 1
    figures = {
        "seconds": (time.perf_counter() - start) / args.steps,
        "waitedSeconds": waited / args.steps,
        "edges": edges / args.steps,
        "rows": rows / args.steps,
    }
    print(json.dumps(figures), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=("server", "client"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", required=True, help="a file that the server writes")
    parser.add_argument("--master", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=29800)
    parser.add_argument("--fanout", default="15,10,5")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--rpc-threads", type=int, default=16)
    parser.add_argument("--trim", action="store_true", help="of the client: leave out rows that no layer needs")
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.multiprocessing.set_start_method("spawn")  # as the example's processes are
    if args.role == "server":
        serve(args)
    else:
        train(args)


if __name__ == "__main__":
    main()
