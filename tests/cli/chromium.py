"""Headless Chromium for tests: one page, driven over the DevTools protocol through two pipes (--remote-debugging-pipe), with
Python's standard library alone."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time

PROGRAM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Chromium:
    """A context manager. `messages`: what the console and uncaught exceptions said; `requests`: every address asked for."""

    def __init__(self, width=1280, height=900, dark=False):
        self.width, self.height, self.dark = width, height, dark
        self.messages, self.requests = [], []
        self.number = 0

    def __enter__(self):
        self.profile = tempfile.TemporaryDirectory(prefix="reshard-chromium-", ignore_cleanup_errors=True)
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def as_3_and_4():
            reader, writer = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reader, 3)
            os.dup2(writer, 4)

        # Descriptors 3 and 4 must stay open in the child, whatever numbers the pipes have here.
        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
             "--disable-background-networking", "--hide-scrollbars", f"--user-data-dir={self.profile.name}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=as_3_and_4, close_fds=False)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.session = None
        target = next(one["targetId"] for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=self.width, height=self.height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if self.dark else "light"}])
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        self.profile.cleanup()

    def call(self, method, timeout=60, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
        raise AssertionError(f"{method}: no answer within {timeout} s")

    def receive(self):
        while b"\0" not in self.buffer:
            data = os.read(self.read_end, 1 << 20)
            if not data:
                raise AssertionError("the browser ended")
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\0", 1)
        answer = json.loads(line)
        method, parameters = answer.get("method"), answer.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(one.get("value", one.get("description"))) for one in parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(parameters["exceptionDetails"])[:2000])
        elif method == "Log.entryAdded":
            self.messages.append(parameters["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        return answer

    def open(self, address):
        """Loads the page; the seconds until its scripts have run."""
        start = time.monotonic()
        self.call("Page.navigate", url=address)
        while not self.value("document.readyState === 'complete' && location.protocol === 'file:'"):
            time.sleep(0.02)
        return time.monotonic() - start

    def value(self, expression):
        """What a JavaScript expression yields, as plain data; a promise is awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def press(self, key, code=None, text=None):
        numbers = {"Tab": 9, "Enter": 13, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "End": 35}
        parameters = {"key": key, "code": code or key, "windowsVirtualKeyCode": numbers.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", **parameters, **({"text": text or "\r"} if key == "Enter" else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **parameters)

    def screenshot(self, path, whole=True):
        image = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        with open(path, "wb") as out:
            out.write(base64.b64decode(image["data"]))
