"""The work of scripts/demo: cluster, images, chart, import of the package index, one GNNJob, and what it looks like."""

import argparse
import contextlib
import functools
import json
import re
import signal
import subprocess
import sys
import time

from installation import ROOT, Failed, Installation, run

NAMESPACE = "demo"
JOB = "packages-sage"
IMPORT = "data-import"
# For each look at a cluster where something has gone wrong.
LOOK_SECONDS = 20


class Steps:
    """Prints each step with its duration."""

    def __init__(self, setup_seconds, setup_parts=()):
        """setup_parts: what scripts/setup has made, as it writes it: "SECONDS PART"."""
        self._started = time.monotonic() - setup_seconds
        self._step = None
        self.minutes = [("Set the machine up", setup_seconds / 60)]
        for line in setup_parts:
            seconds, _, part = line.partition(" ")
            self.minutes.append((f"    of which {part}", int(seconds) / 60))

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
    command = ["cmake", "--build", str(ROOT / "build" / preset), "--target", "gnn-controller", "gnn-worker"]
    said, output = time.monotonic(), []
    log = ROOT / "build" / preset / "demo-build.log"
    with open(log, "w", encoding="utf-8") as whole, \
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as build:
        for line in build.stdout:
            whole.write(line)
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
        raise Failed(f"{' '.join(command)} failed (whole output: {log}):\n" + "".join(output))


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
        job = demo.get("gnnjob", JOB, NAMESPACE) or {}
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
    raise Failed(f"GNNJob {JOB} did not finish within {seconds} s")


def dump_package_index(path):
    with open(path, "wb") as output:
        run(["apt-cache", "dumpavail"], stdout=output)
    if path.stat().st_size == 0:
        raise Failed("apt-cache dumpavail printed nothing: run apt-get update first")


def wait_for_import(demo, seconds, namespace=NAMESPACE):
    def finished():
        job = demo.get("job", IMPORT, namespace)
        if demo.holds(job, "Failed"):
            raise Failed(f"Job {IMPORT} failed: {demo.condition(job, 'Failed').get('message')}")
        return demo.holds(job, "Complete")

    demo.wait(f"Job {IMPORT} finished", finished, seconds)


def import_package_index(demo, namespace):
    """Volumes as the samples name them, and this machine's package index in one of them; returns the import's last words."""
    folder = demo.volume(namespace, "datasets")
    demo.volume(namespace, "job-checkpoints")
    dump_package_index(folder / "Packages")
    demo.kubectl("apply", "-n", namespace, "-f", "-", stdin=sample("data-import.yaml", demo.images["worker"]))
    wait_for_import(demo, 300, namespace)
    return demo.kubectl("-n", namespace, "logs", f"job/{IMPORT}", "--tail=12")


def events(demo, namespace, **options):
    # Our events have an eventTime and no lastTimestamp; all have been created.
    return demo.kubectl(
        "-n", namespace, "get", "events", "--sort-by=.metadata.creationTimestamp", "-o",
        "custom-columns=REASON:.reason,OBJECT:.involvedObject.name,MESSAGE:.message", **options,
    )


def story_of_job(demo):
    """What the GNNJob's status says, in lines."""
    job = demo.get("gnnjob", JOB, NAMESPACE, timeout=LOOK_SECONDS)
    if job is None:
        return "it does not exist yet"
    status = job.get("status", {})
    lines = [f"{status.get('state', 'no state yet')}: {status.get('message', '')}"]
    lines += [
        f"{condition['type']} {condition['status']} {condition.get('reason', '')}: {condition.get('message', '')}"
        for condition in status.get("conditions", [])
    ]
    lines += [f"{field}: {json.dumps(status[field])}" for field in ("progress", "lastFailure") if status.get(field)]
    return "\n".join(lines)


def say_error(text):
    print(text, file=sys.stderr, flush=True)


def look(title, ask):
    """Prints what ask() gives, or why it gave nothing: one look that fails is no reason to skip the next."""
    say_error(f"\n--- {title}")
    try:
        say_error(str(ask()).rstrip() or "nothing")
    except Failed as error:
        say_error(str(error))


def explain_namespace(demo, namespace):
    def ask(*arguments):
        return demo.kubectl("-n", namespace, *arguments, timeout=LOOK_SECONDS)

    look(f"jobs and pods in namespace {namespace}", lambda: ask("get", "jobs,pods", "-o", "wide"))
    look(f"events in namespace {namespace}", lambda: events(demo, namespace, timeout=LOOK_SECONDS))
    try:
        pods = [pod["metadata"]["name"] for pod in demo.list("pods", namespace, timeout=LOOK_SECONDS)]
    except Failed:
        return  # the first look has told why
    for pod in pods:
        look(f"end of the log of pod {namespace}/{pod}", functools.partial(ask, "logs", pod, "--all-containers", "--tail=20"))


def explain(demo):
    """Prints what is known of a demo that failed, before its cluster and with it the logs are gone.

    Returns whether there is a cluster.
    """
    state = demo.status()["state"]
    say_error(f"demo: its cluster is {state}")
    if state in ("not running", "half made"):
        return state != "not running"
    look(f"GNNJob {JOB}", lambda: story_of_job(demo))
    for namespace in (NAMESPACE, demo.namespace):
        explain_namespace(demo, namespace)
    return True


def show(demo, steps):
    """The demo itself."""
    steps.begin("Build both programs (takes many minutes the first time)")
    build_programs("release")
    steps.begin("Build their images")
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
    print(import_package_index(demo, NAMESPACE))
    steps.begin("kubectl apply -f manifests/samples/packages-sage.yaml: 2 nodes x 2 processes")
    demo.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=on_two_nodes(sample("packages-sage.yaml", demo.images["worker"])))
    job = show_progress(demo, 900)
    if not demo.holds(job, "Complete"):
        raise Failed(f"GNNJob {JOB} failed: {demo.condition(job, 'Failed').get('message')}")
    steps.begin("What happened")
    print(demo.kubectl("-n", NAMESPACE, "get", "gnnjobs", "-o", "wide"))
    progress = job["status"].get("progress", {})
    print(f"final test {progress.get('metricName', 'metric')}: {progress.get('testMetric')}\n")
    print(events(demo, NAMESPACE))
    steps.begin("What Prometheus saw")
    for title, expression in (
        ("steps by rank", "max_over_time(gnn_train_steps_total[30m])"),
        ("sampled edges by rank", "max_over_time(gnn_sampler_edges_total[30m])"),
        ("reconciles by result", "sum by (result) (controller_runtime_reconcile_total)"),
    ):
        print(f"{title}:  {expression}")
        for item in demo.query(expression)[:8]:
            labels = ", ".join(f"{k} {item['metric'][k]}" for k in ("node", "rank", "result") if k in item["metric"])
            print(f"    {labels:24} {float(item['value'][1]):.0f}")
    steps.end()
    print("\nNext: docs/quickstart.md for your own cluster, docs/training.md for the fields of a GNNJob,")
    print("manifests/samples for the jobs of the tutorials.")


def attempt(demo, steps, keep):
    """Shows the demo, or what went wrong; returns the exit status."""
    try:
        show(demo, steps)
    except (Failed, OSError) as error:
        say_error(f"\ndemo: {error}")
        exists = True
        with contextlib.suppress(Failed):
            exists = explain(demo)
        if exists:
            say_error("\ndemo: " + (
                "the cluster keeps running: look at it with scripts/cluster --name demo kubectl and logs, remove it with down" if keep
                else "the cluster is being removed; scripts/demo --keep keeps it for a closer look"
            ))
        return 1
    if keep:
        print("The cluster keeps running: scripts/cluster --name demo kubectl -n demo get gnnjobs")
        print("                           scripts/cluster --name demo down")
    return 0


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--setup-seconds", type=int, default=0)
    parser.add_argument("--setup-part", action="append", default=[])
    options = parser.parse_args()
    demo = Installation("demo")
    try:
        state = demo.status()["state"]
        if state == "running":
            raise Failed("the cluster of an earlier demo is still running: remove it with scripts/cluster --name demo down")
        if state != "not running":
            print(f"demo: an earlier demo left its cluster {state}: removing it", flush=True)
            demo.down()
    except Failed as error:
        say_error(f"demo: {error}")
        return 1
    steps = Steps(options.setup_seconds, options.setup_part)
    code = 0
    try:
        code = attempt(demo, steps, options.keep)
    except KeyboardInterrupt:
        code = 130
        say_error("\ndemo: interrupted")
    finally:
        if not options.keep:
            steps.begin("Remove the cluster")
            try:
                demo.down()
            except Failed as error:
                code = code or 1
                say_error(f"demo: {error}")
        steps.summary()
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
