"""The work of scripts/demo: cluster, images, chart, import of the package index, one GNNJob, and what it looks like."""

import argparse
import json
import re
import subprocess
import sys
import time

from installation import ROOT, Failed, Installation, run

NAMESPACE = "demo"
JOB = "packages-sage"


class Steps:
    """Prints each step with its duration."""

    def __init__(self, setup_seconds):
        self._started = time.monotonic() - setup_seconds
        self._step = None
        self.minutes = [("Set the machine up", setup_seconds / 60)]

    def begin(self, text):
        self.end()
        self._step = (text, time.monotonic())
        print(f"\n==> {text}", flush=True)

    def end(self):
        if self._step:
            text, started = self._step
            self.minutes.append((text, (time.monotonic() - started) / 60))
            print(f"    {self.minutes[-1][1]:.1f} minutes", flush=True)
            self._step = None

    def summary(self):
        self.end()
        print("\nminutes")
        for text, minutes in self.minutes:
            print(f"{minutes:7.1f}  {text}")
        print(f"{(time.monotonic() - self._started) / 60:7.1f}  in all")


def build_programs(preset):
    """Builds both programs and shows how far it is: in place on a terminal, a line every 20 s elsewhere."""
    run(["cmake", "--preset", preset], cwd=ROOT)
    command = ["cmake", "--build", ROOT / "build" / preset, "--target", "gnn-controller", "gnn-worker"]
    said, output = time.monotonic(), []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as build:
        for line in build.stdout:
            output = [*output[-40:], line]
            done = re.match(r"\[(\d+/\d+)\]", line)
            if done and sys.stdout.isatty():
                print(f"\r\033[K    {done[1]} built", end="", flush=True)
            elif done and time.monotonic() - said > 20:
                said = time.monotonic()
                print(f"    {done[1]} built", flush=True)
    if sys.stdout.isatty():
        print("\r\033[K", end="")
    if build.returncode != 0:
        raise Failed("the build failed:\n" + "".join(output))


def sample(name, worker_image):
    """A sample manifest with the image that was just built, for a machine that pulls none."""
    text = (ROOT / "manifests/samples" / name).read_text(encoding="utf-8")
    return re.sub(r"( +)image: gnn-worker:\S+", rf"\1image: {worker_image}\n\1imagePullPolicy: Never", text)


def on_two_nodes(manifest):
    """The sample's job on 2 nodes x 2 processes."""
    return manifest.replace("  workers:\n", "  workers:\n    nodes: 2\n    processesPerNode: 2\n", 1)


def show_progress(demo, seconds):
    """A line in place on a terminal, a line a change elsewhere, until the job has finished."""
    deadline = time.monotonic() + seconds
    last = ""
    while time.monotonic() < deadline:
        job = demo.get("gnnjob", JOB, NAMESPACE)
        status = job.get("status", {})
        progress = status.get("progress", {})
        line = f"{status.get('state', 'Created'):12}"
        if progress.get("epoch") is not None:
            line += f" epoch {progress['epoch']}/{progress.get('epochs', '?')}"
        for key, label in (("loss", "loss"), ("trainMetric", "train"), ("validationMetric", "validation"), ("rate", "items/s")):
            if progress.get(key) is not None:
                line += f"  {label} {progress[key]}"
        if progress.get("etaSeconds") is not None:
            line += f"  ETA {progress['etaSeconds']} s"
        if line != last:
            print(("\r\033[K" + line) if sys.stdout.isatty() else line, end="" if sys.stdout.isatty() else "\n", flush=True)
            last = line
        if demo.holds(job, "Complete") or demo.holds(job, "Failed"):
            print()
            return job
        time.sleep(1.5)
    raise Failed(f"the job did not finish within {seconds} s: {json.dumps(status)}")


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--setup-seconds", type=int, default=0)
    options = parser.parse_args()
    demo = Installation("demo")
    if demo.status()["state"] == "running":
        print("demo: its cluster is still up: scripts/cluster --name demo down", file=sys.stderr)
        return 1
    steps = Steps(options.setup_seconds)
    try:
        steps.begin("Build both programs (the first time: many minutes)")
        build_programs("release")
        steps.begin("Make their images")
        demo.build_images("release", log=print)
        steps.begin("Start a two-node Kubernetes with Prometheus")
        demo.up("--prometheus")
        print(demo.kubectl("get", "nodes"))
        steps.begin("Load the images and install the chart")
        demo.load_images()
        demo.install()
        print(demo.kubectl("-n", demo.namespace, "get", "pods"))
        steps.begin("Import this machine's package index into a volume")
        demo.apply({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        })
        folder = demo.volume(NAMESPACE, "datasets")
        index = folder / "Packages"
        with open(index, "wb") as output:
            subprocess.run(["apt-cache", "dumpavail"], stdout=output, check=True)
        if index.stat().st_size == 0:
            raise Failed("apt-cache dumpavail printed nothing: run apt-get update first")
        demo.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=sample("data-import.yaml", demo.images["worker"]))
        demo.kubectl("-n", NAMESPACE, "wait", "job/data-import", "--for=condition=Complete", "--timeout=300s")
        print(demo.kubectl("-n", NAMESPACE, "logs", "job/data-import", "--tail=12"))
        steps.begin("kubectl apply -f manifests/samples/packages-sage.yaml: 2 nodes x 2 processes")
        demo.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=on_two_nodes(sample("packages-sage.yaml", demo.images["worker"])))
        job = show_progress(demo, 900)
        if not demo.holds(job, "Complete"):
            raise Failed("the job failed: " + json.dumps(job["status"], indent=2))
        steps.begin("What happened")
        print(demo.kubectl("-n", NAMESPACE, "get", "gnnjobs", "-o", "wide"))
        print(f"final test accuracy: {job['status']['progress'].get('testMetric')}\n")
        print(demo.kubectl("-n", NAMESPACE, "get", "events", "--sort-by=.lastTimestamp", "-o",
                           "custom-columns=REASON:.reason,OBJECT:.involvedObject.name,MESSAGE:.message"))
        steps.begin("What Prometheus saw")
        for title, expression in (
            ("steps by rank", "max_over_time(gnn_train_steps_total[30m])"),
            ("sampled edges by rank", "max_over_time(gnn_sampler_edges_total[30m])"),
            ("reconciles by result", "controller_runtime_reconcile_total"),
        ):
            print(f"{title}:  {expression}")
            for item in demo.query(expression)[:8]:
                labels = ", ".join(f"{k} {item['metric'][k]}" for k in ("node", "rank", "result") if k in item["metric"])
                print(f"    {labels:24} {float(item['value'][1]):.0f}")
        steps.end()
        print("\nWhere to look next: docs/quickstart.md for your own cluster, docs/training.md for what a GNNJob can say,")
        print("manifests/samples for the tutorials' jobs.")
        if options.keep:
            print("The cluster stays: scripts/cluster --name demo kubectl -n demo get gnnjobs")
            print("                   scripts/cluster --name demo down")
    except Failed as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        print("demo: scripts/cluster --name demo logs has the cluster's logs; --keep keeps it for a look", file=sys.stderr)
        return 1
    finally:
        if not options.keep:
            steps.begin("Take everything down")
            demo.down()
        steps.summary()
    return 0


if __name__ == "__main__":
    sys.exit(main())
