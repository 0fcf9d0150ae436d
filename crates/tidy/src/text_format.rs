//! Formats of files with text for readers.

use crate::sources::Source;

/// Format of a file with comments or texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFormat {
    /// Source code in Rust.
    Rust,
    /// A document.
    Markdown,
    /// A JSON schema or dashboard.
    Json,
    /// A file whose comments begin with `#`: settings, units, alert rules, scripts and the Makefile.
    Settings,
}

impl TextFormat {
    /// Returns the format of a file, or `None` for a file without text that a rule reads.
    pub(crate) fn of(file: &Source) -> Option<Self> {
        let (_, ending) = file.name().rsplit_once('.').unwrap_or_default();
        match ending {
            "rs" => Some(Self::Rust),
            "md" => Some(Self::Markdown),
            "json" => Some(Self::Json),
            "toml" | "yml" | "service" | "conf" | "sh" => Some(Self::Settings),
            _ => {
                let is_known = ["Makefile", "Containerfile"].contains(&file.name());
                let is_script = file.text.starts_with("#!");
                (is_known || is_script).then_some(Self::Settings)
            }
        }
    }
}

/// Returns the text of a line that is a comment in settings. Indented text is an example or a drawing, and no comment.
pub(crate) fn settings_comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix('#')?;
    let is_text = !text.starts_with(['!', '#']) && !text.starts_with("  ");
    is_text.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_follows_from_name_or_first_line() {
        for (path, text, format) in [
            ("crates/x/src/lib.rs", "#![no_std]", Some(TextFormat::Rust)),
            ("README.md", "", Some(TextFormat::Markdown)),
            ("a.json", "", Some(TextFormat::Json)),
            (".cargo/mutants.toml", "", Some(TextFormat::Settings)),
            ("dist/lighthaul.service", "", Some(TextFormat::Settings)),
            ("Makefile", "", Some(TextFormat::Settings)),
            (".ci/run", "#!/bin/sh\n", Some(TextFormat::Settings)),
            ("figures/a.csv", "# a", None),
        ] {
            let (path, text) = (path.to_owned(), text.to_owned());
            let file = Source { path, text };
            assert_eq!(TextFormat::of(&file), format, "{file:?}");
        }
    }

    #[test]
    fn examples_in_comments_are_no_text() {
        assert_eq!(settings_comment("  # a text"), Some(" a text"));
        for line in ["#   mutants --list", "#!/bin/sh", "## a", "a = 1 # b"] {
            assert_eq!(settings_comment(line), None, "{line}");
        }
    }
}
