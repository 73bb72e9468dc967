# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Verdicts with their facts in words, as people and jobs get them: what tests compare."""

from typing import Any

from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.verdict import Finding, Verdict
from baremetal_acc.planning.verify import verify as judge
from baremetal_acc.render import findings


def verify(*of: Any, **how: Any) -> Verdict:
    """The verdict of :func:`baremetal_acc.planning.verify.verify` in words."""
    return findings.recorded(judge(*of, **how))


def said(finding: Finding) -> FindingText:
    """What was expected, and what was found."""
    return findings.words(finding.fact)


def finding(*, expected: str, found: str, **more: Any) -> Finding:
    """A finding in words."""
    return Finding(fact=FindingText(expected=expected, found=found), **more)
