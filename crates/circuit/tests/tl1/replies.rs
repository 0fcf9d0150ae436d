//! Replies of the emulated switch, with and without misbehavior.

use std::io::Write;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crate::emulator::Patch;

/// Misbehavior for one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `IP` before the response.
    InProgress,
    /// `RL` instead of a response, without an effect.
    Busy,
    /// `OK` instead of a response.
    AllRight,
    /// `NG` instead of a response, without an effect.
    NoGood,
    /// `DENY` without an effect.
    Deny,
    /// `PRTL`, with or without an effect.
    Partial(bool),
    /// `DELAY`, with a late effect.
    Delay,
    /// Autonomous messages before the response and in the middle of it.
    Alarms,
    /// Response with a wrong tag, after the effect.
    WrongTag,
    /// No answer, with or without an effect.
    Silence(bool),
    /// Closed connection, with or without an effect.
    Hangup(bool),
    /// Closed connection and no other for a while, with or without an effect.
    Outage(bool),
    /// Response in pieces with pauses, over two seconds in all, after an acknowledgement if true.
    Slow(bool),
    /// Response that is cut off within a quoted line.
    CutLine,
    /// Connection that is closed in the middle of a response, after the effect.
    CutResponse,
    /// Line without an end.
    EndlessLine,
    /// Another client makes this cross-connect before the command is executed.
    Rival(Patch),
    /// Another client makes the cross-connect of the command before it is executed.
    Duel,
}

/// Sends the answer to a command, with the fault. Returns nothing to close the connection.
pub(crate) fn reply(
    stream: &mut TcpStream,
    tag: &str,
    result: Result<Vec<String>, String>,
    fault: Option<Fault>,
) -> Option<()> {
    let plain = |alarm: &str| match &result {
        Ok(lines) => response(tag, "COMPLD", lines, 3, alarm),
        Err(why) => deny(tag, "SROF", why),
    };
    let Some(fault) = fault else {
        return send(stream, &plain(""));
    };
    match fault {
        Fault::InProgress => {
            send(stream, &format!("IP {tag}\r\n<"))?;
            send(stream, &plain(""))
        }
        Fault::Busy => send(stream, &format!("\r\nRL {tag}\r\n<")),
        Fault::AllRight => send(stream, &format!("OK {tag} <")),
        Fault::NoGood => send(stream, &format!("NG {tag}\r\n<")),
        Fault::Deny => send(stream, &deny(tag, "SROF", "hardware fault")),
        Fault::Partial(_) => {
            let lines = result.unwrap_or_default();
            let half = &lines[..lines.len() / 2];
            send(stream, &response(tag, "PRTL", half, 9, ""))
        }
        Fault::Delay => send(stream, &response(tag, "DELAY", &[], 9, "")),
        Fault::Alarms => {
            send(stream, &alarm(1))?;
            send(stream, &plain(&alarm(2)))
        }
        Fault::WrongTag => {
            let tag = format!("M  {tag} ");
            send(stream, &plain("").replace(&tag, "M  0 "))
        }
        Fault::Silence(_) => Some(()),
        Fault::Hangup(_) | Fault::Outage(_) => None,
        Fault::Slow(is_announced) => {
            if is_announced {
                send(stream, &format!("IP {tag}\r\n<"))?;
            }
            let text = plain("");
            let (before, after) = text.split_at(text.len() - 16);
            send(stream, before)?;
            for octet in after.bytes() {
                thread::sleep(PAUSE);
                stream.write_all(&[octet]).ok()?;
            }
            Some(())
        }
        Fault::CutLine => {
            let line = "\"SRCPORT=1\r\n;";
            send(stream, &format!("{HEADER}M  {tag} COMPLD\r\n   {line}"))
        }
        Fault::CutResponse => {
            let text = plain("");
            send(stream, &text[..text.len() - 5])?;
            None
        }
        Fault::EndlessLine => send(stream, &"x".repeat(20_000)),
        Fault::Rival(_) | Fault::Duel => send(stream, &plain("")),
    }
}

/// Returns a response in parts of `part` lines, with `alarm` in its middle.
pub(crate) fn response(
    tag: &str,
    completion: &str,
    lines: &[String],
    part: usize,
    alarm: &str,
) -> String {
    let mut text = String::new();
    let parts: Vec<&[String]> = if lines.is_empty() {
        vec![&[]]
    } else {
        lines.chunks(part).collect()
    };
    for (nth, part) in parts.iter().enumerate() {
        text.extend([HEADER, "M  ", tag, " ", completion, "\r\n"]);
        for (nth, line) in part.iter().enumerate() {
            if nth == part.len() / 2 {
                text.push_str(alarm);
            }
            text.extend(["   ", line, "\r\n"]);
        }
        text.push_str(if nth + 1 < parts.len() { ">" } else { ";" });
    }
    text
}

pub(crate) fn deny(tag: &str, code: &str, why: &str) -> String {
    format!("{HEADER}M  {tag} DENY\r\n   {code}\r\n   /* {why}; see the manual */\r\n;")
}

fn alarm(nth: u32) -> String {
    format!("{HEADER}** {nth} REPT ALM EQPT\r\n   \"SLOT-1:MN,HITEMP,NSA\"\r\n;\r\n")
}

pub(crate) fn send(stream: &mut TcpStream, text: &str) -> Option<()> {
    // pieces of several lengths
    for piece in text.as_bytes().chunks(61) {
        stream.write_all(piece).ok()?;
    }
    Some(())
}

/// Pause in a slow response, which has sixteen of them.
pub(crate) const PAUSE: Duration = Duration::from_millis(150);
const HEADER: &str = "\r\n\n   SIM 26-11-26 22:52:20\r\n";
