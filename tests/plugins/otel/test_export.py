"""The command line exports over real OTLP, to a file, to the console, or not at all."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
DESK = Path(__file__).parent / "desk.py"
SECRET = "hunter2-4711"
KIND_INTERNAL, STATUS_ERROR = 1, 2


def toolstile(
    *arguments: str, given: str | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TOOLSTILE_"))}
    return subprocess.run(
        [sys.executable, "-m", "toolstile", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**environment, **variables},
    )


def run(
    *options: str, calls: list[dict[str, Any]], **variables: str
) -> subprocess.CompletedProcess[str]:
    lines = "\n".join(json.dumps(each) for each in calls)
    return toolstile(
        "run", "-", "--json", "--plugin", str(DESK), *options, given=lines, **variables
    )


def test_spans_arrive_over_otlp_as_the_conventions_say(receiver: Any) -> None:
    done = run(
        "--trace",
        "otlp",
        calls=[{"id": "call_1", "name": "inside", "arguments": {"word": "four"}}],
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
        OTEL_EXPORTER_OTLP_HEADERS="api-key=k3y",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test",
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true",
    )
    assert (done.returncode, done.stderr) == (0, "")

    span = receiver.named("execute_tool inside")
    assert span.kind == KIND_INTERNAL
    assert span.status.code == 0
    assert len(span.trace_id), len(span.span_id) == (16, 8)
    assert span.parent_span_id == b""
    attributes = receiver.as_dict(span.attributes)
    session = attributes.pop("toolstile.session.id")
    assert attributes.pop("gen_ai.conversation.id") == session
    assert attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "inside",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Trace some work.",
        "gen_ai.tool.call.id": "call_1",
        "toolstile.call.id": "call_1",
        "gen_ai.tool.call.arguments": {"word": "four"},
        "gen_ai.tool.call.result": 4,
        "toolstile.outcome": "succeeded",
    }
    resource = receiver.as_dict(receiver.traces[0].resource_spans[0].resource.attributes)
    assert resource["service.name"] == "toolstile"
    assert resource["deployment.environment.name"] == "test"
    assert receiver.headers[0]["api-key"] == "k3y"


def test_durations_arrive_over_otlp_as_the_conventions_say(receiver: Any) -> None:
    run(
        "--trace",
        "otlp",
        calls=[{"name": "inside", "arguments": {"word": "a"}}, {"name": "inside"}],
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
    )
    points = receiver.points["gen_ai.execute_tool.duration"]
    found = {receiver.as_dict(each.attributes).get("error.type"): each for each in points}
    assert set(found) == {None, "invalid"}
    for point in points:
        assert point.count == 1
        assert list(point.explicit_bounds) == [0.01 * 2**power for power in range(14)]
    assert receiver.as_dict(found[None].attributes) == {
        "gen_ai.tool.name": "inside",
        "gen_ai.tool.type": "function",
    }
    first = receiver.spans[-2]
    taken = (first.end_time_unix_nano - first.start_time_unix_nano) / 1_000_000_000
    assert found[None].sum == pytest.approx(taken)


def test_what_an_isolated_handler_traces_belongs_to_its_call(receiver: Any) -> None:
    done = run(
        "--trace",
        "otlp",
        calls=[{"name": "apart", "arguments": {"word": "four"}}],
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
    )
    assert done.returncode == 0, done.stderr
    outer, inner = receiver.named("execute_tool apart"), receiver.named("execute_tool inside")
    assert receiver.named("work apart").parent_span_id == outer.span_id
    assert inner.parent_span_id == outer.span_id
    assert receiver.named("work inside").parent_span_id == inner.span_id
    assert len({span.trace_id for span in receiver.spans}) == 1


@pytest.mark.long
def test_what_an_isolated_handler_logs_carries_the_ids(receiver: Any) -> None:
    done = run(
        "--trace",
        "otlp",
        calls=[{"id": "call_9", "name": "ids"}],
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
    )
    span = receiver.named("execute_tool ids")
    assert json.loads(done.stdout)["data"] == [span.trace_id.hex(), span.span_id.hex(), "call_9"]


@pytest.mark.long
def test_a_denied_call_is_a_span_that_did_not_run(receiver: Any) -> None:
    run(
        "--trace",
        "otlp",
        calls=[{"name": "sign_in", "arguments": {"name": "eve", "password": SECRET}}],
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
    )
    span = receiver.named("execute_tool sign_in")
    assert (span.status.code, span.status.message) == (STATUS_ERROR, "Eve has ***.")
    attributes = receiver.as_dict(span.attributes)
    assert attributes["toolstile.executed"] is False
    assert attributes["toolstile.policy.reasons"] == ["Eve has ***."]


@pytest.mark.parametrize("where", ["otlp", "file", "console"])
def test_no_secret_leaves_in_any_byte(receiver: Any, where: str, tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    names = ("ada", "mallory", "eve")
    done = run(
        "-vv",
        "--trace",
        str(file) if where == "file" else where,
        calls=[
            {"name": "sign_in", "arguments": {"name": name, "password": SECRET}} for name in names
        ],
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true",
        TOOLSTILE_PLUGINS__OTEL__STAGES="true",
    )
    exported = b"".join(receiver.bodies) + (file.read_bytes() if file.exists() else b"")
    assert b"Mallory" in exported or "span: 'execute_tool sign_in' error" in done.stderr
    assert SECRET.encode() not in exported
    assert SECRET not in done.stderr
    # The model reads what the handler itself has put into its value.
    assert done.stdout.count(SECRET) == 1


def test_a_file_takes_a_line_for_each_span_after_what_it_had(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    for _ in range(2):
        assert run("--trace", str(file), calls=[{"name": "apart", "arguments": {"word": "a"}}])
    spans = [json.loads(line) for line in file.read_text().splitlines()]
    assert [span["name"] for span in spans] == 2 * [
        "work apart",
        "work inside",
        "execute_tool inside",
        "execute_tool apart",
    ]


@pytest.mark.long
def test_the_console_is_standard_error(tmp_path: Path) -> None:
    done = toolstile(
        *("call", "inside", '{"word": "four"}', "--trace", "console", "--plugin", str(DESK))
    )
    assert done.stdout == "4\n"
    inner, outer = done.stderr.splitlines()
    assert inner.startswith("span: 'work inside' unset ")
    assert outer.startswith("span: 'execute_tool inside' succeeded ")


@pytest.mark.parametrize(
    "variables",
    [
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "{}"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "{}/v1/traces"},
        {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "{}/v1/traces"},
    ],
)
def test_the_environment_alone_configures_it(receiver: Any, variables: dict[str, str]) -> None:
    filled = {name: value.format(receiver.endpoint) for name, value in variables.items()}
    run(calls=[{"name": "inside", "arguments": {"word": "a"}}], **filled)
    assert receiver.named("execute_tool inside")


@pytest.mark.long
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
    ],
)
def test_nothing_is_exported_where_the_environment_says_so(
    receiver: Any, variables: dict[str, str]
) -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint} if variables else {}
    run(calls=[{"name": "inside", "arguments": {"word": "a"}}], **endpoint, **variables)
    assert receiver.bodies == []


@pytest.mark.long
def test_the_sampler_of_the_environment_holds(receiver: Any) -> None:
    run(
        calls=[{"name": "inside", "arguments": {"word": "a"}}],
        OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
        OTEL_TRACES_SAMPLER="always_off",
    )
    assert receiver.spans == []
    assert receiver.points["gen_ai.execute_tool.duration"]


@pytest.mark.parametrize("kept", [False, True], ids=["a new one", "one that is continued"])
def test_a_record_is_no_file_for_spans(tmp_path: Path, kept: bool) -> None:
    file = tmp_path / "calls.jsonl"
    calls = [{"name": "inside", "arguments": {"word": "a"}}]
    if kept:
        run("--record", str(file), calls=calls)
    before = file.read_bytes() if kept else b""
    done = run("--record", str(file), "--trace", str(file), calls=calls)
    assert (done.returncode, done.stdout) == (2, "")
    assert "calls.jsonl" in done.stderr
    assert "another file" in done.stderr
    assert (file.read_bytes() if file.exists() else b"").startswith(before)
    assert b"execute_tool" not in (file.read_bytes() if file.exists() else b"")


@pytest.mark.long
def test_a_file_that_cannot_be_written_is_named() -> None:
    done = run("--trace", "/nowhere/spans.jsonl", calls=[{"name": "inside"}])
    assert done.returncode == 2
    assert "'/nowhere/spans.jsonl'" in done.stderr
    assert "console or otlp" in done.stderr


@pytest.mark.long
def test_an_environment_meant_for_others_keeps_nothing_from_running() -> None:
    calls = [{"name": "inside", "arguments": {"word": "four"}}]
    done = run("-v", calls=calls, OTEL_TRACES_EXPORTER="zipkin-of-old")
    assert done.returncode == 0
    assert "the exporter 'zipkin-of-old' for traces is missing" in done.stderr


CHECK = """
import sys
from toolstile import Host, ToolCall
import toolstile_cli.examples.orders as orders
with Host(plugins=[orders]) as host, host.executor() as tools:
    assert {report.name: report.status for report in host.plugins.reports}["otel"] == "loaded"
    assert tools.dispatch(ToolCall("list_orders")).success
    hooks = [host.plugins.implementations(f"toolstile_{name}") for name in ("trace", "telemetry")]
assert hooks == [(), ()], hooks
print(*sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry"))
"""


def test_without_a_provider_nothing_is_imported_and_no_hook_is_called() -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "TOOLSTILE_"))}
    done = subprocess.run(
        [sys.executable, "-c", CHECK],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
    )
    assert (done.stdout, done.stderr) == ("\n", "")


APPLICATION = """
import sys
from opentelemetry import trace, metrics
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda s: s.name)))
trace.set_tracer_provider(provider)
from toolstile import Host, ToolCall
import toolstile_cli.examples.orders as orders
with Host(plugins=[orders]) as host, host.executor() as tools:
    tools.dispatch(ToolCall("list_orders"))
with trace.get_tracer("app").start_as_current_span("still open"):
    pass
"""


@pytest.mark.long
def test_an_applications_own_provider_is_used_and_left_open() -> None:
    done = subprocess.run(
        [sys.executable, "-c", APPLICATION],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("execute_tool list_ordersstill open", "")


@pytest.mark.long
def test_spans_that_nobody_takes_are_counted_and_not_waited_for_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = run(
        "--trace",
        "otlp",
        calls=[{"name": "inside", "arguments": {"word": "four"}}],
        OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
        OTEL_EXPORTER_OTLP_TIMEOUT="0.5",
    )
    assert done.returncode == 0
    assert done.stderr.startswith("toolstile: warning: 2 spans could not be exported.")
    assert len(done.stderr.splitlines()) == 1
