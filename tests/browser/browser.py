"""A Chromium without a window, driven through chromedriver's HTTP (W3C WebDriver, and Chrome's own protocol).

Only Python's standard library. ./dev browser installs the two programs.
"""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request


def missing_programs():
    """Which of the two programs this machine lacks."""
    return [name for name in ("chromium", "chromedriver") if not shutil.which(name)]


class Browser:
    """One window. Use it in a `with`: it ends with what it started."""

    def __init__(self, width=1280, height=900):
        self.profile = tempfile.mkdtemp(prefix="attune-browser-")
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0", "--log-level=SEVERE"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.session = None
        try:
            self.address = "http://127.0.0.1:" + self._port()
            self.session = self._start(width, height)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.session:
            try:
                self._ask("DELETE", "/session/" + self.session)
            except (OSError, RuntimeError):
                pass
        self.driver.terminate()
        self.driver.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def _port(self):
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                return found[1]
        raise RuntimeError("chromedriver did not start")

    def _start(self, width, height):
        arguments = ["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
                     "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                     "--force-device-scale-factor=1", f"--window-size={width},{height}",
                     f"--user-data-dir={self.profile}"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # root has none
        wanted = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments},
                  "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        return self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"chromedriver, {method} {path}: {json.load(error)['value']['message']}") from None

    def _post(self, path, **body):
        return self._ask("POST", f"/session/{self.session}/{path}", body)

    def open(self, url):
        self._post("url", url=url)

    def run(self, script, *arguments):
        """What the script returns; it is the body of a function, `arguments` its arguments."""
        return self._post("execute/sync", script=script, args=list(arguments))

    def click(self, selector):
        """As a reader does: scrolls there, and a click that something else would get is an error."""
        element = self._post("element", using="css selector", value=selector)
        self._post(f"element/{next(iter(element.values()))}/click")

    def command(self, name, **parameters):
        """One of Chrome's own commands (the DevTools protocol)."""
        return self._post("goog/cdp/execute", cmd=name, params=parameters)

    def log(self, kind):
        """What was noted since it was asked last: "browser", the console; "performance", the network and more."""
        return self._post("se/log", type=kind)

    def console(self):
        return [entry["message"] for entry in self.log("browser")]

    def requests(self):
        """The addresses that were asked for."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [event["params"]["request"]["url"] for event in events
                if event["method"] == "Network.requestWillBeSent"]

    def media(self, media="", scheme="light"):
        """Reads the page as "print" or screen (""), and who prefers "dark" or "light"; and nothing that moves."""
        self.command("Emulation.setEmulatedMedia", media=media,
                     features=[{"name": "prefers-color-scheme", "value": scheme},
                               {"name": "prefers-reduced-motion", "value": "reduce"}])

    def resize(self, width, height, phone=False):
        self.command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=0,
                     mobile=phone)

    def photograph(self, selector, path, scale=1):
        """The first such element, whole, as a PNG."""
        box = self.run("const r = document.querySelector(arguments[0]).getBoundingClientRect();"
                       "return [r.x + scrollX, r.y + scrollY, r.width, r.height];", selector)
        clip = dict(zip(("x", "y", "width", "height"), box), scale=scale)
        shot = self.command("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def pages(self):
        """How many sheets of A4 the page prints on."""
        printed = base64.b64decode(self._post("print", page={"width": 21.0, "height": 29.7}))
        return len(re.findall(rb"/Type\s*/Page\b", printed))
