# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Exit codes: every error has one, and of several targets the worst counts."""

import inspect
import re

import pytest

from baremetal_acc import errors
from baremetal_acc.cli import exits
from baremetal_acc.cli.exits import Exit

BMC = {'bmc': 'host', 'what': 'x'}

EXAMPLES = (
    (errors.DocumentError(path='x', what='y'), Exit.USAGE),
    (errors.UsageError(argument='x', what='y'), Exit.USAGE),
    (errors.BmcError(**BMC), Exit.UNREACHABLE),
    (errors.BmcUnreachable(**BMC), Exit.UNREACHABLE),
    (errors.BmcUntrusted(**BMC), Exit.UNREACHABLE),
    (errors.BmcNotAuthorised(**BMC), Exit.UNREACHABLE),
    (errors.BmcLockedOut(**BMC), Exit.UNREACHABLE),
    (errors.BmcBusy(**BMC), Exit.UNREACHABLE),
    (errors.BmcNoSessionFree(**BMC), Exit.UNREACHABLE),
    (errors.BmcRefused(**BMC), Exit.UNREACHABLE),
    (errors.BmcConflict(**BMC), Exit.UNREACHABLE),
    (errors.BmcAnswerInvalid(**BMC), Exit.UNREACHABLE),
    (errors.BmcUnsupported(**BMC), Exit.REFUSED),
    (errors.BmcNoLogin(**BMC), Exit.UNREACHABLE),
    (errors.ImageError(image='x', what='y'), Exit.REFUSED),
    (errors.ImageMissing(image='x', what='y'), Exit.REFUSED),
    (errors.ImageMismatch(image='x', what='y'), Exit.REFUSED),
    (errors.PackageMalformed(image='x', field='f', offset=0, found='y', expected='z'), Exit.REFUSED),
    (errors.Refused(['x']), Exit.REFUSED),
    (errors.NotMet(['x']), Exit.NOT_MET),
    (errors.WriteFailed(['x']), Exit.WRITE_FAILED),
    (errors.StaleJob('x'), Exit.REFUSED),
    (errors.PlacementError('x'), Exit.REFUSED),
    (errors.PlacementUnreachable('x'), Exit.UNREACHABLE),
    (errors.InventoryInUse('x'), Exit.REFUSED),
    (errors.ClaimedAlone('x'), Exit.REFUSED),
    (errors.RootMissing('x'), Exit.REFUSED),
    (errors.PlacementRefused('x'), Exit.REFUSED),
    (errors.StateError('x'), Exit.USAGE),
    (errors.LocalError('x', 'y'), Exit.USAGE),
    (errors.DemandRefused('x'), Exit.REFUSED),
    (errors.DemandDiffers('x'), Exit.REFUSED),
    (errors.IronicError('x'), Exit.REFUSED),
    (errors.IronicRefused('x'), Exit.REFUSED),
    (errors.IronicUnreachable('x'), Exit.UNREACHABLE),
    (errors.CertificateInvalid('x'), Exit.NOT_MET),
    (errors.CertificateUntrusted('x'), Exit.NOT_MET),
    (errors.CertificateAltered('x'), Exit.NOT_MET),
    (errors.AccError('x'), Exit.OUR_FAULT),
)


@pytest.mark.parametrize(('error', 'code'), EXAMPLES, ids=[type(e).__name__ for e, _ in EXAMPLES])
def test_an_error_ends_with_its_code(error, code):
    """As doc/source/reference/cli.rst, "Exit codes", has it."""
    assert code is exits.of(error)


def test_no_error_is_forgotten():
    """Every class of the tree stands in the table above."""
    tree = {c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, errors.AccError)}
    assert tree == {type(error) for error, _ in EXAMPLES}


def test_the_worst_counts():
    """A device that is half written outweighs all but the operator's own Ctrl-C; nothing at all holds."""
    assert Exit.HOLDS is exits.worst([])
    assert Exit.NOT_MET is exits.worst([Exit.HOLDS, Exit.NOT_MET])
    assert Exit.WRITE_FAILED is exits.worst([Exit.OUR_FAULT, Exit.WRITE_FAILED, Exit.UNREACHABLE])
    for code in Exit:
        assert code is exits.worst([Exit.HOLDS, code])


def test_the_codes_are_those_that_are_documented(tree):
    """doc/source/reference/cli.rst has a row for each."""
    text = (tree / 'doc' / 'source' / 'reference' / 'cli.rst').read_text()
    rows = {int(n) for n in re.findall(r'^   \* - ``(\d+)``', text, re.MULTILINE)}
    assert set(Exit) == rows
