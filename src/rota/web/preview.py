"""The route that tries a timing before it is saved: the same computation as planning."""

from fastapi import APIRouter
from starlette.responses import Response

from rota.base.errors import FieldError, ValidationFailed
from rota.calendar import Timing, TimingError
from rota.catalog import calendars
from rota.web import documents
from rota.web.answers import PROBLEM_RESPONSES, answers, json_answer
from rota.web.auth import Reader
from rota.web.bodies import StrictRoute
from rota.web.state import Shared
from rota.web.wire import PreviewBody

router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES, tags=["preview"])


@router.post("/v1/preview", **answers(documents.Preview))
async def preview(body: PreviewBody, principal: Reader, shared: Shared) -> Response:
    """The next fires of a timing, in UTC and local time, with marks where a clock change or a calendar changes it."""
    after = body.after or await shared.now()
    exclusions = None
    if body.calendar is not None:
        calendar = await calendars.get_calendar(shared.db, principal.tenant_id, body.calendar)
        exclusions = calendar.days
    try:
        timing = Timing.parse(body.timing, hash_key=body.hash_key or "")
        fires = timing.preview(after, body.count, starts_at=body.starts_at, ends_at=body.ends_at, exclusions=exclusions)
    except TimingError as error:
        raise ValidationFailed((field_error(error),)) from error
    return json_answer(
        {
            "description": timing.describe(),
            "timing": timing.to_json(),
            "fires": [
                {"at": fire.at, "wall": fire.wall, "fires": fire.fires, "marks": list(fire.marks)} for fire in fires
            ],
        }
    )


def field_error(error: TimingError) -> FieldError:
    """What is wrong with a timing, as a field of the request."""
    return FieldError(field=error.field, message=str(error), hint=error.hint)
