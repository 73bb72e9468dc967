# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The reports of ``status`` and ``history`` for people, from the documents that both commands print for tools."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from baremetal_acc.cli.output.layout import INDENT, Block
from baremetal_acc.render import action_rows
from baremetal_acc.render.similar import grouped
from baremetal_acc.render.words import counted

ENTRIES = ('Begun', 'Took', 'Command', 'By', 'Result', 'What')

_WORDS = {'engage': 'lock', 'release': 'unlock'}
"""Of actions, as plans name them."""

_SHOWN = frozenset({'flash', 'program', 'restore', *_WORDS})
"""Actions that the table counts: the others prepare them."""

Json = dict[str, Any]


def shown(at: str | None) -> str | None:
    """A time of a document, as people read it."""
    return None if at is None else f'{datetime.fromisoformat(at):%Y-%m-%d %H:%M:%SZ}'


def of_status(body: Json) -> Block:
    """The block of a target: what needs attention, in one line, and below it a line for each fact."""
    if body['error'] is not None:
        return Block()
    return Block(before=(f'{body["target"]}: {_attention(body)}', *(f'{INDENT}{line}' for line in _facts(body))))


def _attention(body: Json) -> str:
    wanting = [
        *(['a job is unfinished'] if body['job'] is not None else []),
        *([f'{counted(len(body["quarantined"]), "quarantined card")}'] if body['quarantined'] else []),
        *([f'{counted(len(body["open_locks"]), "open lock")}'] if body['open_locks'] else []),
    ]
    return ', '.join(wanting) or 'nothing needs attention'


def _facts(body: Json) -> Iterator[str]:
    job, verified, last = body['job'], body['verified'], body['last']
    if job is not None:
        by = f' by {job["by"]}' if job['by'] else ''
        yield f'unfinished job: {job["command"]}{by}, since {shown(job["since"])}: {job["stage"]} ({job["next"]})'
    for mark in body['quarantined']:
        yield f'quarantine: {mark["accelerator"]}, since {shown(mark["since"])}: {mark["why"]}'
    for locks in grouped(tuple(body['open_locks']), lambda lock: (lock['since'], lock['what'])):
        since = '' if locks[0]['since'] is None else f', since {shown(locks[0]["since"])}'
        yield f'open lock: {_devices(locks)}{since}: {locks[0]["what"]}'
    for waiver in body['waivers']:
        end = shown(waiver['until'])
        yield f'waived until {end}: {waiver["path"]} of {waiver["device"]}, by {waiver["by"]}: {waiver["reason"]}'
    for cards in grouped(tuple(body['custody']), lambda card: card['text']):
        yield f'custody {cards[0]["custody"]}: {_devices(cards)}: {cards[0]["text"]}'
    if verified is not None:
        at = '' if verified['at'] is None else f', {shown(verified["at"])}'
        yield f'last verification: {"met" if verified["met"] else "not met"}{at}'
    if last is None:
        yield 'no command has been recorded for this target'
    else:
        took = '' if last['ended'] is None else f', took {_took(last)}'
        yield f'last command: {last["command"]} by {last["by"]}, {shown(last["begun"])}{took}: {last["outcome"]}'


def _devices(facts: Iterable[Json]) -> str:
    return ', '.join(dict.fromkeys(fact['accelerator'] for fact in facts))


def of_history(body: Json, *, named: bool) -> Block:
    """The block of a target: a row for each entry, the newest first.

    :param named: there are blocks of other targets, too.
    """
    if body['error'] is not None:
        return Block()
    if not body['entries']:
        return Block(before=(f'{body["target"]}: no command has been recorded',))
    return Block(
        before=(f'{body["target"]}:',) if named else (),
        columns=ENTRIES,
        rows=tuple((shown(e['begun']), _took(e), e['command'], e['by'], e['outcome'], _what(e)) for e in body['entries']),
    )


def _took(entry: Json) -> str:
    if entry['ended'] is None:
        return ''
    return action_rows.lasted(datetime.fromisoformat(entry['ended']) - datetime.fromisoformat(entry['begun']))


def _what(entry: Json) -> tuple[str, ...]:
    """The actions that were done, counted; those that were not; and the first reason."""
    done = Counter(_WORDS.get(a['action'], a['action']) for a in entry['actions'] if a['action'] in _SHOWN and _is_done(a))
    left = Counter(_WORDS.get(a['action'], a['action']) for a in entry['actions'] if a['action'] in _SHOWN and not _is_done(a))
    lines = [', '.join(f'{number} {word}' for word, number in done.items())]
    if left:
        lines.append(f'not done: {", ".join(f"{number} {word}" for word, number in left.items())}')
    if entry['more']:
        lines.append(f'{entry["more"]} more actions are not stored')
    if entry['reasons']:
        more = len(entry['reasons']) - 1
        lines.append(entry['reasons'][0] + (f' (and {counted(more, "more reason")}, in -f json)' if more else ''))
    return tuple(line for line in lines if line)


def _is_done(action: Json) -> bool:
    return bool(action['state'] == 'done')
