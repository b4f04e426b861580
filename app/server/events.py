"""Socket events about runs, and their handlers."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, wait
from contextlib import ExitStack

from msgspec import structs

from app.bench.runs import BenchRuns
from app.classroom import bounds, rights
from app.classroom.access import Access
from app.classroom.rights import Event
from app.ground.errors import AppError, refuse, refused
from app.ground.settings import MIB, ServerSettings
from app.models.engine_face import OwnTiers, ServedModel
from app.models.registry import Models
from app.recordings.library import Library
from app.session import answers, messages
from app.session.broadcast import Emit
from app.session.closing import Closing
from app.session.jobs import Fork, Performed, config_of, parse_change
from app.session.messages import parse_config, parse_sampling
from app.session.run import OpenLog, Run, read_batch
from app.session.session import Session
from app.session.session_manager import SessionManager
from app.transport.clients import Ack, Answer
from engine.accounting.work import layer_flops
from engine.lab.change import config_of_fork
from engine.trace import codec

FORK_STATUS_SECONDS = 0.25  # between two status messages about a fork's rerun
READ_RECORDS = 256
READ_BYTES = 4 * MIB  # records and captures together
READS = 8  # simultaneous reads of all clients; others wait

logger = logging.getLogger(__name__)


class Events:
    """Handlers of the events. They take the client's id and a checked message, and return an acknowledgement."""

    def __init__(
        self,
        sessions: SessionManager,
        emit: Emit,
        models: Models,
        settings: ServerSettings,
        access: Access,
        library: Library,
        runs: BenchRuns,
    ) -> None:
        self._library, self._runs = library, runs
        self._sessions, self._emit, self._models, self._settings = sessions, emit, models, settings
        self._access = access
        self._reads = threading.BoundedSemaphore(READS)
        self._projecting = threading.Lock()  # each projection allocates a matrix of the model

    def greet(self, sid: str) -> None:
        """Send a new client the loading status of every model."""
        for served in self._models.all():
            status = served.status()
            if status["place"] != "at_hand" or status["state"] != "unloaded":
                self._emit("model", status, [sid])

    def create(self, sid: str, message: messages.Create) -> Answer:
        base = self._settings.config_of(self._models.find(message.model).name)
        config = parse_config(message.config, base.instance_config if message.alone else base)
        own = OwnTiers(None) if message.alone else None
        session = self._sessions.create(config, message.name, message.model, own)
        return Answer(*session.join(sid, 0, None, message.captures))

    def join(self, sid: str, message: messages.Join) -> Answer:
        watched = self._sessions.watch(message.session)
        return Answer(*watched.join(sid, message.first, message.epoch, message.captures, message.windows))

    def leave(self, sid: str, message: messages.OfSession) -> answers.Nothing:
        self._sessions.watch(message.session).leave(sid)  # no-op for clients that follow no session
        return {}

    def submit(self, sid: str, message: messages.Submit) -> answers.Submitted:
        session, sampling = self._session(message), parse_sampling(message.sampling)
        if not self._access.person(sid).is_owner:
            bounds.check_submit(message, sampling)
        count, limit = len(message.prompts), self._settings.max_prompts
        if count > limit:
            raise AppError("bad_request", f"prompts: at most {limit} are allowed at once, not {count}")
        prompts = [structs.replace(p, text=self._normalized(p.text, session.model)) for p in message.prompts]
        requests, num_records = session.submit(list(prompts), sampling)
        return {
            "requests": [
                {"request_id": r.request_id, "seq_id": r.seq_id, "num_prompt_tokens": r.num_prompt_tokens}
                for r in requests
            ],
            "num_records": num_records,
        }

    def step(self, sid: str, message: messages.Step) -> Future[Performed]:
        if message.count > self._settings.max_count:
            raise AppError("bad_request", f"count: at most {self._settings.max_count} steps are allowed at once")
        return self._session(message).step(message.count, message.expect)

    def prefill(self, sid: str, message: messages.Prefill) -> Future[Performed]:
        return self._session(message).prefill(message.expect)

    def run(self, sid: str, message: messages.Play) -> answers.StatusAnswer:
        return {"status": self._session(message).play(message.speed)}

    def pause(self, sid: str, message: messages.OfSession) -> answers.StatusAnswer:
        return {"status": self._session(message).pause()}

    def abort(self, sid: str, message: messages.Abort) -> answers.Aborted:
        return {"num_records": self._session(message).abort(message.request_id)}

    def reset(self, sid: str, message: messages.OfSession) -> answers.Begun:
        return _begun(self._session(message).reset())

    def configure(self, sid: str, message: messages.Configure) -> answers.Begun:
        session = self._session(message)
        before, is_owner = session.model_name, self._access.person(sid).is_owner
        if not is_owner:
            bounds.check_model(session, message.model)
        base = self._settings.moved(session.next_config, before, self._models.find(message.model or before).name)
        config = parse_config(message.config, base)
        if not is_owner:
            bounds.check_configure(session, config)
        return _begun(session.reset(config, message.model))

    def focus(self, sid: str, message: messages.Focus) -> answers.Nothing:
        session = self._sessions.get(message.session)
        facts = session.model.facts
        self._check_exist("layers", message.layers, facts.num_layers)
        self._check_exist("heads", message.heads, facts.num_heads)
        session.focus(message.layers, message.heads)
        return {}

    def recompute(self, sid: str, message: messages.Recompute) -> answers.Recomputed:
        session = self._session(message)
        facts = session.model.facts
        self._check_exist("layer", None if message.layer is None else [message.layer], facts.num_layers)
        self._check_exist("heads", message.heads, facts.num_heads)
        arguments = message.seq_id, message.layer, message.heads, message.num_tokens, message.residual
        epoch, done = session.recompute(*arguments)
        arrays = [codec.encode(layer) for layer in done.layers]
        answer = answers.Recomputed(
            epoch=epoch, token_ids=done.token_ids, arrays=arrays if message.layer is None else arrays[0]
        )
        if done.residual is not None and message.layer is not None:
            linear, attention = layer_flops(facts, message.layer, done.num_keys)
            stream = codec.encode(done.residual)
            answer["residual"] = {"stream": stream, "linear_flops": linear, "attention_flops": attention}
        return answer

    def projection(self, sid: str, message: messages.Project) -> answers.Projected:
        model = self._sessions.get(message.session).model
        self._check_exist("layer", [message.layer], model.facts.num_layers)
        num_kv_heads = model.facts.kv_shape(message.layer)[0]
        self._check_exist("head", [message.head], model.facts.num_heads if message.part == "q" else num_kv_heads)
        try:
            with self._projecting:
                found = model.projection(message.layer, message.part, message.head)
        except ValueError as error:
            raise refused(error) from None
        return {"projection": codec.encode(found)}

    def record(self, sid: str, message: messages.Record) -> answers.StatusAnswer:
        library = self._library
        return {"status": self._session(message).record(lambda run: library.record(run, message.name, message.tags))}

    def record_stop(self, sid: str, message: messages.OfSession) -> answers.StatusAnswer:
        return {"status": self._session(message).stop_recording()}

    def fork(self, sid: str, message: messages.Fork) -> answers.Forked:
        """Fork a run. Returns when the rerun has reached the change; until then, sends status messages."""
        source = self._sessions.watch(message.session)
        if message.epoch is not None and message.epoch != source.run.epoch:
            raise refuse("stale_epoch", "epoch.other", epoch=source.run.epoch, asked=message.epoch)
        wish, model = message.change, self._model_of(source.run)
        with ExitStack() as undo:
            lease = undo.enter_context(self._models.lease(model))
            text = self._normalized(wish.text, lease.model) if isinstance(wish, messages.ForkRequest) else None
            config = source.config if isinstance(source, Session) else config_of(source.run.log)
            change = parse_change(wish, text, config)
            fork = Fork(message.session, source.run, message.at, change, message.follow)
            undo.callback(fork.close)
            if (length := len(fork.log)) > self._settings.max_count:
                limit = self._settings.max_count
                raise refuse("refused", "fork.long", length=length, limit=limit)
            session = self._sessions.create(config_of_fork(config, message.at, change), message.name, model)
            undo.callback(self._sessions.remove, session, Closing("unbuilt"))
            job = session.begin_fork(fork)
            while not wait((job.forked,), FORK_STATUS_SECONDS).done:
                self._emit("status", session.status(), [sid])
            job.forked.result()
            undo.pop_all()
            lease.close()
        return {
            "theater": session.session_id,
            "epoch": session.run.epoch,
            "header": session.run.header,
            "num_records": len(session.run.log),
            "status": session.status(),
            "source": {"theater": message.session, "epoch": fork.epoch, "at": message.at},
        }

    def read(self, sid: str, message: messages.Read) -> answers.RecordRange:
        run = self._sessions.watch(message.session).run
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
        name = None if message.session is None else self._sessions.get(message.session).model_name
        with self._models.lease(name) as lease:
            model = lease.model
            text = self._normalized(message.text, model)
            token_ids = model.encode(text)
            return {"token_ids": token_ids, "token_bytes": [model.token_bytes(i) for i in token_ids], "text": text}

    def bench_follow(self, sid: str, message: messages.Message) -> Ack:
        return {"status": structs.asdict(self._runs.follow(sid))}

    def bench_run(self, sid: str, message: messages.BenchRun) -> Ack:
        status = self._runs.start(message.scenario, message.rounds, message.quiet_seconds)
        return {"status": structs.asdict(status)}

    def bench_stop(self, sid: str, message: messages.Message) -> Ack:
        return {"status": structs.asdict(self._runs.stop())}

    def _session(self, message: messages.OfSession) -> Session:
        """Return the session of a message, which must not belong to a lesson."""
        session = self._sessions.get(message.session)
        if session.in_lesson:
            raise refuse("refused", "run.of_lesson")
        return session

    def _model_of(self, run: OpenLog) -> str | None:
        """Return the name of a run's model. None (the first model) if the server has no such model; the rerun then
        reports the difference.
        """
        with run.reading() as log:
            name = log.header.model.name
        return name if self._models.knows(name) else None

    @staticmethod
    def _check_exist(name: str, chosen: list[int] | None, count: int) -> None:
        if chosen and max(chosen) >= count:
            raise AppError("bad_request", f"{name}: {max(chosen)} is not among 0..{count - 1}")

    def _normalized(self, text: str, model: ServedModel) -> str:
        """Return the text as the tokenizer normalizes it. Raises AppError if it is too long or not valid text."""
        try:
            size = len(text.encode("utf-8"))
        except UnicodeEncodeError:
            raise AppError("bad_request", "the text has a lone surrogate, which is half a character") from None
        if size > self._settings.max_prompt_bytes:
            limit = self._settings.max_prompt_bytes
            raise AppError("bad_request", f"the text may have at most {limit} bytes of UTF-8, not {size}")
        return model.normalize(text)


EVENTS: dict[str, Event] = {
    "create": Event(messages.Create, rights.owner, Events.create),
    "join": Event(messages.Join, rights.watcher, Events.join),
    "leave": Event(messages.OfSession, rights.anyone, Events.leave),
    "submit": Event(messages.Submit, rights.driver, Events.submit),
    "step": Event(messages.Step, rights.driver, Events.step),
    "prefill": Event(messages.Prefill, rights.driver, Events.prefill),
    "run": Event(messages.Play, rights.driver, Events.run),
    "pause": Event(messages.OfSession, rights.driver, Events.pause),
    "abort": Event(messages.Abort, rights.driver, Events.abort),
    "reset": Event(messages.OfSession, rights.driver, Events.reset),
    "configure": Event(messages.Configure, rights.driver, Events.configure),
    "focus": Event(messages.Focus, rights.driver, Events.focus),
    "recompute": Event(messages.Recompute, rights.driver, Events.recompute),
    "projection": Event(messages.Project, rights.driver, Events.projection),
    "record": Event(messages.Record, rights.driving_owner, Events.record),
    "record_stop": Event(messages.OfSession, rights.driver, Events.record_stop),
    "fork": Event(messages.Fork, rights.owner, Events.fork),
    "read": Event(messages.Read, rights.watcher, Events.read),
    "tokenize": Event(messages.Tokenize, rights.anyone, Events.tokenize),
    "bench_follow": Event(messages.Message, rights.owner, Events.bench_follow),
    "bench_run": Event(messages.BenchRun, rights.owner, Events.bench_run),
    "bench_stop": Event(messages.Message, rights.owner, Events.bench_stop),
}


def _begun(run: Run) -> answers.Begun:
    return {"epoch": run.epoch, "header": run.header}
