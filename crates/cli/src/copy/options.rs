//! Options of `lighthaul cp` as a request for the library.
//!
//! `request` refuses combinations that contradict each other with a usage error, before a session
//! begins.

use std::io::{BufReader, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use lighthaul::{Booking, CopyRequest, Fault, List, Network};
use lighthaul_base::ParseTimetableError;
use lighthaul_files::filter::{FilterOption, Separator};
use lighthaul_files::hash::HashRequest;
use lighthaul_files::options::{DeltaMode, Detail, Options};
use lighthaul_files::{digest, filter};
use lighthaul_fs::metadata::Keep;
use lighthaul_grammar::choice::{DeltaChoice, DryRun, FileArgs, Verify};
use lighthaul_grammar::copy::{Cp, Digest};
use lighthaul_grammar::time::Time;
use lighthaul_remote::place::Place;
use lighthaul_session::error::{Error, FileAction};

use crate::copy::changes::with_changes;
use crate::error::usage;

/// Returns the request of the command line.
pub(crate) fn request(args: &Cp) -> Result<CopyRequest, Error> {
    let places = args.paths.iter().map(|text| Place::parse_hosts(text));
    let mut sources: Vec<Vec<Place>> = places.collect::<Result<_, _>>()?;
    let target = sources.pop().ok_or(Fault::NoSource)?;
    let mut request = CopyRequest::between_hosts(sources, target)?;
    request.split = args.split;
    request.exact = args.no_target_directory;
    request.options = options(args)?;
    request.list = list(&args.choice);
    request.rate = args.rate;
    let limit = args.later.limit.as_ref().map(|limit| limit.text.parse());
    request.limit = limit
        .transpose()
        .map_err(|why: ParseTimetableError| usage(why.to_string()))?;
    request.plain = args.plain;
    request.udp = !args.no_udp;
    request.retries = args.later.retries;
    request.redirects = !args.later.no_redirects;
    request.stop_at = args.later.stop_at.map(|Time(at)| at);
    request.booking = booking(args);
    Ok(request)
}

/// Returns the capacity to book.
fn booking(args: &Cp) -> Option<Booking> {
    let booked = &args.booked;
    let from = if booked.book_path {
        Network::Path(booked.domain_socket.clone())
    } else if booked.book {
        Network::Circuit(booked.circuit.clone())
    } else {
        return None;
    };
    Some(Booking {
        from,
        node: booked.node.clone(),
        far_node: booked.far_node.clone(),
        size: booked.book_size,
        deadline: args.later.deadline.map(|Time(by)| by),
    })
}

/// Returns the options that both sides use.
fn options(args: &Cp) -> Result<Options, Error> {
    let chosen = chosen(&args.choice, kind(args), !args.no_sync)?;
    let trc = args.trc.as_deref().map(vector).transpose()?;
    let options = Options {
        protocol: args.protocol.clone().unwrap_or_default(),
        trc: trc.unwrap_or_default(),
        streams: args.streams.unwrap_or(0),
        dedicated: args.dedicated,
        stall: args.later.stall_timeout.map_or(0, whole_seconds),
        ..chosen
    };
    with_changes(args, options)
}

/// Returns the choice of files that are sent as deltas.
const fn delta(choice: &FileArgs) -> DeltaMode {
    match (choice.whole_file, choice.no_whole_file, choice.delta) {
        (true, ..) | (_, false, DeltaChoice::Never) => DeltaMode::Never,
        (_, true, _) | (.., DeltaChoice::Always) => DeltaMode::Always,
        (.., DeltaChoice::Auto) => DeltaMode::Auto,
    }
}

/// Returns a duration in seconds, rounded up, in the unit of the protocol.
fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_nanos().div_ceil(1_000_000_000);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// Returns the text of a vector: the contents of the file `words`, or the option itself.
fn vector(words: &str) -> Result<String, Error> {
    let (name, text) = if Path::new(words).is_file() {
        let text = std::fs::read_to_string(words);
        let failed = |error| Error::file(FileAction::Read, Path::new(words), &error);
        (words, text.map_err(failed)?)
    } else {
        ("--trc", words.to_owned())
    };
    lighthaul_session::vector::parse(name, &text).map(|trc| trc.to_string())
}

/// Returns the default digest of files. Encryption detects changes on the path, so a CRC for
/// accidents is enough. Without it, any host on the path may change packets, so a hash is needed.
const fn kind(args: &Cp) -> digest::DigestKind {
    match args.digest {
        Some(Digest::Crc128) => digest::DigestKind::Crc128,
        None if !args.plain => digest::DigestKind::Crc128,
        Some(Digest::Blake3) | None => digest::DigestKind::Blake3,
    }
}

/// Returns the list of `--files-from`.
fn list(choice: &FileArgs) -> Option<List> {
    let path = choice.files_from.as_ref()?;
    let separator = if choice.from0 {
        Separator::Nul
    } else {
        Separator::Line
    };
    Some(if path.as_os_str() == "-" {
        List::read_once(BufReader::new(stdin()), separator)
    } else {
        List::in_file(path, separator)
    })
}

/// Returns the options of the command line; `digest` is used unless verification is off.
fn chosen(choice: &FileArgs, digest: digest::DigestKind, sync: bool) -> Result<Options, Error> {
    if choice.delete && choice.files_from.is_some() {
        let text = "--delete cannot be combined with --files-from: it compares whole directories";
        return Err(usage(text));
    }
    let partial_dir = choice
        .partial_dir
        .as_ref()
        .map(|dir| dir.as_os_str().as_bytes().to_vec());
    if let Some(dir) = &partial_dir
        && (dir.is_empty() || dir.contains(&b'/') || dir == b"." || dir == b"..")
    {
        let text = "--partial-dir needs a name without slashes: a directory of that name is created beside each file";
        return Err(usage(text));
    }
    let mut rules = choice.rules.0.clone();
    if let Some(dir) = &partial_dir {
        // incomplete files there are neither sent nor deleted
        rules.push(FilterOption::Exclude([dir.as_slice(), b"/"].concat()));
    }
    Ok(Options {
        rules: filter::Rules::parse(&rules)?,
        listed: choice.files_from.is_some(),
        keep: Keep {
            mode: true,
            owner: choice.archive,
            accessed: choice.atimes,
            modified: true,
            xattrs: choice.xattrs,
            acls: choice.acls,
        },
        hard_links: choice.hard_links,
        sparse: choice.sparse,
        checksum: choice.checksum,
        update: choice.update,
        delete: choice.delete,
        dry_run: choice.dry_run.map(|detail| match detail {
            DryRun::Brief => Detail::Brief,
            DryRun::All => Detail::All,
            DryRun::Explain => Detail::Explain,
        }),
        replace_special: choice.replace_special,
        inplace: choice.inplace,
        partial_dir,
        sync,
        hash: match &choice.hash {
            Some(list) => HashRequest::parse_list(list)?,
            None => Vec::new(),
        },
        verify_disk: choice.verify == Verify::Disk,
        digest: match choice.verify {
            Verify::None => digest::DigestKind::None,
            Verify::Transfer | Verify::Disk => digest,
        },
        delta: delta(choice),
        ..Options::default()
    })
}
