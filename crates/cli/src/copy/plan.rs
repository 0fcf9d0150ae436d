//! Summary of a dry run, in words.

use lighthaul::Plan;
use lighthaul_base::{Size, counted};

/// Returns the summary of a dry run, as the end of a sentence.
pub(super) fn sentence(plan: &Plan) -> String {
    let sent = match (plan.bytes, plan.entries) {
        (_, 0) => None,
        (0, count) => Some(format!("create or replace {}", entries(count))),
        (bytes, count) => Some(format!("send {} in {}", Size(bytes), entries(count))),
    };
    let change = |count| format!("change the metadata of {}", entries(count));
    let changed = (plan.changes > 0).then(|| change(plan.changes));
    let deleted = (plan.deletions > 0).then(|| format!("delete {}", plan.deletions));
    let parts: Vec<String> = [sent, changed, deleted].into_iter().flatten().collect();
    if parts.is_empty() {
        "would change nothing".to_owned()
    } else {
        format!("would {}", parts.join(", "))
    }
}

/// Returns a number of entries in words.
pub(super) fn entries(count: u64) -> String {
    counted(count, "entry", "entries")
}

#[cfg(test)]
mod tests {
    use lighthaul_files::options::{Action, Planned};

    use super::*;

    fn totals(actions: &[(Action, u64)]) -> Plan {
        let mut totals = Plan::default();
        for (action, bytes) in actions {
            totals.add(&Planned {
                action: *action,
                path: b"a".to_vec(),
                bytes: *bytes,
                kept: 0,
                why: String::new(),
                item: None,
            });
        }
        totals
    }

    #[test]
    fn dry_run_summary_has_a_number_for_each_kind_of_change() {
        let many = [
            (Action::Create, 1 << 20),
            (Action::Replace, 1 << 20),
            (Action::Link, 0),
            (Action::Keep, 7),
            (Action::Exclude, 7),
            (Action::Skip, 7),
            (Action::Change, 7),
            (Action::Delete, 0),
            (Action::Delete, 0),
        ];
        for (actions, sentence) in [
            (
                &many[..],
                "would send 2.00 MiB in 3 entries, change the metadata of 1 entry, delete 2",
            ),
            (&many[..1], "would send 1.00 MiB in 1 entry"),
            (&many[2..3], "would create or replace 1 entry"),
            (&many[7..], "would delete 2"),
            (&many[3..6], "would change nothing"),
        ] {
            assert_eq!(super::sentence(&totals(actions)), sentence);
        }
    }
}
