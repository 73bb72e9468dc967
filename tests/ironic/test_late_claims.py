# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Cleaning that begins before Nova has freed an instance's allocations waits for that, until its deadline."""

import time
from typing import Any

from ironic.common import states

from tests.ironic.case import BASELINE, GPU_NEW, GPU_OLD, POLLS
from tests.ironic.placement_case import ROOT_CLASS, PlacementCase

GPU = 'PGPU'


class TestLateClaims(PlacementCase):
    """A machine with two GPUs that was with a tenant, and that has to be flashed when it comes back."""

    baseline = BASELINE.replace(GPU_NEW, GPU_OLD)

    def setUp(self) -> None:
        super().setUp()
        self.config(group='baremetal_acc', claims_timeout=60)

    def with_a_tenant(self) -> str:
        """The node is deployed; the rules ask for other firmware since.

        :returns: the instance.
        """
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        held = self.providers()[0]
        instance = self.claim((self.node.uuid, ROOT_CLASS), (held, GPU))
        self.node.instance_uuid = instance
        self.node.save()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        (self._folder / 'baseline.toml').write_text(BASELINE)
        return instance

    def undeploy(self) -> None:
        """As Ironic does it: the instance is gone from the node before cleaning begins; its claims are not."""
        self.node.instance_uuid = None
        self.node.save()
        self.clean()

    def poll_until(self, seconds: float, *, holds: Any = lambda: True) -> None:
        """Poll for a while; the fact holds all the time."""
        end = time.monotonic() + seconds
        for _ in range(POLLS):
            self.poll()
            assert holds()
            if time.monotonic() > end:
                return
            time.sleep(0.05)

    def flashed(self) -> int:
        """Images that were sent to the machine."""
        return sum(1 for e in self.machine.log() if isinstance(e['body'], dict) and 'Targets' in e['body'])

    def test_cleaning_waits_for_claims_that_are_freed_late(self) -> None:
        """Nothing is written until they are; nobody can claim anything meanwhile; then it ends well."""
        instance = self.with_a_tenant()
        self.undeploy()
        waits = lambda: self.node.provision_state == states.CLEANWAIT and self.flashed() == 0  # noqa: E731
        self.poll_until(5, holds=waits)
        assert [f'({GPU})'] == self.offers()
        self.free(instance)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert 0 < self.flashed()
        assert [GPU, GPU] == self.offers()

    def test_what_is_never_freed_fails_cleaning_at_the_deadline(self) -> None:
        """It says who holds what, how long it was waited for and what to do; nothing was written, and nothing is on offer."""
        self.config(group='baremetal_acc', claims_timeout=2)
        instance = self.with_a_tenant()
        self.undeploy()
        assert states.CLEANFAIL == self.settle()
        error = self.node.last_error
        assert f'is held: {GPU} by consumer {instance}' in error
        assert f'delete its allocation, see openstack resource provider allocation show {instance}' in error
        assert 'waited for 2 s' in error or 'waited for 3 s' in error
        assert (0, [f'({GPU})']) == (self.flashed(), self.offers())
        self.free(instance)
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error

    def test_a_claim_without_the_machine_is_refused_at_once(self) -> None:
        """Nobody leaves who never had the machine: the operator has to end that. Nothing was written."""
        self.clean()
        self.settle()
        (self._folder / 'baseline.toml').write_text(BASELINE)
        other = self.claim((self.providers()[0], GPU))
        began = time.monotonic()
        self.clean()
        assert states.CLEANFAIL == self.settle()
        assert time.monotonic() - began < 30
        assert f'by consumer {other}' in self.node.last_error
        assert 'the consumer has not claimed the node, so its claim is not waited for' in self.node.last_error
        assert (0, [f'({GPU})']) == (self.flashed(), self.offers())

    def test_publishing_by_hand_waits_as_cleaning_does(self) -> None:
        """The step that only publishes has the same deadline, and the same words."""
        self.config(group='baremetal_acc', claims_timeout=2)
        self.clean()
        self.settle()
        held = self.providers()[0]
        rules = BASELINE.replace(GPU_NEW, GPU_OLD).replace(
            'match = { kind = "GPU" }', 'match = { kind = "GPU" }\noffer = "nothing"'
        )
        (self._folder / 'baseline.toml').write_text(rules)
        instance = self.claim((self.node.uuid, ROOT_CLASS), (held, GPU))
        self.clean('publish_accelerators')
        assert states.CLEANFAIL == self.settle()
        assert f'is held: {GPU} by consumer {instance}' in self.node.last_error
        assert 'waited for' in self.node.last_error
