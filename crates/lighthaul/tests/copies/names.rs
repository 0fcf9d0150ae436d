//! Names that programs use. A name that is removed or gets another type is an incompatible change.

use std::time::Duration;

use lighthaul::{
    Booked, Booking, ByteRange, Client, Code, CopyEvent, CopyProgress, CopyRequest, Daemon, Error,
    Event, Failure, FailureKind, Fault, FileReply, FileRequest, Install, Limit, List, Network,
    Options, Place, Plan, Rate, Released, RemoteFiles, RemoteReader, RemoteWriter, ReservationEnd,
    Route, Scheduler, Separator, Settings, Size, Summary, Timestamp, Token, Transfer, Unattended,
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
