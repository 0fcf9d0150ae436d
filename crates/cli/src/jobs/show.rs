//! Output of jobs, as text and as JSON.

use std::collections::BTreeMap;

use lighthaul_base::escape::{LINE_MAX, escape};
use lighthaul_base::{Size, counted};
use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::zone::Zone;
use lighthaul_grammar::output::OutputArgs;
use lighthaul_queue::list::JobEvent;
use lighthaul_queue::secrets::masked_words;
use lighthaul_queue::{Job, JobState};
use lighthaul_session::error::Error;
use serde_json::{Value, json};

use super::desk::Desk;
use crate::output::print::{print, print_json};

/// Prints a new job: only its number, for scripts.
pub(super) fn submitted(job: &Job, output: OutputArgs) {
    if output.json {
        print_json(&event(job, None));
    } else {
        print(&job.id.to_string());
    }
}

/// Prints a job as one line.
pub(super) fn line(job: &Job, output: OutputArgs) {
    if output.json {
        return print_json(&event(job, None));
    }
    let wish = if job.is_cancel_requested {
        "; its copy is being stopped"
    } else {
        ""
    };
    print(&format!("job {} is {}{wish}", job.id, job.state));
}

/// Prints jobs as a table, then the number of jobs in each state.
pub(super) fn list(jobs: &[Job], counts: &BTreeMap<JobState, u64>, output: OutputArgs) {
    if output.json {
        for job in jobs {
            print_json(&event(job, None));
        }
        return;
    }
    if !jobs.is_empty() {
        print("   JOB STATE     PRIORITY OWNER      DONE   JOB");
    }
    for job in jobs {
        print(&format!(
            "{:>6} {:<9} {:>8} {:<10} {:>4}   {}",
            job.id,
            job.state,
            job.priority,
            plain(&job.owner),
            percent(job),
            title(job)
        ));
    }
    let counts: Vec<String> = counts
        .iter()
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    print(&match counts.as_slice() {
        [] => "no jobs".to_owned(),
        some => some.join(", "),
    });
}

/// Prints all fields of a job, and its history.
pub(super) fn full(desk: &mut Desk, id: u64, output: OutputArgs) -> Result<(), Error> {
    let job = desk.job(id)?;
    let events = desk.events(id)?;
    if output.json {
        print_json(&event(&job, Some(&events)));
        return Ok(());
    }
    print(&format!(
        "job {id} of {} is {}",
        plain(&job.owner),
        job.state
    ));
    if !job.name.is_empty() {
        print(&format!("  name       {}", plain(&job.name)));
    }
    print(&format!("  command    {}", plain(&command(&job))));
    print(&format!(
        "  directory  {}",
        plain(&job.directory.to_string_lossy())
    ));
    if let Some((done, total)) = job.progress {
        print(&format!("  moved      {} of {}", Size(done), Size(total)));
    }
    if job.failures > 0 {
        let retries = counted(u64::from(job.retries), "retry", "retries");
        print(&format!(
            "  failures   {}, of at most {retries}",
            job.failures
        ));
    }
    if job.state == JobState::Waiting {
        print(&format!("  not before {}", shown(job.not_before)));
    }
    if !job.text.is_empty() {
        print(&format!("  result     {}", plain(&job.text)));
    }
    for event in events {
        let why = if event.text.is_empty() { "" } else { ": " };
        print(&format!(
            "  {}  {}{why}{}",
            shown(event.time),
            event.state,
            plain(&event.text)
        ));
    }
    Ok(())
}

/// Returns the event of a job.
pub(super) fn event(job: &Job, history: Option<&[JobEvent]>) -> Value {
    let seconds = |millis: u64| millis as f64 / 1000.0;
    let mut event = json!({
        "v": 1,
        "type": "job",
        "job": job.id.0,
        "state": job.state.name(),
        "owner": job.owner,
        "name": job.name,
        "command": masked_words(&job.command),
        "directory": job.directory.to_string_lossy(),
        "priority": job.priority,
        "attempt": job.attempt,
        "failures": job.failures,
        "retries": job.retries,
        "worker": job.worker,
        "bytes": job.progress.map(|(done, _)| done),
        "bytes_total": job.progress.map(|(_, total)| total),
        "not_before_s": seconds(job.not_before),
        "every_s": job.every.map(seconds),
        "submitted_s": seconds(job.submitted),
        "started_s": job.started.map(seconds),
        "ended_s": job.ended.map(seconds),
        "exit": job.exit,
        "text": job.text,
    });
    if let Some(history) = history {
        let lines = history.iter().map(|line| {
            json!({
                "time_s": seconds(line.time),
                "attempt": line.attempt,
                "state": line.state.name(),
                "text": line.text,
            })
        });
        event["history"] = lines.collect();
    }
    event
}

/// Returns the part of the bytes that is done.
fn percent(job: &Job) -> String {
    match job.progress {
        Some((done, total)) if total > 0 => format!("{} %", done.saturating_mul(100) / total),
        Some(_) | None => String::new(),
    }
}

/// Returns the name of a job, or else its command.
fn title(job: &Job) -> String {
    if job.name.is_empty() {
        plain(&command(job))
    } else {
        plain(&job.name)
    }
}

fn command(job: &Job) -> String {
    let words = masked_words(&job.command);
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// Escapes text from other programs for a terminal.
pub(super) fn plain(text: &str) -> String {
    escape(text, LINE_MAX).into_owned()
}

fn shown(millis: u64) -> String {
    Zone::LOCAL.shown(Timestamp(millis.saturating_mul(1_000_000)))
}
