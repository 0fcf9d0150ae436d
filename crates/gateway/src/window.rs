//! Flow control: bytes that a session may send before its program has taken them.

use lighthaul_slabs::{Link, SessionId};

use crate::session::ToProgram;

/// Gives a new session more than the usual first window, while most of the memory is free.
pub(crate) fn promise(link: &mut Link, session: SessionId) {
    let config = link.config();
    let all = u64::from(config.pages_max) * u64::from(config.page_len());
    if link.unpromised() > all - all / 4 {
        link.allow(session, BEGINNING.min(all / 64));
    }
}

/// Moves the window of a session. A program that takes all received bytes gets a quarter of the free memory, any other
/// one the first window. So slow programs cannot use the memory of fast ones. The memory for first windows is kept
/// as far as possible.
pub(crate) fn widen(link: &mut Link, session: SessionId, to_program: &ToProgram) {
    let config = *link.config();
    let (page, least) = (u64::from(config.page_len()), u64::from(config.window));
    let Some(flow) = link.flow(session) else {
        return;
    };
    let mut window = least;
    if to_program.is_drained() {
        // a window that is not aligned to pages touches two of them at its ends
        let firsts = 2 * link.sessions() as u64;
        let all = u64::from(config.pages_max);
        let kept = firsts.clamp(all / 8, all - all / 8);
        let free = link.unpromised().saturating_sub(kept * page);
        window = window.max((free + flow.promised(least)) / 4);
    }
    let (allowed, limit) = (flow.allowed(), to_program.written() + window);
    let news = limit.saturating_sub(allowed);
    // small changes are not sent, unless a page might not fit otherwise
    let is_short = to_program.is_drained() && allowed < to_program.written() + 2 * page;
    if is_short || news >= window / 4 {
        link.allow(session, limit);
    }
}

/// First window of a session whose program has not taken any bytes yet.
const BEGINNING: u64 = 1 << 20;
