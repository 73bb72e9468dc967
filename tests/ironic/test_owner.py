# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of the baseline that name a project apply to nodes that this project owns in Ironic, and to no others."""

from ironic.common import states

from tests.ironic.case import GPU_NEW, GPU_OLD, IronicCase

OWNER, OTHER = '7f3a9c5e4b2d4c1f8e6a0b9d8c7f6e5d', '00000000000000000000000000000000'
GPU = 'host/HGX_FW_GPU_0'


class TestOwner(IronicCase):
    """One machine; what changes is the project that it belongs to."""

    parameters = {'gpus': 1}  # noqa: RUF012
    baseline = f"""\
format = 1

[[rule]]
name = "theirs"
match = {{ kind = "GPU", owner = "{OWNER}" }}
firmware = {{ "HGX_FW_GPU_*" = "{GPU_NEW}" }}

[[rule]]
name = "everybody's"
block = []
"""

    def cleaned(self, owner: str | None, *steps: str) -> str:
        """The state after cleaning as a node of this project."""
        self.clear()
        self.node.owner = owner
        self.node.save()
        self.clean(*steps)
        return self.settle()

    def test_the_owners_rule_is_verified_on_his_node_alone(self) -> None:
        """The error names the rule. A node of nobody is not his either."""
        for owner in (None, OTHER):
            assert states.MANAGEABLE == self.cleaned(owner, 'verify_accelerators'), self.node.last_error
        assert states.CLEANFAIL == self.cleaned(OWNER, 'verify_accelerators')
        assert f'firmware HGX_FW_GPU_0: expected {GPU_NEW}, found {GPU_OLD} (rule theirs)' in self.node.last_error

    def test_the_owners_firmware_is_written_on_his_node_alone(self) -> None:
        """Automated cleaning leaves the card of another project as it is, and writes the same card once it is his."""
        assert states.AVAILABLE == self.cleaned(OTHER), self.node.last_error
        assert ([], GPU_OLD) == (self.machine.log(), self.version(GPU))
        assert states.AVAILABLE == self.cleaned(OWNER), self.node.last_error
        assert GPU_NEW == self.version(GPU)
