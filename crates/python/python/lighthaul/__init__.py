"""Copies between hosts at the rate of the path.

    import lighthaul

    summary = lighthaul.Client().copy("results", "lh://far.example.org/archive/")

Places are written as on the command line. Notes go to the logger "lighthaul".
"""

from ._client import Client
from ._client import open_place as open
from ._errors import (
    Busy,
    Cancelled,
    DeleteLimitError,
    Error,
    Exists,
    FileError,
    IntegrityError,
    InternalError,
    IsADirectory,
    NetworkError,
    NoSpace,
    NotADirectory,
    NotEmpty,
    NotFound,
    OpenError,
    PartialError,
    PermissionDenied,
    ProtocolError,
    Refused,
    SourceChanged,
    Stopping,
    TimedOut,
    UsageError,
)
from ._queue import Job, JobEvent, Queue
from ._transfer import Transfer
from ._types import CopyOptions, Failure, FileInfo, Place, Plan, Progress, Summary, Usage

__all__ = [
    "Busy",
    "Cancelled",
    "Client",
    "CopyOptions",
    "DeleteLimitError",
    "Error",
    "Exists",
    "Failure",
    "FileError",
    "FileInfo",
    "IntegrityError",
    "InternalError",
    "IsADirectory",
    "Job",
    "JobEvent",
    "NetworkError",
    "NoSpace",
    "NotADirectory",
    "NotEmpty",
    "NotFound",
    "OpenError",
    "PartialError",
    "PermissionDenied",
    "Place",
    "Plan",
    "Progress",
    "ProtocolError",
    "Queue",
    "Refused",
    "SourceChanged",
    "Stopping",
    "Summary",
    "TimedOut",
    "Transfer",
    "UsageError",
    "Usage",
    "open",
]
for _name in __all__:
    # the private modules are no part of the interface
    if isinstance(_value := globals()[_name], type):
        _value.__module__ = __name__
del _name, _value
