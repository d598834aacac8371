"""Command lines and configuration files of the cluster's programs."""

import json

from images import PAUSE
from layout import (
    CLUSTER_DOMAIN,
    CONTROL_ADDRESS,
    FAKE_POD_CIDR,
    NODE_GRACE_SECONDS,
    POD_CIDR,
    SERVICE_CIDR,
)


def kubeconfig(server, ca, certificate, key):
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "cluster",
            "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": "user"}}],
            "clusters": [{"name": "cluster", "cluster": {"server": server, "certificate-authority": str(ca)}}],
            "users": [{"name": "user", "user": {"client-certificate": str(certificate), "client-key": str(key)}}],
        },
        indent=2,
    )


def etcd(tools, directory, port, peer_port):
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        tools / "etcd", "--name=default", f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync", "--log-level=warn",
    ]  # fmt: skip


def api_server(tools, layout, pki, *, address, port, etcd_port, with_nodes):
    command = [
        tools / "kube-apiserver",
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--secure-port={port}",
        f"--tls-cert-file={pki.certificate('api-server')}",
        f"--tls-private-key-file={pki.key('api-server')}",
        f"--client-ca-file={pki.certificate('client-ca')}",
        f"--service-account-key-file={pki.directory / 'accounts.pub'}",
        f"--service-account-signing-key-file={pki.key('accounts')}",
        f"--service-account-issuer=https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        # Policies that change objects, for whoever applies some.
        "--feature-gates=MutatingAdmissionPolicy=true",
        "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
        "--allow-privileged=true",
        "--profiling=false",
        f"--cert-dir={layout.directory / 'api-server'}",
    ]
    if not with_nodes:
        return [*command, f"--bind-address={address}", "--endpoint-reconciler-type=none"]
    return [
        *command,
        f"--advertise-address={address}",
        # Webhooks are reached at their pods: no kube-proxy runs beside the API server.
        "--enable-aggregator-routing=true",
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={pki.certificate('server-ca')}",
        f"--kubelet-client-certificate={pki.certificate('api-server-to-kubelet')}",
        f"--kubelet-client-key={pki.key('api-server-to-kubelet')}",
    ]


def controller_manager(tools, pki, kubeconfig_file):
    return [
        tools / "kube-controller-manager",
        f"--kubeconfig={kubeconfig_file}",
        f"--service-account-private-key-file={pki.key('accounts')}",
        f"--root-ca-file={pki.certificate('server-ca')}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--secure-port=0",
        # Lost nodes must be seen within a test.
        f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
        "--node-monitor-period=1s",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler(tools, kubeconfig_file):
    return [tools / "kube-scheduler", f"--kubeconfig={kubeconfig_file}", "--leader-elect=false", "--secure-port=0",
            "--kube-api-qps=200", "--kube-api-burst=400"]


def coredns(tools, layout, kubeconfig_file):
    """Serves nodes and pods from the control plane's address; knows the cluster's names and no others."""
    corefile = layout.directory / "Corefile"
    corefile.write_text(
        f""".:53 {{
    bind {CONTROL_ADDRESS}
    errors
    health 127.0.0.1:8080
    ready 127.0.0.1:8181
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig_file} cluster
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 5
    }}
}}
"""
    )
    return [tools / "coredns", "-conf", corefile]


def kwok(tools, kubeconfig_file, *, node_address, pod_cidr=FAKE_POD_CIDR):
    return [
        tools / "kwok",
        f"--kubeconfig={kubeconfig_file}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        f"--cidr={pod_cidr}",
        f"--node-ip={node_address}",
        # It renews leases at a quarter of this, which must be well below the grace period.
        f"--node-lease-duration-seconds={NODE_GRACE_SECONDS}",
        *(f"--config={stage}" for stage in sorted((tools / "kwok-stages").iterdir())),
    ]


def fake_node(index):
    resources = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
    name = f"fake-{index}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"},
                     "labels": {"kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                                "type": "kwok"}},
        # Real workloads stay on real nodes unless they say otherwise.
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": resources, "allocatable": resources},
    }  # fmt: skip


# --- Nodes -----------------------------------------------------------------------------------------------------

# A node sees its own /run, /var/lib and /var/log: containerd, kubelet and the CNI plugins then keep to their usual
# paths, and all their mounts end with the node's last process.
NODE_MOUNTS = """set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount --bind "$1/lib" /var/lib
mount --bind "$1/log" /var/log
mount --make-rshared /
touch "$1/ready"
exec sleep infinity
"""


def containerd(node, cni_folder):
    config = node.directory / "containerd.toml"
    config.write_text(
        f"""version = 2
disabled_plugins = [
  "io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]
[grpc]
  address = "{node.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  # Without CAP_SYS_RESOURCE a negative oom_score_adj cannot be written, and runc would fail on it.
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni_folder}"
    conf_dir = "{node.directory / 'cni'}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
    SystemdCgroup = false
"""
    )
    # A routed link for each pod: the node forwards all its packets, so that network policies can judge them.
    cni = {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "mtu": 1500,
             "ipam": {"type": "host-local", "ranges": [[{"subnet": node.pod_cidr}]], "routes": [{"dst": "0.0.0.0/0"}]}},
        ],
    }  # fmt: skip
    (node.directory / "cni").mkdir(exist_ok=True)
    (node.directory / "cni" / "10-pods.conflist").write_text(json.dumps(cni, indent=2))
    return ["containerd", "--config", config]


def kubelet(tools, node, pki, kubeconfig_file):
    config = node.directory / "kubelet.json"
    resolv_conf = node.directory / "resolv.conf"
    resolv_conf.write_text(f"nameserver {CONTROL_ADDRESS}\n")
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubelet.config.k8s.io/v1beta1",
                "kind": "KubeletConfiguration",
                "authentication": {
                    "anonymous": {"enabled": False},
                    "webhook": {"enabled": True},
                    "x509": {"clientCAFile": str(pki.certificate("client-ca"))},
                },
                "authorization": {"mode": "Webhook"},
                "tlsCertFile": str(pki.certificate(f"{node.name}-server")),
                "tlsPrivateKeyFile": str(pki.key(f"{node.name}-server")),
                "containerRuntimeEndpoint": f"unix://{node.socket}",
                "cgroupDriver": "cgroupfs",
                "cgroupRoot": f"/{node.cgroup}",
                "clusterDNS": [CONTROL_ADDRESS],
                "clusterDomain": CLUSTER_DOMAIN,
                "resolvConf": str(resolv_conf),
                "failSwapOn": False,
                "oomScoreAdj": 0,
                "makeIPTablesUtilChains": False,
                "evictionHard": {"memory.available": "100Mi"},
                "imageGCHighThresholdPercent": 100,
                "nodeStatusUpdateFrequency": "2s",
                "nodeStatusReportFrequency": "10s",
                # Renewed at a quarter of this, well below the controller manager's grace period.
                "nodeLeaseDurationSeconds": NODE_GRACE_SECONDS,
                "syncFrequency": "10s",
                "maxPods": 64,
                "registryPullQPS": 0,
                "eventRecordQPS": 0,
                "kubeAPIQPS": 100,
                "kubeAPIBurst": 200,
                "volumePluginDir": "/var/lib/kubelet/plugins-exec",
            },
            indent=2,
        )
    )
    return [tools / "kubelet", f"--config={config}", f"--kubeconfig={kubeconfig_file}", f"--node-ip={node.address}",
            f"--hostname-override={node.name}", "--cert-dir=/var/lib/kubelet/pki",
            f"--node-labels=topology.kubernetes.io/zone=zone-{node.index}"]


def kube_proxy(tools, node, kubeconfig_file):
    config = node.directory / "kube-proxy.json"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
                "kind": "KubeProxyConfiguration",
                "mode": "nftables",
                "clusterCIDR": POD_CIDR,
                "hostnameOverride": node.name,
                "clientConnection": {"kubeconfig": str(kubeconfig_file)},
                "oomScoreAdj": 0,
                "healthzBindAddress": "127.0.0.1:10256",
                "metricsBindAddress": "127.0.0.1:10249",
                # Limits of the whole machine, which are not ours to set.
                "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            },
            indent=2,
        )
    )
    return [tools / "kube-proxy", f"--config={config}"]
