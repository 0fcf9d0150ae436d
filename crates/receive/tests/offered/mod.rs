//! Offer that a test's receiver takes from an honest sender.

use std::sync::Arc;
use std::sync::mpsc::channel;

use lighthaul_copy::message::Message;
use lighthaul_io::control::Control;
use lighthaul_session::error::Error;
use lighthaul_session::join::join;
use lighthaul_session::offer::Offer;
use lighthaul_session::path::{Path, explore};
use lighthaul_session::role::Role;
use lighthaul_session::session::Session;

/// Agrees on the path like an honest receiver.
pub(crate) fn take(session: &Session) -> Result<(Offer, Path, Vec<Control>), Error> {
    let role = Role::Server(channel().1, channel().1);
    let dialog = session.path_dialog(Arc::default())?;
    let mut path = Path::none(session);
    let mut said = dialog.hear()?;
    if said == Message::Explore {
        path = explore(&dialog, &role, false, 1)?;
        said = path.listen(&dialog, None)?;
    }
    let Message::Offer(offer) = said else {
        panic!("nothing was offered")
    };
    let joined = join(&dialog, &role, offer.joins, false)?;
    Ok((offer, path, joined))
}

/// Returns the first message after the reason for the protocol.
pub(crate) fn after_choice(session: &Session) -> Result<Message, Error> {
    let said = session.hear()?;
    if matches!(said, Message::Chosen { .. }) {
        return session.hear();
    }
    Ok(said)
}
