# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""placement, Ironic and Keystone that take connections and never answer: the command line gives up, and says whom it asked."""

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

from baremetal_acc.cli import publisher
from baremetal_acc.cli.output import text
from baremetal_acc.config.options import API_TIMEOUT_SECONDS
from baremetal_acc.errors import AccError, IronicUnreachable, PlacementUnreachable
from baremetal_acc.placement import slow_answers
from baremetal_acc.pools import connect

KEYSTONE = (
    'auth_type = password',
    'username = u',
    'password = p',
    'project_name = p',
    'user_domain_id = d',
    'project_domain_id = d',
)


@pytest.fixture
def hole() -> Iterator[str]:
    """Where a server listens that never says anything."""
    with socket.socket() as listening:
        listening.bind(('127.0.0.1', 0))
        listening.listen(16)
        yield f'http://127.0.0.1:{listening.getsockname()[1]}'


def _configured(folder: Path, group: str, *lines: str) -> cfg.ConfigOpts:
    path = folder / 'acc.conf'
    path.write_text('\n'.join([f'[{group}]', *lines]) + '\n')
    conf = cfg.ConfigOpts()
    conf(args=[], default_config_files=[str(path)])
    return conf


def _asked(conf: cfg.ConfigOpts, group: str) -> object:
    return publisher.client(conf).check() if group == 'placement' else list(connect.connect(conf, say=text.note).nodes())


@pytest.mark.parametrize('keystone', [False, True])
@pytest.mark.parametrize(('group', 'error'), [('placement', PlacementUnreachable), ('ironic', IronicUnreachable)])
def test_a_service_that_never_answers_is_given_up(
    hole: str, tmp_path: Path, group: str, error: type[AccError], keystone: bool
) -> None:
    """Itself, and the Keystone before it, after the time that the operator has set."""
    reach = (*KEYSTONE, f'auth_url = {hole}') if keystone else ('auth_type = none',)
    conf = _configured(tmp_path, group, *reach, f'endpoint_override = {hole}', 'timeout = 1')
    began = time.monotonic()
    with pytest.raises(error) as caught:
        _asked(conf, group)
    assert time.monotonic() - began < 30
    assert hole.removeprefix('http://') in str(caught.value)


@pytest.mark.parametrize('group', ['placement', 'ironic'])
def test_what_is_waited_for_is_said_once_it_takes_long(
    hole: str, tmp_path: Path, group: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And until when; an answer that comes in time is no news."""
    conf = _configured(tmp_path, group, 'auth_type = none', f'endpoint_override = {hole}', 'timeout = 1')
    with pytest.raises(AccError):
        _asked(conf, group)
    assert 'waiting:' not in capsys.readouterr().err
    monkeypatch.setattr(slow_answers, 'LONG_SECONDS', 0.2)
    with pytest.raises(AccError):
        _asked(conf, group)
    told = re.findall(r'waiting: (\S+) has not answered yet \(until [0-9:]{8}Z at the latest\)', capsys.readouterr().err)
    assert {hole.removeprefix('http://')} == set(told)


@pytest.mark.parametrize('group', ['placement', 'ironic'])
def test_it_is_a_minute_where_the_operator_says_nothing(tmp_path: Path, group: str) -> None:
    """keystoneauth would wait for ever."""
    conf = _configured(tmp_path, group, 'auth_type = none', 'endpoint_override = http://127.0.0.1:1')
    _ = publisher.client(conf) if group == 'placement' else connect.connect(conf)
    assert 60 == API_TIMEOUT_SECONDS == conf[group].timeout
