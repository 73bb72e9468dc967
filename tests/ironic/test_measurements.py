# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Where cards sign SPDM measurements, no node is handed over on the word of its BMC alone."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ironic.common import states

from baremetal_acc.execution.observation import NO_ROOTS
from tests.ironic.case import IronicCase


class TestMeasurements(IronicCase):
    """One GPU behind a root of trust that signs."""

    parameters: ClassVar[Mapping[str, Any]] = {'gpus': 1, 'features': frozenset({'spdm'})}

    def pin(self) -> None:
        """The operator has the root of the maker."""
        path = self._folder / 'maker.pem'
        path.write_text(self.machine.spdm_root)
        path.chmod(0o600)
        self.config(group='baremetal_acc', spdm_trust_roots=[str(path)])

    def test_without_a_pinned_root_a_node_is_not_cleaned(self) -> None:
        """The error says what to do."""
        self.config(group='baremetal_acc', settle_timeout=0)
        self.clean()
        assert states.CLEANFAIL == self.settle()
        assert 'measurement HGX_ERoT_GPU_0' in str(self.node.last_error)
        assert NO_ROOTS in str(self.node.last_error)

    def test_a_card_that_proves_itself_is_handed_over_and_one_in_debug_mode_is_not(self) -> None:
        """The verification of the deploy asks anew."""
        self.pin()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.machine.fault('measurement-wrong', device='GPU_0', how='debug-mode')
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        text = str(self.node.last_error)
        assert 'verify_accelerators: ' in text
        assert 'measurement HGX_ERoT_GPU_0' in text
        assert 'invasive debug mode is active' in text
        assert self.node_state.handed_over is False
        self.machine.clear_faults()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
