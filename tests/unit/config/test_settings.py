# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each option of the core is one typed setting of the same name."""

import types
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import pytest
from oslo_config import cfg

from baremetal_acc.config import options
from baremetal_acc.config.settings import DemandSettings, ServiceSettings, Settings
from baremetal_acc.model.image import SignatureDemand
from baremetal_acc.policy.baseline_rules import Exposure
from tests import configured

GROUPS = {options.GROUP: (options.OPTIONS, Settings), options.DEMAND_GROUP: (options.DEMAND_OPTIONS, DemandSettings)}

OPTIONS = [pytest.param(group, option, id=f'{group}-{option.dest}') for group, (found, _) in GROUPS.items() for option in found]


def conf() -> cfg.ConfigOpts:
    """As a process has it whose file is empty."""
    made = cfg.ConfigOpts()
    options.register(made)
    options.register_demand(made)
    made(args=[], project='baremetal_acc', default_config_files=[], default_config_dirs=[])
    return made


@pytest.mark.parametrize('group', GROUPS)
def test_each_option_is_a_setting_of_the_same_name(group: str) -> None:
    """Whoever renames the one renames the other, and mypy names each module that reads it."""
    declared, kind = GROUPS[group]
    names = {option.dest for option in declared}
    settings = {field.name for field in fields(kind)} - {'from_arguments'}
    assert settings == names, configured.differ(group, kind, names, settings)


@pytest.mark.parametrize(('group', 'option'), OPTIONS)
def test_an_option_changes_the_setting_of_its_name_and_no_other(group: str, option: cfg.Opt) -> None:
    """A setting that reads another option than its own would be found by nobody else."""
    kind, changed = GROUPS[group][1], conf()
    changed.set_override(option.dest, configured.another_value(option), group=group)
    before, after = kind.from_conf(conf()), kind.from_conf(changed)
    differ = {field.name for field in fields(kind) if getattr(before, field.name) != getattr(after, field.name)}
    assert {option.dest} == differ


@pytest.mark.parametrize('group', GROUPS)
def test_each_value_has_the_type_of_its_setting(group: str) -> None:
    """Where nothing is set, and where everything is: mypy cannot see what oslo.config gives."""
    declared, kind = GROUPS[group]
    changed = conf()
    for option in declared:
        changed.set_override(option.dest, configured.another_value(option), group=group)
    for found in (kind.from_conf(conf()), kind.from_conf(changed)):
        for name, annotation in get_type_hints(kind).items():
            assert _is_of(getattr(found, name), annotation), name


def _is_of(value: object, annotation: object) -> bool:
    inner = get_args(annotation)
    if isinstance(annotation, types.UnionType):
        return any(_is_of(value, one) for one in inner)
    kind = get_origin(annotation) or annotation
    if kind in (tuple, frozenset):
        return isinstance(value, kind) and all(_is_of(one, inner[0]) for one in value)
    return type(value) is kind or (kind is Path and isinstance(value, Path))


def test_numbers_are_times_and_texts_are_what_they_name() -> None:
    """Units lie in the types."""
    found = configured.settings(
        poll_interval=2.5, default_exposure='none', catalogue_signature='optional', image_folders=['/a']
    )
    assert (timedelta(seconds=2.5), Exposure.NONE) == (found.poll_interval, found.default_exposure)
    assert (SignatureDemand.OPTIONAL, (Path('/a'),)) == (found.catalogue_signature, found.image_folders)


def test_an_argument_wins_over_the_file_and_is_remembered_as_one() -> None:
    """A message then names the argument; one that is not given changes nothing."""
    found = configured.settings(baseline='/etc/b.toml', catalogue='/etc/c.toml')
    assert found == found.with_arguments(baseline=None, catalogue='')
    named = found.with_arguments(baseline='mine.toml', catalogue=None)
    assert (Path('mine.toml'), Path('/etc/c.toml'), {'baseline'}) == (named.baseline, named.catalogue, named.from_arguments)


def test_the_command_line_has_a_file_for_serials_unless_the_operator_names_one() -> None:
    """An empty value names none, and none is put in its place."""
    found = conf()
    assert Path('/s') == Settings.from_conf(found, serial_file=Path('/s')).catalogue_serial_file
    found.set_override('catalogue_serial_file', '/named', group=options.GROUP)
    assert Path('/named') == Settings.from_conf(found, serial_file=Path('/s')).catalogue_serial_file
    found.set_override('catalogue_serial_file', '', group=options.GROUP)
    assert Settings.from_conf(found, serial_file=Path('/s')).catalogue_serial_file is None


def test_an_empty_name_of_a_certificate_does_not_mean_none() -> None:
    """Images would be served by HTTP, and servers verified with other authorities than the operator meant to name."""
    found = configured.settings(image_server_certificate='', image_ca='')
    assert None not in (found.image_server_certificate, found.image_ca)


def test_a_service_is_set_up_once_its_group_says_how_to_authenticate() -> None:
    """And is waited for as long as the command line waits, unless the group says how long."""
    found = conf()
    assert (False, options.API_TIMEOUT_SECONDS) == _service(found)
    found.set_override('auth_type', 'none', group='placement')
    found.set_override('timeout', 5, group='placement')
    assert (True, 5) == _service(found)


def _service(conf: cfg.ConfigOpts) -> tuple[bool, int | None]:
    found = ServiceSettings.from_conf(conf, 'placement', service_type='placement')
    return found.is_set_up, found.timeout_seconds
