"""The operator beside the real Kueue on the two-node cluster, with a queue in which one of the tests' jobs fits at a time."""

import jobs

NAMESPACE = "team"
TOGGLE = "kueue.enabled=true"  # of the chart
API = "kueue.x-k8s.io/v1beta2"
QUEUE = {"kueue.x-k8s.io/queue-name": "jobs"}
URGENT = {**QUEUE, "kueue.x-k8s.io/priority-class": "urgent"}


def start(operator, preset):
    """Starts the cluster with Kueue, installs the chart, and makes the queue and what it names."""
    operator.up("--kueue")
    operator.build_images(preset, built=True)
    operator.load_images()
    operator.install(TOGGLE)
    operator.apply({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    })
    operator.volume(NAMESPACE, "checkpoints")
    # A job has two pods with 100m CPU and 512 MiB each.
    quotas = [{"name": "cpu", "nominalQuota": "300m"}, {"name": "memory", "nominalQuota": "1536Mi"}]
    operator.apply(
        {"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": "linux"},
         "spec": {"nodeLabels": {"kubernetes.io/os": "linux"}}},
        {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": "team"},
         "spec": {
             "namespaceSelector": {}, "preemption": {"withinClusterQueue": "LowerPriority"},
             "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": [{"name": "linux", "resources": quotas}]}],
         }},
        {"apiVersion": API, "kind": "LocalQueue", "metadata": {"name": "jobs", "namespace": NAMESPACE},
         "spec": {"clusterQueue": "team"}},
        {"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": {"name": "urgent"}, "value": 1000},
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "daily"}, "value": 10,
         "preemptionPolicy": "Never"},
    )  # fmt: skip


def submit(operator, name, labels, **changes):
    """Applies jobs.small_job() with these labels."""
    job = jobs.small_job(name, NAMESPACE, operator.images["worker"], **changes)
    job["metadata"]["labels"] = labels
    operator.apply(job)


def workload(operator, job):
    """The Workload that stands for the job, or None."""
    for item in operator.list("workloads.kueue.x-k8s.io", NAMESPACE, f"gnn.dev/job={job}"):
        return item
    return None
