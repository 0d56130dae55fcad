"""What an owner, a writer and a reader may do in a PostgreSQL store; stores of format 1."""

import json
import threading
from pathlib import Path

import pytest

from headstart.cli.main import main
from headstart.errors import StoreError, StoreVersionError
from headstart.store import Store, schema

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def team(postgresql_server):
    """Function from a role to the URL of the team's database; only the owner may make tables there."""
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS team")
        for role in ("ann_owner", "bob_writer", "cleo reader", "dan_nobody"):
            connection.execute(f'DROP ROLE IF EXISTS "{role}"')
            connection.execute(f"CREATE ROLE \"{role}\" LOGIN PASSWORD 's3cret'")
        connection.execute("CREATE DATABASE team OWNER ann_owner")
    place = postgresql_server.partition("@")[2].replace("/postgres", "/team")
    yield lambda role: f"postgresql://{role}:s3cret@{place}".replace(" ", "%20")
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute("DROP DATABASE team WITH (FORCE)")


def headstart(capsys, *args):
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    shown = capsys.readouterr()
    assert "s3cret" not in shown.out + shown.err
    return ended.value.code, shown.out, shown.err


def test_a_team_of_an_owner_a_writer_and_a_reader(team, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [f"{i % 7},{(i * 5) % 11},{'yes' if (i % 7) > 3 else 'no'}" for i in range(80)]
    Path("train.csv").write_text("\n".join(["a,b,y", *rows]))

    code, _, said = headstart(capsys, "grant", team("bob_writer"))
    assert code == 1
    assert "denies a right that is needed" in said
    assert "permission denied for schema public" in said

    granted = ("--write", "bob_writer", "--read", "cleo reader")
    code, out, _ = headstart(capsys, "grant", team("ann_owner"), *granted)
    assert (code, out.rstrip().endswith("bob_writer may read and add; cleo reader may read")) == (0, True)

    fit = ("fit", "train.csv", "--target", "y", "--evaluations", 3, "--include", "logistic_regression", "--jobs", 1)
    fit += ("--no-report", "--quiet")
    code, _, said = headstart(capsys, *fit, "--store", team("bob_writer"), "--out", "bob")
    assert (code, said) == (0, "")
    code, _, said = headstart(capsys, *fit, "--store", team("cleo reader"), "--out", "cleo")
    assert code == 1
    assert "denies the right INSERT; its owner grants rights with 'headstart grant'" in said
    assert "permission denied for table headstart_study" in said
    code, _, said = headstart(capsys, "studies", team("dan_nobody"))
    assert code == 1
    assert "denies the right SELECT" in said
    assert "permission denied for table headstart_store" in said

    code, out, _ = headstart(capsys, "studies", team("cleo reader"), "--json")
    (study,) = json.loads(out)
    assert (study["table"], study["target"], study["metric"]) == ("train", "y", "roc_auc")
    assert (study["trials"], study["failed"], study["running"]) == (3, 0, None)
    assert study["best_score"] == 1 - study["best_loss"]
    assert "@" in study["author"]
    with Store.open(team("bob_writer")) as store, store.open_study(study["name"]):
        _, out, _ = headstart(capsys, "studies", team("cleo reader"), "--json")
        assert json.loads(out)[0]["running"].startswith("process ")
        assert headstart(capsys, "studies", team("cleo reader"))[0] == 0
    code, out, _ = headstart(capsys, "meta", "from-store", team("cleo reader"), "--out", "ours.meta")
    assert (code, Path("ours.meta").is_dir()) == (0, True)

    # A second fit of the same table is a study of its own; a resumed one goes on with that of its directory, whose
    # files have no password: here the server asks for none.
    assert headstart(capsys, *fit, "--seed", 0, "--store", team("bob_writer"), "--out", "other")[0] == 0
    code, _, said = headstart(
        capsys, "fit", "train.csv", "--resume", "--out", "bob", "--evaluations", 5, "--no-report", "--quiet"
    )
    assert (code, said) == (0, "")
    _, out, _ = headstart(capsys, "studies", team("cleo reader"), "--json")
    assert [study["trials"] for study in json.loads(out)] == [5, 3]
    for file in Path(".").rglob("*"):
        assert file.is_dir() or b"s3cret" not in file.read_bytes(), file


def test_a_writer_can_neither_change_nor_remove(team):
    with Store.open(team("ann_owner")) as store:
        store.grant("bob_writer", write=True)
        store.add_task("task", {})
    with psycopg.connect(team("bob_writer"), autocommit=True) as connection:
        for table in schema.metadata.sorted_tables:
            for statement in (f"DELETE FROM {table.name}", f"UPDATE {table.name} SET {table.columns[0].name} = NULL"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)


def test_rights_in_a_file_are_those_of_the_file(tmp_path):
    with Store.open(tmp_path / "store") as store, pytest.raises(StoreError, match="permissions of the files"):
        store.grant("bob")


FORMAT_1 = """
CREATE TABLE headstart_store (key VARCHAR(50) NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE headstart_task (key VARCHAR(200) NOT NULL PRIMARY KEY, info TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL);
CREATE TABLE headstart_study (id SERIAL NOT NULL PRIMARY KEY, name VARCHAR(200) NOT NULL UNIQUE,
    task_key VARCHAR(200) NOT NULL REFERENCES headstart_task (key), seed TEXT NOT NULL, settings TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL, version VARCHAR(50) NOT NULL);
CREATE TABLE headstart_proposal (study_id INTEGER NOT NULL REFERENCES headstart_study (id), number INTEGER NOT NULL,
    content TEXT NOT NULL, PRIMARY KEY (study_id, number));
CREATE TABLE headstart_trial (study_id INTEGER NOT NULL, number INTEGER NOT NULL, content TEXT NOT NULL,
    status VARCHAR(20) NOT NULL, loss DOUBLE PRECISION, full_fidelity BOOLEAN NOT NULL,
    PRIMARY KEY (study_id, number),
    FOREIGN KEY (study_id, number) REFERENCES headstart_proposal (study_id, number));
CREATE TABLE headstart_event (study_id INTEGER NOT NULL, position INTEGER NOT NULL, kind VARCHAR(4) NOT NULL,
    number INTEGER NOT NULL, PRIMARY KEY (study_id, position), UNIQUE (study_id, kind, number),
    FOREIGN KEY (study_id, number) REFERENCES headstart_proposal (study_id, number));
CREATE TABLE headstart_artefact (study_id INTEGER NOT NULL, number INTEGER NOT NULL, name VARCHAR(100) NOT NULL,
    suffix VARCHAR(20) NOT NULL, size BIGINT NOT NULL, sha256 VARCHAR(64) NOT NULL, content BYTEA,
    PRIMARY KEY (study_id, number, name),
    FOREIGN KEY (study_id, number) REFERENCES headstart_trial (study_id, number));
INSERT INTO headstart_store VALUES ('format_version', '1'), ('artefacts', 'blobs');
INSERT INTO headstart_task VALUES ('task', '{}', 1.0);
INSERT INTO headstart_study (name, task_key, seed, settings, created, version)
    VALUES ('old', 'task', '0', '{}', 2.0, '0.1');
"""


def test_a_store_of_format_1_is_migrated_by_its_owner_once(team):
    with psycopg.connect(team("ann_owner"), autocommit=True) as connection:
        connection.execute(FORMAT_1)
        connection.execute('GRANT SELECT ON ALL TABLES IN SCHEMA public TO "cleo reader"')
    with pytest.raises(
        StoreVersionError, match=r"format version 1 and must become 2, which its owner does.*must be owner"
    ):
        Store.open(team("cleo reader"))
    errors, names = [], []

    def open_it():
        try:
            with Store.open(team("ann_owner")) as store:
                names.append([study.name for study in store.studies()])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (errors, names) == ([], [["old"]] * 4)
    with Store.open(team("cleo reader"), create=False) as store:
        assert [(study.name, study.author) for study in store.studies()] == [("old", None)]
    with Store.open(team("ann_owner")) as store, store.create_study("new", "task", 0, {}):
        assert "@" in store.studies()[1].author
