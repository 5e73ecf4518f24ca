"""Graphs of steps: State, Step, Router, Store, Graph, on the kernel that drives agents.

The names are imported when they are used. A graph needs no configuration:

    g = Graph("greeter")

    @g.step()
    async def greet(state):
        return {"output": f"Hello, {state['name']}!"}

    result = await g.run({"name": "World"})
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from loom_ia.access.graph import Graph
    from loom_ia.assembly.chat import chat_model
    from loom_ia.assembly.stores import MemoryStore, SQLiteStore
    from loom_ia.core.model.messages import Message
    from loom_ia.core.model.usage import Usage
    from loom_ia.core.ports.store import Store
    from loom_ia.core.ports.tools import Tool
    from loom_ia.graph.budget import StepBudget
    from loom_ia.graph.budgets import cost_budget, token_budget
    from loom_ia.graph.children import agent_step, handoff, subgraph
    from loom_ia.graph.codec import decode, encode
    from loom_ia.graph.combine import (
        DEFAULT_MERGE,
        add,
        append,
        apply_delta,
        by_id,
        maximum,
        merge_dict,
        minimum,
        overwrite,
        union,
    )
    from loom_ia.graph.compaction import Compaction
    from loom_ia.graph.comparing import diff_runs
    from loom_ia.graph.context import StepContext
    from loom_ia.graph.dispatch import dispatch
    from loom_ia.graph.errors import (
        AmbiguousAnswer,
        Blocked,
        BudgetExhausted,
        CheckpointFailed,
        ChildYielded,
        CorruptCheckpoint,
        DuplicateKey,
        DuplicateStep,
        ExpiredInterrupt,
        GraphChanged,
        HookAborted,
        InvalidAnswer,
        InvalidGraph,
        KeyNotFound,
        LoomError,
        MaxIterationsExceeded,
        MergeConflict,
        MergeError,
        ModelError,
        NestedTransaction,
        NonDeterministicStep,
        NotResumable,
        NotSerializable,
        PatternError,
        ReservedKey,
        RouteError,
        RunError,
        RunExists,
        RunLocked,
        RunNotFound,
        RunTimeout,
        StepFailed,
        StepNotFound,
        StoreError,
        StreamInterrupted,
        UnknownEffect,
        UnknownInterrupt,
        UnknownKey,
    )
    from loom_ia.graph.folder import AgentFolder, load_folder
    from loom_ia.graph.guards import ask_human, guard
    from loom_ia.graph.models import ChatModel, ChatRequest, Reply, ReplyChunk
    from loom_ia.graph.permissions import permissions
    from loom_ia.graph.prompt import Identity, Skill, assemble_prompt, match_skills
    from loom_ia.graph.routers import always, branch, branch_by, condition, end, fan_out
    from loom_ia.graph.sessions import append_session, load_session
    from loom_ia.graph.shown import fold
    from loom_ia.graph.tool_call import ToolCall, ToolResult
    from loom_ia.graph.tool_loop import tool_loop
    from loom_ia.graph.tool_step import tool_step
    from loom_ia.graph.tools import ToolHook
    from loom_ia.graph.toolset import Toolset
    from loom_ia.graph.topology import Edge, StepInfo, Topology
    from loom_ia.graph.types import (
        DELETE,
        END,
        MISSING,
        Approver,
        Ask,
        Cache,
        CheckpointInfo,
        Delta,
        Durability,
        Goto,
        GraphEvent,
        Hook,
        Hooks,
        Interrupt,
        Interrupted,
        Merge,
        Refused,
        Retry,
        Router,
        RunFinished,
        RunInfo,
        RunResult,
        Send,
        StateChanged,
        Step,
        StepCompleted,
        StopReason,
        StreamItem,
        Target,
        Token,
    )
    from loom_ia.graph.validation import Problem

__all__ = [
    "DEFAULT_MERGE",
    "DELETE",
    "END",
    "MISSING",
    "AgentFolder",
    "AmbiguousAnswer",
    "Approver",
    "Ask",
    "Blocked",
    "BudgetExhausted",
    "Cache",
    "ChatModel",
    "ChatRequest",
    "CheckpointFailed",
    "CheckpointInfo",
    "ChildYielded",
    "Compaction",
    "CorruptCheckpoint",
    "Delta",
    "DuplicateKey",
    "DuplicateStep",
    "Durability",
    "Edge",
    "ExpiredInterrupt",
    "Goto",
    "Graph",
    "GraphChanged",
    "GraphEvent",
    "Hook",
    "HookAborted",
    "Hooks",
    "Identity",
    "Interrupt",
    "Interrupted",
    "InvalidAnswer",
    "InvalidGraph",
    "KeyNotFound",
    "LoomError",
    "MaxIterationsExceeded",
    "MemoryStore",
    "Merge",
    "MergeConflict",
    "MergeError",
    "Message",
    "ModelError",
    "NestedTransaction",
    "NonDeterministicStep",
    "NotResumable",
    "NotSerializable",
    "PatternError",
    "Problem",
    "Refused",
    "Reply",
    "ReplyChunk",
    "ReservedKey",
    "Retry",
    "RouteError",
    "Router",
    "RunError",
    "RunExists",
    "RunFinished",
    "RunInfo",
    "RunLocked",
    "RunNotFound",
    "RunResult",
    "RunTimeout",
    "SQLiteStore",
    "Send",
    "Skill",
    "StateChanged",
    "Step",
    "StepBudget",
    "StepCompleted",
    "StepContext",
    "StepFailed",
    "StepInfo",
    "StepNotFound",
    "StopReason",
    "Store",
    "StoreError",
    "StreamInterrupted",
    "StreamItem",
    "Target",
    "Token",
    "Tool",
    "ToolCall",
    "ToolHook",
    "ToolResult",
    "Toolset",
    "Topology",
    "UnknownEffect",
    "UnknownInterrupt",
    "UnknownKey",
    "Usage",
    "add",
    "agent_step",
    "always",
    "append",
    "append_session",
    "apply_delta",
    "ask_human",
    "assemble_prompt",
    "branch",
    "branch_by",
    "by_id",
    "chat_model",
    "condition",
    "cost_budget",
    "decode",
    "diff_runs",
    "dispatch",
    "encode",
    "end",
    "fan_out",
    "fold",
    "guard",
    "handoff",
    "load_folder",
    "load_session",
    "match_skills",
    "maximum",
    "merge_dict",
    "minimum",
    "overwrite",
    "permissions",
    "subgraph",
    "token_budget",
    "tool_loop",
    "tool_step",
    "union",
]

_HOMES: Final = {
    "AgentFolder": "graph.folder",
    "AmbiguousAnswer": "graph.errors",
    "Approver": "graph.types",
    "Ask": "graph.types",
    "Blocked": "graph.errors",
    "BudgetExhausted": "graph.errors",
    "Cache": "graph.types",
    "ChatModel": "graph.models",
    "ChatRequest": "graph.models",
    "CheckpointFailed": "graph.errors",
    "CheckpointInfo": "graph.types",
    "ChildYielded": "graph.errors",
    "Compaction": "graph.compaction",
    "CorruptCheckpoint": "graph.errors",
    "DEFAULT_MERGE": "graph.combine",
    "DELETE": "graph.types",
    "Delta": "graph.types",
    "DuplicateKey": "graph.errors",
    "DuplicateStep": "graph.errors",
    "Durability": "graph.types",
    "END": "graph.types",
    "Edge": "graph.topology",
    "ExpiredInterrupt": "graph.errors",
    "Goto": "graph.types",
    "Graph": "access.graph",
    "GraphChanged": "graph.errors",
    "GraphEvent": "graph.types",
    "Hook": "graph.types",
    "HookAborted": "graph.errors",
    "Hooks": "graph.types",
    "Identity": "graph.prompt",
    "Interrupt": "graph.types",
    "Interrupted": "graph.types",
    "InvalidAnswer": "graph.errors",
    "InvalidGraph": "graph.errors",
    "KeyNotFound": "graph.errors",
    "LoomError": "graph.errors",
    "MISSING": "graph.types",
    "MaxIterationsExceeded": "graph.errors",
    "MemoryStore": "assembly.stores",
    "Merge": "graph.types",
    "MergeConflict": "graph.errors",
    "MergeError": "graph.errors",
    "Message": "core.model.messages",
    "ModelError": "graph.errors",
    "NestedTransaction": "graph.errors",
    "NonDeterministicStep": "graph.errors",
    "NotResumable": "graph.errors",
    "NotSerializable": "graph.errors",
    "PatternError": "graph.errors",
    "Problem": "graph.validation",
    "Refused": "graph.types",
    "Reply": "graph.models",
    "ReplyChunk": "graph.models",
    "ReservedKey": "graph.errors",
    "Retry": "graph.types",
    "RouteError": "graph.errors",
    "Router": "graph.types",
    "RunError": "graph.errors",
    "RunExists": "graph.errors",
    "RunFinished": "graph.types",
    "RunInfo": "graph.types",
    "RunLocked": "graph.errors",
    "RunNotFound": "graph.errors",
    "RunResult": "graph.types",
    "RunTimeout": "graph.errors",
    "SQLiteStore": "assembly.stores",
    "Send": "graph.types",
    "Skill": "graph.prompt",
    "StateChanged": "graph.types",
    "Step": "graph.types",
    "StepBudget": "graph.budget",
    "StepCompleted": "graph.types",
    "StepContext": "graph.context",
    "StepFailed": "graph.errors",
    "StepInfo": "graph.topology",
    "StepNotFound": "graph.errors",
    "StopReason": "graph.types",
    "Store": "core.ports.store",
    "StoreError": "graph.errors",
    "StreamInterrupted": "graph.errors",
    "StreamItem": "graph.types",
    "Target": "graph.types",
    "Token": "graph.types",
    "Tool": "core.ports.tools",
    "ToolCall": "graph.tool_call",
    "ToolHook": "graph.tools",
    "ToolResult": "graph.tool_call",
    "Toolset": "graph.toolset",
    "Topology": "graph.topology",
    "UnknownEffect": "graph.errors",
    "UnknownInterrupt": "graph.errors",
    "UnknownKey": "graph.errors",
    "Usage": "core.model.usage",
    "add": "graph.combine",
    "agent_step": "graph.children",
    "always": "graph.routers",
    "append": "graph.combine",
    "append_session": "graph.sessions",
    "apply_delta": "graph.combine",
    "ask_human": "graph.guards",
    "assemble_prompt": "graph.prompt",
    "branch": "graph.routers",
    "branch_by": "graph.routers",
    "by_id": "graph.combine",
    "chat_model": "assembly.chat",
    "condition": "graph.routers",
    "cost_budget": "graph.budgets",
    "decode": "graph.codec",
    "diff_runs": "graph.comparing",
    "dispatch": "graph.dispatch",
    "encode": "graph.codec",
    "end": "graph.routers",
    "fan_out": "graph.routers",
    "fold": "graph.shown",
    "guard": "graph.guards",
    "handoff": "graph.children",
    "load_folder": "graph.folder",
    "load_session": "graph.sessions",
    "match_skills": "graph.prompt",
    "maximum": "graph.combine",
    "merge_dict": "graph.combine",
    "minimum": "graph.combine",
    "overwrite": "graph.combine",
    "permissions": "graph.permissions",
    "subgraph": "graph.children",
    "token_budget": "graph.budgets",
    "tool_loop": "graph.tool_loop",
    "tool_step": "graph.tool_step",
    "union": "graph.combine",
}


class _Package(ModuleType):
    """A public name that a module bears too, such as `tool_loop`, is never that module."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"loom_ia.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
