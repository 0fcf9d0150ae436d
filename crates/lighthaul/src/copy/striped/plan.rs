//! Plan of a striped copy: the files that movers stage, found by a dry run.

use std::collections::BTreeMap;

use lighthaul_copy::watch::CopyEvent;
use lighthaul_files::item::{ItemKind, Update};
use lighthaul_files::naming::Naming;
use lighthaul_files::options::{Action, Planned};
use lighthaul_session::error::{Code, Error};

use super::parts::Parts;
use super::work_queue::{Unit, WorkQueue};
use crate::copy::reporter::Reporter;
use crate::copy::transfer;
use crate::event::Event;

/// Compares both sides through the first pair of hosts that answers, and adds files to `queue` as they are found. Calls
/// `named` with the naming of the entries, before the first file. Returns the number of directories to create.
pub(super) fn plan(parts: &Parts, queue: &WorkQueue, named: impl Fn(Naming)) -> Result<u64, Error> {
    let mut added: u64 = 0;
    let mut folders = 0;
    let mut last = None;
    for number in 0..parts.pairs() {
        let mut found: u64 = 0;
        folders = 0;
        let mut observe = |event: Event| {
            let Event::Copy(CopyEvent::Planned(planned)) = event else {
                return;
            };
            folders += u64::from(is_new_folder(&planned));
            if !is_moved(&planned) {
                return;
            }
            found += 1;
            // an earlier attempt may have found the first files
            if found <= added {
                return;
            }
            added += 1;
            let (path, naming) = parts.source_name(&planned.path);
            named(naming);
            queue.add(Unit::file(path, planned.bytes + planned.kept));
        };
        match transfer::copy(&parts.plan(number), &mut Reporter::new(&mut observe)) {
            Ok(_) => return Ok(folders),
            Err(error) if is_passing(&error) => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    last.map_or(Ok(folders), Err)
}

/// Compares both sides at each target host, and adds the files that none of them has. Returns the paths of other entries
/// that none of them has, which need no data.
pub(super) fn plan_split(
    parts: &Parts,
    queue: &WorkQueue,
    named: impl Fn(Naming),
) -> Result<Vec<Vec<u8>>, Error> {
    let mut wanted: BTreeMap<Vec<u8>, (usize, u64)> = BTreeMap::new();
    let (mut answered, mut last) = (0, None);
    for number in 0..parts.targets() {
        let mut found = Vec::new();
        let mut observe = |event: Event| {
            if let Event::Copy(CopyEvent::Planned(planned)) = event
                && let Some(bytes) = wanted_bytes(&planned)
            {
                let (path, naming) = parts.source_name(&planned.path);
                named(naming);
                found.push((path, bytes));
            }
        };
        match transfer::copy(&parts.plan(number), &mut Reporter::new(&mut observe)) {
            Ok(_) => answered += 1,
            Err(error) if is_passing(&error) => {
                last = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        }
        for (path, bytes) in found {
            wanted.entry(path).or_insert((0, bytes)).0 += 1;
        }
    }
    if answered == 0 {
        return last.map_or(Ok(Vec::new()), Err);
    }
    let mut others = Vec::new();
    for (path, (missing, bytes)) in wanted {
        if missing < answered {
            continue;
        }
        if bytes == 0 {
            others.push(path);
        } else {
            queue.add(Unit::file(path, bytes));
        }
    }
    Ok(others)
}

/// Returns the bytes of an entry that the target does not have, except of a directory.
fn wanted_bytes(planned: &Planned) -> Option<u64> {
    let is_new = matches!(planned.action, Action::Create | Action::Replace);
    let item = planned.item?;
    (is_new && item.kind != ItemKind::Folder).then_some(planned.bytes + planned.kept)
}

/// Returns true if another pair of hosts may succeed.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::Network | Code::TimedOut | Code::Stopping
    )
}

/// Returns true if the entry is a directory that does not exist at the target.
fn is_new_folder(planned: &Planned) -> bool {
    let is_folder = planned
        .item
        .is_some_and(|item| item.kind == ItemKind::Folder);
    is_folder && planned.action == Action::Create
}

/// Returns true if the bytes of the entry will be sent.
fn is_moved(planned: &Planned) -> bool {
    let is_new = matches!(planned.action, Action::Create | Action::Replace);
    let is_data = planned
        .item
        .is_some_and(|item| item.kind == ItemKind::File && item.update == Update::Data);
    is_new && is_data && planned.bytes + planned.kept > 0
}
