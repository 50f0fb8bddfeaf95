"""A headless Chromium, driven over its DevTools protocol: what a reader's browser makes of a page."""

import itertools
import json
import shutil
import subprocess
import tempfile
import urllib.request
from base64 import b64decode
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
PATIENCE = 60
"""Seconds: continuous integration has other things to do."""


def found() -> str | None:
    """The program, if this machine has one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page at a time. Everything it complains about and asks the network for is kept."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="lossgap-browser-")
        command = [str(found()), *FLAGS, f"--user-data-dir={self.folder}", "about:blank"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = int(_until(self._port)[0])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as answer:
            target = next(each for each in json.load(answer) if each["type"] == "page")
        self.open_things = ExitStack()
        self.socket = self.open_things.enter_context(
            connect(target["webSocketDebuggerUrl"], max_size=None, compression=None)
        )
        self.numbers = itertools.count(1)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _port(self) -> list[str]:
        path = Path(self.folder) / "DevToolsActivePort"
        return path.read_text().splitlines() if path.exists() else []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A command of the protocol, and its answer."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=PATIENCE))
            if message.get("id") == number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        what, about = message.get("method"), message.get("params", {})
        if what == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        if what == "Runtime.exceptionThrown":
            self.complaints.append(about["exceptionDetails"].get("text", "exception"))
        if what == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.complaints.append(str(about["args"]))
        if what == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.complaints.append(about["entry"]["text"])

    def open(self, path: Path, *, width: int = 1200, height: int = 900, **media: str) -> None:
        """A file, on a screen of some size; `prefers_color_scheme="dark"` and the like are what its owner prefers."""
        self.complaints.clear()
        self.requests.clear()
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.media("", **media)
        self.call("Page.navigate", url=path.absolute().as_uri())
        _until(lambda: self.run("document.readyState === 'complete' && location.href !== 'about:blank'"))

    def media(self, kind: str, **features: str) -> None:
        """ "print", or the screen with an empty text."""
        wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.call("Emulation.setEmulatedMedia", media=kind, features=wanted)

    def run(self, script: str) -> Any:
        """What an expression comes to in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """A key, as a person presses it."""
        codes = {"Tab": 9, "Enter": 13, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(key)
        about = {"key": key, "windowsVirtualKeyCode": codes[key], **({"text": text} if text else {})}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=codes[key])

    def picture(self, path: Path) -> Path:
        """The whole page as PNG."""
        height = self.run("document.documentElement.scrollHeight")
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        path.write_bytes(b64decode(data))
        return path

    def paper(self) -> bytes:
        """The page as PDF, the way it prints."""
        return b64decode(self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)["data"])

    def close(self) -> None:
        self.open_things.close()
        self.process.terminate()
        self.process.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)


def _until(ready: Callable[[], Any]) -> Any:
    end = monotonic() + PATIENCE
    while not (result := ready()):
        assert monotonic() < end, "the browser did not answer in time"
        sleep(0.02)
    return result
