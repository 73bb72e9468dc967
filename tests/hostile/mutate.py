# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The changes that a hostile BMC makes to its answers, in two tables: changes of documents, and of how they are sent.

Everything depends on the seed, the number of the look and the request alone, so that a look can be had again.
"""

import copy
import gzip
import json
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.hostile.bmc import CLOSE, HOLD, RESET, Answer, Honest, Request, Sent, head, plain, seeded

PASSWORD = 'correct-horse-battery-staple'
USER = 'acc-operator'

WANTED = 'W.1.2.3'
"""The version that the baseline of the tests wants; no recording has it."""

LOCKS = ('WriteProtected', 'ProgrammableFromHost', 'InbandUpdatePolicyEnabled', 'HostPrivilegeLevel', 'HostRshim')

NEARLY: tuple[Any, ...] = (
    'true',
    'True',
    'false',
    'False',
    1,
    0,
    1.0,
    0.0,
    -0.0,
    [True],
    [False],
    [],
    {},
    {'value': True},
    None,
    '',
    'Restricted ',
    'restricted',
    'DISABLED',
    'Disabled\u0000',
    'Restricted\u200b',
    '\uff34rue',
    'Enabled',
    'Privileged',
    'yes',
    'locked',
)
"""What only looks like a closed lock."""

CLOSED: dict[str, Any] = {
    'WriteProtected': True,
    'ProgrammableFromHost': False,
    'InbandUpdatePolicyEnabled': False,
    'HostPrivilegeLevel': 'Restricted',
    'HostRshim': 'Disabled',
}

JUNK: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**400,
    2**63,
    -(2**63),
    '',
    ' ',
    'x' * 5000,
    [],
    {},
    [[]],
    [None],
    [{}],
    {'': ''},
    '\x1b[31mred\x1b[0m',
    '\x9b2J',
    'a\nb\rc\td',
    '\u202egnihtyna',
    '\ud800',
    '\udfff\ud800',
    '\u0000',
    '\ufeffx',
    '0' * 40,
    {'@odata.id': None},
    {'@odata.id': 7},
    {'@odata.id': ''},
    {'@odata.id': ['x']},
    'N/A',
    '٣',
    'ⅷ',
    '1e400',
    '0x',
    '-0x1',
    '0x110000000',
)

VERSIONS: tuple[Any, ...] = (
    WANTED,
    f' {WANTED} ',
    f'{WANTED}\u0000',
    'W.1\u200b.2.3',
    f'\x1b{WANTED}',
    f'{WANTED}-rc1',
    WANTED.lower(),
    WANTED * 90,
    [WANTED],
    {'Version': WANTED},
    1,
    None,
    '',
    'W.1.2.3\n',
    'W.1.2\u202e.3',
    f'{WANTED}{" " * 300}x',
    True,
)


def links(stranger: str) -> tuple[str, ...]:
    """Links that nobody is to follow, or that lead nowhere good."""
    return (
        f'http://{stranger}/redfish/v1',
        f'//{stranger}/redfish/v1',
        f'https://{stranger}/x',
        f'http://127.0.0.1@{stranger}/',
        f'http:\\\\{stranger}\\x',
        f'/\\{stranger}/x',
        f'///{stranger}/x',
        f'http:{stranger}/x',
        f'HTTP://{stranger}/x',
        'file:///etc/passwd',
        'file:/etc/passwd',
        'ftp://127.0.0.1/',
        'gopher://127.0.0.1:70/',
        'javascript:alert(1)',
        'data:,x',
        'http://bmc.attacker.invalid/redfish/v1',
        '//bmc.attacker.invalid/redfish/v1',
        'https://[::1]/',
        'http://[::ffff:127.0.0.2]/',
        'http://[bad/',
        'http://127.0.0.1:99999/',
        'http://127.0.0.1:-1/',
        'http://127.1/',
        'http://2130706434/',
        'http://0x7f000002/',
        'http://①②⑦.⓪.⓪.②/',
        '//xn--/x',
        '/redfish/v1/../../etc/passwd',
        '/redfish/v1/%2e%2e/%2e%2e/x',
        '/redfish/v1/Systems/\u0000',
        '/redfish/v1/Systems/a b',
        '/redfish/v1/S\r\nX-Injected: 1\r\n',
        '/redfish/v1/\u2028x',
        '/redfish/v1/\x9b31m',
        '/redfish/v1/\ud800',
        '/redfish/v1/ünï',
        '/' + 'a/' * 900,
        '/' + 'a' * 3000,
        '',
        ' ',
        '?',
        '#',
        '.',
        '..',
        '/',
        '//',
        'x',
        '?x=1',
        '#/Members/0',
        '/redfish/v1',
        '/redfish/v1/',
        '/redfish/v1//',
        '/redfish/v1/Systems',
        '/redfish/v1/Systems/',
        '/redfish/v1/SYSTEMS',
        '/redfish/v1/Systems#x',
        '/redfish/v1/Systems?$skip=1',
        '/redfish/v1/Systems;x',
        'Systems',
        '../v1/Systems',
        '/redfish/v1/\u202excod.exe',
    )


def places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Every container and key below a value."""
    if depth < 12:
        for name in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            yield value, name
            yield from places(value[name], depth + 1)


@dataclass(slots=True, kw_only=True)
class Hostile(Honest):
    """A script that changes some answers.

    :ivar rate: how likely an answer is changed.
    :ivar wire: how likely a change is one of how it is sent.
    :ivar slow: whether answers may keep the client waiting.
    :ivar heavy: whether answers may be of many megabytes.
    :ivar values: whether documents themselves are changed; without, every value that arrives is the recording's.
    :ivar only: names of mutations, empty for all.
    :ivar entry: how likely, at most, the root and the answers to writes are changed: a look that ends before it begins shows
        little.
    :ivar relinked: a change may have moved devices and items to elsewhere.
    """

    seed: int
    number: int
    stranger: str
    rate: float
    wire: float
    slow: bool = False
    heavy: bool = False
    values: bool = True
    only: tuple[str, ...] = ()
    entry: float = 0.08
    mutated: int = 0
    relinked: bool = False
    used: dict[str, int] = field(default_factory=dict)
    chains: dict[str, str] = field(default_factory=dict)

    def answer(self, request: Request) -> Answer:
        """The answer to a request, changed or not."""
        turn = self.turn(request)
        rng = seeded(self.seed, self.number, request.method, request.target, turn)
        status, body, headers = self.document(request)
        rate = self.rate
        path = plain(request.target)
        if path == '/redfish/v1' or request.method != 'GET':
            rate = min(rate, self.entry)
        elif path.count('/') == 3:
            rate = min(rate, 0.35)
        if rng.random() >= rate:
            return self.finish(request, status, body, headers)
        on_wire = rng.random() < self.wire or not self.values or body is None
        table = WIRE if on_wire else DOCUMENT
        names = [n for n in table if (self.slow or n not in SLOW) and (self.heavy or n not in HEAVY)]
        names = [n for n in names if n in self.only] if self.only else names
        if not names:
            return self.finish(request, status, body, headers)
        chosen = [rng.choice(names)]
        if not on_wire and rng.random() < 0.3:
            chosen.append(rng.choice(names))
        with self.lock:
            self.mutated += 1
            for name in chosen:
                self.used[name] = self.used.get(name, 0) + 1
        if on_wire:
            sent = Sent(
                method=request.method,
                target=request.target,
                mutations=tuple(chosen),
                condition=request.headers.get('if-match'),
            )
            with self.lock:
                self.log.append(sent)
            return WIRE[chosen[0]](self, rng, request, status, body, headers, sent)
        changed: Any = copy.deepcopy(body)
        for name in chosen:
            if not isinstance(changed, bytes):
                changed = DOCUMENT[name](self, rng, request, changed)
        content = changed if isinstance(changed, bytes) else dump(changed)
        sent = Sent(
            method=request.method,
            target=request.target,
            mutations=tuple(chosen),
            condition=request.headers.get('if-match'),
        )
        sent.bodies = (content,) if status < 300 else ()
        with self.lock:
            self.log.append(sent)
        whole = {**headers, 'Content-Length': str(len(content)), 'Content-Type': 'application/json'}
        return Answer(pieces=[head(status, whole) + content], sent=sent)


def dump(value: Any) -> bytes:
    """JSON, whatever it holds."""
    return json.dumps(value).encode('utf-8', 'surrogatepass')


# ------------------------------------------------------------------------------------------------------------- documents

Document = Callable[[Hostile, random.Random, Request, Any], Any]


def _some(rng: random.Random, body: Any, wanted: Callable[[Any, Any], bool] = lambda c, k: True) -> list[tuple[Any, Any]]:
    found = [(c, k) for c, k in places(body) if wanted(c, k)]
    rng.shuffle(found)
    return found[: rng.randint(1, 5)]


def _put(container: Any, key: Any, value: Any) -> None:
    """Set a value, unless an earlier change has taken the place away."""
    if (isinstance(container, dict) and key in container) or (isinstance(container, list) and len(container) > key):
        container[key] = copy.deepcopy(value)


def types(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Junk instead of values."""
    case.relinked = True
    for container, key in _some(rng, body):
        _put(container, key, rng.choice(JUNK))
    return body


def nulls(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Null for values."""
    case.relinked = True
    for container, key in _some(rng, body):
        _put(container, key, None)
    return body


def drop(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Values are missing."""
    case.relinked = True
    for container, key in _some(rng, body):
        if isinstance(container, dict):
            container.pop(key, None)
    return body


def link(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Links lead off, in circles, or to another resource."""
    case.relinked = True
    pool = links(case.stranger)
    for container, key in _some(rng, body, lambda c, k: k == '@odata.id'):
        uri = rng.choice(pool) if rng.random() < 0.6 else rng.choice((*case.tree, plain(request.target)))
        _put(container, key, uri)
    return body


def lock_word(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Locks say what only looks like closed, or are closed indeed."""
    found = [(c, k) for c, k in places(body) if k in LOCKS]
    for container, key in found:
        _put(container, key, CLOSED[key] if rng.random() < 0.25 else rng.choice(NEARLY))
    return body if found else types(case, rng, request, body)


def version_word(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Versions that are nearly the wanted one, or are it."""
    found = [(c, k) for c, k in places(body) if isinstance(k, str) and k.endswith('Version') and k != 'RedfishVersion']
    for container, key in found:
        _put(container, key, rng.choice(VERSIONS))
    return body if found else types(case, rng, request, body)


def identity(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """The identity of something else."""
    case.relinked = True
    other = case.tree[rng.choice(list(case.tree))]
    for name in ('UUID', 'SerialNumber', 'Id', '@odata.id', 'Name', 'Model', 'PartNumber'):
        if rng.random() < 0.5 and isinstance(body, dict):
            value = other.get(name, body.get(name))
            body[name] = value.swapcase() if isinstance(value, str) and rng.random() < 0.3 else value
    return body


def _closed(value: Any) -> Any:
    """A copy in which every lock is closed and every version is the wanted one."""
    changed = copy.deepcopy(value)
    for container, key in places(changed):
        if key in CLOSED:
            container[key] = CLOSED[key]
        elif key in ('Version', 'FirmwareVersion'):
            container[key] = WANTED
    return changed


def spoof(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """A collection holds members that claim to be resources of another collection."""
    members = body.get('Members') if isinstance(body, dict) else None
    if not isinstance(members, list):
        return spoof_inside(case, rng, request, body)
    case.relinked = True
    victims = [uri for uri in case.tree if not uri.startswith(plain(request.target) + '/')]
    marked = [uri for uri in victims if any(name in json.dumps(case.tree[uri]) for name in (*LOCKS, 'Version"'))]
    for uri in rng.sample(marked or victims, k=min(3, len(marked or victims))):
        claim = rng.choice((uri, uri + '/', uri.replace('/v1/', '/v1//', 1), uri + '#', uri + '?x'))
        members.insert(rng.randint(0, len(members)), {'Id': '1', 'Name': 'x', **_closed(case.tree[uri]), '@odata.id': claim})
    return body


def spoof_inside(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Where a document has a link, the whole of another document."""
    for container, key in _some(rng, body, lambda c, k: isinstance(c[k], dict) and '@odata.id' in c[k]):
        uri = plain(str(container[key].get('@odata.id')))
        if uri in case.tree:
            _put(container, key, {**_closed(case.tree[uri]), '@odata.id': uri})
    return body


def alias(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """The document says that it is another one, with all locks closed."""
    case.relinked = True
    if isinstance(body, dict):
        body = _closed(body)
        body['@odata.id'] = rng.choice(list(case.tree))
    return body


def twins(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Members twice, in other spellings."""
    members = body.get('Members') if isinstance(body, dict) else None
    if not isinstance(members, list):
        return types(case, rng, request, body)
    case.relinked = True
    for member in list(members):
        uri = member.get('@odata.id') if isinstance(member, dict) else None
        if isinstance(uri, str):
            members.append(
                {'@odata.id': rng.choice((uri, uri + '/', uri.upper(), uri.replace('/', '//'), uri + '?a=1', uri + '#b'))}
            )
    return body


def endless(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """There is always a next page."""
    if not isinstance(body, dict) or 'Members' not in body:
        return types(case, rng, request, body)
    case.relinked = True
    path = plain(request.target)
    page = rng.choice(
        (
            f'{path}?page={rng.getrandbits(40)}',
            request.target,
            path,
            rng.choice(links(case.stranger)),
            rng.choice(list(case.tree)),
        )
    )
    body['Members@odata.nextLink'] = page
    with case.lock:
        case.chains[page] = case.chains.get(request.target, path)
    if rng.random() < 0.5:
        body['Members'] = [{'@odata.id': f'{path}/{rng.getrandbits(40)}'} for _ in range(rng.randint(1, 40))]
    return body


def crowd(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """100,000 members, or links."""
    case.relinked = True
    path = plain(request.target)
    crowd_of = [{'@odata.id': f'{path}/{n}'} for n in range(100_000)]
    if isinstance(body, dict):
        name = (
            'Members'
            if 'Members' in body
            else rng.choice([k for k, v in body.items() if isinstance(v, dict | list)] or ['Links'])
        )
        body[name] = rng.choice((crowd_of, crowd_of, [1] * 100_000, [{}] * 100_000))
    return body


def deep(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Nested 10,000 levels."""
    case.relinked = True
    content = dump({**body, 'HERE': 'THERE'} if isinstance(body, dict) else body)
    opened, closed = rng.choice((('[', ']'), ('{"a":', '}'), ('[{"@odata.id":', '}]')))
    levels = rng.choice((200, 900, 10_000, 100_000))
    value = opened * levels + '1' + closed * levels
    name = rng.choice(['HERE', *(k for k in body)]) if isinstance(body, dict) else 'HERE'
    if isinstance(body, dict) and name in body and rng.random() < 0.5:
        content = dump({k: v for k, v in body.items() if k != name} | {name: 'THERE'})
    return content.replace(b'"THERE"', value.encode(), 1)


def long_text(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """A megabyte of text, as value or as name."""
    case.relinked = True
    for container, key in _some(rng, body)[:1]:
        if isinstance(container, dict) and rng.random() < 0.3:
            container['k' * 1_000_000] = container.pop(key, None)
        else:
            _put(container, key, rng.choice('x\u0000\x1b0/ ') * 1_000_000)
    return body


def numbers(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Numbers that JSON does not have, or that no machine has."""
    case.relinked = True
    content = dump(_mark(rng, body))
    value = rng.choice(
        (b'NaN', b'Infinity', b'-Infinity', b'1e999', b'-1e999', b'1' * 400, b'1' * 5000, b'0.' + b'1' * 5000, b'1e-999', b'-0')
    )
    return content.replace(b'"@MARK@"', value)


def _mark(rng: random.Random, body: Any) -> Any:
    found = _some(rng, body)
    locks = [(c, k) for c, k in places(body) if k in LOCKS]
    for container, key in locks if locks and rng.random() < 0.7 else found:
        _put(container, key, '@MARK@')
    return body


def same_names(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """A name twice in one object, with two values."""
    content = dump(body)
    for name in (*LOCKS, 'Version'):
        for value in (b'true', b'false', b'null'):
            was = f'"{name}": '.encode() + value
            other = json.dumps(CLOSED.get(name, WANTED)).encode()
            first, second = rng.sample((value, other), 2)
            content = content.replace(was, f'"{name}": '.encode() + first + f', "{name}": '.encode() + second)
    if content == dump(body) and isinstance(body, dict) and content.startswith(b'{'):
        case.relinked = True
        key = rng.choice(list(body) or [''])
        content = b'{' + json.dumps(key).encode() + b': ' + dump(rng.choice(JUNK)) + b', ' + content[1:]
    return content


def encoding(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Another encoding, or something before or after the JSON."""
    text = json.dumps(body, ensure_ascii=rng.random() < 0.5)
    return rng.choice(
        (
            lambda: b'\xef\xbb\xbf' + text.encode('utf-8', 'surrogatepass'),
            lambda: text.encode('utf-16', 'surrogatepass'),
            lambda: text.encode('utf-32-be', 'surrogatepass'),
            lambda: text.encode('latin-1', 'replace'),
            lambda: text.encode('utf-7', 'replace'),
            lambda: text.encode('utf-8', 'surrogatepass') + b'\x00' * 100,
            lambda: text.encode('utf-8', 'surrogatepass') + b'{}',
            lambda: b' ' * 100_000 + text.encode('utf-8', 'surrogatepass'),
            lambda: b'while(1);' + text.encode('utf-8', 'surrogatepass'),
            lambda: text.encode('utf-8', 'surrogatepass').replace(b'"', b'\xff"', 3),
            lambda: text.replace('"', "'").encode('utf-8', 'surrogatepass'),
            lambda: b'null',
            lambda: b'[]',
            lambda: b'"x"',
            lambda: b'',
            lambda: b'{',
            lambda: b'\xff\xfe',
            lambda: b'<html>',
        )
    )()


def error_body(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """An error's body, of any shape, with a status of success; or messages that repeat our secrets."""
    echo = f'you sent {request.headers} {PASSWORD}'
    info = [{'MessageId': rng.choice(('Base.1.8.Success', 'ResourceNotFound', 7, None)), 'Message': rng.choice((echo, *JUNK))}]
    return rng.choice(
        (
            {'error': None},
            {'error': 'x'},
            {'error': []},
            {'error': {'@Message.ExtendedInfo': info}},
            {'error': {'message': echo}},
            {**body, 'error': {'@Message.ExtendedInfo': info}} if isinstance(body, dict) else {},
        )
    )


def flat(case: Hostile, rng: random.Random, request: Request, body: Any) -> Any:
    """Many odd things in one document."""
    case.relinked = True
    if isinstance(body, dict):
        for name in list(body):
            if rng.random() < 0.7 and not name.startswith('@'):
                body[name] = rng.choice(JUNK)
    return body


DOCUMENT: dict[str, Document] = {
    function.__name__: function
    for function in (
        types,
        nulls,
        drop,
        link,
        lock_word,
        version_word,
        identity,
        spoof,
        spoof_inside,
        alias,
        twins,
        endless,
        crowd,
        deep,
        long_text,
        numbers,
        same_names,
        encoding,
        error_body,
        flat,
    )
}


# ------------------------------------------------------------------------------------------------------------------ wire

Wire = Callable[[Hostile, random.Random, Request, int, Any, dict[str, str], Sent], Answer]


def _content(body: Any) -> bytes:
    return b'' if body is None else dump(body)


def _good(sent: Sent, status: int, content: bytes) -> None:
    if status < 300 and content:
        sent.bodies = (*sent.bodies, content)


def status_word(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """Another status, with the document or with an error that repeats what was sent."""
    number = rng.choice(
        (
            200,
            201,
            202,
            203,
            204,
            205,
            206,
            207,
            226,
            299,
            300,
            301,
            302,
            303,
            304,
            305,
            307,
            308,
            399,
            400,
            401,
            402,
            403,
            404,
            405,
            406,
            409,
            410,
            412,
            418,
            423,
            428,
            429,
            431,
            451,
            499,
            500,
            501,
            502,
            503,
            504,
            507,
            511,
            599,
            600,
            999,
            0,
            1000,
        )
    )
    echo = {
        'error': {
            '@Message.ExtendedInfo': [
                {
                    'Message': f'refused: {request.headers} {request.body!r} {PASSWORD}',
                    'MessageId': rng.choice(
                        ('Base.1.8.GeneralError', 'Base.1.8.ServiceTemporarilyUnavailable', 'ResourceInUse')
                    ),
                }
            ]
        }
    }
    content = (
        _content(body)
        if rng.random() < 0.5
        else rng.choice((dump(echo), dump(rng.choice(JUNK)), b'', b'<html>', dump({'error': rng.choice(JUNK)})))
    )
    after = rng.choice(
        (
            '0',
            '-1',
            '99999999999999999999',
            'NaN',
            'soon',
            'Fri, 31 Dec 9999 23:59:59 GMT',
            '٣',
            '1.5',
            '',
            '1e9',
            'Thu, 01 Jan 1970 00:00:00 GMT',
            'Fri, 31 Dec 99999 23:59:59 GMT',
        )
    )
    extra = {'Retry-After': after} if rng.random() < 0.5 else {}
    if number in (204, 205, 304) and rng.random() < 0.5:
        content = b''
    if 200 <= number < 300:
        _good(sent, 200, content)
    return Answer(
        pieces=[
            head(
                number,
                {
                    **headers,
                    **{k: v.encode('utf-8').decode('latin-1') for k, v in extra.items()},
                    'Content-Length': str(len(content)),
                },
            )
            + content
        ],
        sent=sent,
    )


def redirect(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """To other hosts, in circles, to files, to other resources."""
    pool = (
        *links(case.stranger),
        request.target,
        plain(request.target) + '/',
        plain(request.target) + '?x',
        rng.choice(list(case.tree)),
        f'/redfish/v1/x?password={PASSWORD}',
    )
    where = rng.choice(pool).encode('utf-8', 'replace').decode('latin-1').replace('\r', '').replace('\n', '')
    number = rng.choice((301, 302, 303, 307, 308))
    return Answer(pieces=[head(number, {'Location': where, 'Content-Length': '0'})], sent=sent)


def header_flood(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """10,000 headers, or one of a megabyte, or odd ones."""
    content = _content(body)
    many: dict[str, str] = rng.choice(
        (
            {f'X-{n}': 'v' * 20 for n in range(10_000)},
            {'X-Long': 'v' * 1_000_000},
            {'X' * 100_000: 'v'},
            {'X-Fold': 'a\r\n b'},
            {'X Y': 'z'},
            {'X-Nul': 'a\x00b'},
            {'': 'x'},
            {'X-Latin': '\xff\xfe'},
            {'ETag': '\x7f' * 3},
            {'Set-Cookie': 'a=b; Domain=.invalid; Path=/'},
            {'ETag': '"' + 'e' * 5000 + '"'},
            {'Content-Type': 'text/html; charset=utf-16'},
            {'Content-Type': 'image/png'},
            {'Content-Type': ''},
            {'Strict-Transport-Security': 'max-age=9'},
            {'Upgrade': 'h2c', 'Connection': 'Upgrade'},
            {'Alt-Svc': 'h2=":1"'},
            {'Link': '</x>'},
            {'Refresh': '0; url=http://bmc.attacker.invalid/'},
            {'Keep-Alive': 'timeout=0, max=0'},
            {'Connection': 'close'},
            {'Proxy-Connection': 'x'},
        )
    )
    _good(sent, status, content)
    return Answer(pieces=[head(status, {**headers, **many, 'Content-Length': str(len(content))}) + content], sent=sent)


def length(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """A Content-Length that is wrong, odd, or there twice."""
    content = _content(body)
    said = rng.choice(
        (
            str(len(content) + 50),
            str(max(0, len(content) - 5)),
            '-1',
            '+5',
            '99999999999999999999',
            'abc',
            '',
            '0x10',
            '1 2',
            f'{len(content)}, {len(content)}',
            f'{len(content)}\r\nContent-Length: 3',
            '٣'.encode().decode('latin-1'),
            '0',
        )
    )
    if said == f'{len(content)}, {len(content)}':
        _good(sent, status, content)
    # What follows a body that is too short is no answer to anything.
    rest = b'' if rng.random() < 0.5 else _unasked(case, rng)
    return Answer(pieces=[head(status, {**headers, 'Content-Length': said}) + content + rest], end=CLOSE, sent=sent)


def _unasked(case: Hostile, rng: random.Random) -> bytes:
    """An answer to a question that nobody has asked: all locks closed."""
    marked = [uri for uri in case.tree if any(name in json.dumps(case.tree[uri]) for name in LOCKS)]
    content = dump(_closed(case.tree[rng.choice(marked or list(case.tree))]))
    return head(200, {'Content-Length': str(len(content)), 'Content-Type': 'application/json'}) + content


def second_answer(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """One more answer than was asked for."""
    content = _content(body)
    if len(content) > 16_000:
        return truncated(case, rng, request, status, body, headers, sent)
    _good(sent, status, content)
    whole = head(status, {**headers, 'Content-Length': str(len(content))}) + content
    return Answer(pieces=[whole + _unasked(case, rng)[:30_000]], sent=sent)


def chunked(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """Chunks, in order or not."""
    content = _content(body)
    half = len(content) // 2
    one, two = content[:half], content[half:]

    def chunk(data: bytes, extension: bytes = b'') -> bytes:
        return f'{len(data):x}'.encode() + extension + b'\r\n' + data + b'\r\n'

    kind = rng.choice(
        (
            'good',
            'extension',
            'trailer',
            'huge',
            'negative',
            'hex',
            'missing',
            'cut',
            'overflow',
            'both',
            'lf',
            'many',
            'long',
            'list',
        )
    )
    fields = {**headers, 'Transfer-Encoding': 'chunked'}
    end = None
    match kind:
        case 'good':
            raw = (chunk(one) if one else b'') + (chunk(two) if two else b'') + b'0\r\n\r\n'
            _good(sent, status, content)
        case 'extension':
            raw = (chunk(content, b';a="b"') if content else b'') + b'0\r\n\r\n'
            _good(sent, status, content)
        case 'trailer':
            raw = (chunk(content) if content else b'') + b'0\r\nETag: "x"\r\nX-Auth-Token: stolen\r\nContent-Length: 3\r\n\r\n'
            _good(sent, status, content)
        case 'huge':
            raw, end = b'ffffffffffffffff\r\n' + content, CLOSE
        case 'negative':
            raw, end = b'-1\r\n' + content + b'\r\n0\r\n\r\n', CLOSE
        case 'hex':
            raw, end = b'0x10\r\n' + content + b'\r\n0\r\n\r\n', CLOSE
        case 'missing':
            raw, end = content, CLOSE
        case 'cut':
            raw, end = chunk(one)[:-1] if one else b'5\r\n', CLOSE
        case 'overflow':
            raw, end = b'1' * 5000 + b'\r\n' + content, CLOSE
        case 'both':
            fields['Content-Length'] = str(rng.choice((0, 3, len(content))))
            raw = (chunk(content) if content else b'') + b'0\r\n\r\n'
            _good(sent, status, content)
        case 'lf':
            raw = (f'{len(content):x}\n'.encode() + content + b'\n' if content else b'') + b'0\n\n'
            _good(sent, status, content)
        case 'many':
            raw = b''.join(chunk(content[n : n + 1]) for n in range(len(content))) + b'0\r\n\r\n'
            _good(sent, status, content)
        case 'long':
            raw = (chunk(content, b';' + b'x' * 100_000) if content else b'') + b'0\r\n\r\n'
            _good(sent, status, content)
        case _:
            fields['Transfer-Encoding'] = rng.choice(
                ('identity', 'gzip, chunked', 'chunked, chunked', 'xchunked', 'chunked\x0b')
            )
            raw, end = (chunk(content) if content else b'') + b'0\r\n\r\n', CLOSE
            _good(sent, status, content)
    return Answer(pieces=[head(status, fields) + raw], end=end, sent=sent)


def truncated(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """The connection ends early: in the headers, in the body, by a reset."""
    content = _content(body)
    whole = head(status, {**headers, 'Content-Length': str(len(content))}) + content
    cut = whole[: rng.choice((0, 1, 9, 20, len(whole) // 2, max(0, len(whole) - 1)))]
    return Answer(pieces=[cut] if cut else [], end=rng.choice((CLOSE, RESET)), sent=sent)


def old(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """HTTP/1.0 or a body that ends with the connection."""
    content = _content(body)
    _good(sent, status, content)
    version = rng.choice(
        ('HTTP/1.0', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/0.9', 'HTTP/2.0', 'http/1.1', 'ICY', 'HTTP/1.1.1', 'HTTP/1', 'RTSP/1.0')
    )
    return Answer(pieces=[head(status, {**headers, 'Connection': 'close'}, version) + content], end=CLOSE, sent=sent)


def babble(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """No HTTP, several status lines, interim answers without end."""
    content = _content(body)
    good = head(status, {**headers, 'Content-Length': str(len(content))}) + content
    kind = rng.randrange(10)
    if kind == 0:
        _good(sent, status, content)
        return Answer(pieces=[(b'HTTP/1.1 100 Continue\r\n\r\n' * rng.choice((1, 50, 20_000))) + good], sent=sent)
    if kind == 1:
        _good(sent, status, content)
        return Answer(pieces=[b'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nContent-Length: 5\r\n\r\n' + good], sent=sent)
    raw = (
        b'HTTP/1.1 200 OK\r\nHTTP/1.1 200 OK\r\n\r\n' + content,
        b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n' + good,
        content,
        b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
        b'\x16\x03\x01' + b'\x00' * 100,
        b'\r\n' * 1000,
        b'SSH-2.0-x\r\n',
        b'HTTP/1.1\r\n\r\n',
    )[kind - 2]
    return Answer(pieces=[raw], end=CLOSE, sent=sent)


def packed(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """Packed although nobody asked for it."""
    content = _content(body)
    coding, data, good = rng.choice(
        (
            ('gzip', gzip.compress(content), True),
            ('deflate', zlib.compress(content), True),
            ('deflate', zlib.compress(content)[2:-4], True),
            ('x-gzip', gzip.compress(content), True),
            ('gzip', gzip.compress(content)[:-9], False),
            ('gzip', content, False),
            ('br', content, False),
            ('gzip', gzip.compress(b'') + gzip.compress(content), True),
            ('gzip, gzip', gzip.compress(gzip.compress(content)), True),
            ('identity', content, True),
            ('', content, True),
            ('zstd', content, False),
            ('gzip', gzip.compress(content) + b'junk', True),
            ('gzip', gzip.compress(content[: len(content) // 2]) + gzip.compress(content[len(content) // 2 :]), True),
            ('GZIP', gzip.compress(content), True),
        )
    )
    if good:
        _good(sent, status, content)
    return Answer(
        pieces=[head(status, {**headers, 'Content-Encoding': coding, 'Content-Length': str(len(data))}) + data], sent=sent
    )


_BOMBS: dict[int, bytes] = {}


def bomb(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """A little that unpacks to a hundred megabytes, or a lot that is not packed at all."""
    kind = rng.randrange(3)
    if kind not in _BOMBS:
        engine = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
        piece = b'[' * 1_000_000 if kind == 0 else b' ' * 1_000_000
        _BOMBS[kind] = b''.join(engine.compress(piece) for _ in range(100)) + engine.flush()
    data = _BOMBS[kind]
    if kind == 2:
        return Answer(pieces=[head(200, {'Content-Length': str(20_000_000)}), *([b' ' * 1_000_000] * 20)], sent=sent)
    return Answer(pieces=[head(200, {'Content-Encoding': 'gzip', 'Content-Length': str(len(data))}) + data], sent=sent)


def wide(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """Many megabytes of little objects."""
    case.relinked = True
    number = rng.choice((100_000, 350_000, 800_000))
    name = rng.choice(('Members', 'Links', 'PCIeDevices', 'RelatedItem', 'Oem', 'Controllers', 'x'))
    element = rng.choice((b'{}', b'1', b'[]', b'{"@odata.id":"/x"}'))
    content = dump(body)[:-1] + f', "{name}": ['.encode() + b','.join([element] * number) + b']}'
    sent.bodies = (content,)
    return Answer(pieces=[head(200, {'Content-Length': str(len(content))}) + content], sent=sent)


def drip(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """A byte every now and then, of the headers or of the body."""
    content = _content(body)
    first = head(status, {**headers, 'Content-Length': str(len(content))})
    _good(sent, status, content)
    pieces: list[bytes | float] = []
    at_once, slowly = (first, content) if rng.random() < 0.5 else (b'', first + content)
    pieces.append(at_once)
    for n in range(min(len(slowly), 200)):
        pieces += [slowly[n : n + 1], 0.1]
    return Answer(pieces=[p for p in pieces if p != b''], end=HOLD, sent=sent)


def silence(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """Nothing, or the beginning of something, for ever."""
    content = _content(body)
    whole = head(status, {**headers, 'Content-Length': str(len(content))}) + content
    cut = whole[: rng.choice((0, 5, len(whole) - 1))]
    return Answer(pieces=[cut] if cut else [], end=HOLD, sent=sent)


def login_again(
    case: Hostile, rng: random.Random, request: Request, status: int, body: Any, headers: dict[str, str], sent: Sent
) -> Answer:
    """Not logged in, ever."""
    return Answer(
        pieces=[head(401, {'WWW-Authenticate': 'Basic realm="x"', 'X-Auth-Token': 'other', 'Content-Length': '0'})], sent=sent
    )


WIRE: dict[str, Wire] = {
    function.__name__: function
    for function in (
        status_word,
        redirect,
        header_flood,
        length,
        second_answer,
        chunked,
        truncated,
        old,
        babble,
        packed,
        bomb,
        wide,
        drip,
        silence,
        login_again,
    )
}

SLOW = frozenset({'drip', 'silence'})
"""Mutations that cost the client its whole timeout."""

HEAVY = frozenset({'bomb', 'wide', 'crowd', 'long_text', 'deep'})
"""Mutations of many megabytes, or that cost much time to make."""
