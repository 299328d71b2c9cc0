"""Writes what pages say between ``<!-- generate NAME … -->`` and ``<!-- end -->``: it is read off the code.

In: the Markdown files beside this one, and the package. Out: the same files, with these parts as the code has
them now; all else is left alone. ``make docs`` runs it, and a test says when that was forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any

import typer
from prometheus_client.parser import text_string_to_metric_families

from isthmus import errors
from isthmus.cli import app
from isthmus.cli.lazy import AS_IT_IS, LazyCommand, filled
from isthmus.config.judgement.keys import Key, all_keys
from isthmus.errors import SoftFailure
from isthmus.events import __main__ as events
from isthmus.telemetry.held import HeldMetrics, HeldTransactions
from isthmus.telemetry.metrics import RouterMetrics
from isthmus.telemetry.parts import AddressTraffic, PartMetrics, PartReport

DOCS = Path(__file__).parent
_PART = re.compile(r"(<!-- generate (\S+)((?: \S+)*) -->\n).*?(<!-- end -->)", re.DOTALL)


def pages() -> dict[Path, str]:
    """Every page that is made of the code, in parts or as a whole, as it should be."""
    texts = {page: page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md"))}
    partly = {page: generated(text) for page, text in texts.items() if _PART.search(text)}
    return {**partly, DOCS / "reference" / "events.md": events.page()}


def generated(text: str) -> str:
    """A page with its generated parts made anew."""
    return _PART.sub(lambda part: f"{part[1]}\n{MAKERS[part[2]](part[3].split())}\n\n{part[4]}", text)


def table(header: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *rows)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]])


# --- configuration --------------------------------------------------------------------------------------


def keys(prefixes: Sequence[str]) -> str:
    """The keys that begin so, except those that a longer prefix on the page takes."""
    page = (DOCS / "configuration.md").read_text(encoding="utf-8")
    taken = [key for key in all_keys() if _home(key, page) in prefixes]
    rows = ((f"`{key.name}`", _default(key), key.meaning) for key in taken)
    return table(("key", "default", "meaning"), rows)


def _home(key: Key, page: str) -> str:
    prefixes: list[str] = re.findall(
        r"(?<=[ ])[a-z.]+\.(?=[ ])", "".join(re.findall("<!-- generate keys.*", page))
    )
    return max((prefix for prefix in prefixes if key.name.startswith(prefix)), key=len, default="")


def _default(key: Key) -> str:
    if key.required:
        return "required"
    if key.default is None:
        return "none"
    return key.default if " " in key.default else f"`{key.default}`"


# --- command line ---------------------------------------------------------------------------------------


def commands(_: Sequence[str]) -> str:
    """Every command with its options."""
    root: Any = typer.main.get_command(app)
    return "\n\n".join(
        [
            _command("isthmus", root),
            *(_described(f"isthmus {name}", each) for name, each in root.commands.items()),
        ]
    )


def _described(name: str, listed: Any) -> str:
    command = listed.load() if isinstance(listed, LazyCommand) else listed
    inner = getattr(command, "commands", {})
    return "\n\n".join(
        [_command(name, command), *(_described(f"{name} {more}", each) for more, each in inner.items())]
    )


def _command(name: str, command: Any) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    rows = [_parameter(parameter, context) for parameter in command.params if parameter.help]
    parts = [f"{'#' * (name.count(' ') + 2)} {name}", f"```\n{usage}\n```", *_paragraphs(command.help or "")]
    return "\n\n".join([*parts, *([table(("option", "default", "meaning"), iter(rows))] if rows else [])])


def _parameter(parameter: Any, context: Any) -> Sequence[str]:
    if parameter.param_type_name == "argument":
        shown = parameter.name
    else:
        kind = "" if parameter.is_flag else f" {parameter.make_metavar(context)}".replace(" range>", ">")
        shown = ", ".join([*parameter.opts, *parameter.secondary_opts]) + kind
    meaning = _markdown(parameter.help)
    if parameter.envvar:
        meaning += f" Or the environment variable `{parameter.envvar}`."
    return f"`{shown}`".replace("|", "/"), _default_of(parameter), meaning


def _default_of(parameter: Any) -> str:
    default = getattr(parameter.default, "value", parameter.default)
    if parameter.required:
        return "required"
    return "" if callable(default) or default in (None, False, (), []) else f"`{default}`"


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in filled(text).split("\n\n"):
        code = paragraph.removeprefix(AS_IT_IS)
        yield _markdown(paragraph) if code == paragraph else f"```\n{cleandoc(code)}\n```"


def _markdown(text: str) -> str:
    return " ".join(text.split())


# --- metrics and errors ---------------------------------------------------------------------------------


def exposition() -> str:
    """What Prometheus is told by a bridge with one route and one part."""
    part = PartReport(
        name="p",
        kind="intake",
        system="mq",
        connected=True,
        request_times_s=[0.1],
        lag=0,
        links=[AddressTraffic("in", "a")],
        transactions=0,
    )
    held = HeldMetrics("b", HeldTransactions)
    return RouterMetrics("b", {"r": "t"}).exposition(PartMetrics("b", lambda: [part]), held).decode()


def metrics(_: Sequence[str]) -> str:
    """Every metric with its labels."""
    return table(
        ("metric", "type", "labels", "meaning"), map(_metric, text_string_to_metric_families(exposition()))
    )


def _metric(family: Any) -> Sequence[str]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    labels = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
    return f"`{name}`", family.type, ", ".join(f"`{label}`" for label in labels), family.documentation


def exit_codes(_: Sequence[str]) -> str:
    """The exit codes, as the help of the command line has them."""
    said = re.search(r"Exit codes: (.*)\.$", filled(typer.main.get_command(app).help or ""))
    assert said
    return table(("exit code", "meaning"), (entry.split(" ", 1) for entry in said[1].split(", ")))


def soft_failures(_: Sequence[str]) -> str:
    """The codes of soft failures."""
    return table(
        ("code", "error", "what was wrong"),
        (
            (f"`{failure.code}`", f"`{failure.__name__}`", _one_line(failure.__doc__ or ""))
            for failure in SoftFailure.__subclasses__()
        ),
    )


def _one_line(docstring: str) -> str:
    return " ".join(docstring.split()).replace("``", "`")


def error_tree(_: Sequence[str]) -> str:
    """The tree of exceptions."""
    tree = re.search(r"::\n\n(.*?)\n\n(?! )", errors.__doc__ or "", re.DOTALL)
    assert tree
    return f"```\n{cleandoc(tree[1])}\n```"


# --- decisions ------------------------------------------------------------------------------------------


def decisions(_: Sequence[str]) -> str:
    """The title of each decision, with a link to it."""
    files = sorted((DOCS / "decisions").glob("0*.md"))
    titles = (file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for file in files)
    return "\n".join(
        f"- [{file.name[:4]}]({file.name}) {title}" for file, title in zip(files, titles, strict=True)
    )


MAKERS: dict[str, Callable[[Sequence[str]], str]] = {
    each.__name__: each
    for each in (keys, commands, metrics, exit_codes, soft_failures, error_tree, decisions)
}

if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
