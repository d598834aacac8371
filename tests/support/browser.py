"""A headless Chromium that is spoken to through a pair of pipes: no port, no package beyond Debian's
chromium-headless-shell."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

PROGRAMS = ("chromium-headless-shell", "chromium")
SECONDS = 60


def program():
    """The browser's path, or None."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Page:
    """One page, and what its console and its policy had to say."""

    def __init__(self, browser, session):
        self.browser = browser
        self.session = session
        self.complaints = []

    def call(self, method, **arguments):
        return self.browser.call(method, self.session, **arguments)

    def evaluate(self, expression):
        """The value of a JavaScript expression; a promise's once it is kept."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def open(self, path):
        """Loads a file and waits until it is there with all of its scripts."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.requests = []
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        self.browser.wait_for(self.session, "Page.loadEventFired")

    def keep(self, event):
        """Notes what an event says of errors, and of what was asked for."""
        about = event["params"]
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        if event["method"] == "Log.entryAdded":
            self.complaints.append(about["entry"]["text"])
        if event["method"] == "Runtime.exceptionThrown":
            self.complaints.append(about["exceptionDetails"]["text"])
        if event["method"] == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(about["args"]))

    def screenshot(self, path, width, height):
        """A PNG of the page from its top."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(picture))


class Browser:
    """A browser with a profile of its own, ended with the block that it is used in."""

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="gnn-browser-")
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        # The sandbox of a browser needs a user other than root; it loads one file that the test has made.
        line = [program(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                "--user-data-dir=" + self.profile, "--disable-dev-shm-usage", "about:blank"]
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "sh", *line],
            pass_fds=(commands, answers), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        os.set_blocking(self.answers, False)
        self.numbers = itertools.count(1)
        self.unread = b""
        self.events = []
        self.page = None
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)

    def new_page(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.page = Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        return self.page

    def call(self, method, session=None, **arguments):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": arguments}
        if session:
            message["sessionId"] = session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        answer = self.read_until(lambda one: one.get("id") == number)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def wait_for(self, session, method):
        return self.read_until(lambda one: one.get("method") == method and one.get("sessionId") == session)

    def read_until(self, wanted):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            message = self.next_message()
            if message is None:
                time.sleep(0.005)
                continue
            if "method" in message and self.page:
                self.page.keep(message)
            if wanted(message):
                return message
        raise AssertionError(f"the browser did not answer within {SECONDS} s")

    def next_message(self):
        if b"\0" not in self.unread:
            try:
                self.unread += os.read(self.answers, 1 << 20)
            except BlockingIOError:
                return None
        if b"\0" not in self.unread:
            return None
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)
