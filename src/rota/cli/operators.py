"""`rota tenant`, `rota key`, `rota region`: what an operator does on the cell's database, before anyone has a key."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

import typer

from rota.base.db import Database, Executor
from rota.base.errors import NotFound
from rota.base.model import Actor, format_tenant_id, parse_tenant_id
from rota.catalog import keys, tenants
from rota.catalog.keys import ApiKey
from rota.catalog.tenants import Tenant
from rota.cli.connect import database
from rota.cli.output import EXIT_USAGE, JSON_OPTION, fail, print_document, print_rows, stdout
from rota.cli.serve import run

tenant_app = typer.Typer(no_args_is_help=True, help="Create, list and set up tenants.")
key_app = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")
region_app = typer.Typer(no_args_is_help=True, help="Which region plans.")

T = TypeVar("T")
Json = Annotated[bool, JSON_OPTION]
TenantName = Annotated[str, typer.Argument(help="The tenant's name or id.")]
_ACTOR = Actor(kind="cli", id="rota tenant")


def on_database(work: Callable[[Database], Coroutine[Any, Any, T]]) -> T:
    """Run `work` on the cell's database; known errors end the command with their message."""

    async def main() -> T:
        async with database() as db:
            return await work(db)

    return run(main())


async def find_tenant(db: Executor, name: str) -> Tenant:
    """The tenant of that name or id. NotFound with a hint."""
    try:
        return await tenants.get_tenant(db, parse_tenant_id(name))
    except ValueError:
        pass
    try:
        return await tenants.get_tenant_named(db, name)
    except NotFound as error:
        raise NotFound(str(error), hint="`rota tenant list` shows them") from None


@tenant_app.command("create")
def tenant_create(
    name: Annotated[str, typer.Argument(help="Its name.")],
    weight: Annotated[int | None, typer.Option(help="Its share when workers are busy.")] = None,
    max_schedules: Annotated[int | None, typer.Option()] = None,
    max_in_flight: Annotated[int | None, typer.Option(help="Attempts at once.")] = None,
    trigger_rate: Annotated[float | None, typer.Option(help="Starts per second.")] = None,
    catch_up_rate: Annotated[float | None, typer.Option(help="Starts per second of recovery work.")] = None,
    as_json: Json = False,
) -> None:
    """Create a tenant and its first key, which is shown this once."""
    given = {
        "weight": weight,
        "max_schedules": max_schedules,
        "max_in_flight": max_in_flight,
        "trigger_rate": trigger_rate,
        "catch_up_rate": catch_up_rate,
    }
    settings = {member: value for member, value in given.items() if value is not None}

    async def work(db: Database) -> dict[str, object]:
        async with db.transaction() as tx:
            tenant = await tenants.create_tenant(tx, name, _ACTOR, settings)
            _, text = await keys.create_key(tx, tenant.tenant_id, _ACTOR, name="first")
        return {"tenant_id": format_tenant_id(tenant.tenant_id), "key": text}

    made = on_database(work)
    print_document(made, as_json=as_json)
    if not as_json:
        stdout.print("Keep the key: it cannot be shown again.")


@tenant_app.command("list")
def tenant_list(as_json: Json = False) -> None:
    """List all tenants."""

    async def work(db: Database) -> list[Tenant]:
        found: list[Tenant] = []
        while True:
            page = await tenants.list_tenants(db, after_name=found[-1].name if found else "", limit=500)
            found += page
            if len(page) < 500:
                return found

    rows = [_shown(tenant) for tenant in on_database(work)]
    print_rows(rows, ("tenant_id", "name", "weight", "max_schedules", "is_suspended"), as_json=as_json)


@tenant_app.command("show")
def tenant_show(tenant: TenantName, as_json: Json = False) -> None:
    """Show one tenant with its quotas and how many schedules it has."""

    async def work(db: Database) -> dict[str, object]:
        found = await find_tenant(db, tenant)
        return {**_shown(found), "n_schedules": await tenants.count_schedules(db, found.tenant_id)}

    print_document(on_database(work), as_json=as_json)


@tenant_app.command("set")
def tenant_set(
    tenant: TenantName,
    members: Annotated[list[str], typer.Argument(help="member=value, such as weight=3; an empty value lifts a quota.")],
    as_json: Json = False,
) -> None:
    """Change quotas and weight."""
    changes: dict[str, object] = {}
    for text in members:
        name, equals, value = text.partition("=")
        if not equals:
            fail(f"{text!r}: expected member=value", code=EXIT_USAGE)
        changes[name] = _value(value)

    async def work(db: Database) -> Tenant:
        async with db.transaction() as tx:
            found = await find_tenant(tx, tenant)
            return await tenants.set_tenant(tx, found.tenant_id, changes, _ACTOR)

    print_document(_shown(on_database(work)), as_json=as_json)


def _value(text: str) -> object:
    if text == "":
        return None
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _shown(tenant: Tenant) -> dict[str, object]:
    return {"tenant_id": format_tenant_id(tenant.tenant_id), **tenant.document()}


@key_app.command("create")
def key_create(
    tenant: TenantName,
    name: Annotated[str, typer.Option(help="What it is for.")] = "",
    scope: Annotated[
        list[str] | None, typer.Option(help="read, write, worker or admin; may be repeated. Default: all.")
    ] = None,
    operator: Annotated[bool, typer.Option(help="It sees the whole cell.")] = False,
    as_json: Json = False,
) -> None:
    """Make a key; it is shown this once."""

    async def work(db: Database) -> dict[str, object]:
        async with db.transaction() as tx:
            found = await find_tenant(tx, tenant)
            scopes = scope or list(keys.ALL_SCOPES)
            made, text = await keys.create_key(
                tx, found.tenant_id, _ACTOR, name=name, scopes=scopes, is_operator=operator
            )
        return {**_key(made), "key": text}

    print_document(on_database(work), as_json=as_json)


@key_app.command("list")
def key_list(tenant: TenantName, as_json: Json = False) -> None:
    """List a tenant's keys, revoked ones too. Their texts are not kept."""

    async def work(db: Database) -> list[ApiKey]:
        found = await find_tenant(db, tenant)
        return await keys.list_keys(db, found.tenant_id, limit=1000)

    rows = [_key(one) for one in on_database(work)]
    print_rows(rows, ("key_id", "name", "scopes", "created_at", "revoked_at"), as_json=as_json)


@key_app.command("revoke")
def key_revoke(key_id: Annotated[str, typer.Argument(help="The key's id.")], as_json: Json = False) -> None:
    """End a key for good."""

    async def work(db: Database) -> ApiKey:
        async with db.transaction() as tx:
            return await keys.revoke_key(tx, None, key_id, _ACTOR)

    print_document(_key(on_database(work)), as_json=as_json)


def _key(key: ApiKey) -> dict[str, object]:
    return {
        "key_id": key.key_id,
        "tenant_id": format_tenant_id(key.tenant_id),
        "name": key.name,
        "scopes": sorted(str(one) for one in key.scopes),
        "is_operator": key.is_operator,
        "created_at": key.created_at.isoformat(),
        "revoked_at": None if key.revoked_at is None else key.revoked_at.isoformat(),
    }


@region_app.command("promote")
def region_promote(
    region: Annotated[str, typer.Argument(help="The region that plans from now on.")], as_json: Json = False
) -> None:
    """Begin a new term for a region: planners of every other one write nothing from here on."""
    from rota.coord.regions import promote_region

    async def work(db: Database) -> dict[str, object]:
        async with db.transaction() as tx:
            term = await promote_region(tx, region, _ACTOR)
        return {"region": term.region, "generation": term.generation}

    print_document(on_database(work), as_json=as_json)
