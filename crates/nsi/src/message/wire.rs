//! Elements of all messages.

use super::body::{Failure, Message, Operation, QueryKind, Reserve, ReserveConfirmed, ResultEntry};
use super::criteria::Criteria;
use super::exception::ServiceException;
use super::name::{CONNECTION, SOAP};
use super::notification::Notification;
use super::query::{Query, Range, Summary, notifications};
use super::states::ConnectionStates;
use crate::xml::DecodeError;
use crate::xml::element::Element;
use crate::xml::writer::Writer;

/// Reads the element in the body of an envelope.
pub(super) fn decode(of: Element<'_>) -> Result<Message, DecodeError> {
    if of.is(SOAP, "Fault") {
        return Ok(Message::Fault(Box::new(fault(of)?)));
    }
    if !of.is(CONNECTION, of.name()) {
        return Err(unknown(of));
    }
    let name = of.name();
    let operation = |answer: bool| {
        Operation::ALL.into_iter().find(|operation| {
            let names = operation.names();
            name == if answer { names.1 } else { names.0 }
        })
    };
    if let Some(operation) = operation(false) {
        return Ok(Message::Request(operation, of.text("connectionId")?));
    }
    if let Some(operation) = operation(true) {
        return Ok(Message::Confirmed(operation, of.text("connectionId")?));
    }
    if Notification::NAMES.contains(&name) {
        let notification = Notification::decode(of)?;
        return Ok(Message::Notification(Box::new(notification)));
    }
    match name {
        "reserve" => Ok(Message::Reserve(Box::new(reserve(of)?))),
        "reserveResponse" => Ok(Message::ReserveResponse(of.text("connectionId")?)),
        "acknowledgment" => Ok(Message::Acknowledgment),
        _ if name.starts_with("query") => decode_query(of),
        _ => decode_result(of),
    }
}

/// Reads a query or its answer.
fn decode_query(of: Element<'_>) -> Result<Message, DecodeError> {
    let name = of.name();
    for kind in QueryKind::ALL {
        if name == kind.names().0 {
            return Ok(Message::Query(kind, Query::decode(of)?));
        }
        if name == kind.names().1 {
            let summaries = of.all("reservation").map(Summary::decode);
            let summaries = summaries.collect::<Result<_, _>>()?;
            return Ok(Message::QueryConfirmed(kind, summaries));
        }
    }
    let is_sync = name.contains("Sync");
    match name {
        "queryNotification" | "queryNotificationSync" => {
            let range = Range::decode(of, NOTIFICATIONS.0, NOTIFICATIONS.1)?;
            Ok(Message::QueryNotification(is_sync, range))
        }
        "queryResult" | "queryResultSync" => {
            let range = Range::decode(of, RESULTS.0, RESULTS.1)?;
            Ok(Message::QueryResult(is_sync, range))
        }
        "queryNotificationConfirmed" | "queryNotificationSyncConfirmed" => Ok(
            Message::QueryNotificationConfirmed(is_sync, notifications(of)?),
        ),
        "queryResultConfirmed" | "queryResultSyncConfirmed" => {
            let results = of.all("result").map(decode_entry);
            let results = results.collect::<Result<_, _>>()?;
            Ok(Message::QueryResultConfirmed(is_sync, results))
        }
        _ => Err(unknown(of)),
    }
}

/// Reads an entry of a list of results.
fn decode_entry(of: Element<'_>) -> Result<ResultEntry, DecodeError> {
    let mut inside = of
        .children()
        .filter(|child| child.is(CONNECTION, child.name()));
    let message = inside.next();
    Ok(ResultEntry {
        id: of.value("resultId", "a whole number")?,
        correlation_id: of.text("correlationId")?,
        at: of.time("timeStamp")?,
        message: decode_result(message.ok_or(DecodeError::Missing("reserveConfirmed"))?)?,
    })
}

/// Reads a message that a provider can list as a result.
fn decode_result(of: Element<'_>) -> Result<Message, DecodeError> {
    let confirmed = Operation::ALL.into_iter();
    let mut confirmed = confirmed.filter(|operation| operation.names().1 == of.name());
    if let Some(operation) = confirmed.next() {
        return Ok(Message::Confirmed(operation, of.text("connectionId")?));
    }
    match of.name() {
        "reserveConfirmed" => Ok(Message::ReserveConfirmed(Box::new(ReserveConfirmed {
            connection_id: of.text("connectionId")?,
            global_id: of.optional_text("globalReservationId")?,
            description: of.optional_text("description")?,
            criteria: Criteria::decode(of.required("criteria")?)?,
        }))),
        "reserveFailed" => Ok(Message::ReserveFailed(Box::new(failure(of)?))),
        "reserveCommitFailed" => Ok(Message::ReserveCommitFailed(Box::new(failure(of)?))),
        "error" => {
            let exception = ServiceException::decode(of.required("serviceException")?)?;
            Ok(Message::Error(Box::new(exception)))
        }
        _ => Err(unknown(of)),
    }
}

fn unknown(of: Element<'_>) -> DecodeError {
    DecodeError::Unexpected {
        found: of.name().chars().take(NAME_MAX).collect(),
        expected: "a message of the NSI Connection Service 2.1",
    }
}

fn reserve(of: Element<'_>) -> Result<Reserve, DecodeError> {
    Ok(Reserve {
        connection_id: of.optional_text("connectionId")?,
        global_id: of.optional_text("globalReservationId")?,
        description: of.optional_text("description")?,
        criteria: Criteria::decode(of.required("criteria")?)?,
    })
}

fn failure(of: Element<'_>) -> Result<Failure, DecodeError> {
    Ok(Failure {
        connection_id: of.text("connectionId")?,
        states: ConnectionStates::decode(of.required("connectionStates")?)?,
        exception: ServiceException::decode(of.required("serviceException")?)?,
    })
}

/// Reads a SOAP fault. The exception may be in any namespace, since implementations differ.
fn fault(of: Element<'_>) -> Result<ServiceException, DecodeError> {
    let detail = of.optional("detail")?;
    let mut inside = detail.into_iter().flat_map(Element::children);
    if let Some(exception) = inside.find(|child| child.name() == "serviceException") {
        return ServiceException::decode(exception);
    }
    let text = of.optional_text("faultstring")?.unwrap_or_default();
    let id = super::exception::ErrorId::Internal;
    Ok(ServiceException::new("", id, text))
}

/// Adds the element of a message.
pub(super) fn encode(message: &Message, w: &mut Writer) {
    let name = format!("t:{}", message.name());
    if let Message::Notification(notification) = message {
        notification.encode(w);
    } else if let Message::Fault(exception) = message {
        encode_fault(exception, w);
    } else {
        w.element(&name, &[], |w| encode_content(message, w));
    }
}

fn encode_content(message: &Message, w: &mut Writer) {
    match message {
        Message::Reserve(reserve) => {
            w.optional("connectionId", reserve.connection_id.as_ref());
            w.optional("globalReservationId", reserve.global_id.as_ref());
            w.optional("description", reserve.description.as_ref());
            reserve.criteria.encode(w);
        }
        Message::ReserveConfirmed(confirmed) => {
            w.text("connectionId", &confirmed.connection_id);
            w.optional("globalReservationId", confirmed.global_id.as_ref());
            w.optional("description", confirmed.description.as_ref());
            confirmed.criteria.encode(w);
        }
        Message::ReserveFailed(failure) | Message::ReserveCommitFailed(failure) => {
            w.text("connectionId", &failure.connection_id);
            failure.states.encode(w);
            failure.exception.encode("serviceException", w);
        }
        Message::ReserveResponse(id) | Message::Request(_, id) | Message::Confirmed(_, id) => {
            w.text("connectionId", id);
        }
        Message::Query(_, query) => query.encode(w),
        Message::QueryConfirmed(_, all) => all.iter().for_each(|one| one.encode(w)),
        Message::QueryNotification(_, range) => range.encode(NOTIFICATIONS.0, NOTIFICATIONS.1, w),
        Message::QueryResult(_, range) => range.encode(RESULTS.0, RESULTS.1, w),
        Message::QueryNotificationConfirmed(_, all) => all.iter().for_each(|one| one.encode(w)),
        Message::QueryResultConfirmed(_, all) => {
            for one in all {
                encode_entry(one, w);
            }
        }
        Message::Error(exception) => exception.encode("serviceException", w),
        Message::Acknowledgment | Message::Notification(_) | Message::Fault(_) => {}
    }
}

fn encode_entry(entry: &ResultEntry, w: &mut Writer) {
    w.element("result", &[], |w| {
        w.text("resultId", entry.id.to_string());
        w.text("correlationId", &entry.correlation_id);
        w.text("timeStamp", entry.at.to_string());
        encode(&entry.message, w);
    });
}

fn encode_fault(exception: &ServiceException, w: &mut Writer) {
    w.element("s:Fault", &[], |w| {
        w.text("faultcode", "s:Client");
        w.text("faultstring", &exception.text);
        w.element("detail", &[], |w| exception.encode("t:serviceException", w));
    });
}

const NOTIFICATIONS: (&str, &str) = ("startNotificationId", "endNotificationId");
const RESULTS: (&str, &str) = ("startResultId", "endResultId");
/// Number of characters of an unknown name that an error shows.
const NAME_MAX: usize = 64;
