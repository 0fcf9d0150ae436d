//! Commands to a switch.

/// Command whose correlation tag is added when it is sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Command {
    /// Verb and ports, for messages. It never contains a password.
    pub title: String,
    /// True if the answer is a list, which takes longer.
    pub is_list: bool,
    /// True if the answer must have response lines, which the caller needs.
    pub is_query: bool,
    /// True if the command only waits for an effect, such as light, and changes nothing.
    pub is_reading: bool,
    before: String,
    after: String,
}

impl Command {
    /// Creates the command `before`, tag, `after`. Its title is `title`.
    pub fn new(title: &str, before: String, after: &str) -> Self {
        Self {
            title: title.to_owned(),
            is_list: false,
            is_query: false,
            is_reading: false,
            before,
            after: after.to_owned(),
        }
    }

    /// Creates a command whose title is its beginning.
    pub fn plain(before: String, after: &str) -> Self {
        let title = before.trim_end_matches(':').to_owned();
        Self::new(&title, before, after)
    }

    /// Returns the same command as a query.
    #[must_use]
    pub fn query(self) -> Self {
        Self {
            is_query: true,
            ..self
        }
    }

    /// Returns the same command, marked as a query that is repeated until its answer shows an effect.
    #[must_use]
    pub fn reading(self) -> Self {
        Self {
            is_reading: true,
            ..self.query()
        }
    }

    /// Returns the same command as a query with the time limit of a list.
    #[must_use]
    pub fn listing(self) -> Self {
        Self {
            is_list: true,
            ..self.query()
        }
    }

    /// Returns the text to send with the correlation tag `tag`.
    pub fn text(&self, tag: &str) -> String {
        format!("{}{tag}{};", self.before, self.after)
    }
}

/// Shows the title only, since a command may contain a password.
impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Command").field(&self.title).finish()
    }
}
