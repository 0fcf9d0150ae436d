//! Texts of a file outside paragraphs: string literals, cells of tables, descriptions in JSON, and comments after
//! settings.

use crate::sources::Source;
use crate::text_format::TextFormat;
use crate::tokens::tokens;

/// Text and its place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phrase {
    /// Number of the first line of the text.
    pub(crate) line: usize,
    /// The text, in one line.
    pub(crate) text: String,
}

/// Returns the phrases of a file with at least [`WORDS_MIN`] words, without those of its unit tests.
pub(crate) fn phrases(file: &Source) -> Vec<Phrase> {
    let mut phrases = match TextFormat::of(file) {
        Some(TextFormat::Rust) => [literals(file), cells(file)].concat(),
        Some(TextFormat::Markdown) => cells(file),
        Some(TextFormat::Json) => descriptions(file),
        Some(TextFormat::Settings) => settings(file),
        None => Vec::new(),
    };
    phrases.retain(|phrase| phrase.text.split_whitespace().count() >= WORDS_MIN);
    phrases
}

/// The string literals of code.
fn literals(file: &Source) -> Vec<Phrase> {
    let code: Vec<&str> = file.lines().map(|(_, line)| line).collect();
    let code = code.join("\n");
    let literals = tokens(&code).into_iter().filter_map(|token| {
        let text = token.trim_start_matches(['b', 'c', 'r', '#']);
        text.starts_with('"')
            .then(|| phrase(&code, token, text.trim_matches(['"', '#'])))
    });
    literals.collect()
}

/// The descriptions of a JSON schema.
fn descriptions(file: &Source) -> Vec<Phrase> {
    let tokens = tokens(&file.text);
    let values = tokens.windows(3).filter_map(|at| match at {
        ["\"description\"", ":", text] => Some(phrase(&file.text, text, text.trim_matches('"'))),
        _ => None,
    });
    values.collect()
}

/// The cells of tables in Markdown, also in the comments of code.
fn cells(file: &Source) -> Vec<Phrase> {
    let mut phrases = Vec::new();
    let mut is_fenced = false;
    for (line, text) in file.lines() {
        let text = text.trim_start();
        let text = text.trim_start_matches("//!").trim_start_matches("///");
        let text = text.trim();
        is_fenced ^= text.starts_with("```");
        if text.starts_with('|') && !is_fenced {
            phrases.extend(text.split('|').map(|cell| Phrase {
                line,
                text: cell.trim().to_owned(),
            }));
        }
    }
    phrases
}

/// The quoted values and trailing comments of settings and scripts, with the help of a Makefile's targets.
fn settings(file: &Source) -> Vec<Phrase> {
    let mut phrases = Vec::new();
    for (line, text) in file.lines() {
        if text.trim_start().starts_with('#') {
            continue;
        }
        let comment = text.split_once(" # ").or_else(|| text.split_once(" ## "));
        let (code, comment) = comment.unwrap_or((text, ""));
        let values = code.split('"').skip(1).step_by(2);
        phrases.extend(values.chain([comment]).map(|text| Phrase {
            line,
            text: text.trim().to_owned(),
        }));
    }
    phrases
}

/// Returns the phrase of `token`, a slice of `code`, with its escapes and line breaks as spaces.
fn phrase(code: &str, token: &str, text: &str) -> Phrase {
    let before = token.as_ptr() as usize - code.as_ptr() as usize;
    let text = text.replace("\\n", " ").replace('\\', " ");
    Phrase {
        line: code[..before].matches('\n').count() + 1,
        text: text.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// Minimum number of words of a text for readers; shorter literals are names and formats.
const WORDS_MIN: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(path: &str, text: &str) -> Vec<(usize, String)> {
        let (path, text) = (path.to_owned(), text.to_owned());
        let found = phrases(&Source { path, text });
        let pair = |phrase: Phrase| (phrase.line, phrase.text);
        found.into_iter().map(pair).collect()
    }

    #[test]
    fn literals_of_several_words_are_found_with_their_lines() {
        let code = "fn f() {\n    g(\"one two\", \"one two \\\n        three\\nfour\", r#\"a \"b\" c\"#);\n}\n\
                    #[cfg(test)]\nmod tests { const A: &str = \"in a test\"; }";
        let expected = [
            (2, "one two three four".to_owned()),
            (3, "a \"b\" c".to_owned()),
        ];
        assert_eq!(texts("a.rs", code), expected);
    }

    #[test]
    fn cells_of_tables_are_found_in_documents_and_comments() {
        let table = "| one | two words and more |\n|---|---|\n";
        let expected = [(1, "two words and more".to_owned())];
        assert_eq!(texts("a.md", table), expected);
        assert_eq!(texts("a.md", &format!("```\n{table}```\n")), []);
        assert_eq!(texts("a.rs", "//! | a | b c d |\n"), [(1, "b c d".into())]);
    }

    #[test]
    fn descriptions_of_json_are_found() {
        let json =
            "{\n  \"title\": \"not this one here\",\n  \"description\": \"this one is read\"\n}";
        assert_eq!(texts("a.json", json), [(3, "this one is read".into())]);
        assert_eq!(texts("a.csv", json), []);
    }

    #[test]
    fn values_and_trailing_comments_are_found_in_settings() {
        let text = "# a whole comment line\ntitle = \"one two three\" # four five six\nb = \"one\" # two\n";
        let expected = [(2, "one two three".into()), (2, "four five six".into())];
        assert_eq!(texts("a.toml", text), expected);
        let help = "all: build ## print this help\n";
        assert_eq!(texts("Makefile", help), [(1, "print this help".into())]);
    }
}
