"""The command line as a person uses it: against a running `rota dev`, by exit codes, output and what came of it."""

import json
from pathlib import Path

import pytest

from e2e.conftest import KEY, Api, start_dev
from support.http_target import HttpTarget
from support.processes import Process, Processes
from support.waiting import free_port

APP = """
from rota import Attempt, Rota

app = Rota("demo")


@app.handler("greet")
async def greet(attempt: Attempt) -> dict[str, object]:
    print("greeting", attempt.payload["name"], attempt.number, flush=True)
    return {"said": attempt.payload["name"]}


app.schedule("hello", every="1s", handler=greet, payload={"name": "Ada"})
"""


class Shell:
    """Runs `rota` with the surroundings of one running dev."""

    def __init__(self, processes: Processes, folder: Path, url: str) -> None:
        self._processes = processes
        self.folder = folder
        self.env = {"XDG_STATE_HOME": str(folder / "state"), "ROTA_URL": url, "ROTA_API_KEY": KEY}

    async def start(self, *words: str) -> Process:
        """Start a command."""
        return await self._processes.rota(*words, env=self.env, cwd=self.folder)

    async def run(self, *words: str) -> tuple[int, str]:
        """Exit code and output."""
        process = await self.start(*words)
        return await process.ends(), process.text

    async def json(self, *words: str) -> object:
        """The JSON document that a command ends with."""
        code, text = await self.run(*words, "--json")
        assert code == 0, text
        return json.loads(text.splitlines()[-1])


@pytest.fixture
async def shell(processes: Processes, tmp_path: Path) -> Shell:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    made = Shell(processes, tmp_path, url)
    await start_dev(processes, tmp_path / "data", port, XDG_STATE_HOME=made.env["XDG_STATE_HOME"])
    return made


async def test_schedules_are_made_run_paused_and_cancelled_by_command(shell: Shell, http_target: HttpTarget) -> None:
    words = ("--cron", "@yearly", "--url", http_target.tell("/hook"), "--payload", '{"a": 1}', "--label", "team=ops")
    made = await shell.json("schedule", "create", "report", *words)
    assert isinstance(made, dict)
    assert made["labels"] == {"team": "ops"}
    await shell.json("schedule", "run", "report")
    (request,) = await http_target.receives(1, "/hook")
    assert request.json == {"a": 1}
    code, text = await shell.run("occurrences", "show", request.key)
    assert code == 0
    assert "succeeded" in text
    paused = await shell.json("schedule", "pause", "report", "--reason", "audit")
    assert isinstance(paused, dict)
    assert paused["state"] == "paused"
    await shell.json("schedule", "resume", made["id"])
    await shell.json("schedule", "cancel", "report")
    found = await shell.json("schedule", "list", "--state", "cancelled")
    assert [item["id"] for item in found] == [made["id"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("preview", "61 * * * *"), 2, "61 is out of range 0-59"),
        (("preview",), 2, "give exactly one of"),
        (("preview", "0 9 * * *", "--time-zone", "America/New_Yrok"), 2, "America/New_York"),
        (("schedule", "create", "x", "--cron", "0 9 * * *"), 2, "--url URL or --handler NAME"),
        (("schedule", "create", "x", "--cron", "0 9 * * *", "--url", "ftp://x"), 2, "target.http.url"),
        (("schedule", "show", "nothing"), 1, "no schedule is named"),
        (("occurrences", "replay"), 2, "give a run key"),
        (("audit", "--from", "yesterday", "--to", "2026-01-01T00:00:00Z"), 2, "RFC 3339"),
        (("tenant", "show", "nobody"), 1, "rota tenant list"),
        (("bench", "nothing"), 2, "no scenario is named"),
        (("capacity", "--schedules", "many"), 2, "not a count"),
        (("worker", "no_such_module:app"), 2, "cannot import"),
        (("apply", "-f", "missing.yaml"), 2, "cannot read missing.yaml"),
    ],
)
async def test_mistakes_are_told_with_what_to_do_and_their_exit_code(
    shell: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    found, text = await shell.run(*words)
    assert (found, said in text) == (code, True), text
    assert "Traceback" not in text


async def test_apply_makes_one_file_true_and_nothing_else(shell: Shell) -> None:
    await shell.json("schedule", "create", "by-hand", "--cron", "@daily", "--handler", "h")

    def write(*schedules: str) -> None:
        entries = "".join(
            f"- {{name: {name}, timing: {{cron: '{cron}'}}, target: {{handler: {{name: h}}}}}}\n"
            for name, cron in (one.split("=") for one in schedules)
        )
        (shell.folder / "s.yaml").write_text(
            f"app: shop\nschedules:\n{entries}" if entries else "app: shop\nschedules: []\n"
        )

    async def apply(*words: str) -> list[str]:
        document = await shell.json("apply", "-f", "s.yaml", *words)
        assert isinstance(document, dict)
        return [f"{change['action']} {change['name']}" for change in document["changes"]]

    write("a=0 1 * * *", "b=0 2 * * *", "c=0 3 * * *")
    assert await apply("--dry-run") == ["create a", "create b", "create c"]
    assert await apply() == ["create a", "create b", "create c"]
    assert await apply() == []
    write("a=0 9 * * *", "b2=0 2 * * *", "c=0 3 * * *")
    assert await apply("--prune") == ["update a", "create b2", "cancel b"]
    write()
    code, text = await shell.run("apply", "-f", "s.yaml", "--prune")
    assert code == 1
    assert "--force" in text
    assert await apply("--prune", "--force") == ["cancel a", "cancel b2", "cancel c"]
    (shell.folder / "s.yaml").write_text("null\n")
    code, _ = await shell.run("apply", "-f", "s.yaml", "--prune")
    assert code == 2
    left = await shell.json("schedule", "list", "--state", "active")
    assert [item["name"] for item in left] == ["by-hand"]  # type: ignore[attr-defined]


async def test_a_worker_runs_the_handlers_of_an_app_and_makes_its_schedules(shell: Shell, processes: Processes) -> None:
    (shell.folder / "demo.py").write_text(APP)
    worker = await shell.start("worker", "demo:app")
    await worker.says("greeting Ada 1")
    worker.signal(15)  # type: ignore[arg-type]
    assert await worker.ends() == 0
    again = await shell.start("worker", "demo:app")
    await again.says("greeting Ada 1")
    async with Api(shell.env["ROTA_URL"]) as api:
        status, page = await api.call("GET", "/v1/schedules", name="hello")
        assert (status, len(page["items"])) == (200, 1)


async def test_tenants_get_keys_that_see_nothing_of_each_other(shell: Shell) -> None:
    made = await shell.json("tenant", "create", "acme")
    assert isinstance(made, dict)
    assert set(made) == {"tenant_id", "key"}
    await shell.json("tenant", "set", "acme", "weight=3", "max_schedules=2")
    shown = await shell.json("tenant", "show", made["tenant_id"])
    assert isinstance(shown, dict)
    assert (shown["weight"], shown["max_schedules"], shown["n_schedules"]) == (3, 2, 0)
    key = await shell.json("key", "create", "acme", "--scope", "read", "--name", "dashboard")
    assert isinstance(key, dict)
    async with Api(shell.env["ROTA_URL"], key["key"]) as api:
        assert (await api.call("GET", "/v1/schedules"))[0] == 200
        assert (await api.call("POST", "/v1/schedules", {"name": "x"}))[0] == 403
        await shell.json("key", "revoke", key["key_id"])
    keys = await shell.json("key", "list", "acme")
    assert [one["revoked_at"] is None for one in keys if one["name"] == "dashboard"] == [False]  # type: ignore[attr-defined]


async def test_the_audit_is_clean_until_a_row_is_deleted_or_added_by_hand(
    shell: Shell, http_target: HttpTarget
) -> None:
    import asyncpg

    from rota.embedded import running_dsn

    url = http_target.tell("/tick")
    await shell.json("schedule", "create", "tick", "--every", "1s", "--url", url)
    await http_target.receives(3, "/tick")
    window = ("audit", "--from", "2026-01-01T00:00:00Z", "--to", "2100-01-01T00:00:00Z")
    assert (await shell.run(*window))[0] == 0
    dsn = running_dsn(shell.folder / "data")
    assert dsn is not None
    connection = await asyncpg.connect(dsn)
    day = await connection.fetchval("SELECT min(scheduled_for) FROM finished_occurrences")
    await connection.execute("DELETE FROM finished_occurrences WHERE scheduled_for = $1", day)
    code, text = await shell.run(*window)
    assert code == 1, text
    assert "absent" in text
    await connection.close()
