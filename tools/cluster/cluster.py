"""The command line of scripts/cluster."""

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import host
import images
import programs
from api_client import ApiClient, ApiError
from layout import (
    API_PORT,
    CONTROL_ADDRESS,
    FAKE_POD_CIDR,
    KUBERNETES_SERVICE,
    MARK,
    SERVICE_CIDR,
    SOURCE,
    Layout,
    UserError,
    base_directory,
)
from pki import Pki

START_TIMEOUT = 60
# It makes its certificate, and waits until the kubelet has put that into its pod.
KUEUE_TIMEOUT = 180
CONTROL_HOLDER = "network-holder"


def say(text):
    print(f"cluster: {text}", flush=True)


def find_tools(which="go"):
    """The folder with the pinned programs; builds them if this machine has not yet."""
    if given := os.environ.get({"go": "GNN_CLUSTER_TOOLS", "kueue": "GNN_KUEUE_TOOLS"}[which]):
        return Path(given)
    done = subprocess.run([SOURCE / which / "build"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise UserError("the cluster's programs could not be built (see above): run scripts/setup --cluster")
    return Path(done.stdout.strip())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Cluster:
    def __init__(self, name):
        self.layout = Layout(name)
        self.directory = self.layout.directory
        self._tools = None
        self._registering = threading.Lock()

    def again(self, command):
        """How the user says `command` of this cluster."""
        return f"scripts/cluster --name {self.layout.name} {command}"

    # --- State -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def locked(self):
        """Against another up or down of the same cluster. The lock is on the folder, so nothing of it stays behind."""
        base = base_directory()
        base.mkdir(mode=0o755, exist_ok=True)
        if base.stat().st_uid != os.geteuid():
            raise UserError(f"{base} belongs to another user: remove it")
        while True:
            self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            fd = os.open(self.directory, os.O_RDONLY)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                raise UserError(f"another up or down of cluster {self.layout.name} is running: wait until it ends") from None
            # A down that held the lock before us may have removed the folder.
            if os.path.exists(self.directory) and os.stat(self.directory).st_ino == os.fstat(fd).st_ino:
                break
            os.close(fd)
        try:
            yield
        finally:
            os.close(fd)

    def options(self):
        """None: `up` has not come to its end, or there is no such cluster."""
        try:
            return json.loads(self.layout.options_file.read_text())
        except (OSError, ValueError):
            return None

    def running_options(self):
        options = self.options()
        if options is None:
            raise UserError(f"cluster {self.layout.name} is not running: run {self.again('up')}")
        return options

    def parts(self):
        """Part to how it was started, in that order."""
        found = {}
        folder = self.directory / "parts"
        for file in sorted(folder.glob("*.json")) if folder.is_dir() else []:
            part = json.loads(file.read_text())
            found[part["part"]] = part
        return found

    def dead_parts(self):
        alive = host.main_processes(self.directory)
        return [part for part in self.parts() if part not in alive]

    def leftovers(self):
        """What a cluster of this name has on this machine, beyond its folder."""
        prefix = self.layout.cgroup_prefix
        return bool(host.processes(self.directory) or host.cgroup_processes(prefix) or host._cgroup_folders(prefix))

    # --- Processes ---------------------------------------------------------------------------------------------

    def start_part(self, part, command, network=None, mount=False):
        """Starts a daemon; `network` names the part whose namespaces it joins (None: this machine's)."""
        description = {"part": part, "command": [str(c) for c in command], "network": network, "mount": mount}
        folder = self.directory / "parts"
        with self._registering:
            folder.mkdir(exist_ok=True)
            file = folder / f"{len(os.listdir(folder)):02}-{part}.json"
            # By rename, because `status` may read at any time.
            file.with_suffix(".part").write_text(json.dumps(description))
            file.with_suffix(".part").rename(file)
        return self._spawn(description)

    def _spawn(self, description):
        enter = None
        if description["network"]:
            enter = host.enter(self.pid_in_network(description["network"]), mount=description["mount"])
        log = self.layout.logs / f"{description['part']}.log"
        return host.start(description["command"], directory=self.directory, part=description["part"], log=log, enter=enter)

    def pid_in_network(self, holder):
        """A process in the holder's namespaces: the holder, or, should that be dead, another that joined them."""
        alive = host.main_processes(self.directory)
        parts = self.parts()
        candidates = [holder, *(p for p, d in parts.items() if d["network"] == holder and p != "network-policy")]
        for part in candidates:
            if part in alive:
                return alive[part]
        raise UserError(f"cluster {self.layout.name} is damaged ({holder} is dead): run {self.again('down')}, then up")

    def log_end(self, part, lines=5):
        try:
            text = (self.layout.logs / f"{part}.log").read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.strip().splitlines()[-lines:])

    def check_alive(self, process, part):
        if process.poll() is not None:
            raise RuntimeError(f"{part} ended with code {process.returncode}; its log ends with:\n{self.log_end(part)}")

    # --- Up ----------------------------------------------------------------------------------------------------

    def up(self, options):
        before = self.options()
        if before is not None and not self.dead_parts():
            say(f"{self.layout.name} is already running ({describe(before)}); nothing to do")
            return
        check_machine(options)
        self._tools = find_tools()
        for program in ("etcd", "kube-apiserver", "kubectl"):
            if not os.access(self._tools / program, os.X_OK):
                raise UserError(f"{self._tools / program} is missing: unset GNN_CLUSTER_TOOLS or run scripts/setup --cluster")
        with self.locked():
            if any(self.directory.iterdir()) or self.leftovers():
                raise UserError(
                    f"cluster {self.layout.name} is damaged or half made"
                    f" (dead: {', '.join(self.dead_parts()) or 'nothing that had started'}): run {self.again('down')} first"
                )
            started = time.monotonic()
            try:
                if not options["control_plane_only"]:
                    host.check_kernel(self.directory)
                self._make(options)
                # Written last: its presence says that `up` came to its end.
                self.layout.options_file.write_text(json.dumps(options))
            except BaseException as error:
                if isinstance(error, Exception) and os.environ.get("GNN_CLUSTER_KEEP"):
                    raise
                self._remove()
                raise
        say(f"{self.layout.name} is up after {time.monotonic() - started:.1f} s ({describe(options)})")

    def _make(self, options):
        self.directory.chmod(0o755)
        for folder in (self.layout.logs, self.layout.volumes):
            folder.mkdir()
        self.layout.volumes.chmod(0o777)
        if options["control_plane_only"]:
            self._make_control_plane_only(options)
        else:
            self._make_with_nodes(options)

    def _make_pki(self, hosts, nodes):
        pki = Pki(self.layout.pki)
        for authority in ("server-ca", "client-ca"):
            pki.authority(authority)
        pki.server("api-server", hosts)
        pki.client("admin", "admin", "system:masters")
        pki.key_pair("accounts")
        with ThreadPoolExecutor() as pool:
            users = [("controller-manager", "system:kube-controller-manager", None), ("scheduler", "system:kube-scheduler", None)]
            if nodes:
                users += [("coredns", "system:coredns", None), ("kube-proxy", "system:kube-proxy", None),
                          ("network-policy", "network-policy-enforcer", None),
                          ("api-server-to-kubelet", "api-server-to-kubelet", "system:masters")]
            users += [(n.name, f"system:node:{n.name}", "system:nodes") for n in nodes]
            made = [pool.submit(pki.client, *user) for user in users]
            made += [pool.submit(pki.server, f"{n.name}-server", [n.address, n.name]) for n in nodes]
            for one in made:
                one.result()
        return pki

    def _kubeconfigs(self, pki, server, users):
        for user in users:
            file = self.layout.kubeconfig if user == "admin" else self.layout.pki / f"{user}.kubeconfig"
            file.write_text(programs.kubeconfig(server, pki.certificate("server-ca"), pki.certificate(user), pki.key(user)))
            file.chmod(0o600)

    def _start_api(self, pki, *, address, port, etcd_port, etcd_peer_port, network, with_nodes):
        etcd = self.start_part("etcd", programs.etcd(self._tools, self.directory, etcd_port, etcd_peer_port), network)
        command = programs.api_server(
            self._tools, self.layout, pki, address=address, port=port, etcd_port=etcd_port, with_nodes=with_nodes
        )
        api_server = self.start_part("api-server", command, network)

        def alive():
            self.check_alive(etcd, "etcd")
            self.check_alive(api_server, "api-server")

        return alive

    def _start_controllers(self, pki, network):
        user = self.layout.pki / "controller-manager.kubeconfig"
        self.start_part("controller-manager", programs.controller_manager(self._tools, pki, user), network)
        self.start_part("scheduler", programs.scheduler(self._tools, self.layout.pki / "scheduler.kubeconfig"), network)

    def _start_fake_nodes(self, client, count, network, address, pod_cidr):
        if count == 0:
            return
        for index in range(count):
            client.call("POST", "/api/v1/nodes", programs.fake_node(index))
        command = programs.kwok(self._tools, self.layout.kubeconfig, node_address=address, pod_cidr=pod_cidr)
        self.start_part("kwok", command, network)

    def client(self, options=None):
        options = options or self.running_options()
        return ApiClient(
            "127.0.0.1" if options["control_plane_only"] else CONTROL_ADDRESS,
            options.get("port") or API_PORT,
            self.layout.pki / "server-ca.crt",
            self.layout.pki / "admin.crt",
            self.layout.pki / "admin.key",
            network_of=None if options["control_plane_only"] else self.pid_in_network(CONTROL_HOLDER),
        )

    def _make_control_plane_only(self, options):
        options["port"] = port = options.get("port") or free_port()
        pki = self._make_pki(["127.0.0.1", "localhost"], [])
        self._kubeconfigs(pki, f"https://127.0.0.1:{port}", ["admin", "controller-manager", "scheduler"])
        alive = self._start_api(
            pki, address="127.0.0.1", port=port, etcd_port=free_port(), etcd_peer_port=free_port(),
            network=None, with_nodes=False,
        )
        client = self.client(options)
        client.wait("a ready API server", lambda: client.get("/readyz") == "ok", START_TIMEOUT, alive)
        self._start_controllers(pki, None)
        # Fake pods' addresses are loopback: whoever connects to one stays on this machine.
        self._start_fake_nodes(client, options["fake_nodes"], None, "127.0.0.1", "127.64.0.0/16")
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        client.wait("the default service account", lambda: client.get(account), START_TIMEOUT, alive)

    def _make_with_nodes(self, options):
        nodes = self.layout.nodes(options["nodes"])
        cni_folder = host.cni_folder()
        archives = [images.pause_archive(), images.busybox_archive()]
        if options["prometheus"]:
            archives.append(images.prometheus_archive())
        if options["kueue"]:
            kueue = find_tools("kueue")
            archives.append(images.kueue_archive(kueue / "kueue"))

        self._make_network(nodes)
        hosts = [CONTROL_ADDRESS, KUBERNETES_SERVICE, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default",
                 "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
        pki = self._make_pki(hosts, nodes)
        server = f"https://{CONTROL_ADDRESS}:{API_PORT}"
        users = ["admin", "controller-manager", "scheduler", "coredns", "kube-proxy", *(n.name for n in nodes)]
        self._kubeconfigs(pki, server, users)

        alive = self._start_api(
            pki, address=CONTROL_ADDRESS, port=API_PORT, etcd_port=2379, etcd_peer_port=2380,
            network=CONTROL_HOLDER, with_nodes=True,
        )
        with ThreadPoolExecutor() as pool:
            # The nodes' runtimes come up while the API server does.
            runtimes = [pool.submit(self._start_runtime, node, cni_folder, archives) for node in nodes]
            client = self.client(options)
            client.wait("a ready API server", lambda: client.get("/readyz") == "ok", START_TIMEOUT, alive)
            for runtime in runtimes:
                runtime.result()
        self.kubectl_apply(SOURCE / "manifests" / "base.yaml")
        self._start_controllers(pki, CONTROL_HOLDER)
        coredns_user = self.layout.pki / "coredns.kubeconfig"
        self.start_part("coredns", programs.coredns(self._tools, self.layout, coredns_user), CONTROL_HOLDER)
        kubelets = {}
        for node in nodes:
            user = self.layout.pki / f"{node.name}.kubeconfig"
            part = f"{node.name}-kubelet"
            kubelets[part] = self.start_part(
                part, programs.kubelet(self._tools, node, pki, user), node.holder, mount=True
            )
            proxy_user = self.layout.pki / "kube-proxy.kubeconfig"
            self.start_part(
                f"{node.name}-kube-proxy", programs.kube_proxy(self._tools, node, proxy_user), node.holder, mount=True
            )
        enforcer = [sys.executable, SOURCE / "network_policy.py", CONTROL_ADDRESS, API_PORT, pki.certificate("server-ca"),
                    pki.certificate("network-policy"), pki.key("network-policy"),
                    *(f"{n.name}={self.pid_in_network(n.holder)}" for n in nodes)]
        self.start_part("network-policy", enforcer, CONTROL_HOLDER)
        self._start_fake_nodes(client, options["fake_nodes"], CONTROL_HOLDER, CONTROL_ADDRESS, FAKE_POD_CIDR)

        def nodes_alive():
            alive()
            for part, process in kubelets.items():
                self.check_alive(process, part)

        client.wait(f"{len(nodes)} ready nodes", lambda: ready_nodes(client, nodes), START_TIMEOUT, nodes_alive)
        for node in nodes:
            self._add_gpus(client, node, options["gpus"])
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        client.wait("the default service account", lambda: client.get(account), START_TIMEOUT, alive)
        if options["prometheus"]:
            discovery = [sys.executable, SOURCE / "pod_discovery.py", *enforcer[2:7]]
            self.start_part("pod-discovery", discovery, CONTROL_HOLDER)
            if options["prometheus_rules"]:
                self._give_rules(options["prometheus_rules"])
            self.kubectl_apply(SOURCE / "manifests" / "prometheus.yaml")
            client.wait(
                "a ready Prometheus", lambda: pod_is_ready(client, "monitoring", "prometheus"), START_TIMEOUT, nodes_alive
            )
        if options["kueue"]:
            self.kubectl_apply(kueue / "manifests.yaml")
            client.wait("Kueue's answer", lambda: kueue_answers(client), KUEUE_TIMEOUT, nodes_alive)

    def _give_rules(self, file):
        """The ConfigMap that Prometheus reads at its start."""
        metadata = {"name": "prometheus-rules", "namespace": "monitoring"}
        manifest = self.layout.directory / "prometheus-rules.json"
        manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"rules.yaml": Path(file).read_text()}},
        ]}))
        self.kubectl_apply(manifest)

    def _make_network(self, nodes):
        """A namespace for the control plane with a bridge, and one for each node, linked to it. None has a way out."""
        processes = {}
        self.start_part(CONTROL_HOLDER, ["unshare", "--net", "--", "sleep", "infinity"])
        for node in nodes:
            for folder in (node.directory, node.directory / "lib", node.directory / "log"):
                folder.mkdir()
            host.create_cgroup(node.cgroup)
            command = ["unshare", "--net", "--mount", "--propagation", "private", "--",
                       "sh", "-c", programs.NODE_MOUNTS, "holder", node.directory]
            processes[node] = self.start_part(node.holder, command)
        control = self._wait_for_namespace(CONTROL_HOLDER)
        holders = {}
        for node in nodes:
            holders[node] = self._wait_for_namespace(node.holder)
            self._wait_for_file(node.directory / "ready", processes[node], node.holder)

        lines = ["link set lo up", "link add br0 type bridge", f"addr add {CONTROL_ADDRESS}/24 dev br0", "link set br0 up",
                 f"route add unreachable {FAKE_POD_CIDR}"]
        for node in nodes:
            lines += [f"link add to-{node.name} type veth peer name eth0 netns {holders[node]}",
                      f"link set to-{node.name} master br0 up", f"route add {node.pod_cidr} via {node.address}"]
        self._ip(control, lines)
        for node in nodes:
            others = [f"route add {other.pod_cidr} via {other.address}" for other in nodes if other != node]
            self._ip(holders[node], [
                "link set lo up", f"addr add {node.address}/24 dev eth0", "link set eth0 up", *others,
                # Only so that the node's own processes have a route before kube-proxy replaces the address.
                f"route add {SERVICE_CIDR} via {CONTROL_ADDRESS}", f"route add unreachable {FAKE_POD_CIDR}",
            ])  # fmt: skip
            host.run([*host.enter(holders[node]), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])

    def _ip(self, pid, lines):
        host.run([*host.enter(pid), "ip", "-batch", "-"], text="\n".join(lines) + "\n")

    def _wait_for_namespace(self, part):
        """The holder's process id, once it has a network namespace of its own."""
        deadline = time.monotonic() + START_TIMEOUT
        ours = os.stat("/proc/self/ns/net").st_ino
        while time.monotonic() < deadline:
            pid = host.main_processes(self.directory).get(part)
            with contextlib.suppress(OSError):
                if pid and os.stat(f"/proc/{pid}/ns/net").st_ino != ours:
                    return pid
            time.sleep(0.01)
        raise RuntimeError(f"{part} got no network namespace: {self.log_end(part)}")

    def _wait_for_file(self, file, process, part):
        deadline = time.monotonic() + START_TIMEOUT
        while not file.exists():
            # Not by its mark: while it starts its next program, its environment can't be read.
            self.check_alive(process, part)
            if time.monotonic() > deadline:
                raise RuntimeError(f"{part} made no {file.name}; its log ends with:\n{self.log_end(part)}")
            time.sleep(0.01)

    def _start_runtime(self, node, cni_folder, archives):
        part = f"{node.name}-containerd"
        process = self.start_part(part, programs.containerd(node, cni_folder), node.holder, mount=True)
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            self.check_alive(process, part)
            # Marked, because it outlives us if we are killed while it waits for the socket.
            done = subprocess.run(
                ["ctr", "--address", str(node.socket), "version"], capture_output=True, check=False,
                env={**os.environ, MARK: str(self.directory)},
            )
            if done.returncode == 0:
                break
            if time.monotonic() > deadline:
                raise RuntimeError(f"{part} is not ready in time; its log ends with:\n{self.log_end(part)}")
            time.sleep(0.1)
        for archive in archives:
            images.import_archive(node, archive)

    def _add_gpus(self, client, node, count):
        if count == 0:
            return
        amount = {"nvidia.com/gpu": str(count)}
        client.call("PATCH", f"/api/v1/nodes/{node.name}/status", {"status": {"capacity": amount, "allocatable": amount}},
                    content_type="application/merge-patch+json")

    # --- Down --------------------------------------------------------------------------------------------------

    def down(self):
        if not self.directory.exists() and not self.leftovers():
            say(f"{self.layout.name} is not running; nothing to do")
            return
        with self.locked():
            self._remove()
        say(f"{self.layout.name} is gone")

    def _remove(self):
        """Needs only the cluster's name, so it works on whatever is left of one."""
        host.kill_everything(self.directory, self.layout.cgroup_prefix)
        host.remove_cgroups(self.layout.cgroup_prefix)
        host.remove_tree(self.directory)
        with contextlib.suppress(OSError):
            base_directory().rmdir()  # the last cluster removes it

    # --- The rest ----------------------------------------------------------------------------------------------

    def kubectl_command(self, arguments):
        options = self.options()
        prefix = []
        if options is None or not options["control_plane_only"]:
            prefix = host.enter(self.pid_in_network(CONTROL_HOLDER))
        tools = self._tools or find_tools()
        return [*prefix, str(tools / "kubectl"), f"--kubeconfig={self.layout.kubeconfig}",
                f"--cache-dir={self.directory / 'kubectl-cache'}", *arguments]

    def kubectl_apply(self, file):
        host.run(self.kubectl_command(["apply", "--server-side", "-f", file]))

    def kubectl(self, arguments):
        self.running_options()
        command = self.kubectl_command(arguments)
        os.execvp(command[0], command)

    def enter(self, arguments):
        options = self.running_options()
        if arguments[:1] == ["--"]:
            arguments = arguments[1:]
        command = arguments or [os.environ.get("SHELL", "/bin/sh")]
        os.environ["KUBECONFIG"] = str(self.layout.kubeconfig)
        if not options["control_plane_only"]:
            command = [*host.enter(self.pid_in_network(CONTROL_HOLDER)), *command]
        os.execvp(command[0], command)

    def load(self, names):
        options = self.running_options()
        if options["control_plane_only"]:
            raise UserError("this cluster is control-plane-only: it has no nodes to load images onto")
        nodes = self.layout.nodes(options["nodes"])
        with tempfile.TemporaryDirectory(dir=self.directory, prefix="load-") as work, ThreadPoolExecutor() as pool:
            for name in names:
                archive = images.export(name, work)
                for done in [pool.submit(images.import_archive, node, archive) for node in nodes]:
                    done.result()
                say(f"{name} is on {len(nodes)} nodes")

    def status(self, as_json):
        options = self.options()
        alive = host.main_processes(self.directory)
        parts = {part: alive.get(part) for part in self.parts()}
        dead = [part for part, pid in parts.items() if pid is None]
        if options is None:
            state = "half made" if self.directory.exists() or self.leftovers() else "not running"
        else:
            state = "damaged" if dead else "running"
        if as_json:
            print(json.dumps({"name": self.layout.name, "state": state, "options": options, "parts": parts,
                              "directory": str(self.directory), "kubeconfig": str(self.layout.kubeconfig)}))
        else:
            say(f"{self.layout.name} is {state}" + (f" ({describe(options)})" if options else ""))
            for part, pid in parts.items():
                print(f"  {part:24} {pid or 'dead'}")
            if options:
                print(f"  volumes for all nodes: {self.layout.volumes}")
        return 0 if state == "running" else 3

    def logs(self, part, lines, follow):
        available = sorted(f.stem for f in self.layout.logs.glob("*.log")) if self.layout.logs.is_dir() else []
        if part is None:
            print("\n".join(available))
            return
        if part not in available:
            raise UserError(f"no log of {part!r}; there are: {', '.join(available) or 'none'}")
        command = ["tail", "-n", str(lines), *(["-F"] if follow else []), str(self.layout.logs / f"{part}.log")]
        os.execvp(command[0], command)

    def environment(self):
        options = self.running_options()
        prefix = [] if options["control_plane_only"] else host.enter(self.pid_in_network(CONTROL_HOLDER))
        print(f"export KUBECONFIG={self.layout.kubeconfig}")
        print("# The API server is reached from the cluster's network: $GNN_CLUSTER_ENTER kubectl get nodes")
        print(f"export GNN_CLUSTER_ENTER={json.dumps(' '.join(prefix))}")

    def restart(self, part):
        options = self.running_options()
        parts = self.parts()
        if part not in parts:
            raise UserError(f"no part {part!r}; there are: {', '.join(parts)}")
        if part.endswith("-holder"):
            raise UserError(f"{part} holds the namespaces of other parts: run {self.again('down')}, then up, instead")
        pid = host.main_processes(self.directory).get(part)
        if pid:
            host.kill_and_wait(pid)
        process = self._spawn(parts[part])
        time.sleep(0.2)
        self.check_alive(process, part)
        nodes = {} if options["control_plane_only"] else {f"{n.name}-kubelet": n for n in self.layout.nodes(options["nodes"])}
        if part in nodes:
            # A node that was deleted meanwhile registers anew, without what `up` had given it.
            client = self.client(options)
            client.wait(
                f"node {nodes[part].name} ready", lambda: ready_nodes(client, [nodes[part]]), START_TIMEOUT,
                lambda: self.check_alive(process, part),
            )
            self._add_gpus(client, nodes[part], options["gpus"])
        say(f"{part} restarted (process {process.pid})")


def describe(options):
    what = "control plane only" if options["control_plane_only"] else f"{options['nodes']} nodes"
    if options["fake_nodes"]:
        what += f", {options['fake_nodes']} fake nodes"
    return what + (", Prometheus" if options["prometheus"] else "") + (", Kueue" if options.get("kueue") else "")


def ready_nodes(client, nodes):
    found = {item["metadata"]["name"]: item for item in client.get("/api/v1/nodes")["items"]}
    return all(
        any(c["type"] == "Ready" and c["status"] == "True" for c in found.get(n.name, {}).get("status", {}).get("conditions", []))
        for n in nodes
    )


def pod_is_ready(client, namespace, name):
    pod = client.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", []))


def kueue_answers(client):
    """Through its webhooks: that of admission, and the conversion of an older version."""
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "probe"}}
    client.call("POST", "/apis/kueue.x-k8s.io/v1beta2/resourceflavors?dryRun=All", flavor)
    return client.get("/apis/kueue.x-k8s.io/v1beta1/workloads")["kind"] == "WorkloadList"


def check_machine(options):
    """Everything that can be said to be missing before anything is made."""
    if options["control_plane_only"]:
        host.check_commands(["openssl"])
        if port := options.get("port"):
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError as error:
                    raise UserError(f"port {port} cannot be used ({error.strerror}): choose another, or omit --port") from None
        host.check_memory(0)
        return
    if os.geteuid() != 0:
        raise UserError("nodes need root: run as root, or use --control-plane-only")
    host.check_commands(host.NEEDED_COMMANDS)
    host.cni_folder()
    host.check_memory(options["nodes"])
    free = shutil.disk_usage("/var/tmp").free // 2**20
    if free < 2048:
        raise UserError(f"/var/tmp has {free} MiB free, a cluster needs 2048: free some space")


def split_passed_on(arguments):
    """Our own arguments, and those after `kubectl` or `enter`, which are not ours to understand."""
    position = 0
    while position < len(arguments) and arguments[position].startswith("-"):
        position += 2 if arguments[position] == "--name" else 1
    if position < len(arguments) and arguments[position] in ("kubectl", "enter"):
        return arguments[: position + 1], arguments[position + 1 :]
    return arguments, []


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/cluster", description="A real Kubernetes on one machine.")
    parser.add_argument("--name", default="default", help="name of the cluster; several can run side by side (default: default)")
    # Also after the command, as in `cluster up --name x`.
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default=argparse.SUPPRESS)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    up = commands.add_parser("up", parents=[common], help="start a cluster, unless it is running")
    up.add_argument("--nodes", type=int, default=2, help="real nodes: containerd, kubelet, kube-proxy (default 2)")
    up.add_argument("--fake-nodes", type=int, default=0, help="nodes simulated by kwok, tainted kwok.x-k8s.io/node (default 0)")
    up.add_argument(
        "--gpus", type=int, default=4,
        help="nvidia.com/gpu resources that each node advertises; there is no device (default 4)",
    )
    up.add_argument("--control-plane-only", action="store_true", help="no nodes; listens on the loopback address and needs no root")
    up.add_argument("--port", type=int, help="port of the API server, with --control-plane-only (default: a free port)")
    up.add_argument("--prometheus", action="store_true", help="also run Debian's Prometheus, in the namespace monitoring")
    up.add_argument(
        "--prometheus-rules", metavar="FILE", help="recording and alerting rules for that Prometheus"
    )
    up.add_argument("--kueue", action="store_true", help="also run Kueue, built for this the first time (minutes)")
    commands.add_parser("down", parents=[common], help="remove a cluster, whatever its state")
    status = commands.add_parser("status", parents=[common], help="show what is running; exits with 3 unless everything is")
    status.add_argument("--json", action="store_true")
    load = commands.add_parser("load", parents=[common], help="load images from buildah's storage, or .tar files, onto every node")
    load.add_argument("image", nargs="+")
    logs = commands.add_parser("logs", parents=[common], help="show the log of a part; without PART, list the parts")
    logs.add_argument("part", nargs="?")
    logs.add_argument("--lines", type=int, default=100)
    logs.add_argument("--follow", action="store_true")
    restart = commands.add_parser("restart", parents=[common], help="kill a part if it is running, and start it again")
    restart.add_argument("part")
    commands.add_parser("env", parents=[common], help="print shell variables for working with the cluster")
    commands.add_parser("kubectl", add_help=False, help="run the pinned kubectl with the arguments that follow")
    commands.add_parser("enter", add_help=False, help="run a command in the cluster's network (default: a shell)")

    own, passed_on = split_passed_on(arguments)
    options = parser.parse_args(own)
    options.arguments = passed_on
    if options.command == "up":
        if options.control_plane_only:
            if options.prometheus:
                parser.error("--prometheus needs nodes; leave --control-plane-only out")
            if options.kueue:
                parser.error("--kueue needs nodes; leave --control-plane-only out")
            options.nodes = 0
        elif not 1 <= options.nodes <= 8:
            parser.error("--nodes must be 1 to 8")
        if options.prometheus_rules and not options.prometheus:
            parser.error("--prometheus-rules needs --prometheus")
        if options.prometheus_rules and not Path(options.prometheus_rules).is_file():
            parser.error(f"--prometheus-rules: there is no file {options.prometheus_rules}")
        if not 0 <= options.fake_nodes <= 5000 or not 0 <= options.gpus <= 64:
            parser.error("--fake-nodes must be 0 to 5000 and --gpus 0 to 64")
        if options.port is not None and not options.control_plane_only:
            parser.error("--port is for --control-plane-only; a cluster with nodes has a network of its own")
    return options


def main(arguments):
    options = parse(arguments)
    # An interrupted `up` takes back what it has made.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        cluster = Cluster(options.name)
        if options.command == "up":
            wanted = ("nodes", "fake_nodes", "gpus", "control_plane_only", "port", "prometheus", "prometheus_rules",
                      "kueue")
            cluster.up({name: getattr(options, name) for name in wanted})
        elif options.command == "down":
            cluster.down()
        elif options.command == "status":
            return cluster.status(options.json)
        elif options.command == "load":
            cluster.load(options.image)
        elif options.command == "logs":
            cluster.logs(options.part, options.lines, options.follow)
        elif options.command == "restart":
            cluster.restart(options.part)
        elif options.command == "env":
            cluster.environment()
        elif options.command == "kubectl":
            cluster.kubectl(options.arguments)
        elif options.command == "enter":
            cluster.enter(options.arguments)
    except UserError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except (RuntimeError, ApiError, OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cluster: interrupted; what was made is removed", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
