# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Options that are misspelt, and values that are none, are refused, which oslo.config would pass over."""

import os

import pytest
from oslo_config import cfg

from baremetal_acc.config import options
from baremetal_acc.errors import AccError, DocumentError


def read(path, text, folder=None):
    """The options of a file, as a shell reads them."""
    path.write_text(text)
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf.register_opts([cfg.BoolOpt('debug')])
    conf(args=[], project='x', default_config_files=[str(path)], default_config_dirs=[] if folder is None else [str(folder)])
    return conf


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('[baremetal_acc]\ntrust_root = /x\n', r'x.conf: .baremetal_acc. trust_root: no such option .did you mean trust_roots'),
        ('[baremetal_acc]\ntrust-roots = /x\n', r'trust-roots: no such option .did you mean trust_roots'),
        ('[baremetal_acc]\nTrust_Roots = /x\n', r'Trust_Roots: no such option'),
        ('[baremetal_acc]\nxyzzy = 1\n', r'xyzzy: no such option'),
        ('[baremetal-acc]\ntrust_roots = /x\n', r'x.conf: .baremetal-acc.: no such group .did you mean .baremetal_acc'),
        ('[baremetal_ac]\ntrust_roots = /x\n', r'.baremetal_ac.: no such group'),
        (
            '[baremetal_acc_demand]\nnova_transport = x\n',
            r'.baremetal_acc_demand. nova_transport: no such option .did you mean nova_transport_url',
        ),
        ('[baremetal_acc_demand]\ntrust_roots = x\n', r'.baremetal_acc_demand. trust_roots: no such option'),
        ('[baremetal_acc]\nnova_topics = x\n', r'.baremetal_acc. nova_topics: no such option'),
        ('[baremetal_acc_demands]\nfolder = x\n', r'no such group .did you mean .baremetal_acc_demand'),
        ('[DEFAULT]\ntrust_roots = /x\n', r'.DEFAULT. trust_roots: is not read there .put it into the group .baremetal_acc'),
    ],
)
def test_what_is_misspelt_is_told(tmp_path, text, said):
    """With trust_roots misspelt no signature would be asked for."""
    with pytest.raises(DocumentError, match=said):
        options.check_names(read(tmp_path / 'x.conf', text))


def test_what_is_not_ours_is_left_alone(tmp_path):
    """Other groups, other options of [DEFAULT], what only Ironic's plugin reads, our group in capitals."""
    ours = '[baremetal_acc_demand]\nproject_limit = 1\n[BAREMETAL_ACC]\nworker_share = 0.3\npoll_interval = 2\n'
    text = f'[DEFAULT]\ndebug = true\nhost = x\n{ours}[placement]\nx = 1\n[ironic]\n'
    options.check_names(read(tmp_path / 'x.conf', text))


def test_a_plugin_is_asked_only_for_a_name_that_is_none_of_ours(tmp_path, monkeypatch):
    """What it declares may stand in the same file; one that cannot be loaded is named, for a name could be its own."""
    asked = []

    class Point:
        name = 'baremetal_acc.other'

        def load(self):
            asked.append(self.name)
            return lambda: [('baremetal_acc', [cfg.IntOpt('fans', deprecated_name='blowers')]), ('x', [cfg.IntOpt('wheels')])]

    class Broken(Point):
        def load(self):
            raise ImportError('no module named fans')

    points = [Point()]
    monkeypatch.setattr(options.metadata, 'entry_points', lambda group: points)
    options.plugin_names.cache_clear()
    try:
        options.check_names(read(tmp_path / 'x.conf', '[baremetal_acc]\npoll_interval = 2\n'))
        assert [] == asked
        options.check_names(read(tmp_path / 'y.conf', '[baremetal_acc]\nfans = 2\nblowers = 2\n'))
        assert ['baremetal_acc.other'] == asked
        with pytest.raises(DocumentError, match=r'fan: no such option .did you mean fans'):
            options.check_names(read(tmp_path / 'z.conf', '[baremetal_acc]\nfan = 2\n'))
        with pytest.raises(DocumentError, match=r'.DEFAULT. fans: is not read there'):
            options.check_names(read(tmp_path / 'd.conf', '[DEFAULT]\nfans = 2\n'))
        with pytest.raises(DocumentError, match=r'wheels: no such option'):
            options.check_names(read(tmp_path / 'w.conf', '[baremetal_acc]\nwheels = 2\n'))
        points[0] = Broken()
        options.plugin_names.cache_clear()
        with pytest.raises(AccError, match=r'plugin baremetal_acc.other .oslo.config.opts. cannot be loaded: ImportError: no'):
            options.check_names(read(tmp_path / 'b.conf', '[baremetal_acc]\nfans = 2\n'))
    finally:
        options.plugin_names.cache_clear()


def test_an_old_name_is_taken_until_it_is_removed(tmp_path, monkeypatch):
    """An option that is renamed keeps its old name as deprecated_name, also where its value is wrong."""
    renamed = cfg.FloatOpt('wait', default=1.0, min=0, deprecated_name='patience')
    monkeypatch.setattr(options, 'OPTIONS', [*options.OPTIONS, renamed])
    conf = read(tmp_path / 'x.conf', '[baremetal_acc]\npatience = 3\n')
    options.check(conf, options.OPTIONS)
    assert 3 == conf.baremetal_acc.wait
    wrong = read(tmp_path / 'y.conf', '[baremetal_acc]\npatience = nan\n')
    with pytest.raises(DocumentError, match=r'y.conf: .baremetal_acc. wait: nan is not finite'):
        options.check(wrong, options.OPTIONS)


def test_files_of_a_folder_are_read_too_and_again_once_they_have_changed(tmp_path):
    """What a package drops beside the file counts as well."""
    folder = tmp_path / 'x.conf.d'
    folder.mkdir()
    more = folder / 'more.conf'
    more.write_text('[baremetal_acc]\npoll_interval = 3\n')
    conf = read(tmp_path / 'x.conf', '', folder)
    assert 3 == conf.baremetal_acc.poll_interval
    options.check_names(conf)
    more.write_text('[baremetal_acc]\npoll_intervall = 3\n')
    with pytest.raises(DocumentError, match=r'more\.conf'):
        options.check_names(conf)
    os.unlink(more)
    options.check_names(conf)


@pytest.mark.parametrize(
    ('text', 'said'),
    [
        ('poll_interval = nan', r'x.conf: .baremetal_acc. poll_interval: nan is not finite .Seconds between two'),
        ('job_timeout = inf', r'job_timeout: inf is not finite'),
        ('job_timeout = 1e15', r'job_timeout: 1e.15 is too large'),
        ('custody_blind_limit = -inf', r'custody_blind_limit: Should be greater than or equal to 0'),
        ('stall_timeout =', r'stall_timeout: is empty'),
        ('bmc_concurrency =', r'bmc_concurrency: is empty'),
        ('bmc_concurrency = many', r'bmc_concurrency: invalid literal for int'),
        ('publish = maybe', r'publish: Unexpected boolean value'),
        ('default_exposure = all', r'default_exposure: Valid values are'),
    ],
)
def test_a_value_that_is_none_is_refused_with_its_file(tmp_path, text, said):
    """Also the numbers that are equal to nothing, or that no time is longer than."""
    conf = read(tmp_path / 'x.conf', f'[baremetal_acc]\n{text}\n')
    with pytest.raises(DocumentError, match=said):
        options.check(conf)


def test_every_option_may_be_left_out():
    """And has its default then; a list may be empty, too."""
    conf = cfg.ConfigOpts()
    options.register(conf)
    conf(args=[], project='x', default_config_files=[], default_config_dirs=[])
    options.check(conf)


def test_a_list_may_be_empty(tmp_path):
    """It names nothing then."""
    options.check(read(tmp_path / 'x.conf', '[baremetal_acc]\nimage_folders =\nimage_server_listen =\n'))
