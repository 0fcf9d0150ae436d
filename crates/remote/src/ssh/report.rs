//! Lines of a remote program, or of the script that searches for the program, before the greeting.

/// Step of the search for the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The installed program starts.
    Installed,
    /// The copy starts.
    Copy,
    /// The copy was installed and starts.
    Copied,
    /// The installed program does not answer, and was ended.
    Silent,
    /// The host has neither the program nor a copy. The line names kernel and architecture, and the installed program
    /// of another protocol.
    Missing(System, Option<String>),
    /// The copy could not be written.
    Unwritten(String),
    /// The copy did not run, or differs from the sent file: status and output of the attempt.
    Unusable(i32, String),
}

/// Kernel and architecture of a host, in the output of `uname`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Name of the kernel, as in `Linux`.
    pub kernel: String,
    /// Architecture, as in `x86_64`.
    pub machine: String,
}

impl Report {
    /// Reads the words of a line after [`REPORT`]. Texts of the other host are at most [`TEXT_MAX`] characters long.
    pub fn parse(words: &[String]) -> Option<Self> {
        let (kind, rest) = words.split_first()?;
        let text = |words: &[String]| words.join(" ").chars().take(TEXT_MAX).collect::<String>();
        let other = |name: String| {
            if name.is_empty() {
                "lighthaul".to_owned()
            } else {
                name
            }
        };
        match (kind.as_str(), rest) {
            ("installed", _) => Some(Self::Installed),
            ("copy", _) => Some(Self::Copy),
            ("copied", _) => Some(Self::Copied),
            ("silent", _) => Some(Self::Silent),
            ("missing" | "other", [kernel, machine, name @ ..]) => {
                let system = System {
                    kernel: text(std::slice::from_ref(kernel)),
                    machine: text(std::slice::from_ref(machine)),
                };
                let other = (kind == "other").then(|| other(text(name)));
                Some(Self::Missing(system, other))
            }
            ("unwritten", why) => Some(Self::Unwritten(text(why))),
            ("unusable", [status, why @ ..]) => status
                .parse()
                .ok()
                .map(|status| Self::Unusable(status, text(why))),
            _ => None,
        }
    }
}

impl System {
    pub(super) fn runs_this_program(&self) -> bool {
        self.kernel == "Linux" && self.machine == std::env::consts::ARCH
    }
}

/// First word of a report line.
pub const REPORT: &str = "lighthaul-start";
/// Maximum number of characters of a foreign text in a message.
pub const TEXT_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<Report> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Report::parse(&words)
    }

    #[test]
    fn reports_are_parsed() {
        let missing = |other: Option<&str>| {
            let system = System {
                kernel: "Linux".to_owned(),
                machine: "x86_64".to_owned(),
            };
            Some(Report::Missing(system, other.map(str::to_owned)))
        };
        assert_eq!(parse("missing Linux x86_64"), missing(None));
        assert_eq!(parse("other Linux x86_64"), missing(Some("lighthaul")));
        let line = "other Linux x86_64 lighthaul 0.0.9";
        assert_eq!(parse(line), missing(Some("lighthaul 0.0.9")));
        let full = Some(Report::Unwritten("disk full".to_owned()));
        assert_eq!(parse("unwritten disk full"), full);
        let denied = Some(Report::Unusable(126, "denied".to_owned()));
        assert_eq!(parse("unusable 126 denied"), denied);
        assert_eq!(parse("silent"), Some(Report::Silent));
        for noise in ["", "missing", "unusable x", "hello"] {
            assert_eq!(parse(noise), None, "{noise}");
        }
    }
}
