#!/usr/bin/env python3
"""A discrete-event model of an epoch on partitioned data: sampling, gathering, calls to other nodes, steps, all-reduce.

    tests/bench/partition/epoch_model.py --runs RUNS.json [...]   # calibrate, predict, compare
    tests/bench/partition/epoch_model.py --forecast               # the tables of docs/forecast.md

RUNS are what two_nodes printed. Of each RUNS, the jobs with one rank and the batches without a trainer (request_bench) calibrate
the model; the jobs with two nodes are predicted. Exits with 1 if one is more than 15 % off.

A node has cores, which its tasks share fairly, and a link, which its transfers share fairly in each direction. A rank's
sampler threads make batches ahead of its steps; one more thread of each process does its network's work, one of a node's
answers requests. Steps take batches in order and end together, in an all-reduce over the same links. Costs of an edge, a row, a
step and a byte are those of one rank alone and of one that asks for batches and trains on none (Machine); nothing is fitted to a
run with more ranks. What is left out: caches and memory channels that cores share, lost packets and full queues in the network,
and how much batches differ from their mean.
"""

import argparse
import collections
import dataclasses
import heapq
import itertools
import json
import math
import sys


@dataclasses.dataclass
class Machine:
    """A node of the job. CPU seconds are of one core."""

    cores: float = 1
    edge_seconds: float = 20e-9  # CPU: to sample an edge of lists in this node's memory
    # CPU where lists are partitioned: of an edge, its own draw if the list is here, and the relabelling; and of the owner's draw
    # of an edge for another node. Messages are counted in.
    join_seconds: float = 20e-9
    draw_seconds: float = 10e-9
    row_seconds: float = 106e-12  # CPU: to gather a byte of rows in this node's memory
    # CPU at either end of a call for rows, besides the owner's gathering: each call, and each byte that is sent or received.
    call_seconds: float = 30e-6
    send_seconds: float = 0.35e-9
    receive_seconds: float = 0.45e-9
    reduce_seconds: float = 0  # CPU: of a rank for each byte that an all-reduce sends and receives; NCCL takes none
    message_bytes: float = 1 << 20  # of rows in a call
    bandwidth: float = 1.25e9  # bytes per second of the link, each way
    latency: float = 50e-6  # one way


@dataclasses.dataclass
class Work:
    """A batch, on average."""

    seeds: int
    hops: list  # [(nodes whose lists are drawn from, edges)]
    rows: float
    row_bytes: float
    step_seconds: float  # forward, backward, optimizer: CPU of one core, or of the GPU
    gradient_bytes: float = 0

    @property
    def edges(self):
        return sum(edges for _, edges in self.hops)


@dataclasses.dataclass
class Ends:
    """CPU seconds of a call: of the owner's threads for answers and for the network, and of the asking rank's for the network."""

    answer: float = 0
    send: float = 0
    receive: float = 0


@dataclasses.dataclass
class Run:
    machine: Machine
    work: Work
    nodes: int = 1
    ranks_per_node: int = 1
    batches: int = 30  # of a rank
    sampling_threads: int = 1  # of a rank
    concurrency: int = 4  # batches under way of a thread
    prefetch: int = 2  # batches that may wait for the trainer, beyond those under way
    lists_local: float = 1  # share of the nodes drawn from whose lists are this node's
    rows_local: float = 1  # share of the rows that are this node's
    hit: float = 0  # share of the other rows that the cache has
    serving_ranks: int = 1  # of a node, which answer the other nodes
    mirrored: bool = False  # one node is simulated, which calls itself in place of the others
    step_cores: float = 1  # that a step can use
    step_is_on_gpu: bool = False
    copy_bandwidth: float = math.inf  # bytes per second to the GPU


class Shared:
    """Work that tasks do side by side: `capacity` a second in all, shared fairly up to each task's own limit."""

    def __init__(self, simulation, capacity):
        self.simulation, self.capacity = simulation, capacity
        self.tasks = {}  # number: [work left, limit, what follows]
        self.numbers = itertools.count()
        self.at = 0.0
        self.version = 0
        self.busy = 0.0

    def rates(self):
        left, open_tasks, rates = self.capacity, sorted(self.tasks.items(), key=lambda task: task[1][1]), {}
        for place, (number, (_, limit, _)) in enumerate(open_tasks):
            rates[number] = min(limit, left / (len(open_tasks) - place))
            left -= rates[number]
        return rates

    def advance(self):
        passed = self.simulation.now - self.at
        for number, rate in self.rates().items():
            self.tasks[number][0] -= rate * passed
            self.busy += rate * passed
        self.at = self.simulation.now

    def add(self, work, limit, then):
        self.advance()
        self.tasks[next(self.numbers)] = [work, limit, then]
        self.plan()

    def plan(self):
        self.version += 1
        ends = [max(0.0, self.tasks[number][0]) / rate for number, rate in self.rates().items()]
        if ends:
            self.simulation.after(min(ends), lambda version=self.version: self.finish(version))

    def finish(self, version):
        if version != self.version:
            return
        self.advance()
        done = [number for number, task in self.tasks.items() if task[0] <= 1e-12 + 1e-9 * self.capacity]
        followers = [self.tasks.pop(number)[2] for number in done]
        self.plan()
        for then in followers:
            then()


class Threads:
    """So many threads, which take tasks in order: each is some seconds of CPU of a node."""

    def __init__(self, cpu, count):
        self.cpu, self.count, self.free = cpu, count, count
        self.waiting = collections.deque()
        self.busy = 0.0

    def run(self, seconds, then):
        self.waiting.append((seconds, then))
        self.go_on()

    def go_on(self):
        while self.free > 0 and self.waiting:
            seconds, then = self.waiting.popleft()
            self.free -= 1
            self.busy += seconds
            self.cpu.add(seconds, 1, lambda then=then: self.done(then))

    def done(self, then):
        self.free += 1
        then()
        self.go_on()


class Simulation:
    def __init__(self):
        self.now = 0.0
        self.events = []
        self.order = itertools.count()

    def after(self, seconds, then):
        heapq.heappush(self.events, (self.now + seconds, next(self.order), then))

    def run(self):
        while self.events:
            self.now, _, then = heapq.heappop(self.events)
            then()


def when_all(count, then):
    """A function to call `count` times: the last call calls `then`."""
    left = [count]

    def arrived():
        left[0] -= 1
        if left[0] == 0:
            then()

    return arrived


class Node:
    def __init__(self, simulation, run):
        machine = run.machine
        self.cpu = Shared(simulation, machine.cores)
        self.sends = Shared(simulation, machine.bandwidth)
        self.receives = Shared(simulation, machine.bandwidth)
        # A process has one thread for its network's work, and one that serves some more for its answers.
        self.networks = [Threads(self.cpu, 1) for _ in range(run.ranks_per_node)]
        self.answers = [Threads(self.cpu, run.sampling_threads) for _ in range(run.serving_ranks)]


class Rank:
    def __init__(self, epoch, node, local_rank):
        self.epoch, self.node, self.local_rank = epoch, node, local_rank
        self.samplers = Threads(node.cpu, epoch.run.sampling_threads)
        self.network = node.networks[local_rank]
        self.started = self.under_way = self.taken = 0
        self.ready = set()
        self.is_waiting = True  # for a batch

    def start_batches(self):
        run = self.epoch.run
        most = run.sampling_threads * run.concurrency
        while self.started < run.batches and self.under_way < most and self.started < self.taken + most + run.prefetch:
            self.started += 1
            self.under_way += 1
            self.sample(self.started - 1, 0)

    def others(self):
        if self.epoch.run.mirrored:
            return [self.node]  # for all of them
        return [node for node in self.epoch.nodes if node is not self.node]

    def sample(self, number, hop):
        run, machine = self.epoch.run, self.epoch.run.machine
        if run.lists_local == 1 or not self.others():
            self.samplers.run(run.work.edges * machine.edge_seconds, lambda: self.fetch(number))
            return
        if hop == len(run.work.hops):
            self.fetch(number)
            return
        nodes, edges = run.work.hops[hop]
        others = self.others()
        remote = (1 - run.lists_local) / len(others)
        work = edges * machine.join_seconds / 2  # before the others' answers, and after them
        drawn = when_all(len(others) + 1, lambda: self.samplers.run(work, lambda: self.sample(number, hop + 1)))
        for owner in others:
            # Ids of 4 bytes; a count of 4 bytes each comes back, and a source of 4 bytes an edge.
            drawing = Ends(answer=edges * remote * machine.draw_seconds)
            self.call(owner, 4 * nodes * remote, 4 * (nodes + edges) * remote, drawing, drawn)
        self.samplers.run(work, drawn)

    def fetch(self, number):
        run, machine = self.epoch.run, self.epoch.run.machine
        size = run.work.rows * run.work.row_bytes
        others = self.others()
        remote = size * (1 - run.rows_local) * (1 - run.hit) / len(others) if others else 0
        arrived = when_all(len(others) + 1 if remote else 1, lambda: self.arrived(number))
        owners = run.nodes - 1 if run.mirrored else 1  # that each of `others` stands for
        for owner in others if remote else []:
            calls = owners * math.ceil(remote / owners / machine.message_bytes)
            if run.mirrored:
                self.rows_call(owner, remote, calls, arrived)
                continue
            answered = when_all(calls, arrived)
            for _ in range(calls):
                self.rows_call(owner, remote / calls, 1, answered)
        self.samplers.run((size - remote * len(others)) * machine.row_seconds, arrived)

    def rows_call(self, owner, size, calls, then):
        machine, ids = self.epoch.run.machine, 8 * size / self.epoch.run.work.row_bytes
        handling = calls * machine.call_seconds
        work = Ends(
            answer=handling + size * machine.row_seconds,
            send=size * machine.send_seconds,
            receive=handling + size * machine.receive_seconds,
        )
        self.call(owner, ids, size, work, then)

    def call(self, owner, asked, answered, work, then):
        """Requests of `asked` bytes, to which `owner` answers `answered` bytes."""
        epoch = self.epoch
        server = self.local_rank % len(owner.answers)

        def answer():
            owner.answers[server].run(work.answer, send)

        def send():
            owner.networks[server].run(work.send, transfer)

        def transfer():
            epoch.transfer(owner, self.node, answered, receive)

        def receive():
            self.network.run(work.receive, then)

        epoch.transfer(self.node, owner, asked, answer)

    def arrived(self, number):
        run = self.epoch.run
        copying = run.work.rows * run.work.row_bytes / run.copy_bandwidth
        self.epoch.simulation.after(copying, lambda: self.has(number))

    def has(self, number):
        self.under_way -= 1
        self.ready.add(number)
        self.start_batches()
        self.step()

    def step(self):
        run = self.epoch.run
        if not self.is_waiting or self.taken not in self.ready:
            return
        self.is_waiting = False
        self.ready.remove(self.taken)
        self.taken += 1
        self.start_batches()
        if run.step_is_on_gpu:
            self.epoch.simulation.after(run.work.step_seconds, self.epoch.reduce)
        else:
            self.node.cpu.add(run.work.step_seconds, run.step_cores, self.epoch.reduce)

    def go_on(self):
        self.is_waiting = True
        self.step()


class Epoch:
    def __init__(self, run):
        self.run, self.simulation = run, Simulation()
        self.nodes = [Node(self.simulation, run) for _ in range(1 if run.mirrored else run.nodes)]
        self.at_reduce = 0
        self.ends = []  # of steps
        self.ranks = [Rank(self, node, local_rank) for node in self.nodes for local_rank in range(run.ranks_per_node)]
        for rank in self.ranks:
            rank.start_batches()
        self.simulation.run()

    def transfer(self, sender, receiver, size, then):
        latency = self.run.machine.latency
        arrived = when_all(2, lambda: self.simulation.after(latency, then))  # the slower end counts
        sender.sends.add(size, math.inf, arrived)
        receiver.receives.add(size, math.inf, arrived)

    def reduce(self):
        self.at_reduce += 1
        if self.at_reduce < len(self.ranks):
            return
        self.at_reduce = 0
        n = self.run.nodes
        size = 2 * (n - 1) / n * self.run.work.gradient_bytes
        rounds = 2 * (n - 1) * self.run.machine.latency
        if n == 1:
            self.reduced()
            return
        done = when_all(2 * len(self.nodes), lambda: self.simulation.after(rounds, self.reduced))
        for place, node in enumerate(self.nodes):
            self.transfer(node, self.nodes[(place + 1) % len(self.nodes)], size, done)
            node.cpu.add(size * self.run.machine.reduce_seconds, 1, done)

    def reduced(self):
        self.ends.append(self.simulation.now)
        for rank in self.ranks:
            self.simulation.after(0, rank.go_on)


def step_seconds(run):
    """Seconds from a step's end to the next's, once the pipeline is full."""
    return steady_seconds(Epoch(run))


def steady_seconds(epoch):
    ends = epoch.ends
    first = len(ends) // 3
    return (ends[-1] - ends[first]) / (len(ends) - 1 - first)


def busiest(epoch):
    """What of a node was busy for most of the time, and for which share of it."""
    end, node, run = epoch.ends[-1], epoch.nodes[0], epoch.run
    shares = {
        "GPU" if run.step_is_on_gpu else "step": run.work.step_seconds * run.batches / end if run.step_is_on_gpu else 0,
        "cores": node.cpu.busy / node.cpu.capacity / end,
        "link": node.sends.busy / node.sends.capacity / end,
        "thread that serves": node.networks[0].busy / end,
        "sampler threads": epoch.ranks[0].samplers.busy / epoch.ranks[0].samplers.count / end,
        "copy to the GPU": run.work.rows * run.work.row_bytes / run.copy_bandwidth * run.batches / end,
    }
    name = max(shares, key=shares.get)
    return name, shares[name]


# ---- Runs of two_nodes

PAYLOAD = 1448 / 1514  # of a full packet with the headers of TCP, IP and Ethernet
GRADIENT_BYTES = 4 * 206_895  # GraphSAGE, 100 to 256 to 256 to 47


def hops_of(batch_size, fanout, edges):
    """Nodes drawn from and edges of each hop, if the same share of a hop's edges finds a new node in all of them and lists
    are longer than fan-outs."""

    def total(share):
        return sum(batch_size * share**hop * math.prod(fanout[: hop + 1]) for hop in range(len(fanout)))

    low, high = 0.0, 1.0
    for _ in range(50):
        share = (low + high) / 2
        low, high = (share, high) if total(share) < edges else (low, share)
    hops = [batch_size * share**hop * math.prod(fanout[:hop]) for hop in range(len(fanout))]
    return [(nodes, nodes * draws) for nodes, draws in zip(hops, fanout, strict=True)]


def bandwidth_of(rate):
    number, unit = float(rate.removesuffix("gbit").removesuffix("mbit")), rate[-4:]
    return number * {"gbit": 1e9, "mbit": 1e6}[unit] / 8


def calibrate(alone, rate):
    """Machine and Work by a run of one rank on one core, while another such job has the other, and by what batches cost a rank
    without a trainer whose rows, or rows and lists, lie on another node."""
    # Batches of this node's memory don't know the rate: the run that was disturbed least counts.
    local = min((each["local"] for each in alone["requests"].values()), key=lambda each: each["cpuSeconds"])
    rows, both = alone["requests"][rate]["featuresPartitioned"], alone["requests"][rate]["bothPartitioned"]
    row_bytes = local["bytesOfRow"]
    sampling = local["cpuSeconds"] * local["sampleShare"]
    row_seconds = (local["cpuSeconds"] - sampling) / (local["rows"] * row_bytes)
    receive = (rows["cpuSeconds"] - sampling - row_seconds * (rows["rows"] * row_bytes - rows["rowBytes"])) / rows["rowBytes"]
    serve = rows["serverCpuSeconds"] / rows["rowBytes"]
    joining = both["cpuSeconds"] - receive * both["rowBytes"] - row_seconds * (both["rows"] * row_bytes - both["rowBytes"])
    machine = Machine(
        edge_seconds=sampling / local["edges"],
        join_seconds=joining / both["edges"],
        draw_seconds=(both["serverCpuSeconds"] - serve * both["rowBytes"]) / (both["hopBytes"] / 4),
        row_seconds=row_seconds,
        call_seconds=0,
        send_seconds=serve - row_seconds,
        receive_seconds=receive,
        reduce_seconds=sum(alone["cableSecondsPerByte"]),
    )
    steps = alone["metrics"]["gnn_train_steps_total"]
    edges = alone["metrics"]["gnn_sampler_edges_total"] / steps
    work = Work(
        seeds=alone["batchSize"],
        hops=hops_of(alone["batchSize"], alone["fanout"], edges),
        rows=alone["metrics"]["gnn_sampler_nodes_total"] / steps,
        row_bytes=row_bytes,
        step_seconds=0,
        gradient_bytes=GRADIENT_BYTES,
    )
    work.step_seconds = alone["median"] - edges * machine.edge_seconds - work.rows * row_bytes * row_seconds
    return machine, work


def predict(alone, run):
    machine, work = calibrate(alone, run["rate"])
    machine.bandwidth = bandwidth_of(run["rate"]) * PAYLOAD
    local = run["expected"]["localShare"]
    return step_seconds(
        Run(
            machine,
            work,
            nodes=2,
            lists_local=local if run["topology"] == "Partitioned" else 1,
            rows_local=local,
            hit=run["expected"]["hitRate"],
        )
    )


def compare(files):
    worst = 0.0
    print(f"{'batch':>6} {'fan-out':>10} {'run':32} {'measured s':>10} {'model s':>8} {'error':>7}")
    for file in files:
        with open(file) as text:
            runs = json.load(text)
        for run in runs[2:]:
            seconds = predict(runs[1], run)
            error = seconds / run["median"] - 1
            fanout = ",".join(str(draws) for draws in run["fanout"])
            print(f"{run['batchSize']:6} {fanout:>10} {run['name']:32} {run['median']:10.3f} {seconds:8.3f} {error:+7.1%}")
            worst = max(worst, abs(error))
    print(f"largest error {worst:.1%}, goal at most 15 %")
    return 0 if worst <= 0.15 else 1


# ---- Forecast


@dataclasses.dataclass
class Job:
    name: str
    seeds: int  # of an epoch
    work: Work


# Eight GPUs a node; sources and assumptions are in docs/forecast.md.
CORES_PER_RANK = 14
SAMPLING_THREADS = 8
COPY_BANDWIDTH = 50e9
PAPERS = Job(
    "ogbn-papers100M, GraphSAGE",
    1_207_179,
    Work(1024, hops_of(1024, [15, 10, 5], 450_000), rows=400_000, row_bytes=256, step_seconds=0.012, gradient_bytes=1.05e6),
)
IGBH = Job(
    "IGBH-Full, R-GAT",
    94_605_600,
    Work(1024, hops_of(1024, [15, 10, 5], 700_000), rows=400_000, row_bytes=2048, step_seconds=0.06, gradient_bytes=100e6),
)
# By nodes: the share of a batch's rows that are its node's, and of the others those in a cache of 10 % of all rows.
SHARES = {8: (0.49, 0.55), 16: (0.43, 0.62), 32: (0.36, 0.69), 64: (0.29, 0.76)}


def epoch_text(seconds):
    return f"{seconds:.0f} s" if seconds > 10 else f"{seconds:.2f} s"


def forecast():
    print("| Job | Nodes | Link | Ranks of a node that serve | Step | Epoch | Busiest |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for job, nodes, (gigabits, serving) in itertools.product((PAPERS, IGBH), SHARES, ((100, 1), (100, 8), (400, 8))):
        epoch = Epoch(
            Run(
                Machine(cores=8 * CORES_PER_RANK, bandwidth=gigabits / 8 * 1e9, latency=20e-6),
                job.work,
                nodes=nodes,
                ranks_per_node=8,
                batches=80,
                sampling_threads=SAMPLING_THREADS,
                concurrency=1,
                rows_local=SHARES[nodes][0],
                hit=SHARES[nodes][1],
                serving_ranks=serving,
                mirrored=True,
                step_is_on_gpu=True,
                copy_bandwidth=COPY_BANDWIDTH,
            )
        )
        seconds = steady_seconds(epoch)
        steps = math.ceil(job.seeds / (1024 * 8 * nodes))
        name, share = busiest(epoch)
        print(
            f"| {job.name} | {nodes} | {gigabits} Gb/s | {serving} | {1000 * seconds:.0f} ms | {epoch_text(steps * seconds)} "
            f"| {name}, {share:.0%} |",
            flush=True,
        )
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", nargs="+", default=[], help="what two_nodes printed")
    parser.add_argument("--forecast", action="store_true")
    arguments = parser.parse_args()
    if arguments.forecast:
        return forecast()
    if not arguments.runs:
        parser.error("--runs or --forecast")
    return compare(arguments.runs)


if __name__ == "__main__":
    sys.exit(main())
