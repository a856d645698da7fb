"""Databases by name: what is read, and every way to write by a tool that reads."""

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.requirements import requirement
from tests.toolkits.place import code, opened
from toolcrib import BadTool, Crib, Session
from toolcrib.testing.services import execute
from toolcrib.toolkits import sql

ORDERS = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL, cents INTEGER);
INSERT INTO orders VALUES (1, 'open', 500), (2, 'open', 700), (3, 'paid', 900);
CREATE TABLE secrets (word TEXT);
INSERT INTO secrets VALUES ('hush');
"""

ALLOWED = {"rules": [{"allow": "sql.*"}]}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A file with two tables."""
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(ORDERS + "CREATE VIEW paid AS SELECT id FROM orders WHERE status = 'paid';")
    return path


@pytest.fixture
def server(empty_postgres_url: str) -> Iterator[str]:
    """A database of PostgreSQL with the same, as a role that may read and write its tables."""
    role = f"clerk_{secrets.token_hex(6)}"
    statements = (
        f"{ORDERS}; CREATE SEQUENCE numbers",
        f"CREATE ROLE {role} LOGIN PASSWORD 'clerk'",
        f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}",
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}",
    )
    execute(empty_postgres_url, "; ".join(statements))
    place = urlsplit(empty_postgres_url)
    yield place._replace(netloc=f"{role}:clerk@{place.hostname}:{place.port}").geturl()
    assert rows(empty_postgres_url) == 3, "something was written"
    execute(empty_postgres_url, f"DROP OWNED BY {role}; DROP ROLE {role}")


def rows(url: str) -> int:
    """How many orders there are."""
    return int(execute(url, "SELECT count(*) FROM orders"))


async def query(session: Session, statement: str, *params: Any, **more: Any) -> Any:
    args = {"database": "shop", "sql": statement, **({"params": list(params)} if params else {}), **more}
    return await session.call("sql_query", args)


@requirement("sql.1")
async def test_a_query_gives_columns_and_rows_and_says_when_there_are_more(shop: Path) -> None:
    async with opened(sql.tools({"shop": shop})) as session:
        found = await query(session, "SELECT id, cents FROM orders WHERE status = ? ORDER BY id", "open")
        assert found.data == {"columns": ["id", "cents"], "rows": [[1, 500], [2, 700]], "truncated": False}
        assert (await query(session, "SELECT id FROM orders", limit=2)).data["truncated"] is True
        tables = (await session.call("sql_schema", {"database": "shop"})).data["tables"]
        assert [table["table"] for table in tables] == ["orders", "paid", "secrets"]
        one = (await session.call("sql_schema", {"database": "shop", "table": "orders"})).data["tables"][0]
        assert one["columns"][1] == {"name": "status", "type": "TEXT", "nullable": False, "primary_key": False}
        assert await code(session, "sql_schema", {"database": "shop", "table": "nothing"}) == "not_found"


@requirement("sql.1")
async def test_a_value_never_becomes_part_of_a_statement(shop: Path) -> None:
    async with opened(sql.tools({"shop": shop})) as session:
        found = await query(session, "SELECT id FROM orders WHERE status = ?", "x' OR '1'='1")
        assert found.data["rows"] == []


@requirement("sql.1")
@pytest.mark.parametrize("name", ["other", "/etc/passwd", "sqlite:///shop.db", "../shop.db"])
async def test_a_database_is_known_by_its_name_alone(shop: Path, name: str) -> None:
    async with opened(sql.tools({"shop": shop})) as session:
        assert await code(session, "sql_query", {"database": name, "sql": "SELECT 1"}) == "not_found"


WRITES = [
    "INSERT INTO orders VALUES (9, 'x', 1)",
    "UPDATE orders SET cents = 0",
    "DELETE FROM orders",
    "DROP TABLE orders",
    "CREATE TABLE x (a)",
    "CREATE TEMP TABLE x AS SELECT 1",
    "SELECT 1; DELETE FROM orders",
    "WITH x AS (SELECT 1) DELETE FROM orders",
    "WITH x AS (SELECT 1) INSERT INTO orders SELECT 9, 'x', 1 RETURNING id",
    "INSERT INTO orders VALUES (9, 'x', 1) RETURNING id",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "SELECT * FROM pragma_journal_mode",
    "ATTACH DATABASE '{other}' AS o",
    "VACUUM INTO '{other}'",
    "VACUUM",
    "REINDEX",
    "ANALYZE",
    "BEGIN IMMEDIATE",
    "SAVEPOINT a",
    "REPLACE INTO orders VALUES (1, 'x', 1)",
    "SELECT load_extension('x')",
    "SELECT writefile('{other}', 'x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT fts3_tokenizer('a', 'b')",
    "EXPLAIN DELETE FROM orders",
    "ALTER TABLE orders RENAME TO x",
]


@requirement("sql.2")
@pytest.mark.parametrize("statement", WRITES)
async def test_no_statement_writes_to_a_file(shop: Path, tmp_path: Path, statement: str) -> None:
    before = shop.read_bytes()
    async with opened(sql.tools({"shop": shop}, write=False)) as session:
        failure = (await query(session, statement.format(other=tmp_path / "other.db"))).failure
        assert failure is not None
        assert failure.code in ("denied", "failed")
        assert failure.code == "denied" or "no such function" in failure.message
        assert str(tmp_path) not in str(failure)
    assert shop.read_bytes() == before
    assert not (tmp_path / "other.db").exists()


@requirement("sql.2")
@pytest.mark.parametrize(
    "statement",
    [
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        "SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e, orders f, orders g, orders h, orders i,"
        " orders j, orders k, orders l, orders m, orders n, orders o, orders p, orders q, orders r, orders s",
    ],
)
async def test_a_runaway_query_is_stopped(shop: Path, monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    monkeypatch.setattr("toolcrib.toolkits.sql.sqlite.TIME_S", 0.3)
    async with opened(sql.tools({"shop": shop})) as session:
        failure = (await query(session, statement)).failure
        assert failure is not None
        assert failure.code == "timeout"


@requirement("sql.2")
async def test_a_huge_value_is_refused_and_many_rows_are_cut(shop: Path) -> None:
    async with opened(sql.tools({"shop": shop})) as session:
        assert (await query(session, "SELECT zeroblob(1000000000)")).failure is not None
        assert (await query(session, "SELECT printf('%.*c', 1000000000, 'x')")).failure is not None
        numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 100)"
        many = f"{numbers} SELECT hex(zeroblob(9999)) FROM n"
        found = (await query(session, many)).data
        assert found["truncated"]
        assert sum(len(row[0]) for row in found["rows"]) <= 1024 * 1024


@requirement("sql.2")
@pytest.mark.parametrize("table", ["secrets", "sqlite_master", "main.secrets"])
async def test_only_the_chosen_tables_are_read(shop: Path, table: str) -> None:
    async with opened(sql.tools({"shop": sql.Database(shop, tables=["Orders"])})) as session:
        assert (await query(session, "SELECT count(*) FROM orders")).ok
        failure = (await query(session, f"SELECT * FROM {table}")).failure
        assert failure is not None
        assert failure.code == "denied"
        shown = (await session.call("sql_schema", {"database": "shop"})).data["tables"]
        assert [one["table"] for one in shown] == ["orders"]
    async with opened(sql.tools({"shop": {"url": shop, "tables": ["paid"]}})) as session:
        assert (await query(session, "SELECT id FROM paid")).data["rows"] == [[3]]
        assert (await query(session, "SELECT id FROM orders")).failure is not None


@requirement("sql.2", "sql.5")
@pytest.mark.parametrize(
    "statement",
    [
        "WITH orders AS (SELECT * FROM secrets) SELECT * FROM orders",
        "WITH paid AS (SELECT word FROM secrets) SELECT * FROM paid",
        "WITH Paid(id) AS (SELECT word FROM secrets) SELECT * FROM paid",
        'WITH "paid" AS MATERIALIZED (SELECT word FROM secrets) SELECT * FROM paid',
        "WITH [paid] AS NOT MATERIALIZED (SELECT word FROM secrets) SELECT * FROM paid",
        "WITH `paid`(id) /* ( */ AS -- (\n (SELECT word FROM secrets) SELECT * FROM paid",
        "WITH 'paid' AS (SELECT word FROM secrets) SELECT * FROM paid",
        "WITH RECURSIVE paid(id) AS (SELECT word FROM secrets UNION SELECT 1 FROM paid) SELECT * FROM paid",
        "WITH x AS (WITH paid AS (SELECT word FROM secrets) SELECT * FROM paid) SELECT * FROM x",
        "SELECT * FROM (WITH paid AS (SELECT word FROM secrets) SELECT * FROM paid)",
        "SELECT $a('), * FROM (WITH paid AS (SELECT word FROM secrets) SELECT * FROM paid) WHERE 1 OR $b(')",
        "SELECT :a(`), * FROM (WITH paid AS (SELECT word FROM secrets) SELECT * FROM paid) WHERE 1 OR :b(`)",
        "WITH x AS (SELECT @a(/*)), paid AS (SELECT word FROM secrets) SELECT * FROM paid, x /**/",
        "SELECT (SELECT word FROM secrets) FROM paid",
        "SELECT * FROM paid AS secrets, secrets AS paid",
        "SELECT * FROM (SELECT * FROM secrets) AS paid",
    ],
)
async def test_no_name_that_a_statement_gives_opens_a_table(shop: Path, statement: str) -> None:
    async with opened(sql.tools({"shop": sql.Database(shop, tables=["orders", "paid"])})) as session:
        assert (await query(session, "WITH x AS (SELECT id FROM paid) SELECT * FROM x, orders")).ok
        result = await query(session, statement)
        assert result.failure is not None, result.data
        assert result.failure.code == "denied"


async def test_a_full_text_index_can_be_searched(shop: Path) -> None:
    with closing(sqlite3.connect(shop)) as database:
        database.execute("CREATE VIRTUAL TABLE notes USING fts5(text)")
        database.execute("INSERT INTO notes VALUES ('the quick fox')")
        database.commit()
    async with opened(sql.tools({"shop": shop})) as session:
        assert (await query(session, "SELECT text FROM notes WHERE notes MATCH ?", "fox")).data["rows"]


async def test_a_file_that_is_not_there_is_unavailable_and_not_made(tmp_path: Path) -> None:
    async with opened(sql.tools({"shop": tmp_path / "none.db"}, write=True), ALLOWED) as session:
        for tool in ("sql_query", "sql_execute"):
            failure = (await session.call(tool, {"database": "shop", "sql": "SELECT 1"})).failure
            assert failure is not None
            assert failure.code == "unavailable"
            assert str(tmp_path) not in str(failure)
    assert list(tmp_path.iterdir()) == []


@requirement("sql.4")
async def test_a_statement_that_writes_is_asked_for_and_counted(shop: Path) -> None:
    assert "sql_execute" not in {tool.name for tool in sql.tools({"shop": shop})}
    async with Crib([sql.tools({"shop": shop}, write=True)]) as crib:
        session = await crib.open("s", owner="ada", namespaces=["sql"])
        tool = session.tool("sql_execute")
        assert tool is not None
        assert tool.does == "once"
        args = {"database": "shop", "sql": "UPDATE orders SET cents = ? WHERE status = ?", "params": [1, "open"]}
        call = await session.submit("sql_execute", args)
        (question,) = await session.questions()
        assert question.arguments == args
        await session.answer(question.id, "accept", actor="ada")
        assert (await session.result(call.id)).data == {"database": "shop", "changed": 2}


@requirement("sql.4")
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM orders WHERE id = 1; DELETE FROM orders",
        "ATTACH DATABASE '{other}' AS o",
        "PRAGMA writable_schema = ON",
        "BEGIN",
        "VACUUM INTO '{other}'",
    ],
)
async def test_a_statement_that_writes_is_one_and_stays_in_its_database(
    shop: Path, tmp_path: Path, statement: str
) -> None:
    async with opened(sql.tools({"shop": shop}, write=True), ALLOWED) as session:
        args = {"database": "shop", "sql": statement.format(other=tmp_path / "other.db")}
        failure = (await session.call("sql_execute", args)).failure
        assert failure is not None
        assert failure.code in ("denied", "failed")
    with closing(sqlite3.connect(shop)) as database:
        assert database.execute("SELECT count(*) FROM orders").fetchone() == (3,)
    assert not (tmp_path / "other.db").exists()


@requirement("sql.1", "sql.3")
async def test_a_query_to_a_server_gives_columns_and_rows(server: str) -> None:
    async with opened(sql.tools({"shop": server})) as session:
        found = await query(session, "SELECT id, cents FROM orders WHERE status = $1 ORDER BY id -- all\n;", "open")
        assert found.data == {"columns": ["id", "cents"], "rows": [[1, 500], [2, 700]], "truncated": False}
        assert (await query(session, "SELECT id AS a, id AS a FROM orders", limit=2)).data["truncated"] is True
        odd = "SELECT now()::date, 1.5::numeric, '\\x00ff'::bytea, ARRAY[1,2], gen_random_uuid(), '{}'::jsonb"
        assert (await query(session, odd)).ok
        tables = (await session.call("sql_schema", {"database": "shop"})).data["tables"]
        assert [table["table"] for table in tables] == ["orders", "secrets"]
        assert (await query(session, "SELECT nope FROM orders")).failure.hint is not None
        wrong = (await query(session, "SELECT id FROM orders WHERE id = $1", "x")).failure
        assert wrong.code == "invalid_arguments"


SERVER_WRITES = [
    "INSERT INTO orders VALUES (9, 'x', 1)",
    "INSERT INTO orders VALUES (9, 'x', 1) RETURNING id",
    "WITH x AS (DELETE FROM orders RETURNING id) SELECT * FROM x",
    "WITH x AS (INSERT INTO orders VALUES (9, 'x', 1) RETURNING id) SELECT count(*) FROM x",
    "SELECT 1; DELETE FROM orders",
    "SELECT 1) AS q; DELETE FROM orders; --",
    "DELETE FROM orders",
    "DROP TABLE orders",
    "TRUNCATE orders",
    "CREATE TABLE x (a int)",
    "SELECT * INTO x FROM orders",
    "CREATE TABLE x AS SELECT 1",
    "COPY orders TO '/tmp/toolcrib-copied'",
    "COPY orders TO PROGRAM 'touch /tmp/toolcrib-copied'",
    "COPY orders FROM PROGRAM 'echo 9,x,1'",
    "SET TRANSACTION READ WRITE",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "RESET ROLE",
    "COMMIT",
    "ROLLBACK",
    "BEGIN",
    "DO $$ BEGIN DELETE FROM orders; END $$",
    "LOCK TABLE orders",
    "SELECT id FROM orders FOR UPDATE",
    "SELECT nextval('numbers')",
    "SELECT setval('numbers', 7)",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT set_config /* x */ ('role', 'none', false)",
    "SELECT \"set_config\"('role', 'none', false)",
    "SELECT U&\"\\0073et_config\"('role', 'none', false)",
    "SELECT query_to_xml('delete from orders', true, true, '')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_from_bytea(0, 'x')",
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_reload_conf()",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_notify('a', 'b')",
    "NOTIFY a",
    "EXPLAIN ANALYZE DELETE FROM orders",
    "PREPARE x AS DELETE FROM orders",
    "DECLARE c CURSOR FOR DELETE FROM orders RETURNING 1",
    "VACUUM",
    "ALTER SYSTEM SET log_statement = 'all'",
]


@requirement("sql.3")
async def test_no_statement_writes_to_a_server(server: str) -> None:
    """Though the role of the URL may write to its tables."""
    async with opened(sql.tools({"shop": server})) as session:
        for statement in SERVER_WRITES:
            failure = (await query(session, statement)).failure
            assert failure is not None, statement
            assert failure.code == "denied" or "syntax error" in failure.message, (statement, failure)
            assert rows(server) == 3, statement
    assert not Path("/tmp/toolcrib-copied").exists()


@requirement("sql.3")
async def test_the_role_of_a_query_can_only_read_though_a_function_would_help_it(
    server: str, empty_postgres_url: str
) -> None:
    """A function that is not known to have effects changes nothing either: the transaction and the role hold."""
    execute(
        empty_postgres_url,
        "CREATE FUNCTION harmless() RETURNS int LANGUAGE plpgsql AS "
        "$$ BEGIN SET TRANSACTION READ WRITE; DELETE FROM orders; RETURN 1; END $$",
    )
    execute(
        empty_postgres_url,
        "CREATE FUNCTION reader() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN pg_read_file('/etc/passwd'); END $$",
    )
    async with opened(sql.tools({"shop": server})) as session:
        for statement in ("SELECT harmless()", "SELECT reader()"):
            failure = (await query(session, statement)).failure
            assert failure is not None
            assert failure.code == "denied"


@requirement("sql.3", "sql.5")
async def test_sql_in_a_string_reads_no_more_than_the_role_may(server: str, empty_postgres_url: str) -> None:
    execute(empty_postgres_url, "CREATE TABLE vault (word text)")
    async with opened(sql.tools({"shop": server})) as session:
        for statement in (
            "SELECT * FROM ts_stat('SELECT to_tsvector(word) FROM vault')",
            "SELECT * FROM ts_stat('SELECT to_tsvector(rolpassword) FROM pg_authid')",
            "SELECT query_to_xml('SELECT * FROM vault', true, true, '')",
            "SELECT * FROM vault",
        ):
            failure = (await query(session, statement)).failure
            assert failure is not None, statement
            assert failure.code == "denied", statement


@requirement("sql.5")
@pytest.mark.parametrize("right", ["SUPERUSER", "chief", "pg_read_server_files", "pg_execute_server_program"])
async def test_a_role_that_may_do_everything_is_refused(server: str, empty_postgres_url: str, right: str) -> None:
    role = urlsplit(server).username
    if right == "chief":  # whoever is a member of a superuser can become it
        right = f"chief_of_{role}"
        execute(empty_postgres_url, f"CREATE ROLE {right} SUPERUSER")
    execute(empty_postgres_url, f"ALTER ROLE {role} {right}" if right == "SUPERUSER" else f"GRANT {right} TO {role}")
    for tool in ("sql_query", "sql_execute"):
        async with opened(sql.tools({"shop": server}, write=True), ALLOWED) as session:
            failure = (await session.call(tool, {"database": "shop", "sql": "DELETE FROM orders"})).failure
            assert failure is not None
            assert (failure.code, failure.retryable) == ("unavailable", False)
            assert "superuser" in failure.message
    execute(
        empty_postgres_url, f"ALTER ROLE {role} NOSUPERUSER" if right == "SUPERUSER" else f"REVOKE {right} FROM {role}"
    )
    if right.startswith("chief"):
        execute(empty_postgres_url, f"DROP ROLE {right}")


@requirement("sql.3")
async def test_a_long_query_to_a_server_is_stopped(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.toolkits.sql.postgres.TIME_S", 1.0)
    async with opened(sql.tools({"shop": server})) as session:
        for statement in ("SELECT pg_sleep(60)", "SELECT count(*) FROM generate_series(1, 10000000000) a"):
            failure = (await query(session, statement)).failure
            assert failure is not None
            assert failure.code == "timeout"


@requirement("sql.3")
async def test_a_megabyte_of_rows_is_the_most(server: str) -> None:
    async with opened(sql.tools({"shop": server})) as session:
        found = (await query(session, "SELECT repeat('x', 10000) FROM generate_series(1, 1000)", limit=1000)).data
        assert (found["truncated"], 90 < len(found["rows"]) < 110) == (True, True)
        huge = (await query(session, "SELECT 1, repeat('x', 5000000)")).data
        assert (huge["rows"], huge["truncated"]) == ([], True)


@requirement("sql.4")
async def test_a_statement_to_a_server_is_one_and_counted(server: str) -> None:
    async with opened(sql.tools({"shop": server}, write=True), ALLOWED) as session:

        async def run(statement: str, *params: Any) -> Any:
            return await session.call("sql_execute", {"database": "shop", "sql": statement, "params": list(params)})

        assert (await run("UPDATE orders SET cents = $1 WHERE status = $2", 1, "open")).data["changed"] == 2
        for statement in (
            "DELETE FROM orders; SELECT 1",
            "COPY orders TO PROGRAM 'true'",
            "DO $$ BEGIN DELETE FROM orders; END $$",
            "SET ROLE none",
            "COMMIT",
        ):
            assert (await run(statement)).failure.code == "denied", statement


@requirement("sql.3")
async def test_no_failure_tells_where_a_database_is(server: str) -> None:
    hidden = urlsplit(server)._replace(netloc="ada:very-secret@127.0.0.1:9").geturl()
    async with opened(sql.tools({"shop": hidden})) as session:
        failure = (await query(session, "SELECT 1")).failure
        assert failure is not None
        assert (failure.code, failure.message) == ("unavailable", "The database shop cannot be reached")
        events = [event async for event in session.events(follow=False)]
        assert "very-secret" not in repr(events) + repr(sql.Database(hidden))


def test_databases_that_mean_nothing_are_refused() -> None:
    wrong: list[Any] = [{}, {"a": "mysql://x"}, {"a": {"path": "x"}}, {"a": {"url": "postgresql://x", "tables": ["a"]}}]
    for databases in wrong:
        with pytest.raises(BadTool):
            sql.tools(databases)
