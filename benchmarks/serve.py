"""Latency and throughput of a served model. Run: python benchmarks/serve.py DIR TABLE

DIR is the directory of a fit, or a model file, TABLE a table to predict. The server runs in a process of its own.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from headstart.data.read import read_table
from headstart.estimators import load


def ask(port: int, rows: list[Any], times: int) -> list[float]:
    """Seconds of each of so many requests over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body, found = json.dumps({"rows": rows}), []
    for _ in range(times):
        started = time.perf_counter()
        connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        found.append(time.perf_counter() - started)
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {content.decode()}")
    connection.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("--requests", type=int, default=200)
    given = parser.parse_args()
    file = given.model / "model.headstart" if given.model.is_dir() else given.model
    model = load(file).model_
    frame = read_table(given.table)[[*model.schema.names]].head(1000)
    rows = json.loads(frame.to_json(orient="records", date_format="iso"))
    command = [sys.executable, "-m", "headstart", "serve", str(file), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        port = int(line.partition("http://127.0.0.1:")[2].partition(";")[0])
        try:
            ask(port, rows[:1], 5)
            single = ask(port, rows[:1], given.requests)
            many = ask(port, rows, 5)
            started = time.perf_counter()
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda _: ask(port, rows[:1], given.requests // 8), range(8)))
            seconds = time.perf_counter() - started
        finally:
            server.terminate()
    print(repr(model))
    p50, p95 = np.quantile(single, [0.5, 0.95])
    print(f"1 row: {1000 * p50:.1f} ms in the median, {1000 * p95:.1f} ms at 95 %")
    print(f"8 clients with 1 row: {8 * (given.requests // 8) / seconds:.0f} requests per second")
    print(f"{len(rows)} rows: {len(rows) / float(np.median(many)):,.0f} rows per second")


if __name__ == "__main__":
    main()
