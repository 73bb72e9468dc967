# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write the SBOM of the runtime dependencies (CycloneDX 1.6, JSON) from the lock files: requirements/baremetal-acc.cdx.json.

``nox -s sbom``, or ``python -m tests.tools.sbom``, in an environment that the lock files were installed into: who requires whom
is read from what is installed. The dependencies of the core are ``required``; those that come with the extras of the demo,
which are all extras that somebody runs, are ``optional``. The hashes of a component are those of all its files on PyPI.
"""
# ruff: noqa: T201

import configparser
import importlib.metadata
import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tools import bounds, lock

SBOM = lock.FOLDER / 'baremetal-acc.cdx.json'

PROJECT = 'baremetal-acc'

OLDEST = {'python_version': '3.11', 'python_full_version': lock.OLDEST}
"""The SBOM is that of an installation on the oldest Python, whichever Python writes it."""

NAMESPACE = uuid.UUID('6ba7b811-9dad-11d1-80b4-00c04fd430c8')
"""For URLs (RFC 9562, section 6.6): the serial number is derived from the content, so that equal files are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """A project as a lock file names it: its version and the SHA-256 of each of its files.

    :ivar here: this Python needs it, so it is installed. Some projects are needed on the oldest Python only.
    """

    name: str
    version: str
    sha256: tuple[str, ...]
    here: bool


def locked(name: str) -> dict[str, Locked]:
    """The projects of one lock file that this environment needs, without those of the file that it includes, by name."""
    found = {}
    for entry in re.split(r'\n(?=\S)', (lock.FOLDER / f'{name}.txt').read_text(encoding='utf-8')):
        if entry.startswith(('#', '-r')):
            continue
        need = Requirement(entry.partition('\\\n')[0].strip())
        if need.marker is None or need.marker.evaluate(OLDEST):
            (pin,) = need.specifier
            here = need.marker is None or need.marker.evaluate()
            hashes = tuple(sorted(re.findall(r'--hash=sha256:([0-9a-f]{64})', entry)))
            found[canonicalize_name(need.name)] = Locked(
                name=canonicalize_name(need.name), version=pin.version, sha256=hashes, here=here
            )
    return found


def component(of: Locked, scope: ComponentScope) -> Component:
    """The component of a project on PyPI."""
    purl = PackageURL('pypi', name=of.name, version=of.version)
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(f'https://pypi.org/project/{of.name}/{of.version}/#files'),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=one) for one in of.sha256],
    )
    return Component(
        type=ComponentType.LIBRARY,
        name=of.name,
        version=of.version,
        purl=purl,
        bom_ref=str(purl),
        scope=scope,
        external_references=[files],
    )


def needed_by(name: str, extras: frozenset[str]) -> Iterator[Requirement]:
    """What an installed project requires here with these extras."""
    for need in map(Requirement, importlib.metadata.requires(name) or []):
        if need.marker is None or any(need.marker.evaluate({**OLDEST, 'extra': extra}) for extra in extras or {''}):
            yield need


def closure(needs: Iterable[Requirement], pins: Mapping[str, Locked]) -> dict[str, set[str]]:
    """Every project that these requirements install, with the names of what it requires itself.

    :raises KeyError: a project is not locked.
    :raises importlib.metadata.PackageNotFoundError: a project is not installed that this Python needs.
    """
    found: dict[str, set[str]] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [(canonicalize_name(need.name), frozenset(need.extras)) for need in needs]
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        inner_needs = needed_by(name, extras) if pins[name].here else ()
        inner = [(canonicalize_name(need.name), frozenset(need.extras)) for need in inner_needs]
        found.setdefault(name, set()).update(one for one, _ in inner)
        todo += inner
    return found


def bom() -> Bom:
    """The SBOM: a component for each project that the core and the demo install, and who requires whom."""
    config = configparser.ConfigParser(delimiters=('=',))
    config.read(lock.ROOT / 'setup.cfg', encoding='utf-8')
    version = config['metadata']['version']
    purl = PackageURL('pypi', name=PROJECT, version=version)
    root = Component(type=ComponentType.APPLICATION, name=PROJECT, version=version, purl=purl, bom_ref=str(purl))
    pins = locked('core') | locked('demo')
    core, direct = closure(bounds.required(lock.SETS['core']), pins), bounds.required(lock.SETS['demo'])
    graph = closure(direct, pins)
    scopes = {name: ComponentScope.REQUIRED if name in core else ComponentScope.OPTIONAL for name in graph}
    components = {name: component(pins[name], scope) for name, scope in sorted(scopes.items())}
    made = Bom(components=components.values())
    made.metadata.component = root
    made.metadata.timestamp = None  # type: ignore[assignment]
    made.register_dependency(root, [components[name] for name in sorted({canonicalize_name(need.name) for need in direct})])
    for name, inner in graph.items():
        made.register_dependency(components[name], [components[one] for one in sorted(inner)])
    made.serial_number = uuid.uuid5(NAMESPACE, '\n'.join([str(purl), *(str(one.purl) for one in components.values())]))
    return made


def document() -> str:
    """The text of the file."""
    return JsonV1Dot6(bom()).output_as_string(indent=1) + '\n'


def main() -> int:
    """The command."""
    SBOM.write_text(document(), encoding='utf-8')
    print(f'{SBOM.relative_to(lock.ROOT)}: {len(bom().components)} components')
    return 0


if __name__ == '__main__':
    sys.exit(main())
