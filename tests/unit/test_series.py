# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The declared bounds of the package allow the upper constraints of each supported series of OpenStack."""

import configparser
import re

import pytest
from packaging.requirements import Requirement

from tests.tools import series

FILES = [series.FOLDER / f'{name}.txt' for name in sorted(series.SERIES)]

ENVIRONMENT = {'python_version': '3.11', 'python_full_version': '3.11.2'}


def pinned(text):
    """The version of each project that a file of constraints names, where its marker holds on Python 3.11."""
    found = {}
    for line in text.splitlines():
        if line.startswith('#') or not line:
            continue
        pin, _, marker = line.partition(';')
        if marker and not Requirement(f'x; {marker}').marker.evaluate(ENVIRONMENT):
            continue
        name, _, version = pin.partition('===')
        found[series.normal(name)] = version.strip()
    return found


def declared(tree):
    """The requirements of the package and of the extras that are resolved under the constraints."""
    config = configparser.ConfigParser()
    config.read(tree / 'setup.cfg', encoding='utf-8')
    lists = [config['options']['install_requires'], *(config['options.extras_require'][e] for e in series.EXTRAS)]
    lines = [line.strip() for text in lists for line in text.splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith('#')]


def test_each_supported_series_is_kept():
    """With the repository's branch and commit, so that the lines can be compared."""
    for path in FILES:
        of = series.SERIES[path.stem]
        text = path.read_text(encoding='utf-8')
        head = '\n'.join(line for line in text.splitlines() if line.startswith('#'))
        assert re.search(rf'{of.branch}, commit [0-9a-f]{{40}} of 20\d\d-\d\d-\d\d', head), path
        assert f'with Ironic {of.ironic}.' in head, path
        pins = pinned(text)
        assert of.replaced == {name: pins[series.normal(name)] for name in of.replaced}
        assert all(f'requires {name} {version},' in head for name, version in of.replaced.items())


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.stem)
def test_the_bounds_allow_what_a_series_installs(tree, path):
    """``pip install -c upper-constraints.txt baremetal-acc`` ended with ResolutionImpossible on every series."""
    pins = pinned(path.read_text(encoding='utf-8'))
    checked = [need for need in declared(tree) if series.normal(need.name) in pins]
    assert len(checked) >= 20, 'the file lacks what the package requires'
    refused = [f'{need} refuses {pins[series.normal(need.name)]}' for need in checked if not allowed(need, pins)]
    assert [] == refused


def allowed(need, pins):
    """Whether the version of a series is within the bounds of a requirement."""
    return need.specifier.contains(pins[series.normal(need.name)])


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.stem)
def test_the_bounds_allow_the_services_of_a_series(tree, path):
    """No upper constraints name Ironic and placement."""
    of = series.SERIES[path.stem]
    config = configparser.ConfigParser()
    config.read(tree / 'setup.cfg', encoding='utf-8')
    needs = {
        n.name: n for extra in ('ironic', 'demo') for n in map(Requirement, config['options.extras_require'][extra].split())
    }
    assert allowed(needs['ironic'], {'ironic': f'{of.ironic}.0.0'})
    assert allowed(needs['openstack-placement'], {'openstack-placement': f'{of.placement}.0.0'})


def test_the_lowest_ironic_is_that_of_the_oldest_series(tree):
    """A version between two series is tested by nobody."""
    config = configparser.ConfigParser()
    config.read(tree / 'setup.cfg', encoding='utf-8')
    oldest = series.SERIES[min(series.SERIES)]
    assert f'ironic>={oldest.ironic}.0.0' in config['options.extras_require']['ironic'].split()


def test_a_replaced_constraint_that_is_needed_no_more_is_refused():
    """A later commit of the requirements repository allows what the service requires."""
    replaced = {'oslo.versionedobjects': '3.12.0'}
    assert 'oslo.versionedobjects===3.12.0\nx===1\n' == series.with_replaced('oslo.versionedobjects===3.11.0\nx===1', replaced)
    with pytest.raises(ValueError, match=r'take oslo\.versionedobjects out of the replaced constraints'):
        series.with_replaced('oslo.versionedobjects===3.12.0\n', replaced)


def test_a_bound_above_a_series_is_found():
    """The check itself."""
    assert allowed(Requirement('sushy>=5.7.2'), {'sushy': '5.7.2'})
    assert not allowed(Requirement('sushy>=5.14.0'), {'sushy': '5.13.0'})


def test_only_lines_of_what_is_installed_are_kept():
    """However a name is written, with the markers of its line."""
    text = 'oslo.config===10.0.0\nPyYAML===6.0.2\ncliff===4.9.1;python_version=="3.9"\ncliff===4.11.0\nzzz===1\n'
    assert ['cliff===4.11.0', 'cliff===4.9.1;python_version=="3.9"', 'oslo.config===10.0.0'] == sorted(
        series.lines_of(text, ['oslo-config', 'Cliff'])
    )
