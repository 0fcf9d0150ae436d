//! Translation of a request into the command of a job.
//!
//! The command has only options that this file writes, each with its value in the same word, and the places after
//! `--`. So no text of a client can become an option.

use std::time::Duration;

use lighthaul_booking::books::{JobPlace, Policy, Principal};
use lighthaul_booking_client::json::{CopyOptions, NewJob, Timestamp};
use lighthaul_booking_client::role::Role;
use lighthaul_queue::{JobId, JobSpec, owner};

use super::job_error::JobError;

/// Returns the job of a request by `principal`, if its policy permits it.
pub(super) fn specification(
    principal: &Principal,
    policy: &Policy,
    new: &NewJob,
) -> Result<JobSpec, JobError> {
    if new.sources.is_empty() || new.sources.len() > SOURCES_MAX {
        return Err(JobError::Misuse("a job has 1 to 100 sources"));
    }
    let places = places(&new.sources, &new.target)?;
    check_places(principal, policy, &places, new.priority)?;
    check_objects(&places, &new.options)?;
    if new.every.is_some() && new.start_by.is_some() {
        return Err(JobError::Misuse("a job with every has no start_by"));
    }
    if new.options.by.is_some() {
        if !new.options.book {
            return Err(JobError::Misuse("by needs book: set both, or omit by"));
        }
        if new.every.is_some() {
            return Err(JobError::Misuse("a job with every has no by"));
        }
    }
    if new.after.len() > AFTER_MAX {
        return Err(JobError::Misuse("a job waits for at most 100 jobs"));
    }
    if new.every.is_some_and(|every| every.0 < EVERY_MIN) {
        return Err(JobError::Misuse("a job recurs at most once a minute"));
    }
    let texts = new.options.exclude.iter().chain([&new.name]);
    if texts
        .into_iter()
        .any(|text| text.chars().any(char::is_control))
    {
        return Err(JobError::Misuse(
            "names and patterns have no control characters",
        ));
    }
    let millis = |Timestamp(nanos)| nanos / 1_000_000;
    let command = command(new)?;
    // lists of jobs have their commands, too
    if command.iter().map(String::len).sum::<usize>() > COMMAND_MAX {
        return Err(JobError::Misuse(
            "the places and patterns of a job are longer than 8 KiB",
        ));
    }
    Ok(JobSpec {
        owner: owner::of_client(&principal.name),
        name: new.name.clone(),
        command,
        directory: "/".into(),
        priority: new.priority,
        after: new.after.iter().copied().map(JobId).collect(),
        not_before: new.at.map_or(0, millis),
        start_by: new.start_by.map(millis),
        every: new
            .every
            .map(|every| u64::try_from(every.0.as_millis()).unwrap_or(u64::MAX)),
        retries: new.retries.unwrap_or(RETRIES).min(RETRIES_MAX),
    })
}

/// Checks the policy of a client again, for a job with this command that was submitted earlier. An operator may run all.
pub(super) fn permit(
    principal: &Principal,
    policy: &Policy,
    command: &[String],
    priority: i32,
) -> Result<(), JobError> {
    if principal.role >= Role::Operator {
        return Ok(());
    }
    let marked = command.iter().position(|word| word == "--");
    let words = marked.and_then(|at| command.get(at + 1..));
    let Some((target, sources)) = words.and_then(<[String]>::split_last) else {
        return Err(JobError::Misuse("the job has no places; submit it again"));
    };
    check_places(principal, policy, &places(sources, target)?, priority)
}

/// Sources and target of a job.
type Places = (Vec<JobPlace>, JobPlace);

/// Reads the places of a job, each of which must be one that jobs may name.
fn places(sources: &[String], target: &str) -> Result<Places, JobError> {
    let sources = sources.iter().map(|text| text.parse());
    Ok((sources.collect::<Result<_, _>>()?, target.parse()?))
}

/// Refuses copies that object stores cannot make, and options that have no meaning for them.
fn check_objects((sources, target): &Places, options: &CopyOptions) -> Result<(), JobError> {
    if target.is_web() {
        let text =
            "a web server can only be a source: name a daemon or an object store as the target";
        return Err(JobError::Misuse(text));
    }
    let mut all = sources.iter().chain([target]);
    if !all.any(JobPlace::is_object) {
        return Ok(());
    }
    if !sources.iter().chain([target]).all(JobPlace::is_object) {
        let text =
            "a job has places of daemons only, or places of object stores only: name one kind";
        return Err(JobError::Misuse(text));
    }
    let refused = [
        (
            options.rate.is_some(),
            "rate does not apply to object stores: omit it",
        ),
        (
            options.archive,
            "archive does not apply to object stores, which keep no owners: omit it",
        ),
        (
            options.book,
            "book does not apply to object stores: omit it",
        ),
    ];
    match refused.into_iter().find(|(is_set, _)| *is_set) {
        Some((_, text)) => Err(JobError::Misuse(text)),
        None => Ok(()),
    }
}

/// Checks the places and the priority of a job, which the policy of a user must permit.
fn check_places(
    principal: &Principal,
    policy: &Policy,
    (sources, target): &Places,
    priority: i32,
) -> Result<(), JobError> {
    if principal.role >= Role::Operator {
        return Ok(());
    }
    policy.check_job(&principal.name, sources, target)?;
    if priority > 0 {
        return Err(JobError::Forbidden {
            name: principal.name.clone(),
            action: "run jobs with a priority above 0",
        });
    }
    Ok(())
}

fn command(new: &NewJob) -> Result<Vec<String>, JobError> {
    let CopyOptions {
        delete,
        update,
        checksum,
        archive,
        exclude,
        rate,
        book,
        by,
    } = &new.options;
    // a server could send the worker to a place that the policy does not permit
    let mut words = vec!["cp".to_owned(), "--no-redirects".to_owned()];
    let flags = [
        (delete, "--delete"),
        // no terminal answers the question
        (delete, "--yes"),
        (update, "--update"),
        (checksum, "--checksum"),
        (archive, "--archive"),
        (book, "--book"),
    ];
    let flags = flags.into_iter().filter(|(is_set, _)| **is_set);
    words.extend(flags.map(|(_, flag)| flag.to_owned()));
    words.extend(exclude.iter().map(|pattern| format!("--exclude={pattern}")));
    if let Some(rate) = rate {
        let rate = rate.rate().ok_or(JobError::Misuse("a rate is above 0"))?;
        words.push(format!("--rate={}b/s", rate.as_bps()));
    }
    words.extend(by.map(|by| format!("--by={by}")));
    words.push("--".to_owned());
    // as the client wrote them: a final slash of a source means its contents
    words.extend(new.sources.iter().cloned());
    words.push(new.target.clone());
    Ok(words)
}

/// Most sources of a job.
const SOURCES_MAX: usize = 100;
/// Most jobs that a job waits for.
const AFTER_MAX: usize = 100;
/// Shortest period of a recurring job.
const EVERY_MIN: Duration = Duration::from_mins(1);
/// Most octets of a command.
const COMMAND_MAX: usize = 8 << 10;
/// Retries of a job that names none.
const RETRIES: u32 = 10;
/// Most retries of a job.
const RETRIES_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use lighthaul_booking_client::json::IsoDuration;

    use super::*;

    fn job(source: &str, target: &str) -> NewJob {
        NewJob {
            sources: vec![source.to_owned()],
            target: target.to_owned(),
            ..NewJob::default()
        }
    }

    fn ada() -> Principal {
        Principal::new("ada", Role::User)
    }

    fn olga() -> Principal {
        Principal::new("olga", Role::Operator)
    }

    fn permissive() -> Policy {
        Policy {
            job_sources: vec!["lh://near/".parse().unwrap()],
            job_targets: vec!["lh://far/{user}/".parse().unwrap()],
            ..Policy::default()
        }
    }

    #[test]
    fn texts_of_a_client_are_values_or_places() {
        let new = NewJob {
            options: CopyOptions {
                delete: true,
                exclude: vec!["--rsh=sh".to_owned(), "*.log".to_owned()],
                rate: Some(lighthaul_booking_client::json::Bps(5_000_000)),
                ..CopyOptions::default()
            },
            ..job("lh://near/-e", "lh://far/ada/")
        };
        let spec = specification(&ada(), &permissive(), &new).unwrap();
        let words: Vec<&str> = spec.command.iter().map(String::as_str).collect();
        let expected = [
            "cp",
            "--no-redirects",
            "--delete",
            "--yes",
            "--exclude=--rsh=sh",
            "--exclude=*.log",
            "--rate=5000000b/s",
            "--",
            "lh://near/-e",
            "lh://far/ada/",
        ];
        assert_eq!(words, expected);
        assert_eq!((spec.directory, spec.retries), ("/".into(), 10));
    }

    #[test]
    fn users_copy_only_where_their_policy_permits() {
        let refused = |principal: &Principal, policy: &Policy, new: &NewJob| {
            specification(principal, policy, new).map(drop).unwrap_err()
        };
        let good = job("lh://near/a", "lh://far/ada/b");
        assert!(specification(&ada(), &permissive(), &good).is_ok());
        // without a policy, nothing is permitted to users
        let why = refused(&ada(), &Policy::default(), &good);
        assert!(matches!(why, JobError::Policy(_)), "{why}");
        for bad in [
            job("lh://far/ada/b", "lh://far/ada/c"),
            job("lh://near/a", "lh://far/bob/b"),
            job("lh://near/a", "lh://near/b"),
        ] {
            let why = refused(&ada(), &permissive(), &bad);
            assert!(matches!(why, JobError::Policy(_)), "{why}");
            assert!(specification(&olga(), &permissive(), &bad).is_ok());
        }
        // nobody copies files of the worker
        for bad in [
            job("/etc/shadow", "lh://far/ada/b"),
            job("lh://near/a", "host:/etc/cron.d/"),
        ] {
            let why = refused(&olga(), &permissive(), &bad);
            assert!(matches!(why, JobError::Place(_)), "{why}");
        }
        let urgent = NewJob {
            priority: 1,
            ..good
        };
        let why = refused(&ada(), &permissive(), &urgent);
        assert!(matches!(why, JobError::Forbidden { .. }), "{why}");
        assert!(specification(&olga(), &permissive(), &urgent).is_ok());
    }

    #[test]
    fn options_and_places_that_object_stores_cannot_have_are_refused() {
        let with = |source: &str, target: &str, options: CopyOptions| {
            let new = NewJob {
                options,
                ..job(source, target)
            };
            specification(&olga(), &permissive(), &new).map_err(|why| why.to_string())
        };
        let rate = || CopyOptions {
            rate: Some(lighthaul_booking_client::json::Bps(5_000_000)),
            ..CopyOptions::default()
        };
        let archive = || CopyOptions {
            archive: true,
            ..CopyOptions::default()
        };
        let book = || CopyOptions {
            book: true,
            ..CopyOptions::default()
        };
        for (options, name) in [(rate(), "rate"), (archive(), "archive"), (book(), "book")] {
            for source in ["s3://b/k", "https://web.example.org/k"] {
                let why = with(source, "gs://c/k", options.clone()).unwrap_err();
                assert!(
                    why.starts_with(&format!("{name} does not apply to object stores")),
                    "{why}"
                );
            }
            assert!(with("lh://near/a", "lh://far/b", options).is_ok());
        }
        let other = CopyOptions {
            delete: true,
            update: true,
            checksum: true,
            exclude: vec!["*.tmp".to_owned()],
            ..CopyOptions::default()
        };
        assert!(with("s3://b/k/", "az://c/k/", other).is_ok());
        for (source, target) in [
            ("s3://b/k", "lh://far/b"),
            ("lh://near/a", "s3://b/k"),
            ("https://web.example.org/k", "lh://far/b"),
        ] {
            let why = with(source, target, CopyOptions::default()).unwrap_err();
            assert!(why.contains("name one kind"), "{why}");
        }
        let why = with(
            "s3://b/k",
            "https://web.example.org/k",
            CopyOptions::default(),
        );
        assert!(why.unwrap_err().contains("only be a source"));
    }

    #[test]
    fn bookings_have_the_rules_of_the_command() {
        let by = Some("2031-05-01T06:00:00Z".parse().unwrap());
        let with = |book, by, every| {
            let options = CopyOptions {
                book,
                by,
                ..CopyOptions::default()
            };
            let new = NewJob {
                options,
                every,
                ..job("lh://near/a", "lh://far/b")
            };
            let made = specification(&olga(), &permissive(), &new);
            made.map(|spec| spec.command[2..].join(" "))
                .map_err(|why| why.to_string())
        };
        let day = Some(IsoDuration(Duration::from_hours(24)));
        let places = "-- lh://near/a lh://far/b";
        assert_eq!(with(true, None, day), Ok(format!("--book {places}")));
        let expected = format!("--book --by=2031-05-01T06:00:00Z {places}");
        assert_eq!(with(true, by, None), Ok(expected));
        let why = with(false, by, None).unwrap_err();
        assert!(why.contains("by needs book"), "{why}");
        let why = with(true, by, day).unwrap_err();
        assert!(why.contains("a job with every has no by"), "{why}");
    }

    #[test]
    fn jobs_that_cost_too_much_are_refused() {
        let near = |length: usize| format!("lh://near/{}", "x".repeat(length));
        let every = |seconds| IsoDuration(Duration::from_secs(seconds));
        let good = || job("lh://near/a", "lh://far/ada/b");
        for bad in [
            NewJob {
                after: vec![1; 101],
                ..good()
            },
            NewJob {
                every: Some(every(59)),
                ..good()
            },
            NewJob {
                sources: vec![near(100); 101],
                ..good()
            },
            NewJob {
                sources: vec![near(1000); 9],
                ..good()
            },
        ] {
            let why = specification(&olga(), &permissive(), &bad).map(drop);
            assert!(matches!(why, Err(JobError::Misuse(_))), "{bad:?}");
        }
        let most = NewJob {
            after: vec![1; 100],
            every: Some(every(60)),
            sources: vec![near(70); 100],
            ..good()
        };
        assert!(specification(&olga(), &permissive(), &most).is_ok());
    }
}
