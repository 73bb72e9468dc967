# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The sample configuration and policy files agree with the code. ``make samples`` writes them."""

import io
import re
import sys
from pathlib import Path

import pytest
from oslo_config import cfg, generator
from oslo_policy import generator as policy_generator

from baremetal_acc.config import options as config
from baremetal_acc.errors import DocumentError
from baremetal_acc.pools.connect import connect
from baremetal_acc_ironic import opts


def test_the_sample_of_the_configuration_is_current(tree: Path) -> None:
    """Every option is in it, with its default and its help."""
    options = cfg.ConfigOpts()
    generator.register_cli_opts(options)
    options(['--namespace', 'baremetal_acc', '--namespace', 'baremetal_acc.ironic'])
    text = io.StringIO()
    generator.generate(options, output_file=text)
    sample = tree / 'etc/baremetal_acc/baremetal_acc.conf.sample'
    is_current = text.getvalue() == sample.read_text()  # pytest needs seconds to compare what is so long
    assert is_current, f'{sample.name} is not what the options say; run: make samples'
    assert '#middleware = baremetal-acc-policy' in text.getvalue()


def test_the_sample_has_the_group_that_pool_reaches_ironic_by(tree: Path, tmp_path: Path) -> None:
    """All that the page of the pools writes into it, and all that is read of it for a standalone Ironic."""
    _, _, rest = (tree / 'etc/baremetal_acc/baremetal_acc.conf.sample').read_text().partition('\n[ironic]\n')
    named = set(re.findall(r'^#(\w+) =', rest.partition('\n[')[0], flags=re.MULTILINE))
    _, _, page = (tree / 'doc/source/howto/pools.rst').read_text().partition('    [ironic]\n')
    written = set(re.findall(r'^    (\w+) =', page.partition('    [')[0], flags=re.MULTILINE))
    path = tmp_path / 'acc.conf'
    path.write_text('[ironic]\nauth_type = none\nendpoint_override = http://127.0.0.1:9\n')
    options = cfg.ConfigOpts()
    options(args=[], default_config_files=[str(path)])
    connect(options)
    assert {'auth_type', 'auth_url', 'username', 'password', 'system_scope', 'user_domain_name'} == written
    assert written | set(options['ironic']) <= named | {'endpoint', 'interface'}  # of auth_type = none, and deprecated


def test_the_command_line_takes_a_file_that_has_ironics_options(tmp_path: Path) -> None:
    """One file may serve both: the plugin's names are known by its entry point; a name that neither has is refused."""
    options = cfg.ConfigOpts()
    config.register(options)
    path = tmp_path / 'acc.conf'
    path.write_text('[baremetal_acc]\n' + ''.join(f'{option.dest} = 1\n' for option in opts.of_our_group()))
    options(args=[], project='baremetal_acc', default_config_files=[str(path)])
    config.check_names(options)
    path.write_text('[baremetal_acc]\nwatch_intervall = 1\n')
    with pytest.raises(DocumentError, match=r'watch_intervall: no such option .did you mean watch_interval'):
        config.check_names(options)


def test_the_sample_of_the_policy_is_current(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule is in it, with its default."""
    out = tmp_path / 'policy.yaml.sample'
    monkeypatch.setattr(sys, 'argv', ['oslopolicy-sample-generator'])
    policy_generator.generate_sample(['--namespace', 'baremetal_acc', '--output-file', str(out)], cfg.ConfigOpts())
    assert out.read_text() == (tree / 'etc/baremetal_acc/policy.yaml.sample').read_text(), 'run: make samples'
