"""A small client of the cluster's API server that works from outside of its network namespace."""

import ctypes
import http.client
import json
import os
import ssl
import time
from concurrent.futures import ThreadPoolExecutor

CLONE_NEWNET = 0x40000000


class ApiError(Exception):
    def __init__(self, method, path, status, body):
        super().__init__(f"{method} {path}: status {status}: {body[:300]}")
        self.status = status


def _join_network(pid):
    """Moves this thread, and no other, to the network namespace of a process."""
    fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(fd, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(fd)


class ApiClient:
    def __init__(self, address, port, ca, certificate, key, network_of=None):
        self._address, self._port = address, port
        self._context = ssl.create_default_context(cafile=str(ca))
        self._context.load_cert_chain(str(certificate), str(key))
        initializer = (_join_network, (network_of,)) if network_of else (None, ())
        self._thread = ThreadPoolExecutor(max_workers=1, initializer=initializer[0], initargs=initializer[1])

    def _request(self, method, path, body, content_type, timeout):
        connection = http.client.HTTPSConnection(self._address, self._port, context=self._context, timeout=timeout)
        try:
            headers = {"Content-Type": content_type} if body is not None else {}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            reply = connection.getresponse()
            text = reply.read().decode()
        finally:
            connection.close()
        if reply.status >= 400:
            raise ApiError(method, path, reply.status, text)
        return json.loads(text) if text.startswith(("{", "[")) else text

    def call(self, method, path, body=None, content_type="application/json", timeout=10):
        return self._thread.submit(self._request, method, path, body, content_type, timeout).result()

    def get(self, path, **options):
        return self.call("GET", path, **options)

    def wait(self, what, condition, timeout, still_possible=lambda: None):
        """Until condition() gives something true; errors of the API count as not yet."""
        deadline = time.monotonic() + timeout
        last = None
        while time.monotonic() < deadline:
            still_possible()
            try:
                if result := condition():
                    return result
            except (ApiError, OSError, http.client.HTTPException) as error:
                last = error
            time.sleep(0.05)
        raise RuntimeError(f"{what} did not happen within {timeout} s" + (f" (last error: {last})" if last else ""))
