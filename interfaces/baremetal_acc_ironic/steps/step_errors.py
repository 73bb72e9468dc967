# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Turn the errors of a step into one text that names the node, the step and the way back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from baremetal_acc.errors import AccError
from baremetal_acc.model.job import Flow
from baremetal_acc_ironic.state import provision_state
from baremetal_acc_ironic.steps.definitions import Step

WAY_BACK = {
    Flow.CLEAN: 'repair the cause, clear maintenance, then manage and provide or clean the node again',
    Flow.DEPLOY: 'repair the cause and deploy again, or undeploy: cleaning brings the cards back to the baseline',
    Flow.SERVICE: 'repair the cause, clear maintenance, then service the node again, or abort to leave it as it is',
}


class StepFailed(AccError):
    """Why a step failed, in one text that names the node and the step."""


@contextmanager
def told_by(task: Any, step: Step) -> Iterator[None]:
    """Turn errors of the core into one that names node and step, and record it in the node's history.

    :raises StepFailed: in place of any error of the core.
    """
    name = task.node.name or task.node.uuid
    try:
        yield
    except StepFailed:
        raise
    except AccError as exc:
        reasons = getattr(exc, 'reasons', None) or (exc.message,)
        hint = exc.hint or WAY_BACK.get(provision_state.FLOWS.get(task.node.provision_state, Flow.CLI))
        text = provision_state.sentence(name, step.name, reasons, hint)
        provision_state.told(task.node, text)
        raise StepFailed(text) from exc
