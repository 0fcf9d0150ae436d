//! Comments and documents in plain sentences.
//!
//! - A doc comment opens with a noun or a verb, not with a question word; so does a sentence of a document.
//! - A sentence has at most [`WORDS_MAX`] words.
//! - Pronouns instead of nouns, and turns of speech that a reader stumbles over, are banned. This rule holds also
//!   for string literals, cells of tables, descriptions in JSON, and texts in settings and scripts.
//!
//! Code blocks, headings and unit tests are not read.

use crate::fault::Fault;
use crate::phrases::phrases;
use crate::sources::{Source, Sources};
use crate::text_format::{TextFormat, settings_comment};

/// Finds text that a newcomer must read twice.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let files = sources.files.iter().filter(|file| is_held(file));
    files.flat_map(check_file).collect()
}

fn is_held(file: &Source) -> bool {
    // the rules name the words that they ban
    TextFormat::of(file).is_some() && file.path != "crates/tidy/src/prose.rs"
}

fn check_file(file: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    let is_document = TextFormat::of(file) == Some(TextFormat::Markdown);
    for paragraph in paragraphs(file) {
        let place = format!("{}:{}", file.path, paragraph.line);
        if is_document {
            faults.extend(check_clauses(&paragraph.text).map(|text| Fault::new(&place, text)));
        }
        faults.extend(check_paragraph(&paragraph).map(|text| Fault::new(&place, text)));
    }
    for phrase in phrases(file) {
        let place = format!("{}:{}", file.path, phrase.line);
        faults.extend(check_words(&phrase.text).map(|text| Fault::new(&place, text)));
    }
    faults
}

fn check_paragraph(paragraph: &Paragraph) -> impl Iterator<Item = String> {
    let first = paragraph.text.split_whitespace().next().unwrap_or_default();
    let opening = (paragraph.is_doc && OPENINGS.contains(&first)).then(|| {
        format!("a doc comment opens with \"{first}\": open with a noun or \"Returns ...\"")
    });
    let banned = check_words(&paragraph.text);
    let long = sentences(&paragraph.text).filter_map(|sentence| {
        let count = sentence.split_whitespace().count();
        let begin: String = sentence.chars().take(40).collect();
        (count > WORDS_MAX)
            .then(|| format!("a sentence of {count} words, over {WORDS_MAX}: \"{begin}...\""))
    });
    opening.into_iter().chain(banned).chain(long)
}

/// Finds sentences of a document that open with a clause.
fn check_clauses(text: &str) -> impl Iterator<Item = String> {
    sentences(text).filter_map(|sentence| {
        let first = sentence.split_whitespace().next()?;
        CLAUSES
            .contains(&first)
            .then(|| format!("a sentence opens with \"{first}\": open with a noun"))
    })
}

/// Finds banned words.
fn check_words(text: &str) -> impl Iterator<Item = String> + use<> {
    let lower = format!(" {} ", plain(text));
    BANNED.iter().filter_map(move |(word, instead)| {
        let is_there = lower.contains(&format!(" {word} "));
        is_there.then(|| format!("\"{word}\": write {instead}"))
    })
}

/// Some lines of text that belong together.
#[derive(Debug)]
struct Paragraph {
    /// The number of the first line.
    line: usize,
    /// True for the first paragraph of a doc comment.
    is_doc: bool,
    text: String,
}

/// The paragraphs of a file: the comments of source code and settings, the text of a document.
fn paragraphs(file: &Source) -> Vec<Paragraph> {
    let format = TextFormat::of(file);
    let mut found: Vec<Paragraph> = Vec::new();
    let (mut is_open, mut is_fenced, mut was_doc) = (false, false, false);
    let mut is_hidden = false;
    for (nth, line) in file.lines() {
        let (text, is_doc) = match format {
            Some(TextFormat::Rust) => comment(line),
            Some(TextFormat::Markdown) => (Some(line), false),
            Some(TextFormat::Settings) => (settings_comment(line), false),
            Some(TextFormat::Json) | None => (None, false),
        };
        let begins_doc = is_doc && !was_doc;
        was_doc = is_doc;
        let Some(text) = text.map(str::trim) else {
            (is_open, is_fenced) = (false, false);
            continue;
        };
        if text.starts_with("```") {
            is_fenced = !is_fenced;
        }
        // what readers do not see, such as blocks that only tests run
        is_hidden |= text.starts_with("<!--");
        let was_hidden = is_hidden;
        is_hidden &= !text.ends_with("-->");
        // drawings, tables and headings are no sentences
        let is_prose = !is_fenced
            && !was_hidden
            && !text.starts_with(['#', '|', '<'])
            && !is_link_definition(text)
            && !text.is_empty();
        if !is_prose {
            is_open = false;
        } else if is_open && !begins_item(text) {
            let last = found.last_mut().expect("an open paragraph is the last");
            last.text.push(' ');
            last.text.push_str(text);
        } else {
            let text = text.trim_start_matches(['-', '*', ' ']).to_owned();
            found.push(Paragraph {
                line: nth,
                is_doc: begins_doc,
                text,
            });
            is_open = true;
        }
    }
    found
}

/// Returns true for `[name]: target`, the definition of a link.
fn is_link_definition(text: &str) -> bool {
    text.starts_with('[') && text.contains("]: ")
}

/// The text of a comment line, and true for a doc comment.
fn comment(line: &str) -> (Option<&str>, bool) {
    let line = line.trim_start();
    for mark in ["///", "//!"] {
        if let Some(text) = line.strip_prefix(mark) {
            return (Some(text), true);
        }
    }
    (line.strip_prefix("//"), false)
}

/// Returns true for a line that begins an item of a list.
fn begins_item(text: &str) -> bool {
    let rest = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    text.starts_with("- ")
        || text.starts_with("* ")
        || (rest.len() < text.len() && rest.starts_with(". "))
}

/// The sentences of a paragraph; a colon and a semicolon end one, too.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = [". ", "! ", "? ", ": ", "; ", ".) "].iter();
        let end = end.filter_map(|mark| rest.find(mark).map(|at| at + mark.len()));
        let (sentence, after) = rest.split_at(end.min().unwrap_or(rest.len()));
        rest = after;
        Some(sentence)
    })
}

/// The words of a text in lower case, each between spaces, without punctuation and without code.
fn plain(text: &str) -> String {
    let outside = text.split('`').step_by(2).collect::<Vec<_>>().join(" x ");
    let words = outside.split(|letter: char| !letter.is_alphanumeric() && letter != '\'');
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect::<Vec<_>>()
        .join(" ")
}

/// The longest sentence that is read at once.
const WORDS_MAX: usize = 25;

/// Words that open a question, or a clause instead of a noun.
const OPENINGS: [&str; 18] = [
    "What", "How", "Whether", "Who", "Whose", "Whom", "Why", "Whatever", "Whoever", "That",
    "Where", "When", "Which", "Says", "Tells", "It", "They", "As",
];

/// Words that open a clause instead of a noun in a document.
const CLAUSES: [&str; 9] = [
    "What", "How", "Whether", "Who", "Whose", "Whom", "Why", "Whatever", "Whoever",
];

/// Words that no sentence has, and the words to write instead.
const BANNED: [(&str, &str); 22] = [
    ("somebody", "the noun: the user, the client, the operator"),
    ("nobody", "\"no client\", \"no process\""),
    ("whoever", "the noun: the client, the caller"),
    ("whomever", "the noun: the client, the caller"),
    ("those who", "the noun: clients that ..."),
    ("he who", "the noun: the client that ..."),
    ("one who", "the noun: a client that ..."),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("is told", "receives, learns"),
    ("are told", "receive, learn"),
    ("anew", "again"),
    ("manieth", "sequence number, index"),
    ("lest", "so that ... not"),
    ("so many", "a number, or the number itself"),
    ("gone on", "continued"),
    ("of no use", "unusable"),
    ("in the place of", "instead of"),
    ("is no text", "is not UTF-8"),
    ("makes no sense", "is malformed"),
    ("is over", "has ended"),
    ("are over", "have ended"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        let faults = check(&Sources::of(&[(path, text)]));
        faults.into_iter().map(|fault| fault.to_string()).collect()
    }

    #[test]
    fn question_words_do_not_open_a_doc_comment() {
        for (text, count) in [
            ("/// What it is.\nfn a() {}", 1),
            ("/// Returns what was read.\nfn a() {}", 0),
            ("//! How long it takes.", 1),
            ("/// A rate.\n///\n/// How it is read is said elsewhere.", 0),
            ("// what it is", 0),
            ("#[cfg(test)]\nmod tests {\n/// What\n}", 0),
        ] {
            assert_eq!(faults("crates/x/src/a.rs", text).len(), count, "{text}");
        }
    }

    #[test]
    fn clauses_do_not_open_a_sentence_of_a_document() {
        for (path, text, count) in [
            ("a.md", "A first.\nWhat is left counts.", 1),
            ("a.md", "- Whether it works is open.", 1),
            ("a.md", "When it ends, it prints what is left.", 0),
            ("a.md", "## What it is for", 0),
            ("a.rs", "// a first. What is left counts.", 0),
        ] {
            assert_eq!(faults(path, text).len(), count, "{text}");
        }
    }

    #[test]
    fn long_sentences_are_found_across_lines() {
        let twenty = "word ".repeat(20);
        let long = format!("// {twenty}\n// {twenty}");
        assert_eq!(faults("a.rs", &long).len(), 1);
        let two = format!("// {twenty}end.\n// {twenty}end.");
        assert_eq!(faults("a.rs", &two), [""; 0]);
        assert_eq!(faults("a.md", &format!("{twenty}\n{twenty}")).len(), 1);
        assert_eq!(faults("a.md", &format!("- {twenty}\n- {twenty}")), [""; 0]);
        assert_eq!(
            faults("a.md", &format!("```\n{twenty}\n{twenty}\n```")),
            [""; 0]
        );
        assert_eq!(faults("a.md", &format!("| {twenty} {twenty} |")), [""; 0]);
    }

    #[test]
    fn banned_words_are_found_in_literals_cells_and_descriptions() {
        for (path, text, count) in [
            ("a.rs", "const A: &str = \"somebody reads it\";", 1),
            ("a.rs", "const A: &str = \"somebody\";", 0),
            (
                "a.rs",
                "#[cfg(test)]\nmod tests { f(\"somebody reads it\"); }",
                0,
            ),
            ("a.md", "| a | somebody reads it |", 1),
            ("a.json", "{\"description\": \"somebody reads it\"}", 1),
            ("a.json", "{\"text\": \"somebody reads it\"}", 0),
            ("a.yml", "summary: \"somebody reads it\"", 1),
            ("a.toml", "title = \"somebody reads it\"", 1),
            ("a.toml", "a = 1 # somebody reads it", 1),
            ("Makefile", "a: b ## somebody reads it", 1),
        ] {
            assert_eq!(faults(path, text).len(), count, "{path}: {text}");
        }
    }

    #[test]
    fn comments_of_settings_and_scripts_are_read() {
        let long = format!("# {}\n# {}", "word ".repeat(20), "word ".repeat(20));
        for path in ["a.toml", "a.yml", "a.service", "Makefile", "a.sh"] {
            assert_eq!(
                faults(path, "a\n  # It goes\n  # on.\nb").len(),
                1,
                "{path}"
            );
            assert_eq!(faults(path, &long).len(), 1, "{path}");
            assert_eq!(faults(path, "#   somebody reads it"), [""; 0], "{path}");
        }
        assert_eq!(faults("scripts/a", "#!/bin/sh\n# It goes on.").len(), 1);
        assert_eq!(faults("figures/a.csv", "# It goes on."), [""; 0]);
    }

    #[test]
    fn banned_words_are_found_but_not_in_code() {
        for (text, count) in [
            ("Somebody reads it.", 1),
            ("It goes\non.", 1),
            ("The option `lest` is no word.", 0),
            ("The lesson.", 0),
        ] {
            assert_eq!(faults("a.md", text).len(), count, "{text}");
        }
    }
}
