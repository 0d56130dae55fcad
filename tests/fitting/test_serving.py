"""The server: right answers, and refusals after which it goes on."""

from __future__ import annotations

import http.client
import json
import socket
import threading

import numpy as np
import pandas as pd
import pytest

from headstart import HeadstartClassifier, HeadstartRegressor
from headstart.errors import InvalidInput
from headstart.fitting import serving
from headstart.fitting.serving import MOST_BYTES, MOST_ROWS, Server

QUICK = {"evaluations": 2, "sandbox": False, "n_jobs": 1, "splitter": 3}


def table(rows=90):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=rows), "k": rng.choice(["x", "y", None], rows)})
    X["d"] = pd.date_range("2020-01-01", periods=rows).strftime("%d.%m.%Y")
    X["flag"] = rng.choice(["yes", "no"], rows)
    X.loc[::5, "a"] = np.nan
    return X, X["a"].fillna(0) + (X["k"] == "x")


def running(model):
    server = Server(model.model_, port=0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture(scope="module")
def classifier():
    X, signal = table()
    return HeadstartClassifier(**QUICK, include=["logistic_regression"]).fit(X, np.where(signal > 0.3, "good", "bad"))


@pytest.fixture(scope="module")
def server(classifier):
    found = running(classifier)
    yield found
    found.shutdown()
    found.server_close()


def ask(server, content=None, method="POST", path="/predict", headers=None, timeout=20):
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=timeout)
    body = content if content is None or isinstance(content, bytes) else json.dumps(content).encode()
    sent = {"Content-Type": "application/json"} if headers is None else headers
    connection.request(method, path, body, sent if body is not None else {})
    answer = connection.getresponse()
    found = answer.read()
    connection.close()
    kind = answer.getheader("Content-Type")
    return answer.status, json.loads(found) if kind == "application/json" else found.decode()


def rows(X):
    return json.loads(X.to_json(orient="records"))


def test_predictions_are_those_of_the_model(server, classifier):
    X, _ = table()
    status, found = ask(server, {"rows": rows(X), "coverage": 0.8})
    assert status == 200
    assert found["predictions"] == classifier.predict(X).tolist()
    np.testing.assert_allclose(
        [[p["bad"], p["good"]] for p in found["probabilities"]], classifier.predict_proba(X), atol=1e-8
    )
    sets = classifier.predict_set(X, 0.8)
    assert found["sets"] == [[c for c, is_in in zip(["bad", "good"], row, strict=True) if is_in] for row in sets]


def test_numbers_and_intervals():
    X, signal = table()
    model = HeadstartRegressor(**QUICK, include=["ridge"]).fit(X, signal)
    with running(model) as server:
        status, found = ask(server, {"rows": rows(X[:3]), "coverage": 0.8})
        assert status == 200
        np.testing.assert_allclose(found["predictions"], model.predict(X[:3]))
        np.testing.assert_allclose(found["intervals"], model.predict_interval(X[:3], 0.8))
        assert "probabilities" not in found
        server.shutdown()


def test_it_listens_on_loopback_and_describes_itself(server):
    assert server.server_address[0] == "127.0.0.1"
    assert ask(server, method="GET", path="/health")[1]["status"] == "ok"
    status, found = ask(server, method="GET", path="/openapi.json")
    assert status == 200
    described = found["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
    assert described["schema"]["properties"]["rows"]["items"]["required"] == ["a", "k", "d", "flag"]
    assert ask(server, described["example"])[0] == 200
    status, page = ask(server, method="GET", path="/")
    assert status == 200
    assert "POST /predict" in page
    assert "http://" not in page.replace(server.address, "")
    assert "https://" not in page


GOOD = {"a": 1.0, "k": "x", "d": "03.02.2020", "flag": "yes"}


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [
        (b"{", 400, "must be JSON"),
        (b"\xff\xfe", 400, "must be JSON"),
        (b"[" * 100_000, 400, "must be JSON"),
        (b'{"rows": [{"a": NaN}]}', 400, "use null"),
        (b'{"rows": [{"a": ' + b"9" * 5000 + b"}]}", 400, "must be JSON"),
        ([], 422, "must be a JSON object"),
        ({"rows": {}}, 422, "must be a JSON object"),
        ({"rows": []}, 422, "found 0"),
        ({"rows": [GOOD] * (MOST_ROWS + 1)}, 422, "in parts"),
        ({"rows": [1]}, 422, "rows[0] is not"),
        ({"rows": [GOOD, {**GOOD, "z": 1}]}, 422, "rows[1] has columns that the model does not know: 'z'"),
        ({"rows": [{"a": 1}]}, 422, "lacks 'k', 'd', 'flag'"),
        ({"rows": [{**GOOD, "a": [1]}]}, 422, "a text, a number, true, false or null for 'a'"),
        ({"rows": [{**GOOD, "a": 10**30}]}, 422, "too large"),
        ({"rows": [{**GOOD, "a": "many"}]}, 422, "column 'a' must contain numbers"),
        ({"rows": [{**GOOD, "d": "soon"}]}, 422, "column 'd' must contain dates"),
        ({"rows": [GOOD], "coverage": 2}, 422, "coverage must be between 0 and 1"),
        ({"rows": [GOOD], "coverage": "high"}, 422, "coverage must be a number"),
        ({"rows": [GOOD], "model": "other"}, 422, "may have rows and coverage"),
    ],
)
def test_a_wrong_request_is_refused_with_a_reason(server, content, status, reason):
    found, answer = ask(server, content)
    assert found == status
    assert reason in answer["error"]
    assert "Traceback" not in answer["error"]
    assert ask(server, {"rows": [GOOD]})[0] == 200


def test_what_http_itself_has_against_a_request(server):
    assert ask(server, {"rows": [GOOD]}, headers={"Content-Type": "text/plain"})[0] == 415
    assert ask(server, {"rows": [GOOD]}, path="/other")[0] == 404
    assert ask(server, method="GET", path="/other")[0] == 404
    assert ask(server, method="GET")[0] == 405
    assert ask(server, b"{}", method="PUT")[0] == 405
    assert ask(server, b" " * (MOST_BYTES + 1))[0] == 413
    for sent, status in (
        (b"POST /predict HTTP/1.1\r\nHost: x\r\n\r\n", b"411"),
        (b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n", b"400"),
        (b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        (b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", b"431"),
    ):
        with socket.create_connection(server.server_address[:2], timeout=10) as client:
            client.sendall(sent)
            assert client.recv(100).split()[1] == status
    assert ask(server, {"rows": [GOOD]})[0] == 200


def test_one_connection_takes_many_requests_and_many_clients_are_served(server):
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=20)
    for content in (b"{", json.dumps({"rows": [GOOD]}).encode()):
        connection.request("POST", "/predict", content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
    assert answer.status == 200
    connection.close()
    found = []
    clients = [threading.Thread(target=lambda: found.append(ask(server, {"rows": [GOOD]})[0])) for _ in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert found == [200] * 8


def test_a_client_that_says_nothing_holds_no_one_up(server, monkeypatch):
    monkeypatch.setattr(serving.Handler, "timeout", 0.2)
    with socket.create_connection(server.server_address[:2], timeout=10) as idle:
        idle.sendall(b"POST /predict HTTP/1.1\r\nContent-Length: 10\r\n")
        assert ask(server, {"rows": [GOOD]})[0] == 200
        assert idle.recv(100) == b""  # it was closed


def test_connections_beyond_the_limit_are_told_so(classifier, monkeypatch):
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 1)
    with running(classifier) as server:
        with socket.create_connection(server.server_address[:2], timeout=10):
            assert ask(server, {"rows": [GOOD]})[0] == 503
        server.shutdown()


def test_where_it_cannot_listen(classifier, server):
    with pytest.raises(InvalidInput, match="choose another port"):
        Server(classifier.model_, port=server.server_address[1])
    with pytest.raises(InvalidInput, match="choose another port or host"):
        Server(classifier.model_, "no such host", 0)
