//! How far sessions may be ahead of what programs have taken.

use lighthaul_proto::slabs::{Link, SessionId};

use crate::session::ToProgram;

/// Promises a session that begins a place for more than its first window, while most of the memory is promised to nobody.
pub(crate) fn promise(link: &mut Link, session: SessionId) {
    let config = link.config();
    let all = u64::from(config.pages_max) * u64::from(config.page_len());
    if link.unpromised() > all - all / 4 {
        link.allow(session, BEGINNING.min(all / 64));
    }
}

/// Lets a session be further ahead of what its program has taken: by a quarter of what is promised to nobody if the program takes
/// all that comes, else by its first window, so that those that do not cannot take the memory of those that do. What first windows
/// need is kept, as far as there is so much.
pub(crate) fn widen(link: &mut Link, session: SessionId, to_program: &ToProgram) {
    let config = *link.config();
    let (page, least) = (u64::from(config.page_len()), u64::from(config.window));
    let Some(flow) = link.flow(session) else {
        return;
    };
    let mut window = least;
    if to_program.is_drained() {
        // a window that does not begin with a page has its ends in two
        let firsts = 2 * link.sessions() as u64;
        let all = u64::from(config.pages_max);
        let kept = firsts.clamp(all / 8, all - all / 8);
        let free = link.unpromised().saturating_sub(kept * page);
        window = window.max((free + flow.promised(least)) / 4);
    }
    let (allowed, limit) = (flow.allowed(), to_program.written() + window);
    let news = limit.saturating_sub(allowed);
    // what makes little difference is not worth a letter, unless a page might not fit without
    let is_short = to_program.is_drained() && allowed < to_program.written() + 2 * page;
    if is_short || news >= window / 4 {
        link.allow(session, limit);
    }
}

/// What a session may say before it is known how its program takes it.
const BEGINNING: u64 = 1 << 20;
