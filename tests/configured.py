# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Settings as an operator's file has them, for tests."""

from oslo_config import cfg

from baremetal_acc.config import options
from baremetal_acc.config.settings import Settings


def settings(**values: object) -> Settings:
    """The settings of these options; all others have their defaults.

    :raises ValueError: a value is none of its option.
    """
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf(args=[], project='baremetal_acc', default_config_files=[], default_config_dirs=[])
    for name, value in values.items():
        conf.set_override(name, value, group=options.GROUP)
    return Settings.from_conf(conf)


def another_value(option: cfg.Opt) -> object:
    """A value of an option that is not its default."""
    match option:
        case cfg.BoolOpt():
            return not option.default
        case cfg.IntOpt():
            return option.default + 1
        case cfg.FloatOpt():
            return option.default * 1.25
        case cfg.ListOpt():
            return [*option.default, 'another']
    choices = list(getattr(option.type, 'choices', None) or ())
    if choices:
        return next(choice for choice in choices if choice != option.default)
    return '8000-8010' if option.dest.endswith('_ports') else 'another'


def differ(group: str, kind: type, options: set[str], settings: set[str]) -> str:
    """What is missing on which side, and what to do."""
    where = f'{kind.__module__}.{kind.__name__}'
    said = [f'option [{group}] {name} has no setting: add {name} to {where}' for name in sorted(options - settings)]
    said += [f'{where}.{name} has no option: rename it, or declare [{group}] {name}' for name in sorted(settings - options)]
    return '; '.join(said)
