//! Options of a copy that both sides of a session use.
//!
//! `options` converts the arguments of `lighthaul cp` to the `Options` of the copy's request. It
//! refuses combinations that contradict each other with a usage error, before the session begins.
//! `hello` creates the first message, `to` the target, and `names` the reader of `--files-from`.
//! `transfer` uses them for a copy from or to this host, and `third_party` between other hosts.

use std::fs::File;
use std::io::{BufReader, stdin};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use lighthaul_copy::message::{Landing, Target};
use lighthaul_files::filter::{FilesFrom, FilterOption, Separator};
use lighthaul_files::hash::HashRequest;
use lighthaul_files::list::PathList;
use lighthaul_files::options::{DeltaMode, Detail, Options};
use lighthaul_files::{digest, filter};
use lighthaul_fs::metadata::Keep;
use lighthaul_grammar::choice::{DeltaChoice, DryRun, FileArgs, Verify};
use lighthaul_grammar::copy::{Cp, Digest};
use lighthaul_io::host::clock::unix_nanos;
use lighthaul_remote::place::Place;
use lighthaul_session::error::{Error, FileAction};
use lighthaul_session::message::Hello;
use lighthaul_session::protocol::{AUTO, Protocol};
use lighthaul_session::topic::Topic;

use crate::copy::changes::with_changes;
use crate::copy::gateway;
use crate::error::usage;

/// Returns the first message to the other side, with a request of topic `M`.
pub(crate) fn hello<M: Topic>(args: &Cp, request: &M::Request) -> Hello {
    Hello {
        plain: args.plain,
        rate_bps: args.rate.map(lighthaul_base::Rate::as_bps),
        limit: args
            .later
            .limit
            .as_ref()
            .map_or_else(String::new, |limit| limit.text.clone()),
        ..Hello::about::<M>(request)
    }
}

/// Returns the target of a copy of this number of sources to `place`.
pub(crate) fn to(args: &Cp, place: &Place, sources: usize) -> Target {
    let landing = if args.no_target_directory {
        Landing::Exact
    } else if sources > 1 || place.path().ends_with(b"/") {
        Landing::Inside
    } else {
        Landing::Usual
    };
    Target {
        path: place.path().to_vec(),
        landing,
    }
}

/// Returns the error of `--files-from` with several sources.
pub(crate) fn one_base() -> Error {
    let text = "--files-from needs exactly one source, a directory; its paths are relative to it";
    usage(text)
}

/// Returns the options that both sides use.
pub(crate) fn options(args: &Cp) -> Result<Options, Error> {
    let chosen = chosen(&args.choice, kind(args), !args.no_sync)?;
    let options = Options {
        copy: Some(args.copy),
        protocol: protocol_of(args)?,
        trc: args
            .trc
            .as_deref()
            .map(vector)
            .transpose()?
            .unwrap_or_default(),
        trc_in: args.vector_at.map(|at| {
            at.0.cast_signed()
                .saturating_sub(unix_nanos().cast_signed())
        }),
        streams: args.streams.unwrap_or(0),
        dedicated: args.dedicated,
        stall: args.later.stall_timeout.map_or(0, whole_seconds),
        ..chosen
    };
    with_changes(args, options)
}

/// Returns the choice of the files of which only the changes are sent.
const fn delta(choice: &FileArgs) -> DeltaMode {
    match (choice.whole_file, choice.no_whole_file, choice.delta) {
        (true, ..) | (_, false, DeltaChoice::Never) => DeltaMode::Never,
        (_, true, _) | (.., DeltaChoice::Always) => DeltaMode::Always,
        (.., DeltaChoice::Auto) => DeltaMode::Auto,
    }
}

/// Returns a duration in seconds, rounded up, as it is sent to the peer.
fn whole_seconds(time: Duration) -> u32 {
    let seconds = time.as_nanos().div_ceil(1_000_000_000);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// Returns the name of the protocol. The default is VBTP with a TRC vector; otherwise both sides
/// choose it by the path.
fn protocol_of(args: &Cp) -> Result<String, Error> {
    if let Some(protocol) = gateway::protocol(args)? {
        return Ok(protocol.to_string());
    }
    let usual = if args.trc.is_some() {
        Protocol::Vbtp.name()
    } else {
        AUTO
    };
    Ok(args.protocol.as_deref().unwrap_or(usual).to_owned())
}

/// Returns a vector as text, from a file of this name or from the option itself.
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

/// Opens the list of `--files-from`.
pub(crate) fn names(choice: &FileArgs) -> Result<Option<PathList>, Error> {
    let Some(path) = &choice.files_from else {
        return Ok(None);
    };
    let separator = if choice.from0 {
        Separator::Nul
    } else {
        Separator::Line
    };
    if path.as_os_str() == "-" {
        return Ok(Some(PathList::new(FilesFrom::new(
            BufReader::new(stdin()),
            separator,
        ))));
    }
    let file = File::open(path);
    let file = file.map_err(|e| Error::file(FileAction::Open, path, &e))?;
    Ok(Some(PathList::new(FilesFrom::new(
        BufReader::new(file),
        separator,
    ))))
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
