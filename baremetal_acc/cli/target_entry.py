# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Targets and their BMCs as the operator wrote them, and where their passwords are found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from baremetal_acc.bmc.driver import Setting, by_name
from baremetal_acc.model.ref import BmcName
from baremetal_acc.policy.baseline_rules import Exposure, NodeFacts


class TargetSource(StrEnum):
    """Where a password comes from."""

    LITERAL = 'password'
    ENVIRONMENT = 'password_env'
    FILE = 'password_file'
    PROMPT = 'prompt'


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A password, or where it is found. It is looked up only when a BMC is contacted.

    :ivar text: the password, the variable's name or the file's path.
    """

    source: TargetSource
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcEntry:
    """One BMC as the operator wrote it.

    :ivar verify_ca: as in :class:`~baremetal_acc.bmc.driver.BmcAddress`; a path is absolute.
    :ivar cipher_suite: with ``key``, for IPMI: as in :class:`~baremetal_acc.bmc.driver.BmcAddress`.
    :ivar trusted_at: path and line of the document that sets ``verify_ca`` to a path; None where an option sets it.
    :ivar set_by: as in :class:`~baremetal_acc.bmc.driver.BmcAddress`.
    :ivar secret_at: line of the first password or key that is written literally.
    """

    name: BmcName
    address: str
    username: str | None = None
    secret: Secret = Secret(source=TargetSource.PROMPT)
    verify_ca: bool | str = True
    system: str | None = None
    parallel_updates: int | None = None
    cipher_suite: int = 17
    key: bytes | None = field(default=None, repr=False)
    trusted_at: tuple[str, int] | None = field(default=None, compare=False, repr=False)
    secret_at: int | None = field(default=None, compare=False, repr=False)
    set_by: Mapping[Setting, str] = field(default_factory=by_name, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEntry:
    """One target as the operator wrote it.

    :ivar node: UUID of the Ironic node and of its root provider in placement, or None.
    :ivar exposure: None: the default of the configuration applies.
    """

    name: str
    bmcs: tuple[BmcEntry, ...]
    resource_class: str | None = None
    owner: str | None = None
    traits: frozenset[str] = frozenset()
    exposure: Exposure | None = None
    node: str | None = None

    def facts(self, default: Exposure) -> NodeFacts:
        """The facts that rules of the baseline can match.

        :param default: the exposure of a target that names none.
        """
        return NodeFacts(
            name=self.name,
            resource_class=self.resource_class,
            owner=self.owner,
            traits=self.traits,
            exposure=self.exposure or default,
        )
