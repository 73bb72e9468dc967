# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Redfish error responses and messages of an emulated BMC: the Base and Update registries, and the messages of package updates.

Source: DSP0266, error responses; DSP8011 for the message keys. The wording of the messages is ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BASE = 'Base.1.19.0'
UPDATE = 'Update.1.2.0'

# key -> (text with %1, %2 ..., number of arguments, severity, what to do)
BASE_MESSAGES: Mapping[str, tuple[str, int, str, str]] = {
    'Success': ('The request was executed.', 0, 'OK', 'None'),
    'Created': ('The resource was created.', 0, 'OK', 'None'),
    'GeneralError': ('An error occurred that no other message describes.', 0, 'Critical', 'See the log of the service.'),
    'InternalError': ('The service failed during the request.', 0, 'Critical', 'Repeat the request.'),
    'MalformedJSON': ('The body of the request is not JSON.', 0, 'Critical', 'Send a JSON object.'),
    'UnrecognizedRequestBody': ('The body of the request cannot be understood.', 0, 'Warning', 'Correct the body.'),
    'EmptyJSON': ('The request contains an empty JSON object.', 0, 'Warning', 'Send at least one property.'),
    'ResourceMissingAtURI': ('There is no resource at %1.', 1, 'Critical', 'Use a URI that the service has returned.'),
    'OperationNotAllowed': ('This method is not allowed on this resource.', 0, 'Critical', 'Use another method.'),
    'ActionNotSupported': ('The action %1 is not supported here.', 1, 'Critical', 'Use an action that the resource offers.'),
    'ActionParameterMissing': ('The action %1 needs the parameter %2.', 2, 'Critical', 'Give the parameter.'),
    'ActionParameterUnknown': ('The action %1 does not know the parameter %2.', 2, 'Warning', 'Leave the parameter out.'),
    'ActionParameterValueTypeError': (
        'The value %1 of the parameter %2 of the action %3 has the wrong type.',
        3,
        'Warning',
        'Correct the value.',
    ),
    'ActionParameterValueNotInList': (
        'The value %1 of the parameter %2 of the action %3 is not one of those allowed.',
        3,
        'Warning',
        'Use an allowed value.',
    ),
    'ActionParameterValueFormatError': (
        'The value %1 of the parameter %2 of the action %3 has the wrong form.',
        3,
        'Warning',
        'Correct the value.',
    ),
    'PropertyUnknown': ('The property %1 is not known here.', 1, 'Warning', 'Leave the property out.'),
    'PropertyMissing': ('The property %1 is required.', 1, 'Warning', 'Give the property.'),
    'PropertyNotWritable': ('The property %1 cannot be written.', 1, 'Warning', 'Leave the property out.'),
    'PropertyValueTypeError': ('The value %1 of the property %2 has the wrong type.', 2, 'Warning', 'Correct the value.'),
    'PropertyValueNotInList': (
        'The value %1 of the property %2 is not one of those allowed.',
        2,
        'Warning',
        'Use an allowed value.',
    ),
    'PropertyValueFormatError': ('The value %1 of the property %2 has the wrong form.', 2, 'Warning', 'Correct the value.'),
    'ActionParameterValueConflict': (
        'The value %2 of the parameter %1 contradicts another one.',
        2,
        'Warning',
        'Send one request for each.',
    ),
    'ArraySizeTooLong': ('The array %1 may have %2 elements at most.', 2, 'Warning', 'Send fewer elements.'),
    'ResourceAlreadyExists': ('A %1 with %2 = %3 exists already.', 3, 'Critical', 'Use another value.'),
    'ResourceInUse': ('The resource is in use.', 0, 'Warning', 'Wait and repeat the request.'),
    'ResourceInStandby': ('The resource is in standby.', 0, 'Critical', 'Bring the resource to the required state first.'),
    'ServiceTemporarilyUnavailable': ('The service is busy. Repeat after %1 seconds.', 1, 'Critical', 'Wait and repeat.'),
    'NoValidSession': ('There is no valid session.', 0, 'Critical', 'Log in.'),
    'SessionLimitExceeded': ('The limit of sessions is reached.', 0, 'Critical', 'End another session first.'),
    'InsufficientPrivilege': ('The account may not do this.', 0, 'Critical', 'Use an account with more rights.'),
    'ResourceAtUriUnauthorized': ('Access to %1 was refused: %2.', 2, 'Critical', 'Log in with a valid account.'),
    'PreconditionFailed': ('The ETag does not match: the resource has changed.', 0, 'Critical', 'Read the resource again.'),
    'PreconditionRequired': ('A write needs a condition: If-Match.', 0, 'Critical', 'Send the ETag of the resource.'),
    'PayloadTooLarge': ('The body of the request is too large.', 0, 'Critical', 'Send less.'),
    'QueryNotSupported': ('A query parameter is not supported.', 0, 'Warning', 'Leave the query parameter out.'),
    'QueryParameterValueFormatError': (
        'The value %1 of the query parameter %2 has the wrong form.',
        2,
        'Warning',
        'Correct the value.',
    ),
    'QueryParameterOutOfRange': ('The value %1 of the query parameter %2 is outside %3.', 3, 'Warning', 'Correct the value.'),
    'CreateLimitReachedForResource': ('The limit of resources of this kind is reached.', 0, 'Critical', 'Delete one first.'),
}

UPDATE_MESSAGES: Mapping[str, tuple[str, int, str, str]] = {
    'InstallingOnComponent': ('The image %1 is being written to %2.', 2, 'OK', 'None'),
    'UpdateSuccessful': ('%1 was updated with the image %2.', 2, 'OK', 'None'),
    'VerifyingAtComponent': ('The image %1 is being checked at %2.', 2, 'OK', 'None'),
    'AwaitToUpdate': ('The image %1 on %2 waits for an action.', 2, 'OK', 'Request the action that the image waits for.'),
    'AwaitToActivate': ('The image %1 on %2 waits for activation.', 2, 'OK', 'Restart the system.'),
    'TransferFailed': ('The image %1 could not be transferred to %2.', 2, 'Critical', 'Send the image again.'),
    'VerificationFailed': ('The image %1 failed the verification at %2.', 2, 'Critical', 'Use an image that fits.'),
    'ApplyFailed': ('The image %1 could not be written to %2.', 2, 'Critical', 'See the other messages.'),
}

REGISTRIES: Mapping[str, tuple[str, Mapping[str, tuple[str, int, str, str]]]] = {
    'Base': (BASE, BASE_MESSAGES),
    'Update': (UPDATE, UPDATE_MESSAGES),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageForm:
    """The message of one event of one component: MessageId with its registry, and the text with ``%1`` and ``%2``.

    :ivar image_first: the first argument is the image, and the second the component.
    """

    id: str
    text: str
    severity: str = 'OK'
    image_first: bool = False

    def dress(self, component: str, image: str, action: str = '') -> dict[str, Any]:
        """Build the Message object."""
        given = [image, component] if self.image_first else [component, image]
        given = given[: len({mark for mark in ('%1', '%2') if mark in self.text})]
        text = self.text
        for number, argument in enumerate(given, start=1):
            text = text.replace(f'%{number}', argument)
        return {
            '@odata.type': '#Message.v1_2_0.Message',
            'MessageId': self.id,
            'Message': text,
            'MessageArgs': given,
            'MessageSeverity': self.severity,
            'Resolution': action or 'None',
        }


PACKAGE_FORMS: Mapping[str, MessageForm] = {
    'target': MessageForm(id='Update.1.0.TargetDetermined', text='%1 will be updated with the image %2.'),
    'transferring': MessageForm(
        id='Update.1.0.TransferringToComponent', text='The image %1 is being transferred to %2.', image_first=True
    ),
    'verifying': MessageForm(
        id='Update.1.0.VerifyingAtComponent', text='The image %1 is being checked at %2.', image_first=True
    ),
    'applying': MessageForm(id='Update.1.0.ApplyingOnComponent', text='The image %1 is being applied on %2.', image_first=True),
    'written': MessageForm(id='Update.1.0.UpdateSuccessful', text='%1 was updated with the image %2.'),
    'awaits-activation': MessageForm(
        id='Update.1.0.AwaitToActivate', text='The image %1 on %2 waits for activation.', image_first=True
    ),
    'skipped': MessageForm(id='OpenBMC.0.4.ComponentUpdateSkipped', text='The update of %1 was skipped: %2.'),
    'part-transfer-failed': MessageForm(
        id='Update.1.0.TransferFailed',
        text='The image %1 could not be transferred to %2.',
        severity='Critical',
        image_first=True,
    ),
    'part-verify-failed': MessageForm(
        id='Update.1.0.VerificationFailed',
        text='The image %1 failed the verification at %2.',
        severity='Critical',
        image_first=True,
    ),
    'part-apply-failed': MessageForm(
        id='Update.1.0.ApplyFailed', text='The image %1 could not be written to %2.', severity='Critical', image_first=True
    ),
    'resource-error': MessageForm(
        id='ResourceEvent.1.0.ResourceErrorsDetected', text='%1 has detected an error: %2.', severity='Critical'
    ),
    'aborted': MessageForm(id='TaskEvent.1.0.TaskAborted', text='The task was aborted.', severity='Critical'),
}
"""The message of each event of a component that the machine reports, with the order of its arguments.

Source: DSP8011 Update 1.0, ResourceEvent 1.0, TaskEvent 1.0; openbmc/pldm, fw-update, which puts the component first in
TargetDetermined, UpdateSuccessful, ComponentUpdateSkipped and ResourceErrorsDetected and the image first in the others;
openbmc/bmcweb, update_service.hpp, for the message of a task of which a part has failed. The wording is ours.
"""


def registry_message(
    registry: str, key: str, arguments: Sequence[str] = (), *, text: str | None = None, related: str | None = None
) -> dict[str, Any]:
    """Build a Message object. ``text`` is added to the registry's text; ``related`` is a JSON pointer to a property."""
    version, messages = REGISTRIES[registry]
    template, count, severity, resolution = messages[key]
    given = [str(argument) for argument in arguments][:count]
    given += [''] * (count - len(given))
    for number, argument in enumerate(given, start=1):
        template = template.replace(f'%{number}', argument)
    message: dict[str, Any] = {
        '@odata.type': '#Message.v1_2_0.Message',
        'MessageId': f'{version.rsplit(".", 1)[0]}.{key}',
        'Message': f'{template} {text}' if text else template,
        'MessageArgs': given,
        'MessageSeverity': severity,
        'Resolution': resolution,
    }
    if related is not None:
        message['RelatedProperties'] = [related]
    return message


class RedfishError(Exception):
    """The request is answered by an HTTP error status and one message, of the Base registry unless ``form`` is given."""

    def __init__(
        self,
        status: int,
        key: str,
        *arguments: str,
        text: str | None = None,
        related: str | None = None,
        headers: Mapping[str, str] | None = None,
        form: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(key)
        self.status = status
        self.headers = dict(headers or {})
        self.message = form or registry_message('Base', key, arguments, text=text, related=related)

    def body(self) -> dict[str, Any]:
        """The body of the error response. Source: DSP0266, error responses."""
        return {
            'error': {
                'code': self.message['MessageId'],
                'message': self.message['Message'],
                '@Message.ExtendedInfo': [self.message],
            }
        }


def not_found(uri: str) -> RedfishError:
    """The error 404."""
    return RedfishError(404, 'ResourceMissingAtURI', uri)


def busy(seconds: float) -> RedfishError:
    """The error 503 with Retry-After."""
    whole = str(max(1, round(seconds)))
    return RedfishError(503, 'ServiceTemporarilyUnavailable', whole, headers={'Retry-After': whole})
