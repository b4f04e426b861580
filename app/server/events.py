"""The socket's events: check the message, ask the theater, acknowledge."""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack
from typing import Any, TypeVar

from msgspec import structs

from app.bench.runs import BenchRuns
from app.classroom import bounds
from app.classroom.access import Access
from app.classroom.classrooms import Classrooms
from app.classroom.events import CLASS_EVENTS, ClassEvents
from app.classroom.refusing import refusal
from app.ground.callers import ADDRESS, OWNER, PASS, Person, guest
from app.ground.errors import AppError, one_sentence, refusal_of
from app.ground.limits import Limits
from app.ground.plain import plain
from app.ground.settings import MIB, ServerSettings
from app.lessons import messages as lesson_messages
from app.lessons.answers import LessonOpened, LessonRetold, LessonState
from app.lessons.lesson import LessonError
from app.lessons.retold import way
from app.lessons.rooms import LessonRoom, LessonRooms
from app.lessons.telling import told
from app.lessons.words import question_texts
from app.models.engine_face import OwnTiers, ServedModel
from app.models.registry import Models
from app.page.words import languages
from app.recordings.library import Library
from app.session import answers, messages
from app.session.broadcast import Emit
from app.session.closing import Closing
from app.session.jobs import Fork, Performed, change_of, config_of
from app.session.messages import parse, parse_config, parse_sampling
from app.session.run import OpenLog, Run, read_batch
from app.session.session import Theater
from app.session.session_manager import Theaters, Watched
from app.transport.clients import Ack, Answer, Clients
from engine.lab.change import ConfigChange
from engine.trace import codec

FORK_NEWS = 0.25  # seconds between two status messages about a run that is made again
READ_RECORDS = 256
READ_BYTES = 4 * MIB  # records and captures, together
READS = 8  # at once, of all clients; the others wait for their turn

Given = Ack | Answer | Future[Performed]
M = TypeVar("M")
logger = logging.getLogger(__name__)


class Events:
    """One method for each event: from the client's id and the checked message to the acknowledgement without `ok`."""

    def __init__(
        self,
        theaters: Theaters,
        emit: Emit,
        models: Models,
        settings: ServerSettings,
        lessons: LessonRooms,
        classrooms: Classrooms,
        access: Access,
        library: Library,
        runs: BenchRuns,
    ) -> None:
        self._library, self._runs = library, runs
        self._theaters, self._emit, self._models, self._settings = theaters, emit, models, settings
        self._lessons, self._classrooms, self._access = lessons, classrooms, access
        self._reads = threading.BoundedSemaphore(READS)

    def greet(self, sid: str) -> None:
        """Tell who comes how far the first model is, those named with it, and whatever else is loaded."""
        for served in self._models.all():
            status = served.status()
            if status["place"] != "at_hand" or status["state"] != "unloaded":
                self._emit("model", status, [sid])

    def create(self, sid: str, message: messages.Create) -> Answer:
        self._access.own(sid)
        base = self._settings.config_of(self._models.find(message.model).name)
        config = parse_config(message.config, base.of_one if message.alone else base)
        own = OwnTiers(None) if message.alone else None
        theater = self._theaters.create(config, message.name, message.model, own)
        return Answer(*theater.join(sid, 0, None, message.captures))

    def join(self, sid: str, message: messages.Join) -> Answer:
        watched = self._watched(sid, message)
        return Answer(*watched.join(sid, message.first, message.epoch, message.captures, message.windows))

    def leave(self, sid: str, message: messages.OfTheater) -> answers.Nothing:
        self._theaters.watch(message.theater).leave(sid)  # who is no viewer leaves nothing
        return {}

    def submit(self, sid: str, message: messages.Submit) -> answers.Submitted:
        theater, sampling = self._theater(sid, message), parse_sampling(message.sampling)
        if not self._access.person(sid).is_owner:
            bounds.check_submit(message, sampling)
        count, limit = len(message.prompts), self._settings.max_prompts
        if count > limit:
            raise AppError("bad_request", f"prompts: {count} at once are too many; at most {limit} are taken")
        prompts = [structs.replace(p, text=self._seen(p.text, theater.model)) for p in message.prompts]
        requests, num_records = theater.submit(list(prompts), sampling)
        return {
            "requests": [
                {"request_id": r.request_id, "seq_id": r.seq_id, "num_prompt_tokens": r.num_prompt_tokens}
                for r in requests
            ],
            "num_records": num_records,
        }

    def step(self, sid: str, message: messages.Step) -> Future[Performed]:
        if message.count > self._settings.max_count:
            raise AppError("bad_request", f"count: at most {self._settings.max_count} steps at once")
        return self._theater(sid, message).step(message.count, message.expect)

    def prefill(self, sid: str, message: messages.Prefill) -> Future[Performed]:
        return self._theater(sid, message).prefill(message.expect)

    def run(self, sid: str, message: messages.Play) -> answers.StatusAnswer:
        return {"status": self._theater(sid, message).play(message.speed)}

    def pause(self, sid: str, message: messages.OfTheater) -> answers.StatusAnswer:
        return {"status": self._theater(sid, message).pause()}

    def abort(self, sid: str, message: messages.Abort) -> answers.Aborted:
        return {"num_records": self._theater(sid, message).abort(message.request_id)}

    def reset(self, sid: str, message: messages.OfTheater) -> answers.Begun:
        return _begun(self._theater(sid, message).reset())

    def configure(self, sid: str, message: messages.Configure) -> answers.Begun:
        theater = self._theater(sid, message)
        before, is_owner = theater.model_name, self._access.person(sid).is_owner
        if not is_owner:
            bounds.check_model(theater, message.model)
        base = self._settings.moved(theater.config, before, self._models.find(message.model or before).name)
        config = parse_config(message.config, base)
        if not is_owner:
            bounds.check_configure(theater, config)
        return _begun(theater.reset(config, message.model))

    def focus(self, sid: str, message: messages.Focus) -> answers.Nothing:
        self._access.drive(sid, message.theater)
        theater = self._theaters.get(message.theater)
        facts = theater.model.facts
        self._check_exist("layers", message.layers, facts.num_layers)
        self._check_exist("heads", message.heads, facts.num_heads)
        theater.focus(message.layers, message.heads)
        return {}

    def recompute(self, sid: str, message: messages.Recompute) -> answers.Recomputed:
        theater = self._theater(sid, message)
        facts = theater.model.facts
        self._check_exist("layer", None if message.layer is None else [message.layer], facts.num_layers)
        self._check_exist("heads", message.heads, facts.num_heads)
        epoch, done = theater.recompute(message.seq_id, message.layer, message.heads, message.num_tokens)
        arrays = [codec.encode(layer) for layer in done.layers]
        return {"epoch": epoch, "token_ids": done.token_ids, "arrays": arrays if message.layer is None else arrays[0]}

    def record(self, sid: str, message: messages.Record) -> answers.StatusAnswer:
        self._access.own(sid)
        library = self._library
        return {
            "status": self._theater(sid, message).record(lambda run: library.record(run, message.name, message.tags))
        }

    def record_stop(self, sid: str, message: messages.OfTheater) -> answers.StatusAnswer:
        return {"status": self._theater(sid, message).stop_recording()}

    def fork(self, sid: str, message: messages.Fork) -> answers.Forked:
        """Answered when the run is made again up to the change, however long that takes; the status tells how far."""
        self._access.own(sid)
        source = self._theaters.watch(message.theater)
        if message.epoch is not None and message.epoch != source.run.epoch:
            raise AppError("stale_epoch", f"the theater is at epoch {source.run.epoch}, not {message.epoch}")
        wish, model = message.change, self._model_of(source.run)
        with ExitStack() as undo:
            lease = undo.enter_context(self._models.lease(model))
            text = self._seen(wish.text, lease.model) if isinstance(wish, messages.ForkRequest) else None
            config = source.config if isinstance(source, Theater) else config_of(source.run.log)
            change = change_of(wish, text, config)
            fork = Fork(message.theater, source.run, message.at, change, message.follow)
            undo.callback(fork.close)
            if (length := len(fork.log)) > self._settings.max_count:
                limit = self._settings.max_count
                raise AppError(
                    "refused", f"a run of {length} records is too long to be made again: at most {limit} are"
                )
            config = change.config if isinstance(change, ConfigChange) else config
            theater = self._theaters.create(config, message.name, model)
            undo.callback(self._theaters.remove, theater, Closing("unbuilt"))
            job = theater.follow(fork)
            while not wait((job.forked,), FORK_NEWS).done:
                self._emit("status", theater.status(), [sid])
            job.forked.result()
            undo.pop_all()
            lease.close()
        return {
            "theater": theater.theater_id,
            "epoch": theater.run.epoch,
            "header": theater.run.header,
            "num_records": len(theater.run.log),
            "status": theater.status(),
            "source": {"theater": message.theater, "epoch": fork.epoch, "at": message.at},
        }

    def read(self, sid: str, message: messages.Read) -> answers.RecordRange:
        run = self._watched(sid, message).run
        with self._reads, run.reading() as log:
            first = min(message.first, len(log))
            end = max(first, min(message.to, len(log), first + READ_RECORDS))
            records, captures = read_batch(
                log, first, end, READ_BYTES // 2, first if message.captures else None, READ_BYTES // 2
            )
            return {"epoch": run.epoch, "first": first, "records": records, "captures": captures}

    def tokenize(self, sid: str, message: messages.Tokenize) -> answers.Tokenized:
        if not self._access.person(sid).is_owner:
            bounds.check_text(message.text)
        name = None if message.theater is None else self._theaters.get(message.theater).model_name
        with self._models.lease(name) as lease:
            model = lease.model
            seen = self._seen(message.text, model)
            token_ids = model.encode(seen)
            return {"token_ids": token_ids, "token_bytes": [model.token_bytes(i) for i in token_ids], "text": seen}

    def lesson_open(self, sid: str, message: lesson_messages.LessonOpen) -> LessonOpened:
        self._access.own(sid)
        known = self._lessons.known(message.theater, message.lesson, message.language)
        room = known or self._lessons.open(
            message.lesson,
            message.language,
            message.at,
            message.answers,
            message.changes,
            [(one.lesson, one.item) for one in message.again],
        )
        return _lesson_opened(room, message.language, 0)

    def lesson_look(self, sid: str, message: lesson_messages.LessonLook) -> LessonOpened:
        """A lesson as far as its class has come."""
        self._access.watch(sid, message.theater)
        return _lesson_opened(self._lessons.find(message.theater), message.language, message.since)

    def lesson_go(self, sid: str, message: lesson_messages.LessonGo) -> LessonState:
        """Carry out what the learner stands before, and go on to what stands next."""
        self._access.drive(sid, message.theater)
        room = self._lessons.find(message.theater)
        with room.lock, _of_lesson():
            self._check_not_asked(message)
            first = room.course.at
            if message.item == first:  # else another click was faster
                room.course.go_on()
                room.show()
            self._classrooms.lesson_is_at(message.theater, room.course.at)
        return _lesson_state(room, message.item)

    def lesson_answer(self, sid: str, message: lesson_messages.LessonAnswer) -> LessonState:
        self._access.drive(sid, message.theater)
        room = self._lessons.find(message.theater)
        with room.lock, _of_lesson():
            self._check_not_asked(message)
            course = room.course
            if message.item == course.at:
                course.answer(message.given)
                if course.is_answered:
                    course.go_on()
                    room.show()
            self._classrooms.lesson_is_at(message.theater, room.course.at)
        return _lesson_state(room, message.item)

    def lesson_retell(self, sid: str, message: lesson_messages.LessonRetell) -> LessonRetold:
        self._access.own(sid)
        lessons = self._lessons.recorded
        transcript = lessons.get(message.lesson, message.language)
        shown = way(transcript, message.at, message.answers)
        has = message.first if message.run == shown.moment.run else 0
        header, first, records, captures = lessons.stretch(transcript, shown, has, READ_BYTES)
        return {
            "theater": "",
            "first": message.since,
            "items": plain(shown.items[message.since :]),
            "progress": plain(shown.progress),
            "lesson": transcript.lesson,
            "language": transcript.language,
            "kind": transcript.kind,
            "title": transcript.title,
            "minutes": transcript.minutes,
            "words": transcript.words,
            "run": shown.moment.run,
            "num_records": shown.moment.records,
            "header": header,
            "first_record": first,
            "records": records,
            "captures": captures,
        }

    def bench_follow(self, sid: str, message: messages.Message) -> Ack:
        self._access.own(sid)
        return {"status": structs.asdict(self._runs.follow(sid))}

    def bench_run(self, sid: str, message: messages.BenchRun) -> Ack:
        self._access.own(sid)
        status = self._runs.start(message.scenario, message.rounds, message.quiet_seconds)
        return {"status": structs.asdict(status)}

    def bench_stop(self, sid: str, message: messages.Message) -> Ack:
        self._access.own(sid)
        return {"status": structs.asdict(self._runs.stop())}

    def _check_not_asked(self, message: lesson_messages.LessonGo | lesson_messages.LessonAnswer) -> None:
        """What a class is asked is answered by showing it to all.

        Raises:
            AppError: `refused`.
        """
        if self._classrooms.asks(message.theater):
            raise refusal("refused", "poll.asked")

    def _watched(self, sid: str, message: messages.OfTheater) -> Watched:
        """What somebody may look at."""
        self._access.watch(sid, message.theater)
        return self._theaters.watch(message.theater)

    def _theater(self, sid: str, message: messages.OfTheater) -> Theater:
        """What somebody may command."""
        self._access.drive(sid, message.theater)
        theater = self._theaters.get(message.theater)
        if theater.in_lesson:
            raise AppError("refused", "this run belongs to a lesson: go on there, or finish it and do as you like")
        return theater

    def _model_of(self, run: OpenLog) -> str | None:
        """The model that a run was on; None, the first, where there is none of that name: what is made again then says
        that it is another one.
        """
        with run.reading() as log:
            name = log.header.model.name
        return name if self._models.knows(name) else None

    @staticmethod
    def _check_exist(name: str, chosen: list[int] | None, count: int) -> None:
        if chosen and max(chosen) >= count:
            raise AppError("bad_request", f"{name}: {max(chosen)} is not among 0..{count - 1}")

    def _seen(self, text: str, model: ServedModel) -> str:
        """The text as the model will see it; AppError when it is too long or not text."""
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError:
            raise AppError("bad_request", "the text holds half a character (a lone surrogate)") from None
        if size > self._settings.max_prompt_bytes:
            limit = self._settings.max_prompt_bytes
            raise AppError("bad_request", f"the text has {size} bytes of UTF-8; at most {limit} are taken")
        return model.normalize(text)


# Every event: what its message is, and what answers it.
EVENTS: dict[str, tuple[type[Any], Callable[[Events, str, Any], Given]]] = {
    "create": (messages.Create, Events.create),
    "join": (messages.Join, Events.join),
    "leave": (messages.OfTheater, Events.leave),
    "submit": (messages.Submit, Events.submit),
    "step": (messages.Step, Events.step),
    "prefill": (messages.Prefill, Events.prefill),
    "run": (messages.Play, Events.run),
    "pause": (messages.OfTheater, Events.pause),
    "abort": (messages.Abort, Events.abort),
    "reset": (messages.OfTheater, Events.reset),
    "configure": (messages.Configure, Events.configure),
    "focus": (messages.Focus, Events.focus),
    "recompute": (messages.Recompute, Events.recompute),
    "record": (messages.Record, Events.record),
    "record_stop": (messages.OfTheater, Events.record_stop),
    "fork": (messages.Fork, Events.fork),
    "read": (messages.Read, Events.read),
    "tokenize": (messages.Tokenize, Events.tokenize),
    "lesson_open": (lesson_messages.LessonOpen, Events.lesson_open),
    "lesson_look": (lesson_messages.LessonLook, Events.lesson_look),
    "lesson_go": (lesson_messages.LessonGo, Events.lesson_go),
    "lesson_answer": (lesson_messages.LessonAnswer, Events.lesson_answer),
    "lesson_retell": (lesson_messages.LessonRetell, Events.lesson_retell),
    "bench_follow": (messages.Message, Events.bench_follow),
    "bench_run": (messages.BenchRun, Events.bench_run),
    "bench_stop": (messages.Message, Events.bench_stop),
}


LOOKS = frozenset({"join", "leave", "read", "lesson_look"})  # need no turn of the run that they are about


def register(clients: Clients, events: Events, of_class: ClassEvents, access: Access, theaters: Theaters) -> None:
    """Put the handlers on the socket."""
    commands = bounds.Commands(access)
    reads = bounds.Commands(access, bounds.MOST_READS_OF_ONE, Limits().all_events)
    for name, (kind, handle) in EVENTS.items():
        take = functools.partial(handle, events)
        if issubclass(kind, messages.OfTheater) and name not in LOOKS:
            take = functools.partial(_command, commands, take)
        elif name == "read":
            take = functools.partial(_command, reads, take)
        clients.on(name, _handler(name, kind, take), _busy, READ_BYTES if name == "read" else 0)
    for name, (kind, deal) in CLASS_EVENTS.items():
        clients.on(name, _handler(name, kind, functools.partial(deal, of_class)), _busy)
    clients.on("*", _unknown, _busy)

    def come(sid: str, environ: Mapping[str, Any]) -> None:
        access.come(sid, Person(bool(environ.get(OWNER)), environ.get(PASS), environ.get(ADDRESS, "")))
        events.greet(sid)

    def gone(sid: str) -> None:
        theaters.forget_viewer(sid)
        access.forget(sid)

    clients.on_come_and_gone(come, gone)
    clients.tell_apart(guest)


def _command(commands: bounds.Commands, handle: Callable[[str, M], Given], sid: str, message: M) -> Given:
    """What is answered later is under way until then."""
    done = commands.take(sid)
    try:
        found = handle(sid, message)
    except BaseException:
        done()
        raise
    if isinstance(found, Future):
        found.add_done_callback(lambda _: done())
    else:
        done()
    return found


def _handler(name: str, kind: type[M], handle: Callable[[str, M], Given]) -> Callable[..., Ack | Answer]:
    def on_event(sid: str, arguments: tuple[Any, ...]) -> Ack | Answer:
        try:
            if len(arguments) > 1:
                raise AppError("bad_request", f"{name} takes one map, not {len(arguments)} values")
            found = handle(sid, parse(arguments[0] if arguments else {}, kind))
        except Exception as error:
            return _failed(name, error)
        if isinstance(found, Future):
            return Answer(_later(name, found))
        if isinstance(found, Answer):
            return Answer({"ok": True, **found.ack}, found.then)  # type: ignore[dict-item]
        return {"ok": True, **found}

    return on_event


def _later(name: str, steps: Future[Performed]) -> Future[Ack]:
    """The acknowledgement of steps that are under way: no thread waits for them."""
    acknowledgement: Future[Ack] = Future()

    def end(done: Future[Performed]) -> None:
        try:
            acknowledgement.set_result({"ok": True, **done.result()._asdict()})
        except Exception as error:
            acknowledgement.set_result(_failed(name, error))

    steps.add_done_callback(end)
    return acknowledgement


def _failed(name: str, error: Exception) -> Ack:
    refusal = refusal_of(error)
    if refusal is None:
        logger.exception("event %s", name, exc_info=error)
    refusal = refusal or AppError("internal", f"{name} failed: {one_sentence(error)}")
    return {"ok": False, **refusal.as_map()}


def _busy(why: str) -> Ack:
    return _failed("", AppError("busy", why))


def _unknown(_: str, arguments: tuple[Any, ...]) -> Ack:
    event = arguments[0] if arguments else None
    return _failed("", AppError("bad_request", f"there is no event {str(event)[:60]!r}"))


def _lesson_opened(room: LessonRoom, wanted: str, since: int) -> LessonOpened:
    """A lesson's items from `since` on; its questions in the language that is wanted, where there are words."""
    lesson, language = room.course.lesson, room.course.language
    return {
        **_lesson_state(room, since),
        "lesson": lesson.id,
        "language": language,
        "kind": lesson.kind,
        "title": lesson.title[language],
        "minutes": lesson.minutes,
        "words": question_texts(wanted if wanted in languages() else language),
    }


def _lesson_state(room: LessonRoom, first: int) -> LessonState:
    course = room.course
    return {
        "theater": room.theater.theater_id,
        "first": first,
        "items": plain(told(course, first)),
        "progress": plain(course.progress),
    }


@contextlib.contextmanager
def _of_lesson() -> Iterator[None]:
    """What a lesson objects to is what the client is told."""
    try:
        yield
    except LessonError as error:
        raise AppError("refused", str(error)) from error


def _begun(run: Run) -> answers.Begun:
    return {"epoch": run.epoch, "header": run.header}
