#!/usr/bin/env python3
"""A discrete-event model of an epoch on partitioned data: sampling, gathering, calls to other nodes, steps, all-reduce.

    tests/bench/partition/epoch_model.py MODEL.json        # a run's description; see Run
    tests/bench/partition/epoch_model.py --forecast        # the table of docs/benchmarks.md

Every node has cores, which its tasks share fairly, and a link, which its transfers share fairly in each direction. A rank's
threads make batches ahead of its steps, which take them in order and end together, in an all-reduce. Durations of sampling,
gathering and a step are of one rank alone; nothing is fitted to a run with more. What is left out: caches and memory
channels that cores share, losses and queues in the network, and how long a batch's work differs from the mean.
"""

import dataclasses
import heapq
import itertools


@dataclasses.dataclass
class Run:
    """Seconds, bytes, and bytes per second. CPU seconds are of one core."""

    nodes: int
    ranks_per_node: int
    cores_per_node: float
    batches: int  # of a rank in the epoch
    sampling_threads: int  # of a rank
    outstanding: int  # batches of a rank that are under way at once
    prefetch: int  # batches beyond one per thread that may wait for the trainer
    sample_seconds: float  # CPU, a batch
    gather_seconds: float  # CPU, a batch, if all of its rows were here
    row_bytes: float  # all rows of a batch
    local: float  # share of the rows that the node owns
    hit: float  # share of the others that the cache has
    step_seconds: float  # CPU, a batch: forward, backward, optimizer
    step_cores: float  # that a step can use
    step_is_on_gpu: bool = False
    gradient_bytes: float = 0
    call_seconds: float = 30e-6  # CPU, a call, at either end
    byte_seconds: float = 0.35e-9  # CPU, a byte of a call, at either end
    bandwidth: float = 1.25e9  # of a node's link, each way
    latency: float = 50e-6  # one way


class Shared:
    """Work that tasks do side by side: `capacity` a second in all, shared fairly up to each task's own limit."""

    def __init__(self, simulation, capacity):
        self.simulation, self.capacity = simulation, capacity
        self.tasks = {}  # number: [work left, limit, what follows]
        self.numbers = itertools.count()
        self.at = 0.0
        self.version = 0

    def rates(self):
        left, open_tasks, rates = self.capacity, sorted(self.tasks.items(), key=lambda task: task[1][1]), {}
        while open_tasks:
            number, (_, limit, _) = open_tasks.pop(0)
            rates[number] = min(limit, left / (len(open_tasks) + 1))
            left -= rates[number]
        return rates

    def advance(self):
        passed = self.simulation.now - self.at
        for number, rate in self.rates().items():
            self.tasks[number][0] -= rate * passed
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
        return self.now


class Node:
    def __init__(self, simulation, run):
        self.cpu = Shared(simulation, run.cores_per_node)
        self.sends = Shared(simulation, run.bandwidth)
        self.receives = Shared(simulation, run.bandwidth)


class Rank:
    def __init__(self, epoch, node):
        self.epoch, self.node = epoch, node
        self.started = self.sampling = self.fetching = self.taken = 0
        self.ready = set()
        self.is_waiting = True  # for a batch
        self.start_batches()

    def start_batches(self):
        run = self.epoch.run
        while (
            self.started < run.batches
            and self.sampling < run.sampling_threads
            and self.sampling + self.fetching < run.outstanding
            and self.started < self.taken + run.sampling_threads + run.prefetch
        ):
            number = self.started
            self.started += 1
            self.sampling += 1
            local_share = run.local + (1 - run.local) * run.hit
            work = run.sample_seconds + run.gather_seconds * local_share
            self.node.cpu.add(work, 1, lambda number=number: self.fetch(number))

    def fetch(self, number):
        run, epoch = self.epoch.run, self.epoch
        self.sampling -= 1
        self.fetching += 1
        others = [node for node in epoch.nodes if node is not self.node]
        remote = run.row_bytes * (1 - run.local) * (1 - run.hit)
        if not others or remote == 0:
            self.arrived(number)
            return
        left = [len(others)]
        part = remote / len(others)
        for owner in others:
            epoch.call(self.node, owner, part, lambda: self.answered(number, left))
        self.start_batches()

    def answered(self, number, left):
        left[0] -= 1
        if left[0] == 0:
            self.arrived(number)

    def arrived(self, number):
        self.fetching -= 1
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
            self.epoch.simulation.after(run.step_seconds, self.epoch.reduce)
        else:
            self.node.cpu.add(run.step_seconds, run.step_cores, self.epoch.reduce)

    def go_on(self):
        self.is_waiting = True
        self.step()


class Epoch:
    def __init__(self, run):
        self.run, self.simulation = run, Simulation()
        self.nodes = [Node(self.simulation, run) for _ in range(run.nodes)]
        self.at_reduce = 0
        self.ranks = []
        self.ranks = [Rank(self, node) for node in self.nodes for _ in range(run.ranks_per_node)]

    def call(self, asker, owner, size, then):
        run, after = self.run, self.simulation.after
        work = run.call_seconds + run.byte_seconds * size

        def transfer():
            # The slower of both ends counts.
            left = [2]

            def end():
                left[0] -= 1
                if left[0] == 0:
                    after(run.latency, lambda: asker.cpu.add(work, 1, then))

            owner.sends.add(size, run.bandwidth, end)
            asker.receives.add(size, run.bandwidth, end)

        after(run.latency, lambda: owner.cpu.add(work, 1, transfer))

    def reduce(self):
        self.at_reduce += 1
        if self.at_reduce < len(self.ranks):
            return
        self.at_reduce = 0
        run, n = self.run, self.run.nodes
        seconds = 2 * (n - 1) / n * run.gradient_bytes / run.bandwidth + 2 * (n - 1) * run.latency
        for rank in self.ranks:
            self.simulation.after(seconds, rank.go_on)


def seconds_of(run):
    """The seconds of an epoch."""
    return Epoch(run).simulation.run()
