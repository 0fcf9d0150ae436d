//! Generated messages of each kind.

use lighthaul_booking_client::json::Timestamp;
use lighthaul_nsi::machine::{LifecycleState, ProvisionState, ReservationState};
use lighthaul_nsi::message::body::{QueryKind, ResultEntry};
use lighthaul_nsi::message::notification::ErrorEvent;
use lighthaul_nsi::message::query::{Query, Range, Summary};
use lighthaul_nsi::message::{
    ConnectionStates, Criteria, DataPlaneStatus, Directionality, Envelope, ErrorId, Failure,
    Header, Message, Notification, NotificationKind, Operation, P2p, Reserve, ReserveConfirmed,
    Schedule, ServiceException,
};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

/// Text as it may stand in an element: without white space at its ends, which readers remove.
fn text() -> impl Strategy<Value = String> {
    "[a-z<>&\"'\u{e9}:?=./-][a-z<>&\"' \u{e9}]{0,12}[a-z;&\\]]"
}

fn time() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_u64).prop_map(|seconds| Timestamp(seconds * 1_000_000_000))
}

fn criteria() -> impl Strategy<Value = Criteria> {
    (
        of(0..9_u32),
        (of(time()), of(time())),
        of(text()),
        of(p2p()),
    )
        .prop_map(|(version, (start, end), service_type, p2p)| Criteria {
            version,
            schedule: Schedule { start, end },
            service_type,
            p2p,
        })
}

fn p2p() -> impl Strategy<Value = P2p> {
    let hops = prop::collection::vec(text(), 0..3);
    (
        any::<u64>(),
        any::<bool>(),
        of(any::<bool>()),
        text(),
        text(),
        hops,
    )
        .prop_map(
            |(capacity_mbps, is_both, symmetric_path, source, dest, ero)| P2p {
                capacity_mbps,
                directionality: if is_both {
                    Directionality::Bidirectional
                } else {
                    Directionality::Unidirectional
                },
                symmetric_path,
                source,
                dest,
                ero,
                unsupported: Vec::new(),
            },
        )
}

fn data_plane() -> impl Strategy<Value = DataPlaneStatus> {
    (any::<bool>(), 0..9_u32, any::<bool>()).prop_map(|(active, version, is_consistent)| {
        DataPlaneStatus {
            active,
            version,
            is_consistent,
        }
    })
}

fn states() -> impl Strategy<Value = ConnectionStates> {
    (
        select(ReservationState::ALL.to_vec()),
        select(ProvisionState::ALL.to_vec()),
        select(LifecycleState::ALL.to_vec()),
        data_plane(),
    )
        .prop_map(
            |(reservation, provision, lifecycle, data_plane)| ConnectionStates {
                reservation,
                provision,
                lifecycle,
                data_plane,
            },
        )
}

fn exception() -> impl Strategy<Value = ServiceException> {
    let variables = prop::collection::vec((text(), text()), 0..3);
    (text(), of(text()), 0..99_999_u32, text(), variables).prop_map(
        |(nsa_id, connection_id, code, text, variables)| ServiceException {
            nsa_id,
            connection_id,
            id: ErrorId::with_code(code),
            text,
            variables,
        },
    )
}

fn notification() -> impl Strategy<Value = Notification> {
    let kind = prop_oneof![
        (text(), text(), of(exception())).prop_map(|(connection_id, nsa, exception)| {
            NotificationKind::ErrorEvent {
                event: ErrorEvent::ForcedEnd,
                connection_id,
                nsa,
                exception: exception.map(Box::new),
            }
        }),
        (0..9_u32, text(), text()).prop_map(|(seconds, connection_id, nsa)| {
            NotificationKind::ReserveTimeout {
                seconds,
                connection_id,
                nsa,
            }
        }),
        data_plane().prop_map(NotificationKind::DataPlane),
        text().prop_map(|correlation_id| NotificationKind::DeliveryTimeout { correlation_id }),
    ];
    (text(), any::<u64>(), time(), kind).prop_map(|(connection_id, id, at, kind)| Notification {
        connection_id,
        id,
        at,
        kind,
    })
}

fn confirmed() -> impl Strategy<Value = Message> {
    let failure = || {
        (text(), states(), exception()).prop_map(|(connection_id, states, exception)| {
            Box::new(Failure {
                connection_id,
                states,
                exception,
            })
        })
    };
    let confirmed = (text(), of(text()), of(text()), criteria());
    prop_oneof![
        confirmed.prop_map(|(connection_id, global_id, description, criteria)| {
            Message::ReserveConfirmed(Box::new(ReserveConfirmed {
                connection_id,
                global_id,
                description,
                criteria,
            }))
        }),
        failure().prop_map(Message::ReserveFailed),
        failure().prop_map(Message::ReserveCommitFailed),
        (select(Operation::ALL.to_vec()), text())
            .prop_map(|(operation, id)| Message::Confirmed(operation, id)),
        exception().prop_map(|exception| Message::Error(Box::new(exception))),
    ]
}

fn requests() -> impl Strategy<Value = Message> {
    let range = || {
        (text(), of(any::<u64>()), of(any::<u64>())).prop_map(|(connection_id, first, last)| {
            Range {
                connection_id,
                first,
                last,
            }
        })
    };
    let ids = || prop::collection::vec(text(), 0..3);
    let query = (ids(), ids(), of(time())).prop_map(|(connection_ids, global_ids, since)| Query {
        connection_ids,
        global_ids,
        modified_since: since,
    });
    prop_oneof![
        (of(text()), of(text()), of(text()), criteria()).prop_map(
            |(connection_id, global_id, description, criteria)| {
                Message::Reserve(Box::new(Reserve {
                    connection_id,
                    global_id,
                    description,
                    criteria,
                }))
            }
        ),
        (select(Operation::ALL.to_vec()), text())
            .prop_map(|(operation, id)| Message::Request(operation, id)),
        (select(QueryKind::ALL.to_vec()), query)
            .prop_map(|(kind, query)| Message::Query(kind, query)),
        (any::<bool>(), range()).prop_map(|(sync, range)| Message::QueryNotification(sync, range)),
        (any::<bool>(), range()).prop_map(|(sync, range)| Message::QueryResult(sync, range)),
    ]
}

fn answers() -> impl Strategy<Value = Message> {
    let summary = (
        (text(), of(text()), of(text())),
        prop::collection::vec(criteria(), 0..2),
        (text(), states(), of(any::<u64>()), of(any::<u64>())),
    );
    let summary = summary.prop_map(
        |(ids, criteria, (requester, states, notification_id, result_id))| {
            let (connection_id, global_id, description) = ids;
            Summary {
                connection_id,
                global_id,
                description,
                criteria,
                requester,
                states,
                notification_id,
                result_id,
            }
        },
    );
    let result = (any::<u64>(), text(), time(), confirmed());
    let result = result.prop_map(|(id, correlation_id, at, message)| ResultEntry {
        id,
        correlation_id,
        at,
        message,
    });
    prop_oneof![
        text().prop_map(Message::ReserveResponse),
        Just(Message::Acknowledgment),
        exception().prop_map(|exception| Message::Fault(Box::new(exception))),
        (
            select(QueryKind::ALL.to_vec()),
            prop::collection::vec(summary, 0..3)
        )
            .prop_map(|(kind, all)| Message::QueryConfirmed(kind, all)),
        (any::<bool>(), prop::collection::vec(notification(), 0..3))
            .prop_map(|(sync, all)| Message::QueryNotificationConfirmed(sync, all)),
        (any::<bool>(), prop::collection::vec(result, 0..3))
            .prop_map(|(sync, all)| Message::QueryResultConfirmed(sync, all)),
        notification().prop_map(|one| Message::Notification(Box::new(one))),
    ]
}

/// Returns any message with any header.
pub(crate) fn envelope() -> impl Strategy<Value = Envelope> {
    let header = (text(), text(), text(), text(), of(text()));
    let message = prop_oneof![requests(), confirmed(), answers()];
    (header, message).prop_map(|(header, message)| {
        let (protocol, correlation_id, requester, provider, reply_to) = header;
        let header = Header {
            protocol,
            correlation_id,
            requester,
            provider,
            reply_to,
        };
        Envelope::new(header, message)
    })
}
