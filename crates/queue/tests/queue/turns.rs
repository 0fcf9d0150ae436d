//! Shares of owners, and jobs that make room for other owners.

use lighthaul_queue::claims::Report;
use lighthaul_queue::job::{Attempt, JobEnd};
use lighthaul_queue::list::Selection;
use lighthaul_queue::turns::Room;
use lighthaul_queue::{JobSpec, JobState, Queue};

use crate::rules::{claim, ended, submit};
use crate::{Folder, spec};

/// Returns the attempt that makes room of the running jobs of an owner, if any.
fn room(queue: &mut Queue, now: u64, owner: &str) -> Option<Attempt> {
    let selection = Selection {
        owner: Some(owner.to_owned()),
        states: vec![JobState::Running],
    };
    let own = queue.jobs(&selection, None, 99).unwrap();
    let own: Vec<&lighthaul_queue::Job> = own.iter().collect();
    match queue.make_room(now, &own, 1000).unwrap() {
        Room::Of(attempt) => Some(attempt),
        Room::None | Room::Taken => None,
    }
}

fn of(owner: &str) -> JobSpec {
    JobSpec {
        owner: owner.to_owned(),
        ..spec()
    }
}

fn release(queue: &mut Queue, now: u64, attempt: Attempt) {
    let how = ended(JobEnd::Released);
    assert!(
        queue
            .finish(now, attempt, &how, &Report::default())
            .unwrap()
    );
}

#[test]
fn job_makes_room_only_if_the_waiting_owner_gets_its_slot() {
    let folder = Folder::new("room-shares");
    let mut queue = folder.queue();
    queue.set_share("zoe", 3).unwrap();
    queue
        .submit(1, &[of("ada"), of("zoe"), of("zoe"), of("ada")])
        .unwrap();
    assert_eq!(queue.claim(2, "worker", 1000, 2).unwrap().len(), 2);
    // zoe may have three times the jobs, but ada would get the free slot again
    let late = 1_000_000_000;
    assert_eq!(room(&mut queue, late, "ada"), None);
    let claimed = claim(&mut queue, 3).unwrap();
    release(&mut queue, 4, claimed);
    assert_eq!(
        claim(&mut queue, 5).unwrap(),
        Attempt {
            number: 2,
            ..claimed
        }
    );
}

#[test]
fn owner_that_waits_gets_the_slot_although_it_was_served_later() {
    let folder = Folder::new("room-turns");
    let mut queue = folder.queue();
    let long = submit(&mut queue, 1, of("ada"));
    assert_eq!(claim(&mut queue, 1).unwrap().job, long);
    submit(&mut queue, 2, of("bob"));
    let short = claim(&mut queue, 2).unwrap();
    queue
        .finish(3, short, &ended(JobEnd::Done), &Report::default())
        .unwrap();
    let waiting = submit(&mut queue, 4, of("bob"));
    assert_eq!(room(&mut queue, 60_000, "ada"), None);
    let stopped = room(&mut queue, 60_001, "ada").unwrap();
    assert_eq!(stopped.job, long);
    release(&mut queue, 60_002, stopped);
    assert_eq!(claim(&mut queue, 60_003).unwrap().job, waiting);
}

#[test]
fn one_job_makes_room_however_many_workers_see_the_same_owner_wait() {
    let folder = Folder::new("room-once");
    let mut queue = folder.queue();
    queue.submit(1, &vec![of("ada"); 6]).unwrap();
    let claimed = queue.claim(1, "worker", 1000, 6).unwrap();
    let waiting = submit(&mut queue, 2, of("bob"));
    let now = 10_000;
    let answers: Vec<Room> = std::thread::scope(|scope| {
        let ask = |job| {
            let place = folder.place();
            scope.spawn(move || {
                let mut queue = Queue::open(&place).unwrap();
                queue.make_room(now, &[job], 1000).unwrap()
            })
        };
        let mut threads = Vec::new();
        for job in &claimed {
            threads.push(ask(job));
        }
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let chosen: Vec<&Room> = answers
        .iter()
        .filter(|room| matches!(room, Room::Of(_)))
        .collect();
    assert_eq!(chosen.len(), 1, "{answers:?}");
    let stopped = room(&mut queue, now, "ada").unwrap();
    // the answer to the first call may have been lost
    assert_eq!(chosen, [&Room::Of(stopped)]);
    release(&mut queue, now, stopped);
    assert_eq!(claim(&mut queue, now).unwrap().job, waiting);
    assert_eq!(room(&mut queue, now, "ada"), None);
}

#[test]
fn owners_share_workers_by_their_shares() {
    let folder = Folder::new("shares");
    let mut queue = folder.queue();
    // a thousand jobs of one owner do not delay the other owners
    queue.submit(1, &vec![of("ada"); 1000]).unwrap();
    queue.submit(1, &vec![of("bob"); 20]).unwrap();
    queue.submit(1, &vec![of("eve"); 20]).unwrap();
    queue.set_share("eve", 2).unwrap();
    let claimed = queue.claim(2, "worker", 1000, 16).unwrap();
    let count = |owner: &str| claimed.iter().filter(|job| job.owner == owner).count();
    assert_eq!((count("ada"), count("bob"), count("eve")), (4, 4, 8));
    assert!(queue.set_share("eve", 0).is_err());
}
