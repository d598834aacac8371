"""Tells the test cluster's Prometheus which pods there are, over http_sd: Debian builds Prometheus without
kubernetes_sd. Targets and labels are those of kubernetes_sd with `role: pod`, one for each declared container port, so
that relabelling rules are written as in any cluster."""

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from layout import CONTROL_ADDRESS, DISCOVERY_PORT
from watch import Collection, connector


def _meta(kind, values):
    return {
        f"__meta_kubernetes_pod_{kind}_" + re.sub(r"[^a-zA-Z0-9_]", "_", name): value for name, value in (values or {}).items()
    }


def target_groups(pods):
    groups = []
    for pod in pods:
        metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
        address = status.get("podIP")
        if not address:
            continue
        common = {
            "__meta_kubernetes_namespace": metadata["namespace"],
            "__meta_kubernetes_pod_name": metadata["name"],
            "__meta_kubernetes_pod_ip": address,
            "__meta_kubernetes_pod_phase": status.get("phase", "Unknown"),
            "__meta_kubernetes_pod_node_name": spec.get("nodeName", ""),
            "__meta_kubernetes_pod_uid": metadata["uid"],
            **_meta("label", metadata.get("labels")),
            **_meta("annotation", metadata.get("annotations")),
        }
        for container in spec["containers"]:
            for port in container.get("ports") or [{}]:
                number = port.get("containerPort")
                labels = {**common, "__meta_kubernetes_pod_container_name": container["name"]}
                if number:
                    labels["__meta_kubernetes_pod_container_port_name"] = port.get("name", "")
                    labels["__meta_kubernetes_pod_container_port_number"] = str(number)
                groups.append({"targets": [f"{address}:{number}" if number else address], "labels": labels})
    return groups


def main():
    """usage: pod_discovery.py HOST PORT CA CERTIFICATE KEY"""
    pods = Collection(connector(*sys.argv[1:6]), "/api/v1/pods", threading.Event())
    pods.start()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            known = pods.items()
            body = json.dumps(target_groups(known or [])).encode()
            self.send_response(200 if known is not None else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass  # Prometheus asks each second

    ThreadingHTTPServer((CONTROL_ADDRESS, DISCOVERY_PORT), Handler).serve_forever()


if __name__ == "__main__":
    main()
