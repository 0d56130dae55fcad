"""Predictions over HTTP, with Python's own server.

===================  ================================================================================================
``POST /predict``    ``{"rows": [{column: value, ...}, ...]}`` gives ``{"predictions": [...]}``, for classes also
                     ``"probabilities"``; with ``"coverage": 0.9`` also ``"intervals"`` or ``"sets"``
``GET /health``      whether it is there, and which model it has
``GET /openapi.json``  the interface, with a schema of the columns
``GET /``            the same for people
===================  ================================================================================================

Whatever is wrong with a request is a 4xx with a reason, as ``{"error": ...}``, and the server goes on. A request that
is too large is refused before it is read; one that does not come in time, and connections beyond `MOST_CONNECTIONS`,
are closed. There is no authentication and no encryption: keep it on the loopback address, or behind a proxy that has
both.
"""

from __future__ import annotations

import json
import logging
import math
import socket
import threading
import warnings
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart.data.columns import Kind
from headstart.errors import HeadstartError, InvalidInput, printable

if TYPE_CHECKING:
    from headstart.fitting.model import Model

logger = logging.getLogger(__name__)

MOST_BYTES = 10_000_000
MOST_ROWS = 10_000
MOST_CONNECTIONS = 64
_REFUSAL_SECONDS = 0.2
SECONDS = 20.0
"""How long a client may take to send a request, or between two of them."""
_NULL = "null"
_TYPES = {
    Kind.NUMERIC: ["number", _NULL],
    Kind.BOOLEAN: ["boolean", "number", "string", _NULL],
    Kind.CATEGORICAL: ["string", "number", "boolean", _NULL],
    Kind.DATE: ["string", _NULL],
    Kind.TEXT: ["string", _NULL],
}


class Server(ThreadingHTTPServer):
    """Serves a model; `serve_forever` until `shutdown`.

    Parameters
    ----------
    host, port
        Where to listen; port 0 for any that is free, see `address`.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, model: Model, host: str = "127.0.0.1", port: int = 8000) -> None:
        if model.schema.n_sparse is not None:
            raise InvalidInput("only models of tables with columns can be served, this one is of a sparse matrix")
        self.model = model
        self.lock = threading.Lock()  # estimators, and Python's warnings, are not made for threads
        self.openapi = json.dumps(openapi(model)).encode()
        self.page = _page(model).encode()
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        try:
            super().__init__((host, port), Handler)
        except (OSError, OverflowError) as error:
            raise InvalidInput(f"cannot listen on {host}, port {port}: {error}; choose another port or host") from None

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            body = b'{"error": "too many connections; try again later"}'
            head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            try:
                request.sendall(head.encode() + body)
                request.shutdown(socket.SHUT_WR)
                request.settimeout(_REFUSAL_SECONDS)
                request.recv(1 << 16)  # or the answer is lost with what was sent and not read
            except OSError:
                pass
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        logger.debug("a connection of %s ended early", client_address, exc_info=True)

    def answer(self, content: Any) -> dict[str, Any]:
        """The answer to the content of a request; `HeadstartError` with what is wrong with it."""
        import pandas as pd

        rows, coverage = _checked(content, self.model)
        frame = pd.DataFrame.from_records([dict(row) for row in rows]).astype(object)
        with self.lock, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, ready = self.model, self.model.schema.apply(frame)
            found = model.predict_ready(ready)
            answer: dict[str, Any] = {"predictions": (found if model.classes is None else model.labels(found)).tolist()}
            if model.classes is not None:
                names = [str(label) for label in model.classes.tolist()]
                answer["probabilities"] = [dict(zip(names, row, strict=True)) for row in found.tolist()]
                if coverage is not None:
                    sets = model.predict_set(frame, coverage).tolist()
                    labels = model.classes.tolist()
                    answer["sets"] = [[c for c, is_in in zip(labels, row, strict=True) if is_in] for row in sets]
            elif coverage is not None:
                answer["intervals"] = model.predict_interval(frame, coverage).tolist()
        return answer


def _checked(content: Any, model: Model) -> tuple[list[Any], float | None]:
    """The rows of a request, and the coverage if one is wanted."""
    if not isinstance(content, dict) or not isinstance(content.get("rows"), list):
        raise InvalidInput('the request must be a JSON object such as {"rows": [{"column": value, ...}]}')
    others = sorted(set(content) - {"rows", "coverage"})
    if others:
        raise InvalidInput(f"the request may have rows and coverage, found {', '.join(map(repr, others[:5]))}")
    rows, known = content["rows"], {*model.schema.names, *model.schema.others, model.target}
    if not 1 <= len(rows) <= MOST_ROWS:
        advice = "; send them in parts" if rows else ""
        raise InvalidInput(f"rows must be 1 to {MOST_ROWS:,}, found {len(rows):,}{advice}")
    needed = [n for n, kind in model.schema.kinds.items() if kind not in (Kind.ID, Kind.CONSTANT)]
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InvalidInput(f"each of rows must be an object with a value for each column, rows[{i}] is not")
        missing, added = [n for n in needed if n not in row], [n for n in row if n not in known]
        if missing:
            raise InvalidInput(f"rows[{i}] must have all columns, lacks {', '.join(map(repr, missing[:5]))}")
        if added:
            raise InvalidInput(f"rows[{i}] has columns that the model does not know: {', '.join(map(repr, added[:5]))}")
        for name, value in row.items():
            if not (value is None or isinstance(value, str | int | float)):
                raise InvalidInput(f"rows[{i}] must have a text, a number, true, false or null for {name!r}")
            if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**63:
                raise InvalidInput(f"rows[{i}] has a number for {name!r} that is too large")
    coverage = content.get("coverage")
    if coverage is not None and (isinstance(coverage, bool) or not isinstance(coverage, int | float)):
        raise InvalidInput(f"coverage must be a number between 0 and 1, got {coverage!r}")
    return rows, coverage


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = SECONDS
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer leaves in one piece

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/health":
            self._send_json({"status": "ok", "model": repr(self.server.model)})
        elif path == "/openapi.json":
            self._send(HTTPStatus.OK, self.server.openapi, "application/json")
        elif path == "/":
            self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
        elif path == "/predict":
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "/predict needs POST")
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there are /predict, /health, /openapi.json and /")

    def do_POST(self) -> None:
        content = self._body()
        if content is None:
            return
        if self.path.partition("?")[0] != "/predict":
            self._refuse(HTTPStatus.NOT_FOUND, "only /predict takes POST")
            return
        try:
            request = json.loads(content, parse_constant=_no_constant)
        except (RecursionError, UnicodeDecodeError, ValueError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"the request must be JSON: {error}")
            return
        try:
            self._send_json(self.server.answer(request))
        except HeadstartError as error:
            self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except OSError:
            raise
        except Exception:
            logger.exception("a request could not be answered")
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "the model could not predict these rows")

    def _body(self) -> bytes | None:
        """The content of a request; None if it was refused."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Transfer-Encoding") or not length:
            self.close_connection = True
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "the request must have a Content-Length")
            return None
        if not (length.isascii() and length.isdigit() and len(length) < 20):
            self.close_connection = True
            self._refuse(HTTPStatus.BAD_REQUEST, "Content-Length must be a number")
            return None
        if int(length) > MOST_BYTES:
            self.close_connection = True
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MOST_BYTES:,} bytes; send rows in parts")
            self._drain(int(length))
            return None
        kind = self.headers.get_content_type()
        content = self.rfile.read(int(length))
        if len(content) < int(length):
            self.close_connection = True
            return None
        if kind != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Content-Type must be application/json, got {kind}")
            return None
        return content

    def _drain(self, length: int) -> None:
        """Let a client finish what it is sending, up to a limit, for most read the answer only then."""
        self.wfile.flush()
        left = min(length, 10 * MOST_BYTES)
        while left > 0 and (part := self.rfile.read(min(left, 1_000_000))):
            left -= len(part)

    def _send_json(self, content: Any) -> None:
        self._send(HTTPStatus.OK, json.dumps(_finite(content)).encode(), "application/json")

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._send(status, json.dumps({"error": printable(reason)[:1000]}).encode(), "application/json")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Content-Type-Options", "nosniff")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """What the base class refuses: other methods, malformed requests."""
        self.close_connection = True
        self.request_version = self.protocol_version  # without one, not even a status would be sent
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self._refuse(status, message or status.phrase)

    def version_string(self) -> str:
        return "headstart"

    def log_message(self, format: str, *args: Any) -> None:
        logger.info("%s " + format, self.address_string(), *args)

    def address_string(self) -> str:
        return str(self.client_address[0])


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number; use null for what is missing")


def _finite(value: Any) -> Any:
    """The same without numbers that JSON does not have; they are null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- what there is, in words ------------------------------------------------------------------------------------------


def openapi(model: Model) -> dict[str, Any]:
    """The interface in the terms of OpenAPI 3.1."""
    from headstart import __version__

    kinds = model.schema.kinds
    row = {
        "type": "object",
        "properties": {
            name: {"type": _TYPES.get(kind, ["string", "number", "boolean", _NULL]), "description": str(kind)}
            for name, kind in kinds.items()
        },
        "required": [name for name, kind in kinds.items() if kind not in (Kind.ID, Kind.CONSTANT)],
        "additionalProperties": False,
    }
    label: dict[str, Any] = {"type": "number"}
    answer: dict[str, Any] = {"predictions": {"type": "array", "items": label}}
    if model.classes is None:
        pair = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
        answer["intervals"] = {"type": "array", "items": pair}
    else:
        label = {"enum": model.classes.tolist()}
        answer["predictions"] = {"type": "array", "items": label}
        share = {"type": "object", "additionalProperties": {"type": "number"}}
        answer["probabilities"] = {"type": "array", "items": share}
        answer["sets"] = {"type": "array", "items": {"type": "array", "items": label}}
    request = {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": row, "minItems": 1, "maxItems": MOST_ROWS},
            "coverage": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        },
        "required": ["rows"],
        "additionalProperties": False,
    }
    error = {"type": "object", "properties": {"error": {"type": "string"}}}

    def as_json(schema: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"content": {"application/json": {"schema": schema, **more}}}

    refusals = {"400": "no JSON", "413": "too large", "415": "another content type", "422": "other columns or values"}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Predicts {model.target}", "version": __version__, "description": repr(model)},
        "paths": {
            "/predict": {
                "post": {
                    "summary": f"Predict {model.target} for rows of a table",
                    "requestBody": {"required": True, **as_json(request, example={"rows": [example_row(model)]})},
                    "responses": {
                        "200": {"description": "Predictions", **as_json({"type": "object", "properties": answer})},
                        **{code: {"description": why, **as_json(error)} for code, why in refusals.items()},
                    },
                }
            },
            "/health": {"get": {"summary": "Whether it is there", "responses": {"200": {"description": "It is"}}}},
        },
    }


def example_row(model: Model) -> dict[str, Any]:
    """A row that `/predict` takes, of values that the model keeps for explanations."""
    found: dict[str, Any] = {}
    for name, kind in model.schema.kinds.items():
        if kind in (Kind.ID, Kind.CONSTANT):
            continue
        column = None if model.reference is None else model.reference[name].dropna()
        value = None if column is None or not len(column) else column.iloc[0]
        if kind is Kind.BOOLEAN and value is not None:
            value = bool(value)
        elif kind is Kind.DATE and value is not None:
            value = value.isoformat(sep=" ")
        found[name] = value.item() if isinstance(value, np.generic) else value
    return found


def _page(model: Model) -> str:
    """The interface on a page that needs no network."""
    kinds = model.schema.kinds.items()
    cells = "".join(f"<tr><td>{escape(str(name))}</td><td>{escape(str(kind))}</td></tr>" for name, kind in kinds)
    example = escape(json.dumps({"rows": [example_row(model)]}, indent=1))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Predicts {escape(model.target)}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }}
:root {{ color-scheme: light dark; }}
textarea, pre {{ width: 100%; box-sizing: border-box; font: 0.9rem/1.4 monospace; white-space: pre-wrap; }}
td, th {{ text-align: left; padding: 0 1rem 0 0; }}
</style></head><body>
<h1>Predicts {escape(model.target)}</h1>
<p>{escape(repr(model))}</p>
<p><code>POST /predict</code> · <a href="health"><code>GET /health</code></a> ·
<a href="openapi.json"><code>GET /openapi.json</code></a></p>
<label for="request">Request</label>
<textarea id="request" rows="12" spellcheck="false">{example}</textarea>
<p><button id="send">POST /predict</button></p>
<pre id="answer" aria-live="polite"></pre>
<h2>Columns</h2>
<table><tr><th>name</th><th>kind</th></tr>{cells}</table>
<p>At most {MOST_ROWS:,} rows and {MOST_BYTES:,} bytes in a request; null where a value is missing; add
<code>"coverage": 0.9</code> for intervals or sets.</p>
<script>
document.getElementById("send").onclick = async () => {{
  const found = await fetch("predict", {{method: "POST", headers: {{"Content-Type": "application/json"}},
    body: document.getElementById("request").value}});
  document.getElementById("answer").textContent = found.status + "\\n" + JSON.stringify(await found.json(), null, 1);
}};
</script></body></html>
"""
