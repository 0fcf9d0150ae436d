//! Man pages: sections from the grammar, and examples, exit statuses, files and other pages.
//!
//! [`write_all`] writes one page for each command. Options come from the grammar alone, so a page
//! cannot differ from the help. The tables of this file hold what the grammar lacks.

use std::fs;
use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

/// Exit statuses and their meanings, as in the guide.
const STATUSES: [(&str, &str); 16] = [
    ("0", "everything is at the target, and verified"),
    ("1", "the command line is invalid"),
    ("2", "the two sides have different versions or protocols"),
    ("3", "a source or target cannot be opened"),
    ("10", "the network failed; try again"),
    ("11", "reading or writing failed, for example a full disk"),
    (
        "12",
        "the received data differs from the source; nothing was published",
    ),
    ("13", "a key or a permission is missing"),
    ("20", "interrupted"),
    ("23", "some files failed; they are listed"),
    ("24", "files changed at the source during the copy"),
    ("25", "`--max-delete` was reached"),
    (
        "30",
        "a timeout: no answer for too long, or the time of `--stop-at`",
    ),
    ("40", "a deadline cannot be promised, or a path is refused"),
    (
        "70",
        "internal error: a fault of Lighthaul; please report it",
    ),
    (
        "75",
        "the daemon there is being stopped; try again in a moment",
    ),
];

/// Files and their purposes. Services that root starts have theirs in `/etc/lighthaul`.
const FILES: [(&str, &str); 10] = [
    (
        "~/.config/lighthaul/config.toml, /etc/lighthaul/config.toml",
        "options, in a section for each command; those of the user have priority",
    ),
    (
        "~/.config/lighthaul/key",
        "private key of this user, created when it is first needed",
    ),
    (
        "~/.config/lighthaul/known_hosts",
        "keys of daemons and schedulers that this user trusts",
    ),
    (
        "~/.config/lighthaul/statement",
        "statement of an authority about the key of this user",
    ),
    ("/etc/lighthaul/host_key", "private key of the daemon"),
    (
        "/etc/lighthaul/allowed_keys",
        "keys that the daemon accepts, and their rights",
    ),
    (
        "/etc/lighthaul/tokens",
        "hashes of the tokens that the daemon accepts, and their rights",
    ),
    (
        "/etc/lighthaul/scheduler_tokens",
        "hashes of the tokens that the scheduler accepts, and their roles",
    ),
    ("/var/lib/lighthaul/books", "reservations of the scheduler"),
    (
        "~/.local/state/lighthaul/monitor.db, /var/lib/lighthaul/monitor.db",
        "samples that the monitor has stored; the second path is that of root",
    ),
];

/// Sentence about the directories of files.
const PLACES: &str = "XDG_CONFIG_HOME replaces ~/.config. Services of other users than root have their files in \
                      ~/.config/lighthaul, too.";

/// Examples for commands whose help has none.
const EXAMPLES: [(&str, &str); 5] = [
    (
        "lighthaul",
        "lighthaul cp results/ far.example.org:results\nlighthaul cp --help",
    ),
    (
        "lighthaul-lab",
        "lighthaul lab run --rtt 100ms -- ping -c 3 b",
    ),
    (
        "lighthaul-lab-shell",
        "lighthaul lab shell --rate 1Gb/s --rtt 100ms",
    ),
    ("lighthaul-lab-on", "lighthaul lab on b ip address"),
    ("lighthaul-lab-figures", "lighthaul lab figures figures"),
];

/// Writes the pages of a command and of all its subcommands.
pub fn write_all(command: Command, folder: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let names: Vec<String> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .map(|sub| display_name(sub).to_owned())
        .collect();
    write(&command, &names, folder)
}

/// Writes the pages of a command and of its subcommands. `others` names the pages of commands.
fn write(command: &Command, others: &[String], folder: &Path) -> io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write(sub, others, folder)?;
    }
    let man = Man::new(command.clone());
    let path = folder.join(man.get_filename());
    fs::write(path, page(command, &man, others)?)
}

/// Returns the page of a command.
fn page(command: &Command, man: &Man, others: &[String]) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    let mut roff = Roff::new();
    examples(&mut roff, command);
    exit_status(&mut roff, command);
    files(&mut roff);
    see_also(&mut roff, command, others);
    roff.to_writer(&mut page)?;
    if command.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// Returns the name of the page of a command.
fn display_name(command: &Command) -> &str {
    command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
}

/// Writes the examples verbatim, and the notes after them as paragraphs.
fn examples(roff: &mut Roff, command: &Command) {
    let help = command.get_after_long_help().map(ToString::to_string);
    let help = help.unwrap_or_default();
    let (commands, notes) = match help.strip_prefix("Examples:\n") {
        Some(rest) => rest.split_once("\n\n").unwrap_or((rest, "")),
        None => ("", help.as_str()),
    };
    let name = display_name(command);
    let other = EXAMPLES.iter().find(|(page, _)| *page == name);
    let commands = match other {
        Some((_, own)) if commands.is_empty() => *own,
        _ => commands,
    };
    roff.control("SH", ["EXAMPLES"]);
    roff.control("nf", []);
    for line in commands.lines() {
        roff.text([roman(line.trim())]);
    }
    roff.control("fi", []);
    if !notes.is_empty() {
        roff.control("PP", []);
    }
    for line in notes.lines() {
        if line.trim().is_empty() {
            roff.control("PP", []);
        } else {
            roff.text([roman(line)]);
        }
    }
}

/// Writes the table of exit statuses. `wrap` has the statuses of the program that it runs.
fn exit_status(roff: &mut Roff, command: &Command) {
    roff.control("SH", ["EXIT STATUS"]);
    if command.get_name() == "wrap" {
        roff.text([roman(
            "That of the program; 127 if it does not exist, 126 if it cannot be captured, 125 if the library is missing.",
        )]);
        return;
    }
    for (status, meaning) in STATUSES {
        entry(roff, bold(status), meaning);
    }
}

fn files(roff: &mut Roff) {
    roff.control("SH", ["FILES"]);
    for (path, use_of) in FILES {
        entry(roff, italic(path), use_of);
    }
    roff.control("PP", []);
    roff.text([roman(PLACES)]);
}

/// Writes a term and its description.
fn entry(roff: &mut Roff, term: Inline, text: &str) {
    roff.control("TP", []);
    roff.text([term]);
    roff.text([roman(text.replace('`', ""))]);
}

fn see_also(roff: &mut Roff, command: &Command, others: &[String]) {
    roff.control("SH", ["SEE ALSO"]);
    let own = display_name(command);
    let pages = others.iter().map(String::as_str);
    let pages = ["lighthaul"].into_iter().chain(pages);
    let pages = pages.filter(|page| *page != own).chain(["ssh", "rsync"]);
    let mut line = Vec::new();
    for page in pages {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.extend([bold(page), roman("(1)")]);
    }
    roff.text(line);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help;

    fn page_of(name: &str) -> String {
        let mut command = help::command().disable_help_subcommand(true);
        command.build();
        let command = command.find_subcommand(name).unwrap();
        let man = Man::new(command.clone());
        let page = page(command, &man, &["lighthaul-ls".to_owned()]).unwrap();
        String::from_utf8(page).unwrap()
    }

    #[test]
    fn statuses_match_the_guide() {
        let guide = include_str!("../../../docs/src/first-copy.md");
        let listed = guide.lines().filter_map(|line| {
            let (status, meaning) = line
                .strip_prefix("| ")?
                .strip_suffix(" |")?
                .split_once(" | ")?;
            status.parse::<u8>().ok()?;
            Some((status, meaning))
        });
        assert_eq!(listed.collect::<Vec<_>>(), STATUSES);
    }

    #[test]
    fn every_command_has_examples() {
        fn check(command: &Command) {
            let mut roff = Roff::new();
            examples(&mut roff, command);
            let text = roff.to_roff();
            let shown = text.split(".nf\n").nth(1).unwrap();
            let shown = shown.split(".fi").next().unwrap().trim();
            assert!(
                shown.contains("lighthaul"),
                "{}: {text}",
                display_name(command)
            );
            command
                .get_subcommands()
                .filter(|sub| !sub.is_hide_set())
                .for_each(check);
        }
        let mut command = help::command().disable_help_subcommand(true);
        command.build();
        check(&command);
    }

    #[test]
    fn page_has_examples_statuses_files_and_other_pages() {
        let page = page_of("rm");
        for part in [
            "lighthaul rm lh://far.example.org/results/run1.h5",
            "known_hosts",
            "/etc/lighthaul/allowed_keys",
            "\\fBlighthaul\\-ls\\fR(1)",
            "\\fBssh\\fR(1), \\fBrsync\\fR(1)",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(page_of("wrap").contains("127 if it does not exist"));
        // words after the examples stay
        assert!(page_of("doctor").contains("The exit status is 0 if no check fails"));
    }
}
