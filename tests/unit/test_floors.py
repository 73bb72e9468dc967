# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Imports point down the floors, and libraries, vendors' names, option reads and status codes stay in their packages.

The floors are those of doc/source/contributor/developing.rst. Imports inside functions and under TYPE_CHECKING count like all
others, and so do ``import_module('...')`` and ``__import__('...')``. Every rule is shown on a small sample that breaks it.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

CORE = 'baremetal_acc'
GUEST = 'baremetal_acc_ironic'

FLOOR_0 = ('errors', 'model')
FLOOR_1 = ('policy', 'planning', 'scheduling')
FLOOR_2 = (
    'attach',
    'bmc',
    'locks',
    'card_settings',
    'images',
    'placement',
    'certificates',
    'config',
    'http',
    'atomic_file',
    'input_file',
    'standard_streams',
    'state_file',
    'wait',
)
FLOOR_3 = ('execution', 'pools', 'bootstrap')
CONTRACTS = (
    'bmc.driver',
    'bmc.registry',
    'bmc.resource_digest',
    'bmc.settings_reader',
    'locks.mechanism',
    'locks.registry',
    'card_settings.mechanism',
    'card_settings.registry',
    'images',
    'placement',
    'certificates',
    'config',
    'atomic_file',
    'input_file',
    'state_file',
    'wait',
)
"""What floor 3 may know of floor 2: what a driver or a lock promises and how one is found, never a driver or a lock."""

MAY_IMPORT: dict[str, tuple[str, ...]] = {
    '': (),
    'errors': (),
    'model': FLOOR_0,
    'policy': (*FLOOR_0, 'policy'),
    'planning': FLOOR_0 + FLOOR_1,
    'scheduling': FLOOR_0 + FLOOR_1,
    'attach': (*FLOOR_0, *FLOOR_1, 'attach'),
    'bmc': (*FLOOR_0, *FLOOR_1, 'bmc', 'http', 'input_file', 'wait'),
    'locks': (*FLOOR_0, *FLOOR_1, 'locks', 'bmc.driver'),
    'card_settings': (*FLOOR_0, *FLOOR_1, 'card_settings', 'bmc.driver', 'locks.property_reading'),
    'images': (*FLOOR_0, *FLOOR_1, 'images', 'http', 'input_file', 'state_file'),
    'placement': (*FLOOR_0, *FLOOR_1, 'placement'),
    'certificates': (*FLOOR_0, *FLOOR_1, 'certificates'),
    'config': (*FLOOR_0, *FLOOR_1, 'config'),
    'http': ('http', 'wait'),
    'atomic_file': (),
    'input_file': (),
    'standard_streams': (),
    'wait': (),
    'state_file': ('errors', 'atomic_file'),
    'execution': (*FLOOR_0, *FLOOR_1, *CONTRACTS, 'render', 'execution'),
    'pools': (*FLOOR_0, *FLOOR_1, *CONTRACTS, 'pools'),
    'bootstrap': (*FLOOR_0, *FLOOR_1, *CONTRACTS, 'execution'),
    'render': (*FLOOR_0, *FLOOR_1, 'render'),
    'cli': (*FLOOR_0, *FLOOR_1, *FLOOR_2, *FLOOR_3, 'render', 'cli', 'emulator.main'),
    'demo': ('errors', 'demo'),
    'emulator': ('emulator', 'standard_streams'),
    'data': (),
    GUEST: (*FLOOR_0, *FLOOR_1, *FLOOR_2, *FLOOR_3, 'render', GUEST),
}
"""Which rooms a room may import, by module prefix. ``cli`` starts the emulator as a program would: by its main alone."""

HTTP_CLIENTS: dict[str, tuple[str, ...]] = {
    'http.client': ('demo',),
    'urllib.request': ('emulator',),
    'urllib3': (),
    # keystoneauth, by which OpenStack's services are asked, brings it; a session of it takes a transport of requests.
    'requests': ('placement.slow_answers', 'demo'),
    'httpx': (),
    'aiohttp': ('emulator',),
    'keystoneauth1': ('placement', 'pools', 'config', 'cli', GUEST),
}
"""Everybody else's clients of HTTP, and who may use them: ours is ``http.transport``. The demo and the emulator share no code
with what they show and what they stand for."""

STDLIB_ONLY = (
    '',
    'errors',
    'model',
    'policy',
    'planning',
    'scheduling',
    'render',
    'data',
    'atomic_file',
    'input_file',
    'standard_streams',
    'state_file',
)

LIBRARY_ONLY_IN: dict[str, tuple[str, ...]] = {
    'sushy': ('bmc.redfish',),
    'pyghmi': ('bmc.ipmi', 'emulator'),
    'ironic': (GUEST,),
    'oslo_config': ('config', 'pools', 'cli', f'{GUEST}.opts', f'{GUEST}.settings', f'{GUEST}.ironic_conf'),
    'oslo_policy': (GUEST,),
    'oslo_messaging': ('pools.nova',),
    'stevedore': ('attach.find', 'bmc.registry', 'locks.registry', 'locks.mechanism', 'execution', 'cli', GUEST),
    'tenacity': ('bmc', 'placement', 'images'),
    'cliff': ('cli',),
    'httptools': ('http.answer_parser',),
    'greenlet': ('wait',),
    'rich': ('cli.output.terminal', 'demo.screen'),
    'shtab': ('cli.commands.complete',),
    'cbor2': ('images.reference.corim',),
    'lxml': ('images.reference.swid',),
    'signxml': ('images.reference.swid',),
    'cryptography': ('bmc.ipmi.rmcp', 'images', 'certificates', 'emulator'),
}

CONF_NAMED_IN = (f'{GUEST}.settings',)
"""The only module that knows Ironic's ``CONF``. Nothing of the core knows one that is the whole process's."""

OPTIONS_READ_IN = ('config.options', 'config.settings', f'{GUEST}.settings', f'{GUEST}.ironic_conf')
"""Where values are read from a ConfigOpts. All others get typed settings; some hand a ConfigOpts on to a library. The last one
reads Ironic's lists from files, to write them again with ours."""

OF_CONFIG_OPTS = frozenset({*dir(cfg.ConfigOpts), 'config_dir', 'config_file', 'default_config_dirs', 'default_config_files'})
"""What every ConfigOpts has, whatever its options are."""

HTTP_SPOKEN_IN = ('http', 'bmc', 'emulator', 'demo', 'placement', 'images.fetch', 'pools.ironic')
"""Who reads the status of an answer. All others decide on :class:`BmcRefusalReason`, which knows of no protocol."""

HTTP_STATUS_GIVEN_IN = (f'{GUEST}.power', f'{GUEST}.authorization.rights')
"""Who raises errors of Ironic's own, which carry the status that its API answers with."""

CODES_COMPARED_IN = (*HTTP_SPOKEN_IN, 'images.spdm.transcript')
"""Who compares with numbers that a HTTP status or a completion code may have. A transcript is SPDM's, of 0 to 255."""

OF_DRIVERS = frozenset({'HttpRefused', 'CommandRefused'})
"""Errors that carry the code of an answer: each is its driver's alone."""

SETTINGS_PLACES = re.compile(r'(?<![\w-])--[a-z]|bmcs\.yaml|driver_info|acc_bmcs')
SETTINGS_PLACES_NOT_IN = (
    'errors',
    'model',
    'policy',
    'planning',
    'scheduling',
    'attach',
    'bmc',
    'locks',
    'card_settings',
    'execution',
)
SETTINGS_PLACES_IN = ('planning.write_outcomes', 'planning.lock_evidence')
"""Where an operator says something: an argument of the command line, a file, a key of an Ironic node. Below the shells hints
name a :class:`~baremetal_acc.bmc.driver.Setting`. How a restore goes on, and how what has vanished is forgotten, is a verb of
one shell and a step of the other: both are named."""

VENDORS = re.compile(
    'altera|ami|amd|bluefield|broadcom|dell|dgx|gigabyte|habana|hgx|hpe|huawei|idrac|ilo|inspur|intel|lenovo|marvell|'
    'mellanox|nvidia|pensando|supermicro|tenstorrent|xcc|xclarity|xilinx'
)
VENDORS_IN = ('bmc.quirks', 'locks', 'card_settings.nvidia', 'card_settings.registry', 'emulator.hw')
VENDORS_NOT_IN = ('locks.mechanism', 'locks.registry')
"""Names in code count: identifiers and strings. A docstring or a comment may say where something was seen."""


def room(module: str) -> str:
    """The room of a module: ``bmc`` of ``baremetal_acc.bmc.redfish.driver``; the guest's is its package."""
    return GUEST if module.split('.')[0] == GUEST else module.removeprefix(CORE).removeprefix('.').split('.')[0]


def within(module: str, places: tuple[str, ...]) -> bool:
    """Whether the module is one of the places, or lies in one."""
    inner = module if module.split('.')[0] == GUEST else module.removeprefix(CORE).removeprefix('.')
    return any(inner == place or inner.startswith(f'{place}.') for place in places)


def imported(module: str, is_package: bool, code: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that the code imports. ``from a import b`` is both a and a.b."""
    for node in ast.walk(code):
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name) for alias in node.names)
            case ast.ImportFrom():
                base = node.module or ''
                if node.level:
                    above = module.split('.') if is_package else module.split('.')[:-1]
                    above = above[: len(above) - node.level + 1]
                    base = '.'.join([*above, base] if base else above)
                yield from ((node.lineno, f'{base}.{alias.name}') for alias in node.names)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(wanted)), *_]):
                if name in ('import_module', '__import__'):
                    yield node.lineno, wanted


def names(code: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of identifiers and strings that are no docstrings."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(code)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    docs |= {id(node.value) for node in ast.walk(code) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
    for node in ast.walk(code):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docs:
                yield node.lineno, text
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.keyword(arg=str(text)) | ast.arg(arg=text):
                yield node.lineno, text
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
                yield node.lineno, text


def conf_named(code: ast.Module) -> Iterator[int]:
    """Lines in which something is called CONF: imported, made or used."""
    for node in ast.walk(code):
        match node:
            case ast.alias(name=name, asname=asname) if 'CONF' in (name, asname):
                yield node.lineno
            case ast.Name(id='CONF') | ast.Attribute(attr='CONF') | ast.Constant(value='CONF') | ast.arg(arg='CONF'):
                yield node.lineno


def options_read(code: ast.Module) -> Iterator[int]:
    """Lines in which the value of an option is read from a ConfigOpts: ``conf[...]``, ``conf.option``, ``getattr(conf, ...)``.

    A ConfigOpts is what is annotated as one or made as one, and what is called ``conf`` without another type.
    """
    types: dict[str, str] = {}
    for node in ast.walk(code):
        match node:
            case (
                ast.arg(arg=name, annotation=ast.expr() as annotation)
                | ast.AnnAssign(target=ast.Name(id=name), annotation=annotation)
            ):
                types[name] = ast.unparse(annotation)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=made)):
                types[name] = ast.unparse(made)

    def is_conf(node: ast.expr) -> bool:
        match node:
            case ast.Name(id=name):
                kind = types.get(name, 'Any' if name.casefold() == 'conf' else '')
                return 'ConfigOpts' in kind or (name.casefold() == 'conf' and kind == 'Any')
            case ast.Attribute(attr=name):
                return name.strip('_').casefold() == 'conf'
        return False

    for node in ast.walk(code):
        match node:
            case ast.Subscript(value=value) if is_conf(value):
                yield node.lineno
            case ast.Attribute(value=value, attr=name) if is_conf(value) and name not in OF_CONFIG_OPTS:
                yield node.lineno
            case ast.Call(func=ast.Name(id='getattr' | 'vars'), args=[value, *_]) if is_conf(value):
                yield node.lineno


def status_read(code: ast.Module) -> Iterator[int]:
    """Lines in which the status of an answer is read."""
    for node in ast.walk(code):
        match node:
            case ast.Attribute(attr='status' | 'status_code', ctx=ast.Load()):
                yield node.lineno
            case ast.Call(func=ast.Name(id='getattr'), args=[_, ast.Constant(value='status' | 'status_code'), *_]):
                yield node.lineno


def codes_compared(code: ast.Module) -> Iterator[int]:
    """Lines in which something is compared with a HTTP status, or a completion code of IPMI, as a number or a set of numbers.

    Of what orders, only the first one of a class of statuses counts. A length is no code.
    """
    known = {
        target.id: node.value
        for node in code.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def numbers(node: ast.expr) -> Iterator[int]:
        match node:
            case ast.Constant(value=int(number)):
                yield number
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                yield from (number for element in elements for number in numbers(element))
            case ast.Call(func=ast.Name(id='frozenset' | 'set' | 'tuple' | 'range'), args=inner):
                yield from (number for one in inner for number in numbers(one))
            case ast.Name(id=name) if name in known:
                yield from numbers(known[name])

    for node in ast.walk(code):
        match node:
            case ast.Compare(left=left, ops=ops, comparators=comparators):
                sides = [left, *comparators]
                found = {number for side in sides for number in numbers(side)}
                if any(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in ops):
                    measures = any(isinstance(s, ast.Call) and ast.unparse(s.func) == 'len' for s in sides)
                    found = set() if measures else found & {400, 500, 600}
                if any(0x80 <= number <= 600 for number in found):
                    yield node.lineno


def words(text: str) -> set[str]:
    """The words of a text or an identifier: ``HostNvidiaLock``, ``nvidia_lock`` and ``Oem/Nvidia`` all hold nvidia."""
    return {word.lower() for word in re.findall(r'[A-Z]+(?![a-z])|[A-Z]?[a-z]+', text)}


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What in this module breaks a rule, one sentence each."""
    code = ast.parse(source)
    found = []
    here = room(module)
    for line, name in imported(module, is_package, code):
        top = name.split('.')[0]
        if top in (CORE, GUEST):
            if name != CORE and not within(name, MAY_IMPORT.get(here, ())):
                found.append(f'{module}:{line} may not import {name}')
        elif (client := next((c for c in HTTP_CLIENTS if name == c or name.startswith(f'{c}.')), None)) is not None:
            if here in STDLIB_ONLY or not within(module, HTTP_CLIENTS[client]):
                found.append(f'{module}:{line} may not import {name}: HTTP is spoken by baremetal_acc.http')
        elif top not in sys.stdlib_module_names:
            if here in STDLIB_ONLY:
                found.append(f'{module}:{line} may import the standard library only, not {name}')
            elif top in LIBRARY_ONLY_IN and not within(module, LIBRARY_ONLY_IN[top]):
                found.append(f'{module}:{line} may not import {name}')
            elif top == 'cliff' and any(part.startswith('_') for part in name.split('.')):
                found.append(f'{module}:{line} may not import {name}: it is private, and other releases do not have it')
        elif top == 'http' and not within(module, HTTP_SPOKEN_IN + HTTP_STATUS_GIVEN_IN):
            found.append(f'{module}:{line} may not import {name}')
        if name.split('.')[-1] in OF_DRIVERS and not within(module, ('bmc',)):
            found.append(f'{module}:{line} may not know a code of a driver: take the reason of BmcRefused')
    if not within(module, CONF_NAMED_IN):
        found += [f'{module}:{line} may not name CONF' for line in conf_named(code)]
    if not within(module, OPTIONS_READ_IN):
        found += [f'{module}:{line} may not read an option: take it from typed settings' for line in options_read(code)]
    if not within(module, HTTP_SPOKEN_IN):
        found += [f'{module}:{line} may not read a status: take the reason of BmcRefused' for line in status_read(code)]
    if not within(module, CODES_COMPARED_IN):
        found += [f'{module}:{line} may not compare with a HTTP status or a completion code' for line in codes_compared(code)]
    for line, text in names(code):
        if SETTINGS_PLACES.search(text) and within(module, SETTINGS_PLACES_NOT_IN) and not within(module, SETTINGS_PLACES_IN):
            found.append(f'{module}:{line} may not say where a setting is set: name a Setting')
        vendors = sorted(word for word in words(text) if VENDORS.fullmatch(word))
        if vendors and (not within(module, VENDORS_IN) or within(module, VENDORS_NOT_IN)):
            found.append(f'{module}:{line} may not name {", ".join(vendors)}')
    return found


def modules(tree: Path) -> Iterator[tuple[str, Path]]:
    """Every module that we ship, with its file."""
    for top, base in ((tree / CORE, tree), (tree / 'interfaces' / GUEST, tree / 'interfaces')):
        for path in sorted(top.rglob('*.py')):
            yield '.'.join(path.relative_to(base).with_suffix('').parts).removesuffix('.__init__'), path


def test_all_imports_point_down(tree: Path) -> None:
    """No module of ours breaks a rule of the house."""
    everything = list(modules(tree))
    assert {CORE, GUEST} < {name for name, _ in everything}
    found = [
        violation
        for name, path in everything
        for violation in violations(name, path.read_text(), is_package=path.name == '__init__.py')
    ]
    assert [] == found


def test_options_are_read_in_few_modules(tree: Path) -> None:
    """Exactly in those that the tables name: a renamed option fails mypy everywhere else."""
    code = {name: ast.parse(path.read_text()) for name, path in modules(tree)}
    assert {f'{GUEST}.settings'} == {name for name, parsed in code.items() if any(conf_named(parsed))}
    assert {f'{CORE}.config.options', f'{CORE}.config.settings', f'{GUEST}.settings', f'{GUEST}.ironic_conf'} == {
        name for name, parsed in code.items() if any(options_read(parsed))
    }


def test_every_room_has_its_rule(tree: Path) -> None:
    """A new room needs a line in the table: without one it may import nothing, and this says so first."""
    assert set() == {room(name) for name, _ in modules(tree)} - set(MAY_IMPORT)


@pytest.mark.parametrize(
    ('module', 'source', 'sentence'),
    [
        ('baremetal_acc.model.x', 'import baremetal_acc.planning.plan', 'may not import baremetal_acc.planning.plan'),
        ('baremetal_acc.model.x', 'import msgspec', 'standard library only'),
        ('baremetal_acc.model.x', 'import requests', 'may not import requests'),
        ('baremetal_acc.cli.x', 'from cliff import _argparse', 'may not import cliff._argparse: it is private'),
        ('baremetal_acc.planning.x', 'from baremetal_acc import bmc', 'may not import baremetal_acc.bmc'),
        ('baremetal_acc.scheduling.x', 'from baremetal_acc.bmc import driver', 'may not import baremetal_acc.bmc'),
        ('baremetal_acc.policy.x', 'from baremetal_acc.planning import plan', 'may not import baremetal_acc.planning'),
        ('baremetal_acc.policy.x', 'import tenacity', 'standard library only'),
        ('baremetal_acc.planning.x', 'def f():\n    from ..bmc import driver', 'x:2 may not import baremetal_acc.bmc.driver'),
        ('baremetal_acc.bmc.x', 'import baremetal_acc.locks.mechanism', 'may not import baremetal_acc.locks.mechanism'),
        ('baremetal_acc.bmc.x', 'from baremetal_acc.config import x', 'may not import baremetal_acc.config.x'),
        ('baremetal_acc.bmc.redfish.x', 'from ...execution import tick', 'may not import baremetal_acc.execution.tick'),
        ('baremetal_acc.locks.x', 'import baremetal_acc.bmc.redfish.driver', 'may not import baremetal_acc.bmc.redfish'),
        ('baremetal_acc.images.x', 'import baremetal_acc.placement.client', 'may not import baremetal_acc.placement'),
        ('baremetal_acc.placement.x', 'import baremetal_acc.bmc.driver', 'may not import baremetal_acc.bmc.driver'),
        (
            'baremetal_acc.certificates.x',
            'import baremetal_acc.images.trust.keys',
            'may not import baremetal_acc.images.trust.keys',
        ),
        ('baremetal_acc.attach.x', 'import baremetal_acc.bmc.driver', 'may not import baremetal_acc.bmc.driver'),
        ('baremetal_acc.attach.region', 'import stevedore', 'may not import stevedore'),
        ('baremetal_acc.config.x', 'import baremetal_acc.bmc.driver', 'may not import baremetal_acc.bmc.driver'),
        ('baremetal_acc.execution', 'import baremetal_acc.bmc.redfish.driver', 'may not import baremetal_acc.bmc.redfish'),
        ('baremetal_acc.execution', 'import baremetal_acc.locks.write_protected', 'may not import baremetal_acc.locks'),
        ('baremetal_acc.execution', 'import baremetal_acc.cli.main', 'may not import baremetal_acc.cli.main'),
        ('baremetal_acc.cli.x', 'import baremetal_acc.demo.story', 'may not import baremetal_acc.demo.story'),
        (
            'baremetal_acc.cli.x',
            'import baremetal_acc_ironic.steps.definitions',
            'may not import baremetal_acc_ironic.steps.definitions',
        ),
        ('baremetal_acc.cli.x', 'import baremetal_acc.emulator.machine', 'may not import baremetal_acc.emulator.machine'),
        ('baremetal_acc.demo.x', 'import baremetal_acc.execution', 'may not import baremetal_acc.execution'),
        ('baremetal_acc.demo.x', 'import baremetal_acc.emulator.main', 'may not import baremetal_acc.emulator.main'),
        ('baremetal_acc.emulator.x', 'import baremetal_acc.errors', 'may not import baremetal_acc.errors'),
        ('baremetal_acc_ironic.x', 'import baremetal_acc.cli.main', 'may not import baremetal_acc.cli.main'),
        ('baremetal_acc.bmc.x', 'import baremetal_acc_ironic', 'may not import baremetal_acc_ironic'),
        ('baremetal_acc.bmc.x', 'from importlib import import_module\nimport_module("baremetal_acc.cli.main")', 'x:2 may not'),
        (
            'baremetal_acc.bmc.x',
            'if TYPE_CHECKING:\n    import baremetal_acc.execution',
            'may not import baremetal_acc.execution',
        ),
        ('baremetal_acc.locks.x', 'import sushy', 'may not import sushy'),
        ('baremetal_acc.bmc.redfish.x', 'import pyghmi.ipmi', 'may not import pyghmi'),
        ('baremetal_acc.bmc.redfish.x', 'from requests.adapters import HTTPAdapter', 'may not import requests.adapters'),
        ('baremetal_acc.bmc.redfish.client', 'import urllib3', 'may not import urllib3'),
        ('baremetal_acc.images.fetch', 'import requests', 'HTTP is spoken by baremetal_acc.http'),
        ('baremetal_acc.images.x', 'from http import client', 'may not import http.client'),
        ('baremetal_acc.cli.x', 'import urllib.request', 'may not import urllib.request'),
        ('baremetal_acc.images.x', 'import httptools', 'may not import httptools'),
        ('baremetal_acc.images.x', 'from baremetal_acc import wait', 'may not import baremetal_acc.wait'),
        ('baremetal_acc.http.x', 'import baremetal_acc.bmc.redfish.tls', 'may not import baremetal_acc.bmc.redfish'),
        ('baremetal_acc.execution', 'from ironic import conf', 'may not import ironic'),
        ('baremetal_acc.bmc.x', 'from oslo_config import cfg', 'may not import oslo_config'),
        ('baremetal_acc.config.x', 'def f(CONF): pass', 'may not name CONF'),
        ('baremetal_acc.planning.x', 'CONF = 1', 'may not name CONF'),
        ('baremetal_acc.cli.x', 'x = cfg.CONF', 'may not name CONF'),
        ('baremetal_acc_ironic.x', 'from ironic.conf import CONF', 'may not name CONF'),
        ('baremetal_acc_ironic.x', 'from ironic.conf import CONF as conf', 'may not name CONF'),
        ('baremetal_acc_ironic.x', 'x = getattr(module, "CONF")', 'may not name CONF'),
        ('baremetal_acc_ironic.x', 'from oslo_config import cfg', 'may not import oslo_config'),
        ('baremetal_acc.cli.x', 'def f(conf): return conf[GROUP]', 'x:1 may not read an option'),
        ('baremetal_acc.cli.x', 'def f(conf: Any): return conf.api', 'may not read an option'),
        ('baremetal_acc.cli.x', 'def f(found: cfg.ConfigOpts): return found["placement"]', 'may not read an option'),
        ('baremetal_acc.cli.x', 'made = cfg.ConfigOpts()\ny = getattr(made, "placement")', 'x:2 may not read an option'),
        ('baremetal_acc.cli.x', 'def f(using): return using.conf[GROUP]', 'may not read an option'),
        ('baremetal_acc.cli.x', 'def f(self): return self._conf.baremetal_acc', 'may not read an option'),
        ('baremetal_acc.locks.x', 'x = exc.status', 'may not read a status'),
        ('baremetal_acc.execution.x', 'def f(exc):\n    return getattr(exc, "status", None)', 'x:2 may not read a status'),
        ('baremetal_acc.execution.x', '_CONFLICT = 409\nx = code == _CONFLICT', 'x:2 may not compare with a HTTP status'),
        ('baremetal_acc.execution.x', 'x = code is None or code < 500', 'may not compare with a HTTP status'),
        ('baremetal_acc.locks.x', 'x = code in (404, 410)', 'may not compare with a HTTP status'),
        ('baremetal_acc.cli.x', 'GONE = frozenset({404, 410})\nx = code in GONE', 'x:2 may not compare with a HTTP status'),
        ('baremetal_acc.execution.x', 'if code == 0xD5: pass', 'or a completion code'),
        ('baremetal_acc_ironic.x', 'from http import HTTPStatus', 'may not import http.HTTPStatus'),
        ('baremetal_acc_ironic.power', 'if exc.status: pass', 'may not read a status'),
        ('baremetal_acc.cli.x', 'from ..bmc.redfish.trouble import HttpRefused', 'may not know a code of a driver'),
        ('baremetal_acc_ironic.x', 'import baremetal_acc.bmc.ipmi.command.CommandRefused', 'may not know a code of a driver'),
        ('baremetal_acc.bmc.redfish.x', 'hint = "set redfish_verify_ca in driver_info"', 'may not say where a setting is set'),
        ('baremetal_acc.planning.x', 'hint = f"say it (--class {name})"', 'may not say where a setting is set'),
        ('baremetal_acc.bmc.redfish.x', 'if maker == "NVIDIA": pass', 'may not name nvidia'),
        ('baremetal_acc.planning.x', 'def is_dell(card): pass', 'may not name dell'),
        ('baremetal_acc.cli.x', 'x = body["Oem"]["Hpe"]', 'may not name hpe'),
        ('baremetal_acc.locks.mechanism', 'class NvidiaLock: pass', 'may not name nvidia'),
        ('baremetal_acc.unheard_of', 'import baremetal_acc.errors', 'may not import baremetal_acc.errors'),
    ],
)
def test_each_rule_can_fail(module: str, source: str, sentence: str) -> None:
    """A small module that breaks the rule is found, by the line that breaks it."""
    found = violations(module, source)
    assert 1 == len(found), found
    assert sentence in found[0]


@pytest.mark.parametrize(
    ('module', 'source'),
    [
        ('baremetal_acc.model.x', 'import dataclasses\nfrom baremetal_acc.errors import StaleJob'),
        ('baremetal_acc.locks.x', 'from baremetal_acc.bmc.driver import Reader\nNVIDIA = 1'),
        ('baremetal_acc.bmc.redfish.x', 'import sushy\nfrom baremetal_acc.planning import merge'),
        ('baremetal_acc.bmc.x', '"""Seen on: NVIDIA GH200."""'),
        ('baremetal_acc.images.fetch', 'from http import HTTPStatus\nfrom baremetal_acc.http import transport'),
        ('baremetal_acc.execution', 'from baremetal_acc.bmc import registry\nfrom baremetal_acc.locks import mechanism'),
        ('baremetal_acc.cli.x', 'from oslo_config import cfg\nimport baremetal_acc.execution'),
        ('baremetal_acc.cli.x', 'def f(conf: cfg.ConfigOpts): return conf.default_config_files, loading.load(conf, GROUP)'),
        ('baremetal_acc.demo.x', 'def f(conf: Path): return conf.parent'),
        ('baremetal_acc.bmc.x', 'hint = f"leave out {set_by[Setting.CIPHER_SUITE]}; a--b"'),
        ('baremetal_acc.cli.x', 'hint = "write it into bmcs.yaml, or give --verify-ca"'),
        (
            'baremetal_acc_ironic.x',
            'from baremetal_acc_ironic import settings\nfrom baremetal_acc_ironic.state import x\ny = settings.core().publish',
        ),
        ('baremetal_acc.bmc.redfish.x', 'from http import HTTPStatus\nx = exc.status in (404, HTTPStatus.CONFLICT)'),
        ('baremetal_acc_ironic.power', 'from http import HTTPStatus\ncode = HTTPStatus.CONFLICT'),
        ('baremetal_acc.execution.x', 'LONGEST = 400\nx = percent == 100 or len(text) <= LONGEST or age < 120'),
        ('baremetal_acc_ironic.settings', 'from ironic.conf import CONF\nx = CONF[GROUP].publish, CONF.host'),
        ('baremetal_acc.emulator.hw.x', 'NVIDIA = 1\nfrom baremetal_acc.emulator import machine'),
        ('baremetal_acc.emulator.x', 'import aiohttp\nfrom .machine import Machine'),
    ],
)
def test_what_the_house_allows_passes(module: str, source: str) -> None:
    """The checker does not refuse what the floors allow."""
    assert [] == violations(module, source)
