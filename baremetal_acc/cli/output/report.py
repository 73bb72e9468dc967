# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Base class of the commands that print a report: a table or CSV for people, one whole JSON or YAML document for tools."""

import abc
import argparse
import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml
from cliff import lister

from baremetal_acc.cli import examples, exits
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import layout, terminal, text
from baremetal_acc.cli.output.layout import Block
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, UsageError
from baremetal_acc.model.toml import did_you_mean
from baremetal_acc.render import causes

_AT_ONCE = 8
"""Targets that are read concurrently."""

WHOLE = ('json', 'yaml')
"""Output formats that print the whole document, and not the cells of a table."""

DUMPER = getattr(yaml, 'CSafeDumper', yaml.SafeDumper)
"""The dumper in C where PyYAML was built with it: five times as fast, with the same output."""

T = TypeVar('T')


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The output of a command, and its exit code.

    :ivar document: the whole document; None where ``pieces`` hold its text in the requested format.
    :ivar done: what was done, a line for each target, printed where the report cannot be printed. Empty where nothing was done.
    :ivar blocks: the report for people, printed in place of the table (:func:`is_for_people`); None: the table is.
    :ivar long: the tables of the blocks have long cells, so they are drawn with borders.
    """

    document: dict[str, Any] | None
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    code: Exit
    pieces: Iterable[str] = ()
    done: tuple[str, ...] = ()
    blocks: tuple[Block, ...] | None = None
    long: bool = False


def is_for_people(arguments: argparse.Namespace) -> bool:
    """Whether people read the report: a table of which no columns are chosen. Other tables have the same rows as CSV."""
    return arguments.formatter == 'table' and not arguments.columns and not arguments.sort_columns


def plain(document: Any) -> Any:
    """The document in plain JSON types, so that all formats print the same values; members of enums become text.

    A lone surrogate, which a BMC may send in JSON and which UTF-8 cannot encode, becomes U+FFFD.
    """
    said = json.dumps(document)
    if '\\ud' in said:
        whole = json.dumps(document, ensure_ascii=False)
        said = whole.encode('utf-16-le', 'surrogatepass').decode('utf-16-le', 'replace')
    return json.loads(said)


def as_yaml(document: Any) -> str:
    """A document, or a part of one, as YAML text."""
    return str(yaml.dump(plain(document), Dumper=DUMPER, sort_keys=False))


class ReportCommand(lister.Lister, metaclass=abc.ABCMeta):
    """A command whose result is a report."""

    app_dist_name = text.PROGRAM
    _report: Report | None = None

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with the options of :meth:`add_arguments`."""
        parser = strict(super().get_parser(prog_name))
        self.add_arguments(parser)
        return parser

    def get_epilog(self) -> str:
        """No epilog: cliff's own reads the metadata of every installed package, to say where a command comes from."""
        return ''

    @abc.abstractmethod
    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own options."""

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...] | None:
        """The columns of the table where they are known before the work is done, else None.

        A command that writes has to know its columns: an unknown ``--column`` is then refused before anything is done.
        """
        return None

    @abc.abstractmethod
    def work(self, arguments: argparse.Namespace) -> Report:
        """Do the work of the command, and report it.

        :raises AccError: the command failed as a whole; the failure of one target is in the report.
        """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        """Do the work of the command. Called by cliff."""
        if parsed_args.formatter in WHOLE and (parsed_args.columns or parsed_args.sort_columns):
            raise UsageError(
                argument='--column' if parsed_args.columns else '--sort-column',
                what=f'-f {parsed_args.formatter} prints the whole document',
                hint='choose columns with -f table, csv or value',
            )
        before = self.columns(parsed_args)
        if before is not None:
            self._choose(parsed_args, before)
        report = self._report = self.work(parsed_args)
        if report.done:
            self.app.done = report.code  # type: ignore[attr-defined]  # it is ours, and not cliff's
        self._choose(parsed_args, report.columns)
        between = '\n' if parsed_args.formatter == 'table' else ', '
        return report.columns, [tuple(text.cell(v, between) for v in row) for row in report.rows]

    def _choose(self, arguments: argparse.Namespace, columns: tuple[str, ...]) -> None:
        """Replace the columns that the user names by their exact names, which cliff before 4.17 requires for sorting.

        :raises UsageError: a column does not exist.
        """
        arguments.columns = [_column('--column', name, columns) for name in arguments.columns]
        arguments.sort_columns = [_column('--sort-column', name, columns) for name in arguments.sort_columns]

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Iterable[Sequence[Any]]
    ) -> int:
        """Print the report in the requested format. Called by cliff."""
        report = self._made()
        if parsed_args.formatter in WHOLE and report.document is None:
            self.app.stdout.writelines(report.pieces)
        elif parsed_args.formatter == 'json':
            self.app.stdout.write(json.dumps(plain(report.document), indent=2) + '\n')
        elif parsed_args.formatter == 'yaml':
            self.app.stdout.write(as_yaml(report.document))
        else:
            if parsed_args.formatter == 'table' and self.app.stdout.isatty():
                compact = report.blocks is not None and not report.long
                self.formatter = terminal.Formatter(compact=compact)  # type: ignore[assignment]  # it has cliff's method
            if report.blocks is not None and is_for_people(parsed_args):
                for block in report.blocks:
                    self._print(block, parsed_args)
            else:
                super().produce_output(parsed_args, column_names, data)
        return 0

    def _print(self, block: Block, arguments: argparse.Namespace) -> None:
        out = self.app.stdout
        columns = layout.width(out, arguments.max_width)
        out.writelines(f'{line}\n' for line in layout.wrapped(block.before, columns))
        if block.rows:
            rows = [tuple(text.cell(v, '\n') for v in row) for row in block.rows]
            self.formatter.emit_list(block.columns, rows, out, arguments)
        out.writelines(f'{line}\n' for line in layout.wrapped(block.after, columns))

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Do the work, print the report, and return the exit code. Called by cliff."""
        try:
            super().run(parsed_args)
            self.app.stdout.flush()
        except BaseException:
            # The work is done even if its report cannot be printed: say so.
            for line in () if self._report is None else self._report.done:
                text.note(line)
            raise
        return self._made().code

    def _made(self) -> Report:
        assert self._report is not None, 'the work comes first'  # noqa: S101
        return self._report


def _normal(column: str) -> str:
    return column.strip().lower().replace(' ', '_')


def _column(option: str, name: str, columns: Iterable[str]) -> str:
    """The column that a user means: case does not matter, and an underscore may stand for a space.

    :raises UsageError: there is no such column.
    """
    known = {_normal(column): column for column in columns}
    if _normal(name) not in known:
        hint = did_you_mean(name.lower(), known) or f'the columns are {", ".join(known.values())}'
        raise UsageError(argument=option, what=f'there is no column {name!r}', hint=hint)
    return known[_normal(name)]


class HelpFormatter(argparse.HelpFormatter):
    """Keeps the lines of the examples, which argparse would fill to one paragraph."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith('examples:\n') else super()._fill_text(text, width, indent)


def strict(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Give a parser the examples of its command, and make it stricter.

    It refuses abbreviated options, as ``--exec`` must not execute, and reports wrong arguments as ``UsageError``.
    """
    parser.allow_abbrev = False
    parser.epilog = examples.epilog(parser.prog)
    parser.formatter_class = HelpFormatter
    # Set on this one parser: cliff creates it, so there is no class of ours that could override the method.
    parser.error = functools.partial(_wrong, parser)  # type: ignore[assignment, method-assign]
    return parser


def _wrong(parser: argparse.ArgumentParser, message: str) -> None:
    head, _, rest = message.partition(': ')
    unknown = rest.split()[0] if head == 'unrecognized arguments' and rest else None
    # Without the dashes, which would make any two options look similar.
    names = [o.removeprefix('--') for a in parser._actions for o in a.option_strings if o.startswith('--')]
    near = did_you_mean(unknown.partition('=')[0].lstrip('-'), names, before='--') if unknown is not None else None
    hint = '; '.join(filter(None, (near, f'see {parser.prog} --help')))
    if unknown is not None:
        # The value may be a password: it is not printed.
        raise UsageError(argument=unknown.partition('=')[0], what='no such argument', hint=hint)
    raise UsageError(argument=parser.prog.removeprefix(f'{text.PROGRAM} '), what=message, hint=hint)


def each(entries: Sequence[TargetEntry], work: Callable[[TargetEntry], T]) -> list[tuple[TargetEntry, T | AccError]]:
    """Run a function for every target, several at once; an error of one target is its result and stops no other."""

    def attempt(entry: TargetEntry) -> T | AccError:
        try:
            return work(entry)
        except AccError as exc:
            return exc

    if len(entries) < 2:
        return [(entry, attempt(entry)) for entry in entries]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return list(zip(entries, pool.map(attempt, entries), strict=True))


def failed(target: str, error: AccError) -> Exit:
    """Print the error of a target, one line for each of its causes, and return its exit code."""
    message, *reasons = causes.lines(error)
    first = message if message.startswith(f'{target}: ') else f'{target}: {message}'
    text.error(first, *layout.wrapped((f'{layout.INDENT}{reason}' for reason in reasons), layout.width(sys.stderr)))
    return exits.of(error)


__all__ = ['Report', 'ReportCommand', 'each', 'failed', 'is_for_people', 'strict']
