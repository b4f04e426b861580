"""HTTP API of indexed logs: binned series, blocks after a record, changes by the following records, and more."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypedDict

import flask
import msgspec
from flask import Request, Response
from msgspec import Meta

from app.ground import routing
from app.ground.errors import AppError, refuse
from app.ground.routing import Route, json_answer
from app.log_index.derived_files import LogIndexes
from app.session.run import OpenLog, read_batch
from app.session.session_manager import SessionManager
from engine.trace.derived_file import DerivedFileError
from engine.trace.geometry import geometry
from engine.trace.log_index.block_rows import BLOCK, Rows
from engine.trace.log_index.classes import BYS, ClassFigures, classes, pair_classes
from engine.trace.log_index.log_index import LogIndex
from engine.trace.log_index.observed_cache import ObservedCache
from engine.trace.log_index.prefixes import prefixes
from engine.trace.log_index.sequence_table import sequence_table
from engine.trace.log_index.series import bins
from engine.trace.observing import UNSAID

MSGPACK = "application/msgpack"
SENT = tuple(name for name in BLOCK.names or () if name != "content")  # properties of a block that are drawn
MAX_BINS = 4096
MAX_BRANCHES = 500  # of a prefix tree
MAX_RECORDS = 256  # per response
MAX_BYTES = 1 << 20  # of records per response
MAX_TOKENS = 1 << 20  # of a prompt to look up
MAX_PROMPT_BYTES = 8 * MAX_TOKENS


class SurveyAnswer(TypedDict):
    """Response of /api/theaters/<session_id>/survey: progress of indexing."""

    num_records: int  # of the log
    num_surveyed: int  # indexed records
    is_done: bool  # whether indexing is complete
    problem: str  # why the index ends before the log does, or ""
    num_blocks: int
    num_sequences: int
    series: list[str]  # series for which the log has data
    media: list[str]  # media outside the pool whose content is known: the bits of `tiers`, the last for all others
    seconds: float  # time of the last indexed record since the log began


class ClassedRun(TypedDict):
    """Run whose requests are grouped by class."""

    theater: str
    num_records: int
    num_surveyed: int  # indexed records, from which the classes are computed
    is_simulated: bool  # whether the run's times are simulated
    unsaid: str  # why the run's requests are unknown, or ""


class ClassesAnswer(TypedDict):
    """Response of /api/theaters/<session_id>/survey/classes."""

    by: str
    runs: list[ClassedRun]
    classes: list[dict[str, Any]]  # `engine.trace.log_index.classes.ClassPair`
    num_more: int  # omitted classes


class PromptQuery(msgspec.Struct, kw_only=True):
    """Body of a POST to /api/theaters/<session_id>/survey/heard/chains."""

    record: int
    token_ids: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=MAX_TOKENS)]


class LogIndexContext(NamedTuple):
    """Context of the endpoints."""

    sessions: SessionManager
    log_indexes: LogIndexes


def overview(context: LogIndexContext, request: Request, session_id: str) -> Response:
    """Return the progress of indexing."""
    run, log_index = _log_index(context, session_id)
    answer: SurveyAnswer = {
        "num_records": len(run.log),
        "num_surveyed": len(log_index),
        "is_done": log_index.index.is_done,
        "problem": log_index.index.problem,
        "num_blocks": log_index.index.num_blocks,
        "num_sequences": len(log_index.index.sequences.seq_id),
        "series": log_index.index.said,
        "media": log_index.index.media,
        "seconds": float(log_index.series["at"][-1]),
    }
    return json_answer(answer)


def series(context: LogIndexContext, request: Request, session_id: str) -> Response:
    """Return the series over a range of records in bins: `?first=…&end=…&bins=…`."""
    _, log_index = _log_index(context, session_id)
    first, end = _number(request, "first", 0), _number(request, "end", len(log_index))
    count = min(_number(request, "bins", 1000), MAX_BINS)
    try:
        found = bins(log_index.series, first, min(end, len(log_index)), count)
    except ValueError as error:
        raise refuse("not_found", "records.such", error=error) from error
    return _packed({name: column.astype("<f8").tobytes() for name, column in found.items()})


def blocks(context: LogIndexContext, request: Request, session_id: str) -> Response:
    """Return every block after a record: `?record=…`, one column per drawn property."""
    run, log_index = _log_index(context, session_id)
    record = _number(request, "record", len(log_index) - 1)
    try:
        rows = log_index.blocks_at(record)
    except (IndexError, DerivedFileError) as error:
        raise _refusal(context, run, error) from error
    return _packed({"record": record, **_columns(rows, SENT)})


def changes(context: LogIndexContext, request: Request, session_id: str) -> Response:
    """Return records [first, end), possibly fewer, and the blocks changed by each: `?first=…&end=…`."""
    run, log_index = _log_index(context, session_id)
    first = _number(request, "first", 0)
    end = min(_number(request, "end", first + 1), first + MAX_RECORDS, len(log_index))
    if not 0 <= first < end:
        raise refuse("not_found", "record.known", record=first, known=len(log_index))
    with run.reading() as log:
        records, _ = read_batch(log, first, end, MAX_BYTES, None, 0)
    end = first + len(records)
    try:
        rows = log_index.changes(first, end)
    except DerivedFileError as error:
        raise _refusal(context, run, error) from error
    return _packed({"first": first, "end": end, "records": records, **_columns(rows, ("record", "block", *SENT))})


def sequences(context: LogIndexContext, request: Request, session_id: str) -> Response:
    """Return all indexed sequences with their waiting and running spans, in columns."""
    run, log_index = _log_index(context, session_id)
    with run.reading() as log:
        header = log.header
    return Response(msgspec.msgpack.encode(sequence_table(log_index, header)), mimetype=MSGPACK)


def prefix_tree(context: LogIndexContext, request: Request, session_id: str) -> Response:
    """Return the prefix cache after a record as a tree of the largest branches: `?record=…&instance=0`."""
    run, log_index = _log_index(context, session_id)
    record = _number(request, "record", len(log_index) - 1)
    instance = _number(request, "instance", 0)
    with run.reading() as log:
        groups = [group for group in geometry(log.header)[1] if group.instance == instance]
    if not groups:
        raise refuse("not_found", "instance.none", instance=instance)
    end = max(group.first_block + group.num_blocks for group in groups)
    try:
        found = prefixes(log_index, record, MAX_BRANCHES, min(group.first_block for group in groups), end)
    except (IndexError, DerivedFileError) as error:
        raise _refusal(context, run, error) from error
    return json_answer({"record": record, **msgspec.to_builtins(found)})


def by_class(context: LogIndexContext, request: Request, session_id: str) -> Response:
    """Return the requests of a run, and optionally of a second run, by class: `?by=prompt&beside=…`."""
    by = request.args.get("by", "all")
    if by not in BYS:
        raise AppError("bad_request", f"by is one of {', '.join(BYS)}")
    names = [name for name in (session_id, request.args.get("beside")) if name]
    sides, found = list[ClassedRun](), list[dict[str | None, ClassFigures]]()
    for name in names:
        run = context.sessions.watch(name).run
        with run.reading() as log:
            header = log.header
        if header.observed is not None:
            sides.append(
                {"theater": name, "num_records": 0, "num_surveyed": 0, "is_simulated": False, "unsaid": UNSAID}
            )
            found.append({})
            continue
        log_index = context.log_indexes.find(run)
        found.append(classes(log_index, header, by))
        sides.append(
            {
                "theater": name,
                "num_records": len(run.log),
                "num_surveyed": len(log_index),
                "is_simulated": header.simulated is not None,
                "unsaid": "",
            }
        )
    rows, num_more = pair_classes(found[0], found[1] if len(found) > 1 else None, by)
    answer: ClassesAnswer = {"by": by, "runs": sides, "classes": msgspec.to_builtins(rows), "num_more": num_more}
    return json_answer(answer)


def observed_cache(context: LogIndexContext, request: Request, session_id: str) -> Response:
    """Return each rank's cache reports up to a record of a monitored server: `?record=…`."""
    run, log_index, cache = _watched(context, session_id)
    record = _known(log_index, _number(request, "record", len(log_index) - 1))
    with run.reading() as log:
        ranks = [cache.report(log, rank, record) for rank in range(cache.num_ranks)]
    return json_answer({"record": record, "ranks": msgspec.to_builtins(ranks)})


def prefix_roots(context: LogIndexContext, request: Request, session_id: str) -> Response:
    """Return the prefix roots that a rank reported last, up to a record: `?record=…&rank=0`."""
    run, log_index, cache = _watched(context, session_id)
    record, rank = _known(log_index, _number(request, "record", len(log_index) - 1)), _number(request, "rank", 0)
    if not 0 <= rank < cache.num_ranks:
        raise refuse("not_found", "rank.none", rank=rank)
    with run.reading() as log:
        found = cache.roots(log, rank, record)
    return json_answer({"roots": msgspec.to_builtins(found)})


def content_chains(context: LogIndexContext, request: Request, session_id: str) -> Response:
    """Return the blocks of a prompt that each rank of a monitored server has cached after a record."""
    request.max_content_length = MAX_PROMPT_BYTES
    _, log_index, cache = _watched(context, session_id)
    try:
        query = msgspec.json.decode(request.get_data(), type=PromptQuery)
    except msgspec.MsgspecError as error:
        raise AppError("bad_request", f"this is no prompt: {error}") from error
    record = _known(log_index, query.record)
    ranks = [cache.chains(rank, query.token_ids, record) for rank in range(cache.num_ranks)]
    return json_answer({"ranks": msgspec.to_builtins(ranks)})


_LOG_INDEX = "/<session_id>/survey"  # part of the public API, so not renamed

ROUTES = [
    Route("GET", _LOG_INDEX, overview),
    Route("GET", f"{_LOG_INDEX}/series", series),
    Route("GET", f"{_LOG_INDEX}/blocks", blocks),
    Route("GET", f"{_LOG_INDEX}/changes", changes),
    Route("GET", f"{_LOG_INDEX}/sequences", sequences),
    Route("GET", f"{_LOG_INDEX}/classes", by_class),
    Route("GET", f"{_LOG_INDEX}/prefixes", prefix_tree),
    Route("GET", f"{_LOG_INDEX}/heard", observed_cache),
    Route("GET", f"{_LOG_INDEX}/heard/roots", prefix_roots),
    Route("POST", f"{_LOG_INDEX}/heard/chains", content_chains),
]


def blueprint(sessions: SessionManager, log_indexes: LogIndexes) -> flask.Blueprint:
    """Return the endpoints under /api/theaters/<session_id>/survey."""
    return routing.blueprint("log_index", "/api/theaters", LogIndexContext(sessions, log_indexes), ROUTES)


def _log_index(context: LogIndexContext, session_id: str) -> tuple[OpenLog, LogIndex]:
    run = context.sessions.watch(session_id).run
    return run, context.log_indexes.find(run)


def _watched(context: LogIndexContext, session_id: str) -> tuple[OpenLog, LogIndex, ObservedCache]:
    """Return the log of a monitored server, its index, and the cache reports in it."""
    run, log_index = _log_index(context, session_id)
    with run.reading() as log:
        if log.header.observed is None:
            raise refuse("not_found", "log.not_watched")
    try:
        return run, log_index, log_index.observed_cache
    except DerivedFileError as error:
        raise _refusal(context, run, error) from error


def _known(log_index: LogIndex, record: int) -> int:
    if not -1 <= record < len(log_index):
        raise refuse("not_found", "record.known", record=record, known=len(log_index))
    return record


def _number(request: Request, name: str, otherwise: int) -> int:
    given = request.args.get(name)
    if given is None:
        return otherwise
    if not given.removeprefix("-").isdecimal() or len(given) > 10:
        raise AppError("bad_request", f"{name} is a whole number")
    return int(given)


def _refusal(context: LogIndexContext, run: OpenLog, error: Exception) -> AppError:
    if isinstance(error, IndexError):
        return refuse("not_found", "record.such", error=error)
    context.log_indexes.forget(run)
    return refuse("loading", "index.anew", error=error)


def _columns(rows: Rows, names: tuple[str, ...]) -> dict[str, bytes]:
    return {name: rows[name].tobytes() for name in names}


def _packed(value: dict[str, Any]) -> Response:
    response = Response(msgspec.msgpack.encode(value), mimetype=MSGPACK)
    response.headers["Cache-Control"] = "no-store"
    return response
