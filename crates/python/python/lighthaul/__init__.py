"""Copies between hosts at the rate of the path.

    import lighthaul

    summary = lighthaul.Client().copy("results", "lh://far.example.org/archive/")

Places are written as on the command line. Notes go to the logger "lighthaul".
"""

from ._async_scheduler import AsyncScheduler
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
from ._packing import Schema
from ._queue import Job, JobEvent, Queue
from ._reservations import (
    Allocation,
    CounterOffer,
    JournalEntry,
    Link,
    LinkCalendar,
    Outage,
    Quote,
    Reservation,
    ReservationEvent,
    ReservationOptions,
    Topology,
)
from ._scheduler import Scheduler
from ._steps import Step, Steps
from ._stream import ReceiveStream, SendStream, StreamOptions, StreamSummary
from ._transfer import Transfer
from ._typed import TypedReceiveStream, TypedSendStream
from ._types import CopyOptions, Failure, FileInfo, Place, Plan, Progress, Summary, Usage

__all__ = [
    "Allocation",
    "AsyncScheduler",
    "Busy",
    "Cancelled",
    "Client",
    "CopyOptions",
    "CounterOffer",
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
    "JournalEntry",
    "Link",
    "LinkCalendar",
    "NetworkError",
    "NoSpace",
    "NotADirectory",
    "NotEmpty",
    "NotFound",
    "OpenError",
    "Outage",
    "PartialError",
    "PermissionDenied",
    "Place",
    "Plan",
    "Progress",
    "ProtocolError",
    "Queue",
    "Quote",
    "ReceiveStream",
    "Refused",
    "Reservation",
    "ReservationEvent",
    "ReservationOptions",
    "Scheduler",
    "Schema",
    "SendStream",
    "SourceChanged",
    "Step",
    "Steps",
    "Stopping",
    "StreamOptions",
    "StreamSummary",
    "Summary",
    "TimedOut",
    "Topology",
    "Transfer",
    "TypedReceiveStream",
    "TypedSendStream",
    "Usage",
    "UsageError",
    "open",
]
for _name in __all__:
    # the private modules are no part of the interface
    if isinstance(_value := globals()[_name], type):
        _value.__module__ = __name__
del _name, _value
