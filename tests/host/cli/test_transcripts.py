"""Session logs and messages of others are read whole, or refused by name; nothing runs in part."""

import json

import pytest

from toolstile_cli.call_reader import read_turns
from toolstile_cli.errors import UsageError
from toolstile_plugins.dialects import toolstile_dialects

ARGUMENTS = {"path": "a.txt"}
TEXT = json.dumps(ARGUMENTS)
TOOL_USE = {"type": "tool_use", "id": "t1", "name": "look", "input": ARGUMENTS}
FUNCTION_CALL = {"type": "function_call", "call_id": "t1", "name": "look", "arguments": TEXT}
CHAT_CALL = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": TEXT}}
CHAT_REPLY = {"choices": [{"message": {"role": "assistant", "tool_calls": [CHAT_CALL]}}]}
ASKED = {"role": "user", "content": "look"}
STREAM = [
    {"type": "message_start", "message": {"role": "assistant", "content": []}},
    {"type": "content_block_start", "index": 0, "content_block": {**TOOL_USE, "input": {}}},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": TEXT},
    },
    {"type": "content_block_stop", "index": 0},
    {"type": "message_stop"},
]


def read(document, *, lines):
    text = "\n".join(map(json.dumps, document)) if lines else json.dumps(document)
    dialects = {dialect.name: dialect for dialect in toolstile_dialects()}
    turns = read_turns(text, "log", lambda: dialects)
    return [call for turn in turns for call in turn.calls]


READ = {
    "a coding assistant, a message a line": [
        {"type": "summary", "summary": "Looking."},
        {"type": "user", "uuid": "1", "message": ASKED},
        {"type": "assistant", "uuid": "2", "message": {"role": "assistant", "content": [TOOL_USE]}},
        {
            "type": "user",
            "message": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x"}],
            },
            "toolUseResult": {"file": {"type": "tool_use", "name": "never", "input": {}}},
        },
    ],
    "a coding assistant, with the parts of its messages": [
        *({"type": "stream_event", "event": event} for event in STREAM),
        {"type": "assistant", "message": {"role": "assistant", "content": [TOOL_USE]}},
        {"type": "result", "subtype": "success"},
    ],
    "a coding assistant, an item a line": [
        {"type": "session_meta", "payload": {"id": "s"}},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": []}},
        {"type": "response_item", "payload": FUNCTION_CALL},
        {
            "type": "response_item",
            "payload": {"type": "function_call_output", "call_id": "t1", "output": "x"},
        },
        {"type": "event_msg", "payload": {"type": "token_count", "info": {"total": 1}}},
    ],
    "a coding assistant with a list of its own": {
        "sessionId": "s",
        "messages": [
            {"type": "user", "content": "look"},
            {
                "type": "gemini",
                "content": "",
                "toolCalls": [
                    {
                        "id": "t1",
                        "name": "look",
                        "args": ARGUMENTS,
                        "status": "success",
                        "result": [
                            {"functionResponse": {"id": "t1", "name": "look", "response": {}}}
                        ],
                    }
                ],
            },
        ],
    },
    "LangChain, as it stores messages": [
        {"type": "human", "data": {"content": "look"}},
        {
            "type": "ai",
            "data": {"tool_calls": [{"name": "look", "args": ARGUMENTS, "id": "t1"}]},
        },
        {"type": "tool", "data": {"content": "x", "tool_call_id": "t1", "type": "tool"}},
    ],
    "LangChain, as it dumps messages": [
        {"type": "human", "content": "look"},
        {
            "type": "ai",
            "content": [TOOL_USE],
            "additional_kwargs": {"tool_calls": [CHAT_CALL]},
            "tool_calls": [{"name": "look", "args": ARGUMENTS, "id": "t1", "type": "tool_call"}],
            "invalid_tool_calls": [],
        },
    ],
    "LangChain, as it serializes objects": [
        {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", "AIMessage"],
            "kwargs": {
                "type": "ai",
                "tool_calls": [
                    {"name": "look", "args": ARGUMENTS, "id": "t1", "type": "tool_call"}
                ],
            },
        }
    ],
    "pydantic-ai": [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "look"}]},
        {
            "kind": "response",
            "parts": [
                {
                    "part_kind": "builtin-tool-call",
                    "tool_name": "web_search",
                    "args": {},
                    "tool_call_id": "t0",
                },
                {
                    "part_kind": "tool-call",
                    "tool_name": "look",
                    "args": TEXT,
                    "tool_call_id": "t1",
                },
            ],
        },
        {
            "kind": "request",
            "parts": [
                {
                    "part_kind": "tool-return",
                    "tool_name": "look",
                    "content": "x",
                    "tool_call_id": "t1",
                }
            ],
        },
    ],
    "the AI SDK": [
        ASKED,
        {
            "role": "assistant",
            "content": [
                {
                    "type": "tool-call",
                    "toolCallId": "t1",
                    "toolName": "look",
                    "input": ARGUMENTS,
                }
            ],
        },
        {
            "role": "tool",
            "content": [{"type": "tool-result", "toolCallId": "t1", "toolName": "look"}],
        },
    ],
    "Bedrock": {
        "messages": [
            {"role": "user", "content": [{"text": "look"}]},
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "t1", "name": "look", "input": ARGUMENTS}}],
            },
        ]
    },
    "AutoGen": [
        {"type": "TextMessage", "source": "user", "content": "look"},
        {
            "type": "ToolCallRequestEvent",
            "content": [{"id": "t1", "name": "look", "arguments": TEXT}],
        },
    ],
    "Inspect": {
        "samples": [
            {
                "messages": [
                    {
                        "role": "assistant",
                        "content": "",
                        "tool_calls": [
                            {
                                "id": "t1",
                                "function": "look",
                                "arguments": ARGUMENTS,
                                "type": "function",
                            }
                        ],
                    }
                ]
            }
        ]
    },
    "a log of requests": [
        {"time": 1, "request": {"messages": [ASKED]}, "response": CHAT_REPLY},
        {"time": 2, "request": {"messages": [ASKED, CHAT_REPLY["choices"][0]["message"]]}},
    ],
    "a log of an agent's events": [
        {"author": "user", "content": {"role": "user", "parts": [{"text": "look"}]}},
        {
            "author": "agent",
            "content": {
                "role": "model",
                "parts": [{"functionCall": {"id": "t1", "name": "look", "args": ARGUMENTS}}],
            },
        },
    ],
    "a log of a server's messages": [
        {
            "direction": "in",
            "message": {
                "jsonrpc": "2.0",
                "id": "t1",
                "method": "tools/call",
                "params": {"name": "look", "arguments": ARGUMENTS},
            },
        },
        {"direction": "out", "message": {"jsonrpc": "2.0", "id": "t1", "result": {}}},
    ],
    "a coding assistant, streamed as lines of its own": [
        {"type": "message", "role": "user", "content": "look"},
        {"type": "tool_use", "tool_name": "look", "tool_id": "t1", "parameters": ARGUMENTS},
        {"type": "tool_result", "tool_id": "t1", "status": "success", "output": "x"},
    ],
    "a coding assistant that asks whether it may": [
        {"type": "assistant", "message": {"role": "assistant", "content": [TOOL_USE]}},
        {
            "type": "control_request",
            "request": {
                "subtype": "can_use_tool",
                "tool_name": "look",
                "input": ARGUMENTS,
                "tool_use_id": "t1",
            },
        },
    ],
    "AutoGen, with what came of the call": [
        {
            "type": "ToolCallRequestEvent",
            "content": [{"id": "t1", "name": "look", "arguments": TEXT}],
        },
        {
            "type": "ToolCallExecutionEvent",
            "content": [{"content": "x", "name": "look", "call_id": "t1"}],
        },
    ],
    "LangChain4j": [
        {"type": "USER", "contents": [{"type": "TEXT", "text": "look"}]},
        {
            "type": "AI",
            "toolExecutionRequests": [{"id": "t1", "name": "look", "arguments": TEXT}],
        },
    ],
    "LlamaIndex": [
        {
            "role": "assistant",
            "blocks": [
                {
                    "block_type": "tool_call",
                    "tool_call_id": "t1",
                    "tool_name": "look",
                    "tool_kwargs": ARGUMENTS,
                }
            ],
        }
    ],
    "a run that waits for the outputs of tools": {
        "object": "thread.run",
        "required_action": {
            "type": "submit_tool_outputs",
            "submit_tool_outputs": {"tool_calls": [CHAT_CALL]},
        },
    },
    "the results of a batch of chats": [
        {"id": "b", "custom_id": "1", "response": {"status_code": 200, "body": CHAT_REPLY}},
    ],
    "the results of a batch of messages": [
        {
            "custom_id": "1",
            "result": {
                "type": "succeeded",
                "message": {"role": "assistant", "content": [TOOL_USE]},
            },
        },
    ],
    "a stream, each event below its name": [
        {"event": event["type"], "data": event} for event in STREAM
    ],
}


@pytest.mark.parametrize("lines", [True, False], ids=["lines", "document"])
@pytest.mark.parametrize("source", READ)
def test_calls_are_read_once_with_their_arguments(source, lines):
    document = READ[source]
    if lines and isinstance(document, dict):
        pytest.skip("a document, not lines")
    (call,) = read(document, lines=lines)
    arguments = call.arguments
    assert (call.wire_id, call.name) == ("t1", "look")
    assert (json.loads(arguments) if isinstance(arguments, str) else arguments) == ARGUMENTS


OTHER = {**TOOL_USE, "id": "t2"}
SEVERAL = {
    "messages of two providers": [
        ASKED,
        CHAT_REPLY["choices"][0]["message"],
        {"role": "assistant", "content": [OTHER]},
    ],
    "messages of which a provider knows one": {
        "messages": [
            CHAT_REPLY["choices"][0]["message"],
            {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "t2", "name": "look", "input": ARGUMENTS}}],
            },
        ]
    },
    "a log whose last reply stands in no later request": [
        {"request": {"messages": [ASKED]}, "response": CHAT_REPLY},
        {
            "request": {"messages": [ASKED, CHAT_REPLY["choices"][0]["message"]]},
            "response": {
                "choices": [
                    {"message": {"role": "assistant", "tool_calls": [{**CHAT_CALL, "id": "t2"}]}}
                ]
            },
        },
    ],
}


@pytest.mark.parametrize("source", SEVERAL)
def test_no_part_of_a_conversation_runs_in_place_of_the_whole(source):
    assert [call.wire_id for call in read(SEVERAL[source], lines=False)] == ["t1", "t2"]


def test_a_call_that_somebody_else_than_the_model_wrote_is_not_run():
    messages = [{"role": "user", "content": [OTHER]}, {"role": "assistant", "content": [TOOL_USE]}]
    assert [call.wire_id for call in read({"messages": messages}, lines=False)] == ["t1"]


CUT_SHORT = {
    "Bedrock": {
        "output": {
            "message": {
                "role": "assistant",
                "content": [{"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}}],
            }
        },
        "stopReason": "max_tokens",
    },
    "LangChain": [
        {
            "type": "ai",
            "tool_calls": [{"name": "look", "args": {}, "id": "t1", "type": "tool_call"}],
            "response_metadata": {"finish_reason": "length"},
        }
    ],
}


@pytest.mark.parametrize("source", CUT_SHORT)
def test_a_call_of_a_reply_that_was_cut_short_is_not_run_without_its_arguments(source):
    (call,) = read(CUT_SHORT[source], lines=False)
    assert (call.wire_id, call.arguments) == ("t1", "{")


REFUSED = {
    "'tool-call'": [{"role": "assistant", "parts": [{"kind": "tool-call", "tool": "look"}]}],
    "'toolCallId'": [
        ASKED,
        {
            "role": "assistant",
            "content": "",
            "parts": [{"type": "tool-look", "toolCallId": "1", "input": {}}],
        },
    ],
    "'callID'": [
        {
            "role": "assistant",
            "parts": [{"type": "tool", "callID": "1", "tool": "look", "state": {}}],
        }
    ],
    "'toolCall'": [
        {"role": "assistant", "content": [{"type": "toolRequest", "toolCall": {"status": "x"}}]}
    ],
    "'custom_tool_call'": [
        {"payload": {"type": "custom_tool_call", "name": "patch", "call_id": "1"}},
    ],
    "'local_shell_call'": [
        {"type": "local_shell_call", "call_id": "1", "action": {"command": ["ls"]}}
    ],
    "'tool_call_chunks'": [
        {
            "type": "AIMessageChunk",
            "tool_call_chunks": [{"name": "look", "args": "", "id": "1", "index": 0}],
            "tool_calls": [{"name": "look", "args": {}, "id": "1"}],
        }
    ],
    "'toolInvocation'": [
        {"parts": [{"toolInvocation": {"state": "partial-call", "toolName": "look", "args": {}}}]}
    ],
    "'tool_calls'": {
        "messages": [
            ASKED,
            {"role": "assistant", "content": "", "tool_calls": json.dumps([CHAT_CALL])},
        ]
    },
    "holds calls in a form that no dialect reads: 'tool_calls'": {
        "messages": [
            {
                "role": "assistant",
                "tool_calls": [
                    CHAT_CALL,
                    {"id": "2", "type": "custom", "custom": {"name": "patch", "input": "x"}},
                ],
            }
        ]
    },
    "'ToolUse'": [
        {
            "Agent": {
                "content": [
                    {
                        "ToolUse": {
                            "id": "1",
                            "name": "look",
                            "input": {},
                            "is_input_complete": False,
                        }
                    }
                ]
            }
        },
    ],
    "a part of a stream's call, without": [
        {"type": "function.call.delta", "id": "f", "name": "look", "arguments": ""},
        {"type": "function.call.delta", "id": "f", "name": "look", "arguments": TEXT},
    ],
    "a part of a stream's call": [{"time": 1, "events": [STREAM[1]]}],
    "a part of a stream": [{"type": "x", "a": {"b": STREAM[2]}}],
}


@pytest.mark.parametrize("lines", [True, False], ids=["lines", "document"])
@pytest.mark.parametrize("named", REFUSED)
def test_calls_that_cannot_be_read_whole_are_refused_by_name(named, lines):
    lines = lines and isinstance(REFUSED[named], list)
    with pytest.raises(UsageError) as caught:
        read(REFUSED[named], lines=lines)
    (fault,) = caught.value.faults
    assert "holds calls in a form that no dialect reads" in fault
    assert named in fault


NOT_CONVERSATIONS = {
    "rows": [{"role": "admin", "user": "Ada"}, {"role": "user", "user": "Bob"}],
    "events": [{"type": "opened"}, {"type": "closed"}],
    "chat": [{"type": "message", "user": "U1", "text": "hi"}],
    "features": {"type": "FeatureCollection", "features": [{"type": "Feature"}]},
    "an election": {"candidates": ["Ada", "Bob"]},
    "an assembly": {"parts": [{"number": 7}]},
    "a remote procedure": {"jsonrpc": "1.0", "method": "add", "params": [1]},
    "a log in which nothing was called": [{"type": "user", "message": ASKED}],
}


@pytest.mark.parametrize("lines", [True, False], ids=["lines", "document"])
@pytest.mark.parametrize("what", NOT_CONVERSATIONS)
def test_what_is_not_a_conversation_is_not_run_as_an_empty_one(what, lines):
    document = NOT_CONVERSATIONS[what]
    lines = lines and isinstance(document, list)
    with pytest.raises(UsageError, match="not a conversation that a dialect knows"):
        read(document, lines=lines)


SAVED = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in STREAM)


def read_text(text):
    dialects = {dialect.name: dialect for dialect in toolstile_dialects()}
    turns = read_turns(text, "stream.txt", lambda: dialects)
    return [call for turn in turns for call in turn.calls]


@pytest.mark.parametrize("text", [SAVED, ": ping\r\n\r\n" + SAVED.replace("\n", "\r\n")])
def test_a_saved_event_stream_is_read(text):
    (call,) = read_text(text)
    assert (call.wire_id, call.name, call.arguments) == ("t1", "look", TEXT)


def test_the_end_of_a_stream_is_not_data():
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "Hi."}}]}
    assert read_text(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n") == []


def test_an_event_stream_that_broke_off_in_an_event_is_refused_with_its_line():
    with pytest.raises(UsageError, match=r"stream.txt, line 2: not JSON"):
        read_text(SAVED.replace("{", '{"', 1))


def test_an_event_stream_of_something_else_is_refused():
    with pytest.raises(UsageError, match="not a conversation that a dialect knows"):
        read_text('data: {"temperature": 7}\n')
