"""Discrete-event simulation of a run: requests, instances, links and a clock, by SimPy.

    arrivals ─► dispatch ─► inbox of an instance ─► its steps ─► tokens
                   ▲                                   │ a prompt is computed
                   └────── offer ◄─────────────────────┘   link ─► the instance that decodes

The engine's code does the scheduling, caching, routing and logging; a `StepCost` replaces the model. Instances either
run in parallel, each on its own machine, or are the concurrent batches of one pipeline, each with its own scheduler and
a part of the blocks (like vLLM's former virtual engines): a step passes the stages in order, one step per stage at a
time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import simpy

from engine.cluster.dispatch import Dispatch
from engine.cluster.inflight import InflightRequest
from engine.cluster.one_log import OneLog
from engine.cluster.router import RejectedError, Router
from engine.config import EngineConfig, SamplingParams
from engine.requests.request_spec import RequestSpec
from engine.setup.id_namespace import SINGLE, IdNamespace
from engine.simulate.cost import StepCost
from engine.simulate.drawn import RandomTokens, Tokens
from engine.simulate.header import simulated_header
from engine.simulate.instance import SimulatedInstance
from engine.simulate.outcome import LinkSpeed, Outcome, ServedRequest, Wanted
from engine.simulate.resources import Network, pipelines
from engine.simulate.transfer import Offered, Pull, SimulatedConnector
from engine.simulate.without_model import resolve_without_model
from engine.trace.log import TraceWriter
from engine.trace.records import (
    InstanceRole,
    ModelFacts,
    Simulated,
    StepRecord,
)

Events = Generator[simpy.Event, object, None]


class Simulation:
    """Simulated run, for a single use.

    Args:
        facts: facts of the model.
        config: settings of the engine or of the cluster.
        cost: cost of a step, or a function from role to cost.
        settings: settings by role that replace `config`.
        link: speed of the links between nodes; None: transfers are instant.
        nodes: node of each instance; transfers within a node are instant. None: one node per instance.
        stages: number of pipeline stages by role; that many consecutive instances share a pipeline. None: 1.
        tokens: source of sampled tokens; None: pseudorandom.
        log_path: path of the log; None: a temporary file.
        keep_log: whether to write a log. Several instances always write one, because routing reads it.
        watch: called with each record, even without a log.

    Raises:
        ConfigError: the settings are invalid for the model.
    """

    def __init__(
        self,
        facts: ModelFacts,
        config: EngineConfig,
        cost: Callable[[InstanceRole], StepCost] | StepCost,
        *,
        settings: Mapping[InstanceRole, EngineConfig] | None = None,
        link: LinkSpeed | None = None,
        nodes: Sequence[int] | None = None,
        stages: Mapping[InstanceRole, int] | None = None,
        seed: int = 0,
        tokens: Tokens | None = None,
        keep_log: bool = True,
        log_path: Path | None = None,
        watch: Callable[[StepRecord], None] | None = None,
    ) -> None:
        self._env = simpy.Environment()
        self._tokens = tokens or RandomTokens(facts.vocab_size, seed)
        self._watch = watch
        self._costs = cost if callable(cost) else lambda role: cost
        roles: list[InstanceRole] = list(config.roles) if config.num_instances else ["mixed"]
        resolved = resolve_without_model(config, facts)
        self._resolved = {role: resolve_without_model((settings or {}).get(role, config), facts) for role in set(roles)}
        self._is_single = not config.num_instances
        is_recorded = watch is not None or keep_log
        self.instances = [self._instance(i, roles, facts, is_recorded) for i in range(len(roles))]
        self._inboxes: list[list[tuple[RequestSpec, Offered | None]]] = [[] for _ in roles]
        self._pending_calls: list[list[Callable[[], None]]] = [[] for _ in roles]  # calls to make before the next step
        self._idle: list[simpy.Event | None] = [None] * len(roles)
        self._network = Network(self._env, link, list(range(len(roles))) if nodes is None else list(nodes))
        self._stages = pipelines(self._env, roles, stages or {})
        self._busy = [0.0] * len(roles)
        self._served: list[ServedRequest] = []
        self._of_request: dict[str, int] = {}
        self._done: list[simpy.Event] = []
        source = "; ".join(dict.fromkeys(self._costs(role).source for role in roles))
        header = simulated_header(facts, resolved, self.instances[0].block_groups, Simulated(cost=source, seed=seed))
        self._one_log: OneLog | None = None
        self.log: TraceWriter | None = None
        if not self._is_single:
            self._dispatch = Dispatch(
                Router(config.routing_policy, self.instances, ttft_slo=config.ttft_slo), self.instances
            )
            self._one_log = OneLog(header, self.instances, log_path, private=False)
            self.log = self._one_log.writer
        elif keep_log:
            self.log = TraceWriter(header, log_path)

    def run(self, wanted: Sequence[Wanted]) -> Outcome:
        """Simulate all requests, from the first arrival to the last token.

        Raises:
            ValueError: a request does not fit any instance.
        """
        env = self._env
        self._served = [ServedRequest() for _ in wanted]
        self._done = [env.event() for _ in wanted]
        env.process(self._arrivals(wanted))
        for index, one in enumerate(wanted):
            if one.after is not None:
                env.process(self._turn(index, one))
        for index in range(len(self.instances)):
            env.process(self._serve(index))
        for done in self._done:
            env.run(until=done)
        soon = max(env.now + 1e-9, math.nextafter(env.now, math.inf))  # 1 ns may be below the float precision
        env.run(until=soon)  # process pending messages between instances
        last = max((served.tokens[-1] for served in self._served if served.tokens), default=0.0)
        return Outcome(
            seconds=last,
            requests=self._served,
            num_steps=sum(one.num_steps for one in self.instances),
            busy_seconds=self._busy,
            moved_bytes=self._network.moved_bytes,
            num_preemptions=sum(one.num_preemptions for one in self.instances),
            num_queried_tokens=sum(one.num_queried_tokens for one in self.instances),
            num_hit_tokens=sum(one.num_hit_tokens for one in self.instances),
        )

    def close(self) -> None:
        if self.log is not None:
            self.log.close()

    # Requests

    def _arrivals(self, wanted: Sequence[Wanted]) -> Events:
        order = sorted((i for i, one in enumerate(wanted) if one.after is None), key=lambda i: (wanted[i].at, i))
        for index in order:
            if wanted[index].at > self._env.now:
                yield self._env.timeout(wanted[index].at - self._env.now)
            self._submit(index, wanted[index], [], wanted[index].at)

    def _turn(self, index: int, one: Wanted) -> Events:
        """Submit a further turn after the previous one has ended."""
        assert one.after is not None
        yield self._done[one.after]
        if (due := max(one.at, self._env.now + one.think)) > self._env.now:
            yield self._env.timeout(due - self._env.now)
        before = self._served[one.after]
        self._submit(index, one, [] if one.is_whole else [*before.prompt, *before.token_ids], self._env.now)

    def _submit(self, index: int, one: Wanted, earlier: list[int], arrived: float) -> None:
        served, request_id = self._served[index], f"request-{index}"
        served.arrived, served.prompt = arrived, [*earlier, *one.prompt]
        self._of_request[request_id] = index
        spec = RequestSpec(served.prompt, SamplingParams(max_tokens=one.output_tokens), request_id)
        if self._is_single:
            self._send(0, spec, None)
            return
        request = InflightRequest(spec)
        try:
            self._dispatch.add([request])
        except RejectedError:
            self._done[index].succeed()
            return
        self._send(request.instance, request.sent_spec, None)

    def _send(self, instance: int, spec: RequestSpec, offered: Offered | None) -> None:
        self._inboxes[instance].append((spec, offered))
        self._wake(instance)

    # Instances

    def _wake(self, instance: int) -> None:
        idle, self._idle[instance] = self._idle[instance], None
        if idle is not None:
            idle.succeed()

    def _serve(self, index: int) -> Events:
        """Run an instance, which accepts arrivals between steps and waits while it is idle."""
        env, one = self._env, self.instances[index]
        was_idle = True
        while True:
            self._process_inbox(index)
            if not one.scheduler.can_step:
                was_idle = True
                idle = self._idle[index] = env.event()
                yield idle
                continue
            stages = self._stages[index]
            with stages[0].request() if stages else nullcontext() as turn:
                if turn is not None:
                    yield turn
                    self._process_inbox(index)
                began = env.now
                seconds = one.begin_step(was_idle) / max(1, len(stages))
                was_idle = False
                if seconds:
                    yield env.timeout(seconds)
            for stage in stages[1:]:
                with stage.request() as turn:
                    yield turn
                    yield env.timeout(seconds)
            self._busy[index] += env.now - began
            now, of_request = env.now, self._of_request
            for sequence in one.end_step(now, now - began):
                number = of_request.get(sequence.request_id)
                if number is None:
                    continue  # sampled on the prefill instance, and again on the decode instance
                served = self._served[number]
                served.tokens.append(now)
                served.token_ids.append(sequence.token_ids[-1])
                if sequence.status == "finished":
                    self._done[number].succeed()
            if one.connector is not None:
                self._offer(one.connector)

    def _process_inbox(self, index: int) -> None:
        one = self.instances[index]
        calls, self._pending_calls[index] = self._pending_calls[index], []
        for call in calls:
            call()
        inbox, self._inboxes[index] = self._inboxes[index], []
        if inbox:
            for _, offered in inbox:
                if offered is not None and one.connector is not None:
                    one.connector.expect(offered)
            one.submit([spec for spec, _ in inbox], self._env.now)

    # Between instances

    def _offer(self, connector: SimulatedConnector) -> None:
        offers, connector.offers = connector.offers, []
        for offered in offers:
            request = self._dispatch.request_of(offered.transfer)
            assert request is not None, "no request is aborted in a simulation"
            self._dispatch.route_decode(request)
            self._served[self._of_request[request.request_id]].prefilled = self._env.now
            spec = request.sent_spec._replace(transfer=offered.transfer, kv_role="kv_consumer")
            self._send(request.instance, spec, offered)

    def _move(self, receiver: int, pull: Pull) -> Events:
        facts = yield from self._network.move(receiver, pull)

        def arrived() -> None:
            self.instances[receiver].arrive(pull.seq_id, facts, self._env.now)
            self._release_offer(pull)

        self._pending_calls[receiver].append(arrived)
        self._wake(receiver)

    def _release_offer(self, pull: Pull) -> None:
        """Let the sender free the offered blocks, which were received or are not needed."""
        held, sender = pull.offered, pull.offered.instance

        def sent() -> None:
            self.instances[sender].sent(held.seq_id, pull.wanted, pull.num_bytes, self._env.now)

        self._pending_calls[sender].append(sent)
        self._wake(sender)

    def _instance(
        self, index: int, roles: Sequence[InstanceRole], facts: ModelFacts, is_recorded: bool
    ) -> SimulatedInstance:
        role, name = roles[index], f"{roles[index]}-{roles[:index].count(roles[index])}"
        resolved, before = self._resolved[role], [self._resolved[one] for one in roles[:index]]
        if self._is_single:
            place, connector = SINGLE, None
        else:
            first_block = sum(group.num_blocks for one in before for group in one.groups)
            first_swap = sum(one.swap_space * len(one.groups) for one in before)
            place = IdNamespace(first_block, first_swap, index, len(roles))
            connector = SimulatedConnector(
                index, lambda pull: self._begin_move(index, pull), lambda pull: self._release_offer(pull)
            )

        return SimulatedInstance(
            name,
            role,
            facts,
            resolved,
            self._costs(role),
            self._tokens,
            place=place,
            records=(lambda record: self._take(index, record)) if is_recorded or not self._is_single else None,
            connector=connector,
        )

    def _begin_move(self, receiver: int, pull: Pull) -> None:
        self._env.process(self._move(receiver, pull))

    def _take(self, index: int, record: StepRecord) -> None:
        if self._watch is not None:
            self._watch(record)
        if self._one_log is not None:
            self._one_log.take(index, record, None)
            self._dispatch.note(index, record)
        elif self.log is not None:
            self.log.append(record, None)
