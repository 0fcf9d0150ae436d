//! Names that programs use. A name that is removed or gets another type is an incompatible change.

use std::task::Poll;
use std::time::Duration;

use lighthaul::{
    Booked, Booking, Bps, ByteRange, Bytes, Client, Code, CopyEvent, CopyProgress, CopyRequest,
    Daemon, Direction, Error, Event, EventKind, Events, Failure, FailureKind, Fault, FileReply,
    FileRequest, FlowAt, Frames, Install, IsoDuration, JobEvent, JobStatus, JournalLine, Limit,
    List, MessageOptions, Network, NewReservation, ObjectOptions, Options, PendingStart, Place,
    Plan, Provision, Quote, Rate, Released, RemoteFiles, RemoteReader, RemoteWriter, Reservation,
    ReservationEnd, ReservationEvent, ReservationFilter, ReservationRecord, ReservationState,
    Route, Scheduler, Separator, Settings, Shape, Size, Step, Stream, StreamEvent, StreamKind,
    StreamReport, StreamRequest, StreamSummary, Summary, Timestamp, Token, Transfer, Unattended,
    User,
};

/// Uses each name as a program does. It compiles as long as the interface stays compatible.
#[expect(dead_code, reason = "it is compiled only")]
fn uses(place: Place, settings: Settings) -> Result<(), Error> {
    let Settings {
        route,
        scheduler,
        known_paths: _,
        ..
    } = settings.clone();
    let _: (Route, Option<Scheduler>) = (route, scheduler);
    let daemon = Daemon {
        strict: true,
        token: Some(Token("secret".to_owned())),
        user: std::sync::Arc::new(Unattended),
        ..Daemon::default()
    };
    let _: &dyn User = &*daemon.user;
    let _ = (
        Install::Never,
        Separator::Line,
        Size(1),
        FailureKind::NotFound,
    );
    let client: Client = Client::new(settings);
    let mut request: CopyRequest = CopyRequest::new([place.clone()], place);
    request.exact = false;
    request.options = Options::default();
    request.list = Some(List::in_file("list", Separator::Nul));
    request.list = Some(List::read_once(std::io::empty(), Separator::Nul));
    request.list = Some(List::of_paths(["a"]));
    request.rate = "1Gb/s".parse::<Rate>().ok();
    request.limit = "100Mb/s".parse::<Limit>().ok();
    (request.plain, request.udp, request.retries) = (false, true, 5);
    request.stop_at = Some(Timestamp(0));
    request.booking = Some(Booking {
        from: Network::Circuit(None),
        node: None,
        far_node: None,
        size: None,
        deadline: None,
    });
    let _: CopyRequest = request.dry();
    let list = FileRequest::Stat { paths: Vec::new() };
    client.execute(&request.target, &list, &mut |_: FileReply| Ok(()))?;
    let plan: Plan = client.plan(&request)?;
    let _: u64 = plan.bytes + plan.entries + plan.changes + plan.deletions;
    let _: Summary = client.run(request.clone(), &mut |event| see(&event))?;
    let files: RemoteFiles = client.files(&request.target, true)?;
    let range = ByteRange {
        path: Vec::new(),
        offset: 0,
        len: 1,
    };
    let _: Vec<Result<Vec<u8>, Failure>> = files.cat_ranges(&[range]);
    let _: Result<(RemoteReader, RemoteWriter), Failure> = files
        .open(b"x")
        .and_then(|reader| Ok((reader, files.create(b"x", None, false)?)));
    let transfer: Transfer = client.copy_observed(request, see)?;
    let _: Option<Result<Summary, Error>> = transfer.wait_for(Duration::ZERO);
    let _: (CopyProgress, bool) = (transfer.progress(), transfer.is_finished());
    transfer.cancel();
    let error: Error = transfer.wait().expect_err("it was cancelled");
    let _: (Code, String, Option<&Fault>) = (error.code(), error.text(), error.fault());
    Ok(())
}

#[expect(dead_code, reason = "it is compiled only")]
fn streams(client: &Client, place: Place, file: std::fs::File) -> Result<(), Error> {
    let mut request: StreamRequest = StreamRequest::to(place.clone());
    request.direction = Direction::To;
    request.frames = Frames::Lines;
    request.kind = StreamKind::Messages(MessageOptions {
        code: "none".to_owned(),
        linger: Duration::ZERO,
        deadline: None,
        drop_late: false,
    });
    request.kind = StreamKind::Objects(ObjectOptions {
        delay: Duration::ZERO,
        blasts: 1,
        ..ObjectOptions::new(Size(1), 1.0)
    });
    (request.plain, request.udp, request.rate) = (false, true, None);
    let stream: Stream = client.stream(StreamRequest::from(place))?;
    stream.send(b"message")?;
    let _: Option<Vec<u8>> = stream.receive()?;
    let _: std::os::unix::net::UnixStream = stream.socket()?;
    stream.close();
    stream.cancel();
    let _: (bool, Option<Result<StreamSummary, Error>>) =
        (stream.is_finished(), stream.wait_for(Duration::ZERO));
    let StreamSummary { report, rtt, .. } = stream.finish()?;
    let _: (StreamReport, Duration) = (report, rtt);
    let _: StreamSummary = client.run_stream(&request, file, &mut |event| match event {
        StreamEvent::Planned { objects, .. } => copied::<u32>(&objects),
        StreamEvent::Routed(text) => copied(&text.as_str()),
        _ => {}
    })?;
    Ok(())
}

#[expect(dead_code, reason = "it is compiled only")]
fn reservations(client: &Client, flow: FlowAt) -> Result<(), Error> {
    let request = NewReservation {
        from: Some("a".to_owned()),
        size: Some(Bytes(1)),
        hold: Some(IsoDuration(Duration::ZERO)),
        rate_max: Some(Bps(1)),
        shape: Shape::Fixed,
        provision: Provision::Auto,
        flow: Some(flow),
        ..NewReservation::default()
    };
    let quote: Quote = client.quote(&request)?;
    let _: Option<&Step> = quote.steps.first();
    let mut reservation: Reservation = client.reserve(&request)?;
    reservation.refresh()?;
    reservation.commit()?;
    let pending: PendingStart = reservation.pending_start()?;
    let _: Option<Result<Reservation, Error>> = pending.wait_for(Duration::ZERO);
    pending.cancel();
    reservation = pending.wait()?;
    reservation.release("done")?;
    reservation.cancel("done")?;
    let _: (u64, ReservationState) = (reservation.id(), reservation.state());
    let record: &ReservationRecord = reservation.record();
    client.reservation(record.id)?;
    let _: &[JournalLine] = &record.journal;
    let mut events: Events<ReservationEvent> = client.reservation_events(None)?;
    let next: Poll<Option<Result<ReservationEvent, Error>>> = events.next_within(Duration::ZERO);
    if let Poll::Ready(Some(event)) = next {
        copied::<EventKind>(&event?.kind);
    }
    let _: Option<Result<ReservationEvent, Error>> = events.next();
    for event in client.job_events(1, 0)? {
        let event: JobEvent = event?;
        copied::<JobStatus>(&event.state);
    }
    let filter = ReservationFilter::default();
    client.reservations(&filter, &mut |_: &[ReservationRecord]| Ok(()))
}

fn see(event: &Event) {
    match event {
        Event::Copy(copy) => copied(&matches!(copy, CopyEvent::Moving(_))),
        Event::Routed { protocol, why } => copied(&(protocol.as_str(), why.as_str())),
        Event::Retrying { pause, left, .. } => copied::<(Duration, u32)>(&(*pause, *left)),
        Event::Booked(booked) => starts(booked),
        Event::Released(Released { end, .. }) => copied(&(*end == ReservationEnd::Released)),
        Event::PathReserved(path) | Event::PathReleased(path) => copied(&path.id),
        Event::Warning(text) | Event::Note(text) => copied(&text.as_str()),
        _ => {}
    }
}

/// Takes a value of this type.
fn copied<T: Copy>(_: &T) {}

fn starts(booked: &Booked) {
    copied::<Timestamp>(&booked.start);
}
