//! Times as people read them: whole seconds, with their offset from UTC.

use lighthaul_io::host::clock::local_offset;

use crate::json::Timestamp;

/// Time zone: a function from seconds since 1970 to the zone's offset from UTC in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Zone(fn(i64) -> i32);

impl Zone {
    /// UTC.
    pub const UTC: Self = Self::new(|_| 0);
    /// Time zone of this host.
    pub const LOCAL: Self = Self::new(local_offset);

    /// Creates a time zone.
    pub const fn new(ahead: fn(i64) -> i32) -> Self {
        Self(ahead)
    }

    /// Returns the offset from UTC at a time, in seconds.
    pub fn ahead(self, at: Timestamp) -> i32 {
        (self.0)((at.0 / SECOND).cast_signed())
    }

    /// Formats a time as in `2031-05-01 08:00:00 +02:00`, without fractions of a second.
    pub fn shown(self, at: Timestamp) -> String {
        let ahead = self.ahead(at);
        let gap = if ahead == 0 { "" } else { " " };
        let time = written(at, ahead, "%Y-%m-%d %H:%M:%S");
        format!("{time}{gap}{}", offset(ahead))
    }

    /// Formats a time as one word for the command line, as in `2031-05-01T08:00:00+02:00`.
    pub fn word(self, at: Timestamp) -> String {
        let ahead = self.ahead(at);
        let time = written(at, ahead, "%Y-%m-%dT%H:%M:%S");
        format!("{time}{}", offset(ahead))
    }

    /// Converts the UTC times in a message to this time zone; each is a word such as `2031-05-01T06:00:00Z`.
    pub fn localized(self, text: &str) -> String {
        let words = text.split(' ').map(|word| {
            let time = word.trim_end_matches([',', ';', ':', '.', ')']);
            let is_time = time.ends_with('Z') && time.contains('T');
            match time.parse().ok().filter(|_| is_time) {
                Some(at) => format!("{}{}", self.word(at), &word[time.len()..]),
                None => word.to_owned(),
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Formats the date and time of day at an offset from UTC in seconds, by a format of `strftime`.
pub fn written(at: Timestamp, ahead: i32, form: &str) -> String {
    let at = jiff::Timestamp::from_nanosecond(i128::from(at.0));
    let at = at.unwrap_or(jiff::Timestamp::MAX);
    let zone = jiff::tz::Offset::from_seconds(ahead).unwrap_or(jiff::tz::Offset::UTC);
    zone.to_datetime(at).strftime(form).to_string()
}

/// Formats an offset from UTC in seconds, as in `+02:00`; `Z` for UTC itself.
pub fn offset(ahead: i32) -> String {
    if ahead == 0 {
        return "Z".to_owned();
    }
    let sign = if ahead < 0 { '-' } else { '+' };
    let minutes = ahead.unsigned_abs() / 60;
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Zone that is an hour ahead of UTC, and two from the summer of 2031 on.
    const BERLIN: Zone = Zone::new(|at| if at < 1_932_800_000 { 3600 } else { 7200 });
    const NEWFOUNDLAND: Zone = Zone::new(|_| -12_600);

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn times_are_whole_seconds_with_their_offset() {
        let winter = at("2026-11-25T23:02:00.9Z");
        let summer = at("2031-05-01T06:00:00Z");
        assert_eq!(BERLIN.shown(winter), "2026-11-26 00:02:00 +01:00");
        assert_eq!(BERLIN.shown(summer), "2031-05-01 08:00:00 +02:00");
        assert_eq!(NEWFOUNDLAND.shown(summer), "2031-05-01 02:30:00 -03:30");
        assert_eq!(Zone::UTC.shown(winter), "2026-11-25 23:02:00Z");
    }

    #[test]
    fn shown_times_parse_as_the_same_time() {
        let moment = at("2031-05-01T06:00:00Z");
        for zone in [BERLIN, NEWFOUNDLAND, Zone::UTC, Zone::LOCAL] {
            assert_eq!(at(&zone.shown(moment)), moment);
            assert_eq!(at(&zone.word(moment)), moment);
        }
    }

    #[test]
    fn times_in_messages_get_the_offset_of_the_zone() {
        let text = "ask for an end at 2026-11-25T23:02:00Z or later, before 2031-05-01T06:00:00Z: \
                    file Z, T and 18:30Z stay";
        assert_eq!(
            BERLIN.localized(text),
            "ask for an end at 2026-11-26T00:02:00+01:00 or later, before 2031-05-01T08:00:00+02:00: \
             file Z, T and 18:30Z stay"
        );
        assert_eq!(Zone::UTC.localized(text), text);
    }
}
