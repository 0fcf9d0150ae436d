//! Paths as text: one line per path, or a drawing domain by domain with the rates over time.
//!
//! ```text
//!   100 --[ 64500 campus ]-- 12 --[ 64501 backbone ]-- 13 --[ 64502 ]-- 103
//!   2031-05-01 08:00:00 +02:00 - 2031-05-01 08:10:00 +02:00      1 Gb/s  ████████████████████
//! ```

use lighthaul_base::counted;
use lighthaul_base::escape::{LINE_MAX, escape};
use lighthaul_booking_client::json::Timestamp;
use lighthaul_booking_client::zone::Zone;
use lighthaul_domains::control::{HopView, NowView, PathView, StepView};

use crate::label::rate;

/// Returns one line about a path.
pub fn headline(path: &PathView) -> String {
    let end = path.steps.last().map(|step| end_of(step.till));
    let ends = match &end {
        Some(end) if path.is_held() && path.stage != "released" => format!(", ends by {end}"),
        Some(_) | None => String::new(),
    };
    if path.is_offered() {
        let end = end.unwrap_or_default();
        return format!("a path is possible, ends by {end}; nothing is reserved");
    }
    let lost = path.lost.as_ref().map(|_| ", without protection");
    let lost = lost.unwrap_or_default();
    plain(&format!("path {} is {}{ends}{lost}", path.id, path.stage))
}

/// Returns the drawing of a path for a terminal of `width` columns.
pub fn draw(path: &PathView, width: usize) -> Vec<String> {
    let mut lines = vec![headline(path)];
    for (nth, leg) in path.legs.iter().enumerate() {
        lines.extend(chain(leg, width));
        let lost = path.lost.iter().find(|lost| usize::from(lost.leg) == nth);
        lines.extend(lost.map(|lost| plain(&format!("    failed: {}", lost.why))));
    }
    lines.extend(path.now.as_ref().map(carried));
    let most = path.steps.iter().map(|step| step.rate_bps).max();
    let steps = path.steps.iter().take(STEPS_SHOWN);
    let mut before: Option<&StepView> = None;
    for step in steps {
        if let Some(gap) = before.filter(|before| before.till < step.from) {
            lines.push(range((gap.till, step.from), 0, most));
        }
        lines.push(range((step.from, step.till), step.rate_bps, most));
        before = Some(step);
    }
    if let Some(more @ 1..) = path.steps.len().checked_sub(STEPS_SHOWN) {
        let more = counted(more as u64, "more step", "more steps");
        lines.push(format!("  and {more}; --json has all"));
    }
    lines
}

/// Returns a list of paths, one line for each.
pub fn list(paths: &[PathView]) -> Vec<String> {
    if paths.is_empty() {
        return vec!["no paths".to_owned()];
    }
    let row = |[id, stage, begins, ends, most, now, domains]: [&str; 7]| {
        let row = format!(
            "{id:<8}  {stage:<10}  {begins:<26}  {ends:<26}  {most:>10}  {now:>10}  {domains}"
        );
        row.trim_end().to_owned()
    };
    let head = [
        "ID", "STAGE", "BEGINS", "ENDS BY", "AT MOST", "NOW", "DOMAINS",
    ];
    let mut lines = vec![row(head)];
    for path in paths {
        let first = path
            .steps
            .first()
            .map(|step| Zone::LOCAL.shown(Timestamp(step.from)));
        let last = path.steps.last().map(|step| end_of(step.till));
        let most = path.steps.iter().map(|step| step.rate_bps).max();
        let id: String = path.id.digits().chars().take(8).collect();
        let legs: Vec<String> = path.legs.iter().map(|leg| domains(leg)).collect();
        lines.push(plain(&row([
            &id,
            &path.stage,
            &first.unwrap_or_default(),
            &last.unwrap_or_default(),
            &most.map_or_else(String::new, rate),
            &path.now.as_ref().map_or_else(String::new, present),
            &legs.join(", "),
        ])));
    }
    lines
}

/// Returns the rate that the devices of this domain carry; with protection, that of the better leg.
fn present(now: &NowView) -> String {
    match now.carried_bps.iter().flatten().max() {
        Some(0) => "dark".to_owned(),
        Some(bps) => rate(*bps),
        None => "unknown".to_owned(),
    }
}

/// Returns a line with the rates that the devices of this domain carry.
fn carried(now: &NowView) -> String {
    let legs = now.carried_bps.iter().map(|bps| match bps {
        Some(0) => "nothing".to_owned(),
        Some(bps) => rate(*bps),
        None => "an unknown rate".to_owned(),
    });
    let legs: Vec<String> = legs.collect();
    let is_whole = now.carried_bps.iter().all(|bps| *bps == Some(now.due_bps));
    let due = (!is_whole).then(|| format!(", and {} are committed", rate(now.due_bps)));
    format!(
        "  the devices of this domain carry {} now{}",
        legs.join(" and "),
        due.unwrap_or_default()
    )
}

fn domains(leg: &[HopView]) -> String {
    let numbers: Vec<String> = leg.iter().map(|hop| hop.domain.to_string()).collect();
    numbers.join(" > ")
}

/// Returns ports and domains in order, on as many lines as needed.
fn chain(leg: &[HopView], width: usize) -> Vec<String> {
    let port = |port: Option<u32>| port.map_or_else(|| "?".to_owned(), |port| port.to_string());
    let mut lines = Vec::new();
    let mut line = format!(
        "  {}",
        leg.first()
            .map_or_else(String::new, |hop| port(hop.ingress))
    );
    for (nth, hop) in leg.iter().enumerate() {
        let name = hop
            .name
            .as_ref()
            .map_or_else(String::new, |name| format!(" {}", plain(name)));
        // the port at which an earlier domain is left is known from the next one
        let next = leg.get(nth + 1).and_then(|next| next.ingress);
        let egress = port(hop.egress.or(next));
        let part = format!(" --[ {}{name} ]-- {egress}", hop.domain);
        if line.chars().count() + part.chars().count() > width && nth > 0 {
            lines.push(line.clone());
            line.clear();
            line.push_str("   ");
        }
        line.push_str(&part);
    }
    lines.push(line);
    lines
}

/// Returns a range of time with its rate, as a number and as a bar.
fn range((from, till): (u64, u64), bps: u64, most: Option<u64>) -> String {
    let most = most.unwrap_or(1).max(1);
    let length = u128::from(bps) * BAR / u128::from(most);
    let bar = "█".repeat(length as usize);
    let begin = Zone::LOCAL.shown(Timestamp(from));
    let line = format!("  {begin} - {}  {:>10}  {bar}", end_of(till), rate(bps));
    line.trim_end().to_owned()
}

/// Returns the local time of an end, rounded up to the next whole second.
fn end_of(nanos: u64) -> String {
    Zone::LOCAL.shown(Timestamp(nanos).second_after())
}

/// Escapes text of other domains, so that it cannot control the terminal.
fn plain(text: &str) -> String {
    escape(text, LINE_MAX).into_owned()
}

const STEPS_SHOWN: usize = 20;
/// Length of the bar of the highest rate in columns.
const BAR: u128 = 20;

#[cfg(test)]
mod tests {
    use lighthaul_domains::control::{LostLegView, PathId};
    use lighthaul_stargate::CorrelationId;

    use super::*;

    fn hop(domain: u32, ports: Option<(u32, u32)>) -> HopView {
        HopView {
            domain,
            name: (domain == 2).then(|| "back\u{1b}[2Jbone".to_owned()),
            ingress: ports.map(|(ingress, _)| ingress),
            egress: ports.map(|(_, egress)| egress),
        }
    }

    fn path() -> PathView {
        let step = |from: u64, till: u64, mbps: u64| StepView {
            from: from * 1_000_000_000,
            till: till * 1_000_000_000,
            rate_bps: mbps * 1_000_000,
        };
        PathView {
            id: PathId(CorrelationId(0xabcd << 112)),
            source: 1,
            attempt: 0,
            stage: "committed".to_owned(),
            legs: vec![vec![
                hop(1, Some((101, 12))),
                hop(2, Some((12, 13))),
                hop(3, Some((13, 103))),
            ]],
            steps: vec![step(10, 20, 20), step(30, 40, 10)],
            lost: None,
            now: None,
            guard_ns: 0,
        }
    }

    #[test]
    fn drawing_has_domains_ports_and_rates_and_no_control_characters() {
        let lines = draw(&path(), 100);
        assert_eq!(lines.len(), 5, "{lines:#?}");
        assert!(lines[0].starts_with("path abcd0000-0000-"), "{lines:#?}");
        assert!(
            lines[1].starts_with("  101 --[ 1 ]-- 12 --[ 2 back"),
            "{lines:#?}"
        );
        assert!(lines[1].ends_with("--[ 3 ]-- 103") && !lines[1].contains('\u{1b}'));
        let bars: Vec<usize> = lines[2..]
            .iter()
            .map(|line| line.matches('█').count())
            .collect();
        assert_eq!(bars, [20, 0, 10]);
    }

    #[test]
    fn preview_is_marked_as_not_reserved() {
        let mut path = path();
        path.stage = "offered".to_owned();
        let lines = draw(&path, 100);
        assert!(
            lines[0].starts_with("a path is possible, ends by "),
            "{lines:#?}"
        );
        assert!(lines[0].ends_with("; nothing is reserved"), "{lines:#?}");
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn failed_leg_is_marked_with_its_reason() {
        let mut path = path();
        path.legs
            .push(vec![hop(1, Some((101, 14))), hop(3, Some((14, 103)))]);
        path.lost = Some(LostLegView {
            leg: 0,
            why: "a device failed".to_owned(),
        });
        let lines = draw(&path, 100);
        assert!(lines[0].ends_with(", without protection"), "{lines:#?}");
        assert_eq!(lines[2], "    failed: a device failed");
        assert!(lines[3].starts_with("  101 --[ 1 ]-- 14"), "{lines:#?}");
    }

    #[test]
    fn path_that_carries_less_than_it_should_is_shown() {
        let shown = |carried: &[Option<u64>]| {
            let mut path = path();
            path.now = Some(NowView {
                due_bps: 20_000_000,
                carried_bps: carried.to_vec(),
            });
            let (drawn, listed) = (draw(&path, 100), list(&[path]));
            (drawn[2].clone(), listed[1].clone())
        };
        let full = Some(20_000_000);
        let (line, row) = shown(&[full]);
        assert_eq!(line, "  the devices of this domain carry 20 Mb/s now");
        assert!(row.contains("20 Mb/s     20 Mb/s  1 > 2 > 3"), "{row}");
        let (line, row) = shown(&[Some(0)]);
        let dark = "  the devices of this domain carry nothing now, and 20 Mb/s are committed";
        assert_eq!(line, dark);
        assert!(row.contains("   dark  1 > 2 > 3"), "{row}");
        let (line, row) = shown(&[None]);
        assert!(line.contains("carry an unknown rate now"), "{line}");
        assert!(row.contains("unknown  1 > 2 > 3"), "{row}");
        let (line, row) = shown(&[full, Some(0)]);
        assert!(
            line.contains("carry 20 Mb/s and nothing now, and"),
            "{line}"
        );
        assert!(row.contains("20 Mb/s     20 Mb/s  1"), "{row}");
    }

    #[test]
    fn long_paths_continue_on_the_next_line() {
        let mut long = path();
        long.legs[0].extend((4..30).map(|domain| hop(domain, Some((domain, domain + 1)))));
        for line in draw(&long, 60) {
            let is_rate =
                line.contains(" b/s") || line.contains("Mb/s") || line.starts_with("path");
            assert!(is_rate || line.chars().count() <= 60, "{line}");
        }
    }

    #[test]
    fn upstream_domains_have_unknown_entry_ports() {
        let mut seen = path();
        seen.legs[0][0] = hop(1, None);
        let line = &draw(&seen, 100)[1];
        assert!(line.starts_with("  ? --[ 1 ]-- 12 --"), "{line}");
    }
}
