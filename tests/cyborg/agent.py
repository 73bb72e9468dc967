# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One report of Cyborg's agent: ``python -m tests.cyborg.agent --config-file FILE --config-file FILE``.

It does what ``cyborg-agent`` does at its start and then once a minute: find the provider of its host in placement, let the
enabled drivers discover devices, and send them to the conductor over the message bus. All of this is Cyborg's own code. What
differs: it ends after one report, and ``lspci`` runs in this process, and not in a daemon that ``sudo`` starts. ``lspci`` is
the first in ``PATH``: that of the test.

Its last line is the name of the root provider that it has chosen. Its log is above it.
"""

import sys


def main() -> int:
    """Report, and end when the conductor has answered."""
    from cyborg import context, privsep
    from cyborg.agent.manager import AgentManager
    from cyborg.common import constants, service

    service.prepare_service(sys.argv)
    privsep.sys_admin_pctxt.set_client_mode(False)
    manager = AgentManager(constants.AGENT_TOPIC)
    manager.update_available_resource(context.get_admin_context())
    sys.stdout.write(f'{manager.resource_provider_name}\n')
    return 0


if __name__ == '__main__':
    sys.exit(main())
