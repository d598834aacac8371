"""The test cluster as a whole: what it offers to pods, what it survives, and that nothing of it remains."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import host
import images
from layout import Layout, base_directory

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "cluster"
NAME = f"e2e-{os.getpid()}"


def cluster(*arguments, name=NAME, check=True, text=None, env=None, timeout=180):
    done = subprocess.run(
        [SCRIPT, "--name", name, *arguments], input=text, capture_output=True, text=True, check=False, timeout=timeout,
        env={**os.environ, **(env or {})},
    )
    if check and done.returncode != 0:
        raise AssertionError(f"cluster {' '.join(arguments)}: code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def built_tools():
    """The folder of the cluster's programs."""
    built = subprocess.run([ROOT / "tools/cluster/go/build"], stdout=subprocess.PIPE, text=True, check=True)
    return Path(built.stdout.strip())


def kubectl(*arguments, **options):
    return cluster("kubectl", *arguments, **options)


def status(name=NAME):
    return json.loads(cluster("status", "--json", name=name, check=False).stdout)


def eventually(condition, timeout=30):
    deadline = time.monotonic() + timeout
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            return result
        time.sleep(0.1)


# --- What there is on this machine -----------------------------------------------------------------------------

FOLDERS = ["/run", "/var/lib/cni", "/var/lib/kubelet", "/var/lib/containerd", "/var/log", "/var/tmp", "/opt",
           "/run/containerd", "/run/netns", "/var/log/pods", "/var/log/containers", "/etc/cni", "/usr/libexec"]  # fmt: skip


def traces(names):
    """Everything on this machine that is a cluster's or could be: by name where it has one, else the whole list."""
    found = {"network links": sorted(os.listdir("/sys/class/net"))}
    for folder in FOLDERS:
        # Files of other programs come and go in these folders; folders do not.
        entries = sorted(e.name for e in os.scandir(folder) if e.is_dir()) if os.path.isdir(folder) else None
        if entries is not None and folder == "/var/tmp":
            entries = [e for e in entries if e.startswith("gnn-cluster")]
        found[folder] = entries
    found["mounts"] = [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if any(name in line for name in names)
    ]
    found["mounts of namespaces"] = [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if " nsfs " in line
    ]
    for name in names:
        layout = Layout(name)
        found[f"processes of {name}"] = sorted(host.processes(layout.directory).items())
        found[f"processes in cgroups of {name}"] = sorted(host.cgroup_processes(layout.cgroup_prefix))
        found[f"cgroups of {name}"] = [str(f) for f in host._cgroup_folders(layout.cgroup_prefix)]
        found[f"folder of {name}"] = layout.directory.exists()
    # By their command lines too, should one have lost its mark.
    programs = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if any(str(Layout(name).directory) in line for name in names) and "cluster.py" not in line:
                programs.append(line)
        except OSError:
            continue
    found["programs"] = programs
    return found


def network_namespaces(names):
    """Network namespaces with a process of these clusters in them."""
    found = set()
    for name in names:
        for pid in [*host.processes(Layout(name).directory), *host.cgroup_processes(Layout(name).cgroup_prefix)]:
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/{pid}/ns/net"))
    return found


def namespaces_alive(wanted):
    """Those of `wanted` that any process on this machine still is in."""
    alive = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            alive.add(os.readlink(f"/proc/{pid}/ns/net"))
    return wanted & alive


def pod(name, *, node=None, namespace="default", command=None, labels=None, hostname=None, volumes="", mounts="", extra="",
        annotations="{}", resources="{}", ports="[]", readiness=""):  # fmt: skip
    """A pod that passes Pod Security's `restricted`, serving its name over HTTP on port 8080."""
    serve = "mkdir -p /tmp/www && hostname > /tmp/www/index.html && echo serving && exec httpd -f -p 8080 -h /tmp/www"
    return f"""
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}, labels: {json.dumps(labels or {"app": name})}, annotations: {annotations}}}
spec:
  {f"nodeName: {node}" if node else ""}
  hostname: {hostname or name}
  subdomain: peers
  terminationGracePeriodSeconds: 0
  securityContext: {{runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000, seccompProfile: {{type: RuntimeDefault}}}}
  {extra}
  containers:
  - name: main
    image: {images.BUSYBOX}
    imagePullPolicy: IfNotPresent
    command: {json.dumps(command or ["sh", "-c", serve])}
    securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
    resources: {resources}
    ports: {ports}
    {readiness}
    volumeMounts: [{mounts}]
  volumes: [{volumes}]
---
"""


PEERS = """
apiVersion: v1
kind: Service
metadata: {name: peers, namespace: %s}
spec: {clusterIP: None, publishNotReadyAddresses: true, selector: {peer: "yes"}, ports: [{name: web, port: 8080}]}
---
"""


def setUpModule():
    """Removes the clusters of earlier runs that were killed: a cluster's name holds the process id of its run."""
    for folder in base_directory().glob("e2e-*"):
        pid = folder.name.split("-")[1]
        if pid.isdigit() and not Path("/proc", pid).exists():
            cluster("down", name=folder.name)
    cluster("down")  # of a run that had this process id


def tearDownModule():
    cluster("down")


class FeaturesTest(unittest.TestCase):
    """One cluster for all of these; each has a namespace of its own."""

    @classmethod
    def setUpClass(cls):
        cls.addClassCleanup(cluster, "down")
        started = time.monotonic()
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as rules:
            rules.write("groups: [{name: answers, rules: [{record: 'answer:doubled', expr: 2 * answer}]}]\n")
            rules.flush()
            cluster("up", "--prometheus", "--prometheus-rules", rules.name, "--fake-nodes", "2")
        cls.up_seconds = time.monotonic() - started

    def setUp(self):
        self.namespace = self._testMethodName.removeprefix("test_").replace("_", "-")[:40]
        kubectl("apply", "-f", "-", text=f"""
apiVersion: v1
kind: Namespace
metadata: {{name: {self.namespace}, labels: {{pod-security.kubernetes.io/enforce: restricted}}}}
""")
        # The service account comes a moment after its namespace, and pods need it.
        eventually(lambda: kubectl("get", "serviceaccount", "-n", self.namespace, "default", check=False).returncode == 0)
        self.addCleanup(kubectl, "delete", "namespace", self.namespace, "--wait=false")

    def apply(self, text):
        kubectl("apply", "-f", "-", text=text)

    def wait_ready(self, *pods):
        kubectl("wait", "-n", self.namespace, *(f"pod/{p}" for p in pods), "--for=condition=Ready", "--timeout=60s")

    def peers(self, *, nodes=("node-0", "node-1"), labels=None):
        """Pods peer-0, peer-1, ..., one a node."""
        text = PEERS % self.namespace
        for i, node in enumerate(nodes):
            text += pod(f"peer-{i}", node=node, namespace=self.namespace, labels={"peer": "yes", "index": str(i), **(labels or {})})
        self.apply(text)
        self.wait_ready(*(f"peer-{i}" for i in range(len(nodes))))

    def run_in(self, name, *command, namespace=None, check=True):
        return kubectl("exec", "-n", namespace or self.namespace, name, "--", *command, check=check)

    def reaches(self, name, url):
        return self.run_in(name, "curl", "-sS", "-m", "2", url, check=False).returncode == 0

    def test_two_nodes_are_ready(self):
        # 7 to 10 s on two idle cores, 20 s is what is promised, the rest is room for a busy machine.
        self.assertLess(self.up_seconds, 60)
        ready = 'jsonpath={range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status} {end}'
        found = kubectl("get", "nodes", "-l", "type!=kwok", "-o", ready).stdout.split()
        self.assertEqual(found, ["node-0=True", "node-1=True"])

    def test_up_again_does_nothing_and_says_so(self):
        before = status()["parts"]
        said = cluster("up", "--nodes", "1").stdout
        self.assertIn("already running (2 nodes", said)
        self.assertEqual(status()["parts"], before)

    def test_pods_reach_each_other_by_name_across_nodes(self):
        self.peers()
        for here, there in (("peer-0", "peer-1"), ("peer-1", "peer-0")):
            for name in (f"{there}.peers", f"{there}.peers.{self.namespace}.svc.cluster.local"):
                self.assertEqual(self.run_in(here, "curl", "-sS", "-m", "3", f"http://{name}:8080/").stdout.strip(), there)

    def test_not_ready_pods_have_names_too(self):
        readiness = "readinessProbe: {exec: {command: [\"false\"]}, periodSeconds: 1}"
        text = PEERS % self.namespace + pod("waiting", node="node-1", namespace=self.namespace, labels={"peer": "yes"}, readiness=readiness)
        self.apply(text + pod("asking", node="node-0", namespace=self.namespace))
        self.wait_ready("asking")
        self.assertTrue(eventually(lambda: self.reaches("asking", "http://waiting.peers:8080/")))
        condition = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'
        self.assertEqual(kubectl("get", "pod", "waiting", "-n", self.namespace, "-o", condition).stdout, "False")

    def test_services_have_addresses(self):
        self.peers()
        self.apply(f"""
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: {self.namespace}}}
spec: {{selector: {{index: "1"}}, ports: [{{port: 80, targetPort: 8080}}]}}
""")
        self.assertTrue(eventually(lambda: self.reaches("peer-0", "http://web/")))

    def test_pod_reaches_the_api_server_with_its_account(self):
        self.peers(nodes=("node-1",))
        script = ('cd /var/run/secrets/kubernetes.io/serviceaccount && curl -sS -m 5 --cacert ca.crt '
                  '-H "Authorization: Bearer $(cat token)" https://kubernetes.default/apis/authentication.k8s.io/v1/selfsubjectreviews '
                  "-X POST -H 'Content-Type: application/json' "
                  """-d '{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'""")  # fmt: skip
        who = json.loads(self.run_in("peer-0", "sh", "-c", script).stdout)
        self.assertEqual(who["status"]["userInfo"]["username"], f"system:serviceaccount:{self.namespace}:default")

    def test_logs_and_exec(self):
        self.peers(nodes=("node-1",))
        self.assertEqual(kubectl("logs", "-n", self.namespace, "peer-0").stdout, "serving\n")
        self.assertEqual(self.run_in("peer-0", "cat", "/tmp/www/index.html").stdout, "peer-0\n")

    def test_pod_security_refuses_what_is_not_restricted(self):
        text = pod("bad", namespace=self.namespace).replace("allowPrivilegeEscalation: false", "privileged: true")
        refused = kubectl("apply", "-f", "-", text=text, check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("violates PodSecurity", refused.stderr)

    def test_nodes_may_not_touch_other_nodes(self):
        user = Layout(NAME).pki / "node-0.kubeconfig"
        other = kubectl(f"--kubeconfig={user}", "label", "node", "node-1", "x=y", check=False)
        self.assertIn("only its own Node object", other.stderr)
        own = kubectl(f"--kubeconfig={user}", "label", "node", "node-0", "node-restriction.kubernetes.io/x=y", check=False)
        self.assertIn("is not allowed to modify labels", own.stderr)
        secrets = kubectl(f"--kubeconfig={user}", "get", "secrets", "-A", check=False)
        self.assertIn("forbidden", secrets.stderr.lower())

    def test_gpus_are_counted(self):
        sleep = ["sleep", "1000"]
        text = "".join(
            pod(f"gpu-{i}", namespace=self.namespace, command=sleep, resources='{limits: {nvidia.com/gpu: "3"}}') for i in range(3)
        )
        self.apply(text)

        def phases():
            return sorted(kubectl("get", "pods", "-n", self.namespace, "-o", "jsonpath={.items[*].status.phase}").stdout.split())

        self.assertTrue(eventually(lambda: phases() == ["Pending", "Running", "Running"]), phases())
        nodes = kubectl("get", "pods", "-n", self.namespace, "-o", "jsonpath={.items[*].spec.nodeName}").stdout.split()
        self.assertEqual(sorted(nodes), ["node-0", "node-1"])

    def test_volume_is_shared_by_both_nodes(self):
        folder = Layout(NAME).volumes / "shared"
        folder.mkdir(mode=0o777)
        folder.chmod(0o777)
        self.apply(f"""
apiVersion: v1
kind: PersistentVolume
metadata: {{name: shared}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteMany]
  storageClassName: shared
  hostPath: {{path: {folder}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: shared, namespace: {self.namespace}}}
spec: {{accessModes: [ReadWriteMany], storageClassName: shared, resources: {{requests: {{storage: 1Gi}}}}}}
""")
        self.addCleanup(kubectl, "delete", "pv", "shared", "--wait=false")
        volume = "{name: data, persistentVolumeClaim: {claimName: shared}}"
        text = "".join(
            pod(f"on-{i}", node=f"node-{i}", namespace=self.namespace, volumes=volume, mounts="{name: data, mountPath: /data}")
            for i in (0, 1)
        )
        self.assertTrue(
            eventually(
                lambda: kubectl("get", "pvc", "shared", "-n", self.namespace, "-o", "jsonpath={.status.phase}").stdout == "Bound"
            )
        )
        self.apply(text)
        self.wait_ready("on-0", "on-1")
        self.run_in("on-0", "sh", "-c", "echo hello > /data/file")
        self.assertEqual(self.run_in("on-1", "cat", "/data/file").stdout, "hello\n")

    def test_network_policies_are_enforced(self):
        self.peers(nodes=("node-0", "node-1", "node-1"))
        self.apply(pod("stranger", node="node-0", namespace=self.namespace))
        self.wait_ready("stranger")
        everyone = ("peer-1", "peer-2", "stranger")
        url = "http://peer-0.peers:8080/"
        for name in everyone:
            self.assertTrue(eventually(lambda: self.reaches(name, url)), name)

        # Default deny; names are still resolved, because only what comes in is isolated.
        self.apply(f"""
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: isolated, namespace: {self.namespace}}}
spec: {{podSelector: {{matchLabels: {{peer: "yes"}}}}, policyTypes: [Ingress]}}
""")
        for name in everyone:
            self.assertTrue(eventually(lambda: not self.reaches(name, url)), name)

        # Peers may come again: from the other node, and on the same node.
        self.apply(f"""
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: peers, namespace: {self.namespace}}}
spec:
  podSelector: {{matchLabels: {{peer: "yes"}}}}
  ingress: [{{from: [{{podSelector: {{matchLabels: {{peer: "yes"}}}}}}], ports: [{{port: 8080}}]}}]
""")
        for name in ("peer-1", "peer-2"):
            self.assertTrue(eventually(lambda: self.reaches(name, url)), name)
        self.assertTrue(self.reaches("peer-2", "http://peer-1.peers:8080/"), "both on node-1")
        self.assertFalse(self.reaches("stranger", url), "same node, not a peer")

        # What goes out: nothing but names.
        self.apply(f"""
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: outgoing, namespace: {self.namespace}}}
spec:
  podSelector: {{matchLabels: {{index: "2"}}}}
  policyTypes: [Egress]
  egress: [{{ports: [{{port: 53, protocol: UDP}}, {{port: 53, protocol: TCP}}]}}]
""")
        self.assertTrue(eventually(lambda: not self.reaches("peer-2", url)))
        self.assertIn("peer-0.peers", self.run_in("peer-2", "getent", "hosts", "peer-0.peers").stdout)

    def test_prometheus_scrapes_pods(self):
        annotations = '{prometheus.io/scrape: "true", prometheus.io/port: "8080", prometheus.io/path: /metrics}'
        metric = "echo 'answer{question=\"6x9\"} 42' > /tmp/www/metrics"
        command = ["sh", "-c", f"mkdir -p /tmp/www && {metric} && exec httpd -f -p 8080 -h /tmp/www"]
        self.apply(pod("metrics", node="node-0", namespace=self.namespace, command=command, annotations=annotations))
        self.wait_ready("metrics")

        def answers(expression):
            url = f"http://prometheus.monitoring:9090/api/v1/query?query={expression}"
            got = self.run_in("metrics", "curl", "-sS", "-m", "3", url, check=False).stdout
            return [(r["metric"]["pod"], r["value"][1]) for r in json.loads(got)["data"]["result"]] if got else []

        self.assertEqual(eventually(lambda: answers("answer")), [("metrics", "42")])
        self.assertEqual(eventually(lambda: answers("answer:doubled")), [("metrics", "84")], "the rules of --prometheus-rules")

    def test_fake_nodes_run_pods_that_ask_for_them(self):
        toleration = "tolerations: [{key: kwok.x-k8s.io/node, operator: Exists}]\n  nodeSelector: {type: kwok}"
        self.apply(pod("fake", namespace=self.namespace, extra=toleration))
        self.wait_ready("fake")
        self.assertTrue(
            kubectl("get", "pod", "fake", "-n", self.namespace, "-o", "jsonpath={.status.podIP}").stdout.startswith("10.245.")
        )

    def test_loads_images_to_every_node(self):
        name = "localhost/gnn-cluster/loaded:7"
        with tempfile.TemporaryDirectory() as work:
            archive = f"{work}/image.tar"
            images._write_image(
                archive, name, {"bin/busybox": Path("/bin/busybox")}, {"Entrypoint": ["/bin/busybox", "echo", "loaded"]}
            )
            self.assertIn("on 2 nodes", cluster("load", archive).stdout)
            # And through buildah's storage.
            done = subprocess.run(
                [*images.BUILDAH, "pull", "--quiet", f"docker-archive:{archive}"], capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.addCleanup(subprocess.run, [*images.BUILDAH, "rmi", name], capture_output=True)
        self.assertIn("on 2 nodes", cluster("load", name).stdout)
        missing = cluster("load", "localhost/not-built:1", check=False)
        self.assertEqual(missing.returncode, 1)
        self.assertIn("not in buildah's storage", missing.stderr)
        for i in (0, 1):
            text = pod(f"loaded-{i}", node=f"node-{i}", namespace=self.namespace).replace(images.BUSYBOX, name)
            text = "\n".join(line for line in text.splitlines() if "command:" not in line)
            self.apply(text.replace("IfNotPresent", "Never").replace("terminationGrace", "restartPolicy: Never\n  terminationGrace"))


        def logs(name):
            return kubectl("logs", "-n", self.namespace, name, check=False).stdout

        for i in (0, 1):
            self.assertTrue(eventually(lambda: logs(f"loaded-{i}") == "loaded\n"), logs(f"loaded-{i}"))

    def test_env_logs_and_enter(self):
        variables = cluster("env").stdout
        script = 'eval "$1"; $GNN_CLUSTER_ENTER curl -sSk -m 5 https://10.89.0.1:6443/livez; echo; test -r "$KUBECONFIG"'
        done = subprocess.run(["sh", "-c", script, "sh", variables], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)
        self.assertIn("api-server", cluster("logs").stdout.split())
        self.assertIn("10.89.0.1", cluster("enter", "ip", "-br", "address").stdout)


class FaultsTest(unittest.TestCase):
    def setUp(self):
        self.before = traces([NAME])
        self.addCleanup(cluster, "down")

    def assert_gone(self):
        self.assertEqual(traces([NAME]), self.before)

    def test_down_leaves_nothing(self):
        cluster("up")
        kubectl("apply", "-f", "-", text=pod("a", node="node-0") + pod("b", node="node-1"))
        kubectl("wait", "pod/a", "pod/b", "--for=condition=Ready", "--timeout=60s")
        namespaces = network_namespaces([NAME])
        self.assertEqual(len(namespaces & namespaces_alive(namespaces)), 5, "control plane, two nodes, two pods")
        self.assertNotEqual(traces([NAME]), self.before, "else this test sees nothing")
        cluster("down")
        self.assert_gone()
        self.assertEqual(namespaces_alive(namespaces), set())

    def test_lost_node_is_seen_and_a_restarted_kubelet_brings_it_back(self):
        cluster("up")
        os.kill(status()["parts"]["node-1-kubelet"], signal.SIGKILL)

        def ready():
            return kubectl("get", "node", "node-1", "-o", 'jsonpath={.status.conditions[?(@.type=="Ready")].status}').stdout

        self.assertTrue(eventually(lambda: ready() == "Unknown", 25), ready())
        self.assertEqual(status()["state"], "damaged")
        cluster("restart", "node-1-kubelet")
        self.assertTrue(eventually(lambda: ready() == "True", 30), ready())
        self.assertEqual(status()["state"], "running")

    def test_half_killed_cluster_goes_down_and_up_again(self):
        cluster("up")
        kubectl("apply", "-f", "-", text=pod("a", node="node-0") + pod("b", node="node-1"))
        kubectl("wait", "pod/a", "pod/b", "--for=condition=Ready", "--timeout=60s")
        parts = status()["parts"]
        for part in ("node-0-containerd", "node-1-kubelet", "etcd"):
            os.kill(parts[part], signal.SIGKILL)
        again = eventually(lambda: status()["state"] == "damaged") and cluster("up", check=False)
        self.assertEqual(again.returncode, 1)
        self.assertRegex(again.stderr, r"damaged or half made \(dead: .*etcd.*\): run scripts/cluster --name \S+ down first")
        cluster("down")
        self.assert_gone()
        cluster("up")
        kubectl("apply", "-f", "-", text=pod("a", node="node-0") + pod("b", node="node-1"))
        kubectl("wait", "pod/a", "pod/b", "--for=condition=Ready", "--timeout=60s")

    def test_killed_up_leaves_nothing_that_down_cannot_remove(self):
        for seconds in (0.5, 1.0, 1.5, 2.5, 4.0):
            with self.subTest(killed_after=seconds):
                process = subprocess.Popen([SCRIPT, "--name", NAME, "up"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(seconds)
                process.kill()
                process.wait()
                cluster("down")
                self.assert_gone()

    def test_interrupted_up_takes_back_what_it_made(self):
        process = subprocess.Popen([SCRIPT, "--name", NAME, "up"], stderr=subprocess.PIPE, text=True)
        self.assertTrue(eventually(lambda: "api-server" in status()["parts"]))
        process.terminate()
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("interrupted", errors)
        self.assert_gone()

    def test_failed_up_says_why_and_leaves_nothing(self):
        tools = built_tools()
        with tempfile.TemporaryDirectory() as folder:
            for program in tools.iterdir():
                os.symlink(program, f"{folder}/{program.name}")
            os.unlink(f"{folder}/kubelet")
            Path(folder, "kubelet").write_text("#!/bin/sh\necho my knees hurt\nexit 3\n")
            os.chmod(f"{folder}/kubelet", 0o755)
            failed = cluster("up", check=False, env={"GNN_CLUSTER_TOOLS": folder})
        self.assertEqual(failed.returncode, 1)
        self.assertRegex(failed.stderr, "kubelet ended with code 3")
        self.assertIn("my knees hurt", failed.stderr)
        self.assert_gone()

    def test_clusters_live_side_by_side(self):
        other = f"{NAME}-b"
        self.addCleanup(cluster, "down", name=other)
        cluster("up", "--nodes", "1")
        cluster("up", "--control-plane-only", name=other)
        kubectl("create", "namespace", "only-here")
        self.assertNotEqual(kubectl("get", "namespace", "only-here", name=other, check=False).returncode, 0)
        cluster("down", name=other)
        self.assertEqual(kubectl("get", "namespace", "only-here").returncode, 0)
        self.assertEqual(status(other)["state"], "not running")

    def test_control_plane_only_needs_no_root(self):
        name = f"{NAME}-u"
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            self.fail("this test needs root and setpriv, to become somebody else")
        tools = built_tools()
        with tempfile.TemporaryDirectory() as folder:
            # A copy that anyone may read: this checkout and the cache may be private.
            shutil.copytree(ROOT / "tools/cluster", f"{folder}/cluster", ignore=shutil.ignore_patterns("go", "__pycache__"))
            shutil.copytree(tools, f"{folder}/tools", symlinks=True)
            subprocess.run(["chmod", "-R", "a+rX", folder], check=True)
            command = [
                "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                "/usr/bin/python3", f"{folder}/cluster/cluster.py", "--name", name,
            ]
            environment = {
                "PATH": os.environ["PATH"], "GNN_CLUSTER_TOOLS": f"{folder}/tools", "HOME": folder, "PYTHONDONTWRITEBYTECODE": "1",
            }

            def run(*arguments):
                return subprocess.run(
                    [*command, *arguments], capture_output=True, text=True, check=False, env=environment, timeout=180
                )

            try:
                up = run("up", "--control-plane-only")
                self.assertEqual(up.returncode, 0, up.stderr)
                self.assertEqual(run("kubectl", "get", "--raw", "/readyz").stdout, "ok")
                refused = run("up", "--name", "nodes")
                self.assertIn("need root", refused.stderr)
            finally:
                self.assertEqual(run("down").returncode, 0)
            self.assertFalse(os.path.exists("/var/tmp/gnn-cluster-65534"))


if __name__ == "__main__":
    unittest.main()
