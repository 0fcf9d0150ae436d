//! Terminal in full-screen mode, with keys that are read one by one.
//!
//! [`Screen::open`] switches to the alternate screen, hides the cursor, and turns off echo and
//! signal keys. Dropping the value restores all of it, also after an error or a panic. Without a
//! terminal at standard input there are no keys, and only signals end the command.

use std::io::{self, Write, stdin, stdout};
use std::os::fd::AsRawFd;

use lighthaul_base::Instant;
use lighthaul_io::host::clock::Clock;
use lighthaul_io::host::interrupt;
use lighthaul_io::host::wait::{Watch, wait};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Full-screen mode of the terminal.
#[derive(Debug)]
pub(super) struct Screen {
    /// Settings of the terminal before, or none without a terminal.
    before: Option<Termios>,
}

impl Screen {
    /// Enters full-screen mode.
    pub(super) fn open() -> io::Result<Self> {
        let before = tcgetattr(stdin()).ok();
        // from here on, dropping the value restores the terminal
        let screen = Self { before };
        if let Some(before) = &screen.before {
            let mut keys = before.clone();
            let modes = LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
            keys.local_modes.remove(modes);
            tcsetattr(stdin(), OptionalActions::Now, &keys)?;
        }
        write(ENTER)?;
        Ok(screen)
    }

    /// Shows the lines of a frame from the top left corner on.
    #[expect(clippy::unused_self, reason = "frames need full-screen mode")]
    pub(super) fn show(&self, frame: &[String]) -> io::Result<()> {
        let mut text = HOME.to_owned();
        text.push_str(&frame.join(NEXT_LINE));
        text.push_str(CLEAR_REST);
        write(&text)
    }

    /// Waits until `at`. Returns false if a key or a signal asks to end the command.
    pub(super) fn is_reached(&mut self, clock: Clock, at: Instant) -> io::Result<bool> {
        while clock.now() < at && !interrupt::is_requested() {
            let fd = self.before.as_ref().map_or(-1, |_| stdin().as_raw_fd());
            let mut watches = [Watch::read(fd)];
            wait(clock, &mut watches, at)?;
            if watches[0].readable && self.has_end_key() {
                return Ok(false);
            }
        }
        Ok(!interrupt::is_requested())
    }

    /// Reads keys. Returns true if one of them ends the command.
    fn has_end_key(&mut self) -> bool {
        let mut keys = [0; 64];
        match rustix::io::read(stdin(), &mut keys[..]) {
            Ok(0) => {
                // the terminal is gone, and a closed one would always be readable
                self.before = None;
                true
            }
            Ok(count) => keys[..count].iter().any(|key| END_KEYS.contains(key)),
            Err(_) => false,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        write(LEAVE).ok();
        if let Some(before) = &self.before {
            tcsetattr(stdin(), OptionalActions::Now, before).ok();
        }
    }
}

/// Returns the columns and lines of the terminal.
pub(super) fn size() -> (usize, usize) {
    let known = tcgetwinsize(stdout()).ok();
    let known = known.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    known.map_or(USUAL, |size| (size.ws_col.into(), size.ws_row.into()))
}

fn write(text: &str) -> io::Result<()> {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Size of a terminal that does not report its size.
const USUAL: (usize, usize) = (80, 24);
/// Keys that end the command: q, Q, Ctrl-C and Ctrl-D.
const END_KEYS: [u8; 4] = [b'q', b'Q', 3, 4];
/// Escape sequence that switches to the alternate screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Escape sequence that shows the cursor and switches back.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
/// Clears to the end of the line and begins the next line.
const NEXT_LINE: &str = "\x1b[K\r\n";
const CLEAR_REST: &str = "\x1b[K\x1b[J";
