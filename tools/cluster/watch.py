"""Collections of the API server's objects, kept up to date by watches, for the cluster's own daemons."""

import http.client
import json
import ssl
import threading
import time


def connector(address, port, ca, certificate, key):
    """Gives new connections to the API server; bookmarks come each minute, so two minutes of silence mean it is gone."""
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(certificate, key)
    return lambda: http.client.HTTPSConnection(address, int(port), context=context, timeout=120)


class Collection(threading.Thread):
    """A list kept up to date by a watch; begins again with a list whenever anything is odd."""

    def __init__(self, connect, path, changed):
        super().__init__(daemon=True)
        self._connect, self._path, self._changed = connect, path, changed
        self._lock = threading.Lock()
        self._items = None

    def items(self):
        """None: not known yet."""
        with self._lock:
            return None if self._items is None else list(self._items.values())

    def run(self):
        while True:
            try:
                self._follow()
            except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
                print(f"{self._path}: {error!r}; listing again", flush=True)
            time.sleep(0.3)

    def _get(self, query):
        connection = self._connect()
        connection.request("GET", self._path + query)
        reply = connection.getresponse()
        if reply.status != 200:
            raise ValueError(f"status {reply.status}")
        return reply

    def _follow(self):
        whole = json.load(self._get(""))
        with self._lock:
            self._items = {item["metadata"]["uid"]: item for item in whole["items"]}
        self._changed.set()
        version = whole["metadata"]["resourceVersion"]
        for line in self._get(f"?watch=1&allowWatchBookmarks=true&resourceVersion={version}"):
            event = json.loads(line)
            if event["type"] == "BOOKMARK":
                continue
            if event["type"] == "ERROR":
                raise ValueError(event["object"].get("message"))
            uid = event["object"]["metadata"]["uid"]
            with self._lock:
                if event["type"] == "DELETED":
                    self._items.pop(uid, None)
                else:
                    self._items[uid] = event["object"]
            self._changed.set()
