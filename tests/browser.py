"""Headless Chromium by its DevTools protocol: what a page asks for and complains about."""

import asyncio
import json
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from urllib.request import urlopen

import pytest

SECONDS = 180
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--remote-debugging-port=0",
)


@dataclass
class Visit:
    """What came of opening a page: addresses it asked for, errors in the console, the answer to a question about it."""

    requests: list = field(default_factory=list)
    errors: list = field(default_factory=list)
    answer: object = None


def visit(page, question, folder, width=1100):
    """Open a file in a browser and ask a JavaScript expression of it; skips where there is none."""
    program = next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )
    if program is None:
        pytest.skip("no Chromium is installed")
    pytest.importorskip("tornado", reason="the protocol needs a websocket client")
    profile = folder / "profile"
    command = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return asyncio.run(asyncio.wait_for(_visit(profile, page.resolve().as_uri(), question, width), SECONDS))
    finally:
        browser.terminate()
        browser.wait(timeout=SECONDS)
        shutil.rmtree(profile, ignore_errors=True)


async def _visit(profile, address, question, width):
    from tornado.websocket import websocket_connect

    port_file, end = profile / "DevToolsActivePort", time.time() + SECONDS
    while not port_file.exists() or len(port_file.read_text().split()) < 2:
        assert time.time() < end, "the browser did not start"
        await asyncio.sleep(0.1)
    port = port_file.read_text().split()[0]
    pages = json.loads(urlopen(f"http://127.0.0.1:{port}/json/list").read())
    socket = await websocket_connect(next(p["webSocketDebuggerUrl"] for p in pages if p["type"] == "page"))
    found, ids = Visit(), iter(range(1, 100))

    async def call(method, until=None, **params):
        number = next(ids)
        await socket.write_message(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(await socket.read_message())
            _note(message, found)
            if message.get("method" if until else "id") == (until or number):
                return message.get("result")

    for part in ("Network", "Runtime", "Log", "Page"):
        await call(f"{part}.enable")
    await call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    await call("Page.navigate", until="Page.loadEventFired", url=address)
    answer = await call("Runtime.evaluate", expression=question, returnByValue=True)
    found.answer = answer["result"].get("value")
    socket.close()
    return found


def _note(message, found):
    params = message.get("params", {})
    if message.get("method") == "Network.requestWillBeSent":
        found.requests.append(params["request"]["url"])
    elif message.get("method") == "Runtime.exceptionThrown":
        found.errors.append(str(params["exceptionDetails"]))
    elif message.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
        found.errors.append(str(params["args"]))
    elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
        found.errors.append(params["entry"]["text"])
