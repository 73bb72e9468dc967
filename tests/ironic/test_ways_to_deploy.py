# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""x"""
from ironic.common import states
from tests.ironic.deploy_case import RECORD, DeployCase, RAMDISK, INSTANCE
from tests.ironic.test_api import LESSEE_ADMIN, SYSTEM_ADMIN

class TestDirect(DeployCase):
    def test_direct(self) -> None:
        assert 202 == self.provision(LESSEE_ADMIN, 'active'), self.said
        print(self.drive(), self.node.last_error, self.node.deploy_step)
        for s in RECORD.starts: print(s)
        print(RECORD.calls, self.agent.names)
        assert 0
