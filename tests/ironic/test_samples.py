# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Are the sample files what the code says? ``make samples`` writes them."""

import io
import sys
from pathlib import Path

import pytest
from oslo_config import cfg, generator
from oslo_policy import generator as policy_generator

from baremetal_acc import conf
from baremetal_acc_ironic import opts


def test_the_sample_of_the_configuration_is_current(tree: Path) -> None:
    """Every option is in it, with its default and its help."""
    options = cfg.ConfigOpts()
    generator.register_cli_opts(options)
    options(['--namespace', 'baremetal_acc', '--namespace', 'baremetal_acc.ironic'])
    text = io.StringIO()
    generator.generate(options, output_file=text)
    assert text.getvalue() == (tree / 'etc/baremetal_acc/baremetal_acc.conf.sample').read_text(), 'run: make samples'
    assert '#middleware = baremetal-acc-policy' in text.getvalue()


def test_the_command_line_knows_the_names_of_ironics_options() -> None:
    """One file may serve both; a name that neither has is refused."""
    assert conf.OF_IRONIC == {
        option.dest for option in (*opts.TURNS, *opts.TRUST, *opts.KEEPING, *opts.WATCH, *opts.SHELF, *opts.KNOWN)
    }


def test_the_sample_of_the_policy_is_current(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule is in it, with its default."""
    out = tmp_path / 'policy.yaml.sample'
    monkeypatch.setattr(sys, 'argv', ['oslopolicy-sample-generator'])
    policy_generator.generate_sample(['--namespace', 'baremetal_acc', '--output-file', str(out)], cfg.ConfigOpts())
    assert out.read_text() == (tree / 'etc/baremetal_acc/policy.yaml.sample').read_text(), 'run: make samples'
