# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What does a BMC answer when it says no? Redfish errors with messages of the Base registry.

Source: DSP0266, error responses; DSP8011 for the message keys. The wording of the messages is ours.
"""

from collections.abc import Mapping, Sequence
from typing import Any

BASE = 'Base.1.19.0'
UPDATE = 'Update.1.2.0'

# key -> (text with %1, %2 ..., number of arguments, severity, what to do)
BASE_MESSAGES: Mapping[str, tuple[str, int, str, str]] = {
    'Success': ('The request was carried out.', 0, 'OK', 'None'),
    'Created': ('The resource was created.', 0, 'OK', 'None'),
    'GeneralError': ('An error occurred that no other message describes.', 0, 'Critical', 'Look at the log of the service.'),
    'InternalError': ('The service failed while it carried out the request.', 0, 'Critical', 'Repeat the request.'),
    'MalformedJSON': ('The body of the request is not JSON.', 0, 'Critical', 'Send a JSON object.'),
    'UnrecognizedRequestBody': ('The body of the request cannot be understood.', 0, 'Warning', 'Correct the body.'),
    'EmptyJSON': ('The request holds an empty JSON object.', 0, 'Warning', 'Send at least one property.'),
    'ResourceMissingAtURI': ('There is no resource at %1.', 1, 'Critical', 'Use a URI that the service has told.'),
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
    'ArraySizeTooLong': ('The array %1 may have %2 elements at most.', 2, 'Warning', 'Send fewer elements.'),
    'ResourceAlreadyExists': ('A %1 with %2 = %3 exists already.', 3, 'Critical', 'Use another value.'),
    'ResourceInUse': ('The resource is in use.', 0, 'Warning', 'Wait and repeat the request.'),
    'ResourceInStandby': ('The resource is in standby.', 0, 'Critical', 'Bring it to the needed state first.'),
    'ServiceTemporarilyUnavailable': ('The service is busy. Repeat after %1 seconds.', 1, 'Critical', 'Wait and repeat.'),
    'NoValidSession': ('There is no valid session.', 0, 'Critical', 'Log in.'),
    'SessionLimitExceeded': ('There are as many sessions as there can be.', 0, 'Critical', 'End another session first.'),
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
    'CreateLimitReachedForResource': ('There are as many of these as there can be.', 0, 'Critical', 'Delete one first.'),
}

UPDATE_MESSAGES: Mapping[str, tuple[str, int, str, str]] = {
    'InstallingOnComponent': ('The image %1 is being written to %2.', 2, 'OK', 'None'),
    'UpdateSuccessful': ('%1 was updated with the image %2.', 2, 'OK', 'None'),
    'AwaitToActivate': ('The image %1 on %2 waits for activation.', 2, 'OK', 'Restart the system.'),
    'TransferFailed': ('The image %1 could not be brought to %2.', 2, 'Critical', 'Send the image again.'),
    'VerificationFailed': ('The image %1 was found wrong for %2.', 2, 'Critical', 'Use an image that fits.'),
    'ApplyFailed': ('The image %1 could not be written to %2.', 2, 'Critical', 'Look at the other messages.'),
}

REGISTRIES: Mapping[str, tuple[str, Mapping[str, tuple[str, int, str, str]]]] = {
    'Base': (BASE, BASE_MESSAGES),
    'Update': (UPDATE, UPDATE_MESSAGES),
}


def registry_message(
    registry: str, key: str, arguments: Sequence[str] = (), *, text: str | None = None, related: str | None = None
) -> dict[str, Any]:
    """A Message object. ``text`` is added to what the registry says; ``related`` is a JSON pointer to a property."""
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
    """The answer is an error: an HTTP status and one message of the Base registry."""

    def __init__(
        self,
        status: int,
        key: str,
        *arguments: str,
        text: str | None = None,
        related: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(key)
        self.status = status
        self.headers = dict(headers or {})
        self.message = registry_message('Base', key, arguments, text=text, related=related)

    def body(self) -> dict[str, Any]:
        """The body of the answer. Source: DSP0266, error responses."""
        return {
            'error': {
                'code': self.message['MessageId'],
                'message': self.message['Message'],
                '@Message.ExtendedInfo': [self.message],
            }
        }


def not_found(uri: str) -> RedfishError:
    """404."""
    return RedfishError(404, 'ResourceMissingAtURI', uri)


def busy(seconds: float) -> RedfishError:
    """503 with Retry-After."""
    whole = str(max(1, round(seconds)))
    return RedfishError(503, 'ServiceTemporarilyUnavailable', whole, headers={'Retry-After': whole})
