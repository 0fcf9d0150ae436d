//! Waiting times of the tasks of this process, from `/proc/self/task/*/schedstat`.
//!
//! The kernel counts the nanoseconds in which a task ran, and those in which it could run but
//! waited for a processor (run delay). The monitor itself is the probe: its tasks wait as long as
//! those of other processes of the same priority.

use std::collections::BTreeMap;

use super::counter::{fraction, numbers};

/// Nanoseconds of one task since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTimes {
    /// Time in which the task ran.
    pub ran: u64,
    /// Time in which the task waited for a processor.
    pub waited: u64,
}

/// Parses a file `schedstat` of a task.
pub fn parse(text: &str) -> Option<TaskTimes> {
    let [ran, waited, ..] = numbers(text)[..] else {
        return None;
    };
    Some(TaskTimes { ran, waited })
}

/// Returns the fraction of the time with runnable tasks in which the tasks waited for a processor.
///
/// Only tasks of both times count. Without any, it is `None`.
pub fn run_delay(
    before: &BTreeMap<u32, TaskTimes>,
    after: &BTreeMap<u32, TaskTimes>,
) -> Option<f64> {
    let pairs = after
        .iter()
        .filter_map(|(task, after)| Some((before.get(task)?, after)));
    let (mut count, mut ran, mut waited) = (0, 0.0, 0.0);
    for (before, after) in pairs {
        count += 1;
        ran += after.ran.saturating_sub(before.ran) as f64;
        waited += after.waited.saturating_sub(before.waited) as f64;
    }
    (count > 0).then(|| fraction(waited, ran + waited))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn run_delay_includes_only_tasks_in_both_samples() {
        let task = |ran, waited| TaskTimes { ran, waited };
        let before = BTreeMap::from([(1, task(100, 50)), (2, task(7, 7))]);
        let after = BTreeMap::from([(1, task(400, 150)), (3, task(9, 9))]);
        assert_eq!(run_delay(&before, &after), Some(0.25));
        assert_eq!(run_delay(&BTreeMap::new(), &after), None);
        assert_eq!(run_delay(&before, &before), Some(0.0));
    }

    #[test]
    fn first_two_numbers_are_parsed() {
        let times = TaskTimes { ran: 5, waited: 6 };
        assert_eq!(parse("5 6 1\n"), Some(times));
        assert_eq!(parse("5"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(text: String) {
            parse(&text);
        }
    }
}
