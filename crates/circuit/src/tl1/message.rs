//! Messages of a switch, read from a stream of octets with bounded memory.
//!
//! A [`Decoder`] takes octets in pieces of any length and returns [`Message`]s: acknowledgements, responses and
//! autonomous messages (Telcordia GR-831, GR-833). Line ends are CR, LF or both. Echoes, prompts and banners between
//! messages are skipped. An autonomous message may stand within a response:
//!
//! ```text
//! IP 7 <                                  acknowledgement
//!    SID 26-11-26 22:52:20                header line
//! M  7 COMPLD                             response: tag and completion
//!    "1.1.1>2.1.1:SRCPORT=1.1.1"          payload
//! ;                                       end, or > if another part follows
//! ```

use std::collections::VecDeque;

use lighthaul_base::escape::escape;

/// Message of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Early answer to a command.
    Acknowledgement {
        /// Tag of the command.
        tag: String,
        /// Status of the command.
        code: Acknowledgement,
    },
    /// Complete or partial answer to a command.
    Response(Response),
    /// Alarm or event, with its first line.
    Autonomous(String),
}

/// Code of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// `IP`: the command is in progress, and a response follows.
    InProgress,
    /// `PF`: the answer is printed at another terminal.
    PrintoutFollows,
    /// `OK`: the command is accepted, and no response follows.
    AllRight,
    /// `NA`: the switch lost the command.
    NoAcknowledgement,
    /// `NG`: the command cannot be executed.
    NoGood,
    /// `RL`: the switch is busy.
    RepeatLater,
}

/// Complete or partial response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Tag of the command.
    pub tag: String,
    /// Completion code of the response.
    pub completion: Completion,
    /// Payload: the quoted lines, without quotes.
    pub lines: Vec<String>,
    /// Other lines: error codes and comments.
    pub notes: Vec<String>,
    /// True if another part follows.
    pub has_more: bool,
}

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// `COMPLD`: the command was executed.
    Completed,
    /// `DENY`: the command was refused.
    Denied,
    /// `PRTL`: the command was executed in part.
    Partial,
    /// `DELAY`: the command is executed later.
    Delayed,
    /// `RTRV`: a part of a long list.
    Retrieved,
}

/// Fault of the octets of a switch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A line is too long.
    #[error("a line is longer than {LINE_MAX} octets")]
    Line,
    /// A message is too long.
    #[error("a message is longer than {MESSAGE_MAX} octets")]
    Message,
    /// A quoted line does not end with a quote.
    #[error("a quoted line is cut off: {0}")]
    Quote(String),
    /// A message begins before the end of another message.
    #[error("{0} is cut off")]
    Truncated(String),
    /// The completion code is unknown.
    #[error("the completion code {0} is unknown")]
    Completion(String),
}

impl Response {
    /// Returns the error code, if any, and the text of a refusal.
    pub fn reason(&self) -> (Option<String>, String) {
        let is_code =
            |word: &&str| word.len() == 4 && word.bytes().all(|octet| octet.is_ascii_uppercase());
        let first = self
            .notes
            .first()
            .and_then(|note| note.split_whitespace().next());
        let code = first.filter(is_code);
        let notes = self.notes.iter().map(String::as_str);
        let text: Vec<&str> = notes
            .chain(self.lines.iter().map(String::as_str))
            .flat_map(str::split_whitespace)
            .skip(usize::from(code.is_some()))
            .map(|word| word.trim_start_matches("/*").trim_end_matches("*/"))
            .filter(|word| !word.is_empty())
            .collect();
        let text = escape(&text.join(" "), SHOWN).into_owned();
        (code.map(str::to_owned), text)
    }

    /// Returns the number of octets, counted as for [`MESSAGE_MAX`].
    pub fn octets(&self) -> usize {
        let lines = self.lines.iter().chain(&self.notes);
        lines.map(|line| line.len() + LINE_COST).sum()
    }
}

/// Decoder of the octets of a switch.
#[derive(Debug, Default)]
pub struct Decoder {
    line: Line,
    /// True after a header line.
    has_header: bool,
    /// Response that has not ended.
    response: Option<Response>,
    /// First line of an autonomous message that has not ended.
    autonomous: Option<String>,
    /// Octets of the unfinished messages.
    size: usize,
    ready: VecDeque<Message>,
}

/// Line without an end.
#[derive(Debug, Default)]
struct Line {
    octets: Vec<u8>,
    is_quoted: bool,
    is_escaped: bool,
    is_comment: bool,
}

impl Decoder {
    /// Takes the next octets. After an error, the stream cannot be decoded further.
    pub fn push(&mut self, octets: &[u8]) -> Result<(), Malformed> {
        octets.iter().try_for_each(|octet| self.take(*octet))
    }

    /// Returns the next message.
    pub fn pop(&mut self) -> Option<Message> {
        self.ready.pop_front()
    }

    /// Refuses the end of the stream within a message.
    pub fn end(&self) -> Result<(), Malformed> {
        self.unfinished()
            .map_or(Ok(()), |what| Err(Malformed::Truncated(what)))
    }

    fn take(&mut self, octet: u8) -> Result<(), Malformed> {
        let is_plain = !self.line.is_quoted && !self.line.is_comment;
        match octet {
            b'\r' | b'\n' => self.end_line(),
            b';' if is_plain => {
                self.end_line()?;
                self.end_message(false);
                Ok(())
            }
            b'>' if self.line.is_blank() => {
                self.line.clear();
                self.end_message(true);
                Ok(())
            }
            b'<' if self.line.is_blank() || (is_plain && self.line.is_acknowledgement()) => {
                self.end_line()
            }
            octet => self.line.push(octet),
        }
    }

    /// Handles a line that has ended.
    fn end_line(&mut self) -> Result<(), Malformed> {
        let is_cut = self.line.is_quoted;
        let text = String::from_utf8_lossy(&self.line.octets);
        let text = text.trim().to_owned();
        self.line.clear();
        if text.is_empty() {
            return Ok(());
        }
        let is_idle = self.response.is_none() && self.autonomous.is_none();
        if is_cut {
            let begin = escape(&text, SHOWN).into_owned();
            return if is_idle {
                Ok(())
            } else {
                Err(Malformed::Quote(begin))
            };
        }
        if is_header(&text) {
            self.has_header = true;
            return Ok(());
        }
        let has_header = std::mem::take(&mut self.has_header);
        if (has_header || is_idle) && self.begin(&text, has_header)? {
            return Ok(());
        }
        self.size += text.len() + LINE_COST;
        if is_idle {
            self.size = 0;
            if let Some((tag, code)) = acknowledgement(&text) {
                self.ready.push_back(Message::Acknowledgement { tag, code });
            }
        } else if self.size > MESSAGE_MAX {
            return Err(Malformed::Message);
        } else if self.autonomous.is_none()
            && let Some(response) = &mut self.response
        {
            match unquote(&text) {
                Some(payload) => response.lines.push(payload),
                None => response.notes.push(text),
            }
        }
        Ok(())
    }

    /// Returns true if this line begins a message, which is then unfinished.
    fn begin(&mut self, text: &str, has_header: bool) -> Result<bool, Malformed> {
        let words: Vec<&str> = text.split_whitespace().take(4).collect();
        match words[..] {
            ["M", tag, code] => {
                let Some(completion) = completion(code) else {
                    if !has_header {
                        return Ok(false);
                    }
                    let code = escape(code, SHOWN).into_owned();
                    return Err(Malformed::Completion(code));
                };
                self.end()?;
                self.response = Some(Response {
                    tag: tag.to_owned(),
                    completion,
                    lines: Vec::new(),
                    notes: Vec::new(),
                    has_more: false,
                });
                Ok(true)
            }
            [alarm, _, ..] if has_header && (alarm.starts_with('*') || alarm == "A") => {
                if let Some(first) = &self.autonomous {
                    return Err(Malformed::Truncated(named(first)));
                }
                self.autonomous = Some(text.to_owned());
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Handles the end of a message. Within a response, that of an autonomous message comes first.
    fn end_message(&mut self, has_more: bool) {
        self.has_header = false;
        if let Some(first) = self.autonomous.take() {
            self.ready.push_back(Message::Autonomous(first));
        } else if let Some(response) = self.response.take() {
            self.ready.push_back(Message::Response(Response {
                has_more,
                ..response
            }));
        }
        if self.response.is_none() {
            self.size = 0;
        }
    }

    /// Returns the name of a message that has not ended.
    fn unfinished(&self) -> Option<String> {
        if let Some(first) = &self.autonomous {
            return Some(named(first));
        }
        let response = self.response.as_ref()?;
        Some(format!(
            "the response to command {}",
            escape(&response.tag, SHOWN)
        ))
    }
}

impl Line {
    fn push(&mut self, octet: u8) -> Result<(), Malformed> {
        if self.octets.len() >= LINE_MAX {
            return Err(Malformed::Line);
        }
        let last = self.octets.last().copied();
        if self.is_quoted {
            self.is_quoted = octet != b'"' || self.is_escaped;
            self.is_escaped = octet == b'\\' && !self.is_escaped;
        } else if self.is_comment {
            self.is_comment = (last, octet) != (Some(b'*'), b'/');
        } else {
            self.is_quoted = octet == b'"';
            self.is_comment = (last, octet) == (Some(b'/'), b'*');
        }
        self.octets.push(octet);
        Ok(())
    }

    fn is_blank(&self) -> bool {
        self.octets.iter().all(u8::is_ascii_whitespace)
    }

    fn is_acknowledgement(&self) -> bool {
        let is_short = self.octets.len() <= ACKNOWLEDGEMENT_MAX;
        is_short && acknowledgement(&String::from_utf8_lossy(&self.octets)).is_some()
    }

    fn clear(&mut self) {
        self.octets.clear();
        (self.is_quoted, self.is_escaped, self.is_comment) = (false, false, false);
    }
}

/// Returns true for a line with the name of the switch, a date and a time.
fn is_header(text: &str) -> bool {
    let mut words = text.split_whitespace().rev();
    let (Some(time), Some(date)) = (words.next(), words.next()) else {
        return false;
    };
    let is_form = |word: &str, mark: char, forms: &[&[usize]]| {
        let parts: Vec<&str> = word.split(mark).collect();
        let lens: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let mut octets = parts.iter().flat_map(|part| part.bytes());
        octets.all(|octet| octet.is_ascii_digit()) && forms.contains(&lens.as_slice())
    };
    is_form(time, ':', &[&[2, 2, 2]]) && is_form(date, '-', &[&[2, 2, 2], &[4, 2, 2]])
}

fn acknowledgement(text: &str) -> Option<(String, Acknowledgement)> {
    let mut words = text.split_whitespace();
    let code = match words.next()? {
        "IP" => Acknowledgement::InProgress,
        "PF" => Acknowledgement::PrintoutFollows,
        "OK" => Acknowledgement::AllRight,
        "NA" => Acknowledgement::NoAcknowledgement,
        "NG" => Acknowledgement::NoGood,
        "RL" => Acknowledgement::RepeatLater,
        _ => return None,
    };
    let tag = words.next()?.to_owned();
    words.next().is_none().then_some((tag, code))
}

fn completion(code: &str) -> Option<Completion> {
    Some(match code {
        "COMPLD" => Completion::Completed,
        "DENY" => Completion::Denied,
        "PRTL" => Completion::Partial,
        "DELAY" => Completion::Delayed,
        "RTRV" => Completion::Retrieved,
        _ => return None,
    })
}

/// Returns the text between the first and the last quote of a line that begins with one.
fn unquote(text: &str) -> Option<String> {
    let rest = text.strip_prefix('"')?;
    let end = rest.rfind('"')?;
    Some(rest[..end].replace("\\\"", "\""))
}

/// Returns the name of an autonomous message in errors.
fn named(first: &str) -> String {
    format!("the autonomous message {:?}", escape(first, SHOWN))
}

/// Maximum length of a line in octets.
pub const LINE_MAX: usize = 8 << 10;
/// Maximum length of a message in octets, far above the list of a switch with a thousand ports.
pub const MESSAGE_MAX: usize = 4 << 20;
/// Octets that each line counts in addition to its text.
const LINE_COST: usize = 32;
/// Maximum length of an acknowledgement.
const ACKNOWLEDGEMENT_MAX: usize = 64;
/// Maximum length of text from a switch in an error.
const SHOWN: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(text: &str) -> Result<Vec<Message>, Malformed> {
        let mut decoder = Decoder::default();
        decoder.push(text.as_bytes())?;
        Ok(std::iter::from_fn(|| decoder.pop()).collect())
    }

    fn response(tag: &str, completion: Completion, lines: &[&str]) -> Message {
        Message::Response(Response {
            tag: tag.to_owned(),
            completion,
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
            notes: Vec::new(),
            has_more: false,
        })
    }

    const TRANSCRIPT: &str = "welcome; to \"SIM\r\n<RTRV-CRS::,:7::,,;\r\nIP 7\r\n<\r\n\n   SIM 26-11-26 22:52:20\r\n\
        M  7 COMPLD\r\n   \"A;B\\\"C\"\r\n\r\n\n   SIM 2026-11-26 22:52:21\r\n*C 15 REPT ALM EQPT\r\n   \"SLOT-1:CR\"\r\n;\
        \r\n   \"D>E\"\r\n;\r\n   SIM 26-11-26 22:52:22\r\nM  8 DENY\r\n   IIAC\r\n   /* no; such port */\r\n;";

    #[test]
    fn transcript_is_decoded() {
        let denied = Response {
            tag: "8".to_owned(),
            completion: Completion::Denied,
            lines: Vec::new(),
            notes: vec!["IIAC".to_owned(), "/* no; such port */".to_owned()],
            has_more: false,
        };
        let code = Some("IIAC".to_owned());
        assert_eq!(denied.reason(), (code, "no; such port".to_owned()));
        let expected = [
            Message::Acknowledgement {
                tag: "7".to_owned(),
                code: Acknowledgement::InProgress,
            },
            Message::Autonomous("*C 15 REPT ALM EQPT".to_owned()),
            response("7", Completion::Completed, &["A;B\"C", "D>E"]),
            Message::Response(denied),
        ];
        assert_eq!(decode(TRANSCRIPT).unwrap(), expected);
        for ends in ["\n", "\r", "\n\r"] {
            let other = TRANSCRIPT.replace("\r\n", ends);
            assert_eq!(decode(&other).unwrap(), expected, "{ends:?}");
        }
    }

    #[test]
    fn acknowledgements_end_with_a_prompt_or_a_line() {
        for text in ["OK 12 <", "\r\nOK  12\r\n<", "< OK 12\n"] {
            let acknowledgement = Message::Acknowledgement {
                tag: "12".to_owned(),
                code: Acknowledgement::AllRight,
            };
            assert_eq!(decode(text).unwrap(), [acknowledgement], "{text:?}");
        }
        for code in ["PF", "NA", "NG", "RL"] {
            assert_eq!(decode(&format!("{code} 1\n")).unwrap().len(), 1, "{code}");
        }
        assert_eq!(decode("OK\nIP 1 2\nUP 3\n").unwrap(), []);
    }

    #[test]
    fn parts_of_a_response_announce_further_parts() {
        let text = "M 1 RTRV\n\"a\"\n>\n  S 26-01-01 00:00:00\nM 1 COMPLD\n\"b\";";
        let messages = decode(text).unwrap();
        let mut first = response("1", Completion::Retrieved, &["a"]);
        if let Message::Response(first) = &mut first {
            first.has_more = true;
        }
        assert_eq!(
            messages,
            [first, response("1", Completion::Completed, &["b"])]
        );
    }

    #[test]
    fn malformed_messages_are_errors_with_a_text() {
        let header = "S 26-01-01 00:00:00\n";
        let start = format!("{header}M 1 COMPLD\n");
        let alarm = format!("{header}** 5 REPT ALM\n");
        let long = format!("\"{}", "x".repeat(LINE_MAX));
        let many = format!("{start}{}", "\"0123456789\"\n".repeat(MESSAGE_MAX / 40));
        for (text, says) in [
            (
                format!("{start}\"cut\n;"),
                "a quoted line is cut off: \"cut",
            ),
            (
                format!("{start}\"a\"\n{start}"),
                "the response to command 1 is cut off",
            ),
            (
                format!("{alarm}{alarm}"),
                "the autonomous message \"** 5 REPT ALM\" is cut off",
            ),
            (format!("{alarm}{start}"), "the autonomous message"),
            (
                format!("{header}M 1 MAYBE\n"),
                "the completion code MAYBE is unknown",
            ),
            (long, "a line is longer than 8192 octets"),
            (many, "a message is longer than 4194304 octets"),
        ] {
            let why = decode(&text).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
            assert!(why.len() < 400, "{}", why.len());
        }
        let mut decoder = Decoder::default();
        decoder.push(start.as_bytes()).unwrap();
        assert!(decoder.end().is_err());
        decoder.push(b";").unwrap();
        assert_eq!(decoder.end(), Ok(()));
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_give_the_same_messages(cuts in prop::collection::vec(1_usize..40, 1..40)) {
            let mut decoder = Decoder::default();
            let mut left = TRANSCRIPT.as_bytes();
            for cut in cuts.iter().cycle() {
                if left.is_empty() {
                    break;
                }
                let (piece, rest) = left.split_at((*cut).min(left.len()));
                decoder.push(piece).unwrap();
                left = rest;
            }
            let messages: Vec<Message> = std::iter::from_fn(|| decoder.pop()).collect();
            prop_assert_eq!(messages, decode(TRANSCRIPT).unwrap());
        }

        #[test]
        fn cut_transcript_causes_no_panic(len in 0_usize..TRANSCRIPT.len(), extra in "[\"<>;\r\nM 7*A-]{0,20}") {
            let mut decoder = Decoder::default();
            let cut = &TRANSCRIPT.as_bytes()[..len];
            if let Err(why) = decoder.push(cut).and_then(|()| decoder.push(extra.as_bytes())) {
                prop_assert!(!why.to_string().is_empty());
            }
        }
    }
}
