#!/usr/bin/env python3
"""The memory of gnn-controller beside one namespace that is filled with objects of one kind, against the limit of 128 MiB.

A fake API server has 100 jobs of the operator's own and, in the namespace "filled", objects of one kind and shape: as large as an
API server takes them (1.4 MB), or tiny, together --megabytes. Once the controller has listed them, a job of another namespace
appears. Prints JSON for each kind and shape: resident memory then and at its peak, and the seconds until that job's first
status. Nothing is timed against a limit here: the machine may be busy.

usage: memory_bench.py --controller PROGRAM [--megabytes 1500] [--kind gnnjobs ...] [--shape keys ...] [--finished N]
"""

import argparse
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).resolve().parents[3]
LARGEST = 1_400_000  # bytes; etcd takes 1.5 MiB
LIMIT_MIB = 128
OWN_JOBS = 100
CONTROLLER = {"apiVersion": "gnn.dev/v1alpha1", "kind": "GNNJob", "name": "j", "uid": "u", "controller": True}
KINDS = {
    "gnnjobs": "/apis/gnn.dev/v1alpha1/gnnjobs",
    "pods": "/api/v1/pods",
    "services": "/api/v1/services",
    "configmaps": "/api/v1/configmaps",
    "networkpolicies": "/apis/networking.k8s.io/v1/networkpolicies",
    "podgroups.scheduling.x-k8s.io": "/apis/scheduling.x-k8s.io/v1alpha1/podgroups",
    "podgroups.scheduling.volcano.sh": "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "podgroups.scheduling.k8s.io": "/apis/scheduling.k8s.io/v1beta1/podgroups",
    "workloads": "/apis/kueue.x-k8s.io/v1beta2/workloads",
}
TYPE = {"apiVersion": "gnn.dev/v1alpha1", "kind": "GNNJob"}
SHAPES = ("keys", "text", "spec", "tiny")


def short_keys(size):
    """A map of short keys, as text of about that size."""
    return {f"{i:x}": "" for i in range(size // 9)}


def job_spec():
    return {
        "task": {"type": "NodeClassification"},
        "dataset": {"format": "Synthetic", "synthetic": {"shape": "Arxiv"}},
        "model": {"type": "GraphSAGE", "graphSage": {"layers": 2}},
        "sampling": {"fanout": [10, 10]},
        "workers": {"nodes": 1, "template": {"image": "localhost/none:1"}},
    }


def fill(kind, shape):
    """The object that fills the namespace, without its name."""
    own = [dict(CONTROLLER)]
    body = {"metadata": {"labels": {"gnn.dev/job": "j"}, "ownerReferences": own}}
    text = "x" * (LARGEST - 3000)
    if kind == "gnnjobs":
        body.update(TYPE)
        body["spec"] = dict(job_spec(), suspend=True)
        body["metadata"] = {"labels": {}}
    if shape == "tiny":
        return body
    if shape == "keys":
        body["metadata"]["labels"].update(short_keys(LARGEST))
    elif shape == "text":
        body["metadata"]["annotations"] = {"text": text}
        if kind != "configmaps":
            condition = {"type": "Ready", "status": "True", "reason": text[: LARGEST // 2], "message": text[: LARGEST // 2]}
            body["status"] = {"conditions": [condition]}
            body["metadata"]["annotations"] = {}
        if kind == "gnnjobs":
            body["status"] = {"message": text}
    elif kind == "services":
        body["spec"] = {"selector": short_keys(170_000)}
    elif kind == "networkpolicies":
        body["spec"] = {"podSelector": {"matchLabels": short_keys(170_000)}}
    elif kind == "gnnjobs":
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": f"k{i}-{j}", "operator": "In", "values": [f"v{k}" for k in range(16)]}
                                  for j in range(8)]} for i in range(4)]}}}
        body["spec"]["workers"]["template"]["affinity"] = affinity
        body["spec"]["workers"]["template"]["env"] = [{"name": f"E{i}", "value": "y" * 200} for i in range(100)]
    elif kind == "pods":
        message = {"name": "c", "state": {"terminated": {"exitCode": 1, "message": "m" * 4000}}}
        body["status"] = {"containerStatuses": [dict(message, name=f"c{i}") for i in range(300)]}
    elif kind == "workloads":
        body["spec"] = {"podSets": [{"name": f"p{i}", "count": 1, "template": {"spec": {"containers": [{"resources": {
            "requests": {f"r{j}.example.com/x": "1" for j in range(32)}}}]}}} for i in range(8)]}
    elif kind == "configmaps":
        body["data"] = {"text": text}
    else:
        body["status"] = {"conditions": [{"type": f"t{i}", "status": "True", "message": "m" * 60} for i in range(6000)]}
    return body


class Server:
    """What an API server answers as far as the controller asks."""

    def __init__(self, kind, shape, megabytes, finished):
        self.kind = kind
        self.megabytes = megabytes
        self.finished = finished
        self.template = json.dumps(fill(kind, shape)) if kind else ""
        self.count = int(megabytes * 1e6 / max(len(self.template), 400)) if kind else 0
        self.watches = set()
        self.news = threading.Condition()
        self.new_job = None
        self.first_status = None
        self.lock = threading.Lock()
        self.versions = 1000
        handler = type("Handler", (Handler,), {"server_state": self})
        ThreadingHTTPServer.request_queue_size = 128
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def object_at(self, kind, index):
        """The text of one object; nothing behind the last."""
        own = self.finished or OWN_JOBS
        if kind == "gnnjobs":
            if index < own:
                job = {**TYPE, "metadata": meta("own", f"own{index}"), "spec": job_spec()}
                if self.finished:
                    job["status"] = finished_status()
                return json.dumps(job)
            index -= own
        if kind != self.kind or index >= self.count:
            return None
        name = json.dumps(meta("filled", f"x{index}"))[1:-1]
        return self.template.replace('"metadata": {', '"metadata": {' + name + ", ", 1)

    def next_version(self):
        with self.lock:
            self.versions += 1
            return str(self.versions)


def meta(namespace, name):
    return {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "resourceVersion": "5",
            "creationTimestamp": "2026-01-01T00:00:00Z"}


def finished_status():
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    conditions = [{"type": kind, "status": state, "reason": "AllNodesDone", "message": "done", "lastTransitionTime": now,
                   "observedGeneration": 1}
                  for kind, state in (("Accepted", "True"), ("Scheduled", "True"), ("Running", "False"), ("Complete", "True"))]
    return {"attempt": 1, "state": "Complete", "startTime": now, "completionTime": now, "conditions": conditions,
            "nodes": {"desired": 1, "ready": 1, "succeeded": 1, "failed": 0, "summary": "1/1"},
            "progress": {"epoch": 50, "epochs": 50, "loss": "0.41", "validationMetric": "0.71", "testMetric": "0.70"}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state = None

    def log_message(self, *_):
        pass

    def handle(self):
        # The controller has ended.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            super().handle()

    def reply(self, body, status=200):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def chunk(self, data):
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def begin_chunks(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def do_GET(self):
        state = self.server_state
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path == "/apis":
            return self.reply(discovery())
        kind = next((name for name, path in KINDS.items() if path == url.path), None)
        if kind is None:
            found = re.search(r"/namespaces/other/gnnjobs/(\w+)$", url.path)
            return self.reply(state.new_job, 200) if found and state.new_job else self.reply({"kind": "Status"}, 404)
        try:
            if "watch" in query:
                self.watch(state, kind)
            else:
                self.list(state, kind, query)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        return None

    def list(self, state, kind, query):
        first = int(query.get("continue", 0))
        limit = int(query.get("limit", 500))
        self.begin_chunks()
        if query.get("labelSelector", "").startswith("!"):
            self.chunk(b'{"items":[],"metadata":{"resourceVersion":"9"}}')
            self.chunk(b"")
            return
        self.chunk(b'{"items":[')
        index = first
        text = None
        pending = []
        while index < first + limit and (text := state.object_at(kind, index)) is not None:
            if "PartialObjectMetadata" in self.headers.get("Accept", ""):
                text = json.dumps({"metadata": json.loads(text)["metadata"]})
            pending.append(("," if index > first else "") + text)
            index += 1
            if sum(map(len, pending)) > 500_000 or len(pending) > 200:
                self.chunk("".join(pending).encode())
                pending = []
        if pending:
            self.chunk("".join(pending).encode())
        more = f', "continue": "{index}"' if text is not None and state.object_at(kind, index) is not None else ""
        self.chunk(f'],"metadata":{{"resourceVersion":"9"{more}}}}}'.encode())
        self.chunk(b"")

    def watch(self, state, kind):
        self.begin_chunks()
        with state.news:
            state.watches.add(kind)
            state.news.notify_all()
            if kind != "gnnjobs":
                state.news.wait_for(lambda: False, timeout=600)
                return
            state.news.wait_for(lambda: state.new_job is not None, timeout=900)
            job = json.dumps({"type": "ADDED", "object": state.new_job})
        self.chunk(job.encode() + b"\n")
        time.sleep(600)

    def body(self):
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        return json.loads(data or b"{}")

    def do_POST(self):
        state = self.server_state
        made = self.body()
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        made.setdefault("metadata", {}).update(uid="made-" + state.next_version(), resourceVersion=state.next_version(),
                                               creationTimestamp=now)
        self.reply(made, 201)

    def do_PUT(self):
        state = self.server_state
        sent = self.body()
        if "/namespaces/other/" in self.path and state.first_status is None:
            state.first_status = time.monotonic()
        sent["metadata"]["resourceVersion"] = state.next_version()
        sent.update(TYPE, spec=job_spec())
        self.reply(sent)

    do_PATCH = do_POST

    def do_DELETE(self):
        self.body()
        self.reply({"kind": "Status", "status": "Success"})


def discovery():
    groups = {}
    for kind, path in KINDS.items():
        parts = path.split("/")
        if parts[1] != "apis":
            continue
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        resource = {"resource": parts[4], "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": verbs}
        groups.setdefault(parts[2], {}).setdefault(parts[3], []).append(resource)
    items = [{"metadata": {"name": group}, "versions": [{"version": version, "resources": resources, "freshness": "Current"}
                                                         for version, resources in versions.items()]}
             for group, versions in groups.items()]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}


def memory(pid):
    text = Path(f"/proc/{pid}/status").read_text()
    return {name: round(int(re.search(rf"{field}:\s+(\d+)", text)[1]) / 1024, 1)
            for name, field in (("resident_mib", "VmRSS"), ("peak_mib", "VmHWM"))}


def measure(program, kind, shape, megabytes, finished=0, more=()):
    server = Server(kind, shape, megabytes, finished)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "kubeconfig"
        config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.http.server_port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "own"}}]}))
        command = [program, "--kubeconfig", config, "--bind-address=127.0.0.1:0", "--health-bind-address=127.0.0.1:0",
                   "--progress=off", "--kueue", "--gang-provider=Coscheduling", "--gang-provider=Volcano", "--gang-provider=Native",
                   *more]
        with open(Path(folder) / "log", "w+") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                return run(server, process, kind, shape, Path(folder) / "log")
            finally:
                process.kill()
                process.wait()
                server.http.shutdown()


def run(server, process, kind, shape, log):
    with server.news:
        expected = set(KINDS)
        if not server.news.wait_for(lambda: server.watches >= expected or process.poll() is not None, timeout=900) or process.poll():
            sys.exit(f"the controller did not list all: {sorted(expected - server.watches)}\n{log.read_text()[-2000:]}")
    time.sleep(2)
    began = time.monotonic()
    with server.news:
        server.new_job = {**TYPE, "metadata": meta("other", "j"), "spec": job_spec()}
        server.news.notify_all()
    while server.first_status is None and time.monotonic() < began + 30:
        time.sleep(0.005)
    if server.first_status is None:
        sys.exit(f"no status within 30 s\n{log.read_text()[-2000:]}")
    first = round(server.first_status - began, 3)
    port = re.search(r'"port":\s*"?(\d+)', log.read_text())
    page = urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/metrics", timeout=30).read().decode() if port else ""
    told = {name: value for name, value in re.findall(r"^(gnn_operator_(?:cache_bytes|left_out_objects\S*|undecodable\S*)) (\S+)",
                                                      page, re.MULTILINE) if float(value) > 0}
    return {"kind": kind, "shape": shape, "objects": server.count, "first_status_s": first, **memory(process.pid),
            "limit_mib": LIMIT_MIB, "metrics": told}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--controller", default=ROOT / "build/controller/controller/main/gnn-controller")
    parser.add_argument("--megabytes", type=float, default=1500)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--shape", action="append", choices=SHAPES)
    parser.add_argument("--finished", type=int, default=0, help="instead: as many finished jobs, and a scrape")
    parser.add_argument("--argument", action="append", default=[], help="for the controller")
    args = parser.parse_args()
    if args.finished:
        print(json.dumps(measure(args.controller, None, None, 0, args.finished, args.argument)))
        return
    for kind in args.kind or KINDS:
        for shape in args.shape or SHAPES:
            print(json.dumps(measure(args.controller, kind, shape, args.megabytes, 0, args.argument)), flush=True)


if __name__ == "__main__":
    main()
