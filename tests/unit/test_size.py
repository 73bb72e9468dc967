# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What tests/tools/size.py counts."""

import pytest

from tests.tools import size


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        ('x = 1\n', 3),
        ('x = 1  # one\n\n\n', 3),
        ('"""What it is."""\nx = 1\n"""Said of x."""\n', 3),
        ('def f():\n    """Do it."""\n    return "text"\n', 7),
        ('x = f"{y}"\n', 3),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(source: str, expected: int):
    """Names, operators, numbers and the strings that the program uses do."""
    assert expected == size.tokens(source)


def test_what_is_for_tests_and_shows_alone_is_left_out():
    """The emulator and the demo are; the guest is not."""
    found = size.of_tree()
    assert {'baremetal_acc/planning', 'interfaces/baremetal_acc_ironic'} <= set(found)
    assert not [name for name in found if name.startswith(('baremetal_acc/emulator', 'baremetal_acc/demo', 'tests'))]
