"""The operator's console: pages made on the server out of the API's own answers, usable without any script.

Whoever logs in does so with an API key, kept in a cookie that no script and no other site can use; pages show and do
what that key may. Nothing changes by GET, and a POST must come from a page of this very site.
"""

from functools import lru_cache
from typing import Annotated, Any
from urllib.parse import parse_qs, urlsplit

import orjson
from fastapi import APIRouter, Query, Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rota.base.errors import Unauthenticated
from rota.base.model import OccurrenceState, ScheduleState
from rota.catalog.keys import Principal, Scope
from rota.web import occurrences, schedules
from rota.web.auth import allow
from rota.web.problems import Problem, problem_of
from rota.web.state import AppState
from rota.web.wire import PauseBody, ReasonBody, ResumeBody

router = APIRouter(include_in_schema=False)
COOKIE = "rota_key"
HOME = "/console"
PAGE = 50
MAX_FORM_BYTES = 10_000

Cursor = Annotated[str | None, Query(max_length=2000)]


@router.get("/console/login")
async def login_page() -> Response:
    """Ask for a key."""
    return _page("login.html", problem=None)


@router.post("/console/login")
async def login(request: Request) -> Response:
    """Keep the key in a cookie, if it is one."""
    form = await _form(request)
    parts: AppState = request.app.state.parts
    if await parts.keys.principal(form.get("key", "")) is None:
        return _page("login.html", status=401, problem="This key is not known, or was revoked.")
    answer = RedirectResponse(HOME, status_code=303)
    answer.set_cookie(
        COOKIE, form["key"], path=HOME, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return answer


@router.post("/console/logout")
async def logout(request: Request) -> Response:
    """Forget the key."""
    await _form(request)
    answer = RedirectResponse("/console/login", status_code=303)
    answer.delete_cookie(COOKIE, path=HOME)
    return answer


@router.get("/console")
async def schedule_list(
    request: Request, name: str = "", state: str = "", group: str = "", label: str = "", cursor: Cursor = None
) -> Response:
    """The schedules of the key's tenant."""
    principal, parts = await _visitor(request, Scope.READ)
    answer = await schedules.list_schedules(
        principal,
        parts,
        name=name or None,
        state=ScheduleState(state) if state in set(ScheduleState) else None,
        group=group or None,
        label=label or None,
        limit=PAGE,
        cursor=cursor,
    )
    filters = {"name": name, "state": state, "group": group, "label": label}
    return _page("schedules.html", page=_json(answer), filters=filters, states=list(ScheduleState))


@router.get("/console/schedules/{schedule_id}")
async def schedule_page(request: Request, schedule_id: str) -> Response:
    """One schedule, its next fires, its latest occurrences and its versions."""
    principal, parts = await _visitor(request, Scope.READ)
    shown = _json(await schedules.get_schedule(schedule_id, principal, parts))
    latest = _json(await occurrences.list_occurrences(principal, parts, schedule_id=schedule_id, limit=PAGE))
    versions = _json(await schedules.list_versions(schedule_id, principal, parts, limit=20))
    return _page("schedule.html", schedule=shown, occurrences=latest["items"], versions=versions["items"])


@router.post("/console/schedules/{schedule_id}/{verb}")
async def schedule_act(request: Request, schedule_id: str, verb: str) -> Response:
    """Pause, resume or run a schedule."""
    reason = (await _form(request)).get("reason") or None
    principal, parts = await _visitor(request, Scope.WRITE)
    match verb:
        case "pause":
            pause = PauseBody(reason=reason)
            await schedules.pause_schedule(schedule_id, request, principal, parts, body=pause)
        case "resume":
            resume = ResumeBody(reason=reason)
            await schedules.resume_schedule(schedule_id, request, principal, parts, body=resume)
        case "run":
            await schedules.run_schedule(schedule_id, request, principal, parts, body=ReasonBody(reason=reason))
        case _:
            raise Problem(404, "there is no such action")
    return RedirectResponse(f"/console/schedules/{schedule_id}", status_code=303)


@router.get("/console/occurrences")
async def occurrence_list(request: Request, state: str = "", cursor: Cursor = None) -> Response:
    """Occurrences of the key's tenant, latest first; dead ones are the dead letters."""
    principal, parts = await _visitor(request, Scope.READ)
    chosen = OccurrenceState(state) if state in set(OccurrenceState) else None
    answer = await occurrences.list_occurrences(principal, parts, state=chosen, limit=PAGE, cursor=cursor)
    return _page("occurrences.html", page=_json(answer), state=state, states=list(OccurrenceState))


@router.get("/console/occurrences/{run_key}")
async def occurrence_page(request: Request, run_key: str) -> Response:
    """One occurrence with its attempts."""
    principal, parts = await _visitor(request, Scope.READ)
    return _page("occurrence.html", occurrence=_json(await occurrences.get_occurrence(run_key, principal, parts)))


@router.post("/console/occurrences/{run_key}/{verb}")
async def occurrence_act(request: Request, run_key: str, verb: str) -> Response:
    """Replay or cancel an occurrence."""
    body = ReasonBody(reason=(await _form(request)).get("reason") or None)
    principal, parts = await _visitor(request, Scope.WRITE)
    match verb:
        case "replay":
            await occurrences.replay(run_key, request, principal, parts, body=body)
        case "cancel":
            await occurrences.cancel(run_key, request, principal, parts, body=body)
        case _:
            raise Problem(404, "there is no such action")
    return RedirectResponse(f"/console/occurrences/{run_key}", status_code=303)


def answer_error(request: Request, error: Exception) -> Response:
    """An error as a page; without a key, the way to log in."""
    if isinstance(error, Unauthenticated):
        return RedirectResponse("/console/login", status_code=303)
    problem = problem_of(error)
    return _page("problem.html", status=problem.status_code, problem=problem, request_id=request.state.request_id)


async def _visitor(request: Request, scope: Scope) -> tuple[Principal, AppState]:
    """Who looks, by the key in the cookie. Unauthenticated or Forbidden otherwise."""
    parts: AppState = request.app.state.parts
    text = request.cookies.get(COOKIE)
    principal = await parts.keys.principal(text) if text else None
    if principal is None:
        raise Unauthenticated("not logged in")
    allow(principal, scope)
    return principal, parts


async def _form(request: Request) -> dict[str, str]:
    """The members of a form that a page of this site sent. Problem 403 for any other origin."""
    origin = request.headers.get("origin")
    if origin is None or urlsplit(origin).netloc != request.headers.get("host"):
        raise Problem(403, "this form was sent by another site", code="foreign_origin")
    raw = await request.body()
    if len(raw) > MAX_FORM_BYTES:
        raise Problem(413, "the form is too long")
    members = parse_qs(raw.decode("utf-8", "replace"), max_num_fields=20)
    return {name: values[0].replace("\x00", "") for name, values in members.items()}


def _json(answer: Response) -> Any:
    return orjson.loads(bytes(answer.body))


@lru_cache(maxsize=1)
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("rota.web", "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )


def _page(template: str, *, status: int = 200, **members: object) -> Response:
    return HTMLResponse(_templates().get_template(template).render(**members), status)
