# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read from setup.cfg what baremetal-acc requires, with the lower bound of each requirement."""

import configparser
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]

CORE = 'core'
"""The name that ``install_requires`` has here, next to the names of the extras."""


def required(parts: Iterable[str], path: Path = ROOT / 'setup.cfg') -> list[Requirement]:
    """The requirements of the core and of extras, with those of the extras that an extra names. Each is there once."""
    config = configparser.ConfigParser(delimiters=('=',))
    config.read(path, encoding='utf-8')
    found: dict[str, Requirement] = {}
    for part in parts:
        for need in _lines(config, part):
            inner = required(sorted(need.extras), path) if need.name == 'baremetal-acc' else [need]
            found.update((str(one), one) for one in inner)
    return list(found.values())


def _lines(config: configparser.ConfigParser, part: str) -> Iterator[Requirement]:
    text = config['options']['install_requires'] if part == CORE else config['options.extras_require'][part]
    for line in text.splitlines():
        if line.strip() and not line.startswith('#'):
            yield Requirement(line.strip())


def lowest(parts: Iterable[str], path: Path = ROOT / 'setup.cfg') -> dict[str, str]:
    """The lower bound of each requirement, by its canonical name. What has no lower bound is left out.

    Two bounds of one project count as the higher one.
    """
    found: dict[str, str] = {}
    for need in required(parts, path):
        bounds = [one.version for one in need.specifier if one.operator == '>=']
        name = canonicalize_name(need.name)
        found.update({name: max([*bounds, found.get(name, '0')], key=_key)} if bounds else {})
    return found


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r'\d+', version))
