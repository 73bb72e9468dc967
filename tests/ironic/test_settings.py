# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each option that the plugin adds is one typed setting of the same name, which is read again at each use."""

from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta

import pytest
from oslo_config import cfg

from baremetal_acc.config import options
from baremetal_acc.errors import DocumentError
from baremetal_acc_ironic import opts, settings
from baremetal_acc_ironic.authorization import policy
from tests import configured


@pytest.fixture
def conf() -> Iterator[cfg.ConfigOpts]:
    """Ironic's own, as it was before once the test has ended."""
    found = settings.ironic_conf()
    found(args=[], project='ironic', default_config_files=[], default_config_dirs=[])
    yield found
    found.reset()


def test_each_option_is_a_setting_of_the_same_name() -> None:
    """Whoever renames the one renames the other, and mypy names each module that reads it."""
    names = {option.dest for option in opts.of_our_group()}
    found = {field.name for field in fields(settings.GuestSettings)}
    assert found == names, configured.differ(options.GROUP, settings.GuestSettings, names, found)


@pytest.mark.parametrize('option', opts.of_our_group(), ids=lambda option: option.dest)
def test_an_option_changes_the_setting_of_its_name_and_no_other(option: cfg.Opt, conf: cfg.ConfigOpts) -> None:
    """At once, since Ironic may load its files again while it runs."""
    before = settings.guest()
    conf.set_override(option.dest, configured.another_value(option), group=options.GROUP)
    after = settings.guest()
    assert {option.dest} == {f.name for f in fields(after) if getattr(before, f.name) != getattr(after, f.name)}


def test_what_ironic_says_is_read_as_it_is_now(conf: cfg.ConfigOpts) -> None:
    """Its own options, too."""
    conf.set_override('host', 'conductor-7')
    conf.set_override('disallow_service_steps', ['firmware.lock_accelerators'], group='api')
    conf.set_override('watch_interval', 0, group=options.GROUP)
    conf.set_override('job_timeout', 60, group=options.GROUP)
    found = settings.ironic()
    assert ('conductor-7', {'firmware.lock_accelerators'}) == (found.host, found.disallowed_steps['service'])
    assert (timedelta(0), timedelta(minutes=1)) == (settings.guest().watch_interval, settings.core().job_timeout)


def test_an_api_does_not_start_with_an_option_that_has_no_value(conf: cfg.ConfigOpts, tmp_path) -> None:
    """It reads all that the plugin adds when somebody writes instance_info, and could only answer 500 then."""
    path = tmp_path / 'ironic.conf'
    path.write_text('[baremetal_acc]\nwatch_timeout = nan\n')
    conf(args=[], project='ironic', default_config_files=[str(path)], default_config_dirs=[])
    with pytest.raises(DocumentError, match=r'ironic\.conf: \[baremetal_acc\] watch_timeout: nan is not finite'):
        policy.middleware(object())
