# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Record what a version stores while its own tests take emulated machines through their journeys, and keep one of each shape.

Every state of the command line and every value of our key of ``driver_internal_info`` is recorded as that version writes it. Of
some thousand, the smallest few are kept that have together all fields, kinds of action, states and causes that any of them has.
How it was run is in README.rst beside this file.
"""

import argparse
import json
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

HOOK = """
import importlib.abc, importlib.util, itertools, json, os, shutil, sys
OUT = {out!r}
NUMBERS = itertools.count()


def put(kind, text):
    path = os.path.join(OUT, kind, f'{{os.getpid()}}-{{next(NUMBERS):05}}.json')
    with open(path, 'w') as stream:
        stream.write(text)


def state(module):
    write = module.Store.write

    def recorded(self, state):
        write(self, state)
        put('state', self.path(state.target).read_text())

    module.Store.write = recorded


def node(module):
    store = module.store

    def recorded(node, memory):
        store(node, memory)
        put('nodes', json.dumps(node.driver_internal_info[module.KEY], indent=1))

    module.store = recorded


HOOKS = {{'baremetal_acc.cli.state': state, 'baremetal_acc_ironic.state.node_store': node}}


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        hook = HOOKS.pop(name, None)
        if hook is None:
            return None
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            hook(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
"""
"""What each process of a journey runs first, as its ``sitecustomize``."""

WORDS = frozenset(
    {'type', 'state', 'kind', 'purpose', 'flow', 'met', 'scope', 'evidence', 'cause', 'strength', 'origin', 'basis', 'reset'}
    | {'needs', 'progress', 'power', 'path', 'blocks', 'relaxes', 'demand', 'by_way'}
)
"""Fields whose values are words of ours: each value is a shape of its own."""


def shapes(value: Any, at: str = '') -> Iterator[str]:
    """What a document has: fields that say something, types, and words of enums."""
    if isinstance(value, dict):
        here = f'{at}/{value["type"]}' if isinstance(value.get('type'), str) else at
        if isinstance(value.get('action'), dict) and 'state' in value:
            yield f'{value["action"].get("type")} {value["state"]}{" with a task" if value.get("task") else ""}'
        for name, held in value.items():
            if held not in (None, False, [], {}, ''):
                yield f'{here}.{name}'
                if name in WORDS and isinstance(held, str):
                    yield f'{here}.{name}={held}'
                yield from shapes(held, name if 'type' in value else f'{here}.{name}')
    elif isinstance(value, list):
        for held in value:
            yield from shapes(held, at)
            if isinstance(held, str) and at in WORDS:
                yield f'{at}={held}'


def unpacked(value: dict[str, Any]) -> dict[str, Any]:
    """A value of our key, with what is packed in it unpacked."""
    import base64
    import zlib

    def read(text: Any) -> Any:
        return json.loads(zlib.decompress(base64.b64decode(text))) if isinstance(text, str) else text

    return {
        name: read(held) if name in ('packed', 'seen', 'handed', 'custody', 'attached') else held
        for name, held in value.items()
    }


def ending(document: dict[str, Any]) -> str:
    """How the job of a document stands: a killed run may leave any of them."""
    inner = document.get('packed') or document.get('state') or document
    job = inner.get('job')
    if not job:
        return 'no job'
    last = max((i.get('state', '') for i in job['items']), key=ORDER.index, default='none')
    return f'{"ended" if job.get("ended") else "goes on"}, {last}, {"verdict" if job.get("verdict") else "no verdict"}'


ORDER = ('none', '', 'skipped', 'planned', 'done', 'staged', 'failed', 'running', 'sent')


def chosen(found: Iterable[tuple[str, dict[str, Any]]], most: int) -> list[str]:
    """The documents, as text, that have all shapes together: each time the one that brings most for its size."""
    known = {}
    for text, document in found:
        features = frozenset(shapes(document)) | {f'ending: {ending(document)}'}
        if features not in known or len(text) < len(known[features]):
            known[features] = text
    kept: list[str] = []
    missing = frozenset().union(*known)
    while missing and len(kept) < most:
        best = max(known, key=lambda f: (len(f & missing) / (2000 + len(known[f])), known[f]))
        if not best & missing:
            break
        missing -= best
        kept.append(known[best])
    return kept


def surroundings(tree: Path, folder: Path, hook: str) -> Path:
    """A Python for which a tree is what is installed, with all else that this one has; its journeys start processes with it.

    :returns: its interpreter.
    """
    subprocess.run([sys.executable, '-m', 'venv', '--without-pip', folder], check=True)
    [own] = folder.glob('lib/python*/site-packages')
    (own / 'a.pth').write_text(f'{tree}\n{tree}/interfaces\n')
    (own / 'b.pth').write_text(f'{sysconfig.get_path("purelib")}\n')
    (own / 'sitecustomize.py').write_text(hook)
    for script in Path(sys.executable).parent.iterdir():  # of other projects: placement, uwsgi
        if not (folder / 'bin' / script.name).exists():
            (folder / 'bin' / script.name).symlink_to(script)
    build = ['-c', 'from setuptools import setup; setup()', '-q', 'egg_info', '-e', str(own)]
    subprocess.run([sys.executable, *build], cwd=tree, check=True)
    return folder / 'bin' / 'python'


def shapes_of(texts: Iterable[str]) -> Iterator[str]:
    """All shapes of some documents."""
    for text in texts:
        yield from shapes(unpacked(json.loads(text)))


def record(tree: Path, journeys: Iterable[str], out: Path) -> None:
    """Take journeys, one after the other, with the code and the tests of a tree."""
    for kind in ('state', 'nodes'):
        (out / kind).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        python = surroundings(tree, Path(folder) / 'venv', HOOK.format(out=str(out)))
        for journey in journeys:
            words = [python, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', '-p', 'no:warnings', '--tb=line', journey]
            done = subprocess.run(words, cwd=tree, capture_output=True, text=True, check=False)
            sys.stdout.write(f'{journey} {done.stdout.strip().splitlines()[-1:]}\n')
            sys.stdout.flush()


def main() -> None:
    """Record, or choose from what was recorded."""
    parser = argparse.ArgumentParser()
    parser.add_argument('what', choices=('record', 'choose'))
    parser.add_argument('--tree', type=Path, help='the checkout whose code and tests are run')
    parser.add_argument('--recorded', type=Path, required=True, help='folder of all that was recorded')
    parser.add_argument('--out', type=Path, help='folder of what is kept')
    parser.add_argument('--most', type=int, default=16, help='documents of a kind')
    parser.add_argument('journeys', nargs='*')
    given = parser.parse_intermixed_args()
    if given.what == 'record':
        record(given.tree, given.journeys, given.recorded)
        return
    for kind in ('state', 'nodes'):
        texts = [p.read_text() for p in sorted((given.recorded / kind).glob('*.json'))]
        kept = chosen(((t, unpacked(json.loads(t))) for t in texts), given.most)
        folder = given.out / kind
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        for number, text in enumerate(kept):
            document = unpacked(json.loads(text))
            name = re.sub(r'[^a-z]+', '-', ending(document))
            (folder / f'{number:02}-{name}.json').write_text(text + '\n')
        shown = {*shapes_of(texts)} - {*shapes_of(kept)}
        size = sum(map(len, kept))
        sys.stdout.write(f'{kind}: {len(texts)} recorded, {len(kept)} kept, {size} bytes; without: {sorted(shown)}\n')


if __name__ == '__main__':
    main()
