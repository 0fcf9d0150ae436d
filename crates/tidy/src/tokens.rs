//! Tokens of Rust code.
//!
//! `tokens` splits code into words, literals and single punctuation marks, without spaces and
//! comments. Other rules search sequences of tokens, so line breaks and comments cannot hide a
//! name. Strings and characters are one token each, so their text is never taken for code.
//! Unfinished code has tokens, too: the functions never fail. Block comments may be nested.

/// Splits code into identifiers, literals and punctuation marks, with `::` as one, without white
/// space and comments.
pub(crate) fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some(len) = comment_len(rest) {
            rest = rest[len..].trim_start();
            continue;
        }
        let len = token_len(rest, first);
        tokens.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    tokens
}

/// Reports whether a token is an identifier, a keyword or a number.
pub(crate) fn is_word(token: &str) -> bool {
    token.starts_with(is_word_char)
}

/// Returns the index after the bracket that closes the bracket at `at`.
pub(crate) fn after_group(tokens: &[&str], at: usize) -> usize {
    let mut depth = 0_usize;
    for (nth, token) in tokens.iter().enumerate().skip(at) {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return nth + 1;
        }
    }
    tokens.len()
}

fn comment_len(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    rest.starts_with("/*").then(|| block_comment_len(rest))
}

/// Returns the length of a block comment, with the comments inside it.
fn block_comment_len(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(found) = rest[at..].find(['*', '/']) {
        at += found;
        let mark = &rest.as_bytes()[at..];
        if mark.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if mark.starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else {
            at += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn token_len(rest: &str, first: char) -> usize {
    if let Some(len) = raw_string_len(rest) {
        return len;
    }
    match first {
        '"' => quoted_len(rest, '"'),
        '\'' if is_char(rest) => quoted_len(rest, '\''),
        '\'' => 1 + word_len(&rest[1..]),
        ':' if rest.starts_with("::") => 2,
        _ => word_len(rest).max(first.len_utf8()),
    }
}

fn word_len(rest: &str) -> usize {
    rest.find(|c| !is_word_char(c)).unwrap_or(rest.len())
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Reports whether a quote begins a character, not a lifetime.
fn is_char(rest: &str) -> bool {
    let mut after = rest.chars().skip(1);
    after.next() == Some('\\') || after.next() == Some('\'')
}

fn quoted_len(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = true;
        } else if c == quote {
            return at + 1;
        }
    }
    rest.len()
}

fn raw_string_len(rest: &str) -> Option<usize> {
    let marked = rest
        .strip_prefix("br")
        .or_else(|| rest.strip_prefix("cr"))
        .or_else(|| rest.strip_prefix('r'))?;
    let content = marked.trim_start_matches('#');
    let hashes = &marked[..marked.len() - content.len()];
    let content = content.strip_prefix('"')?;
    let end = format!("\"{hashes}");
    let start = rest.len() - content.len();
    Some(
        content
            .find(&end)
            .map_or(rest.len(), |at| start + at + end.len()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_splits_into_tokens() {
        let code = "use a::{b as c}; // d\nlet x: &'a str = f(\"e :: \\\" f\", '\\'', 'g', r#\"h\"i\"#, rest); /* j */ k";
        let expected = [
            "use",
            "a",
            "::",
            "{",
            "b",
            "as",
            "c",
            "}",
            ";",
            "let",
            "x",
            ":",
            "&",
            "'a",
            "str",
            "=",
            "f",
            "(",
            "\"e :: \\\" f\"",
            ",",
            "'\\''",
            ",",
            "'g'",
            ",",
            "r#\"h\"i\"#",
            ",",
            "rest",
            ")",
            ";",
            "k",
        ];
        assert_eq!(tokens(code), expected);
    }

    #[test]
    fn unfinished_code_is_split_into_tokens() {
        assert_eq!(tokens("a \"b"), ["a", "\"b"]);
        assert_eq!(tokens("a /* b"), ["a"]);
        assert_eq!(tokens("a /* b /* c */ d"), ["a"]);
        assert_eq!(tokens("r#\"b"), ["r#\"b"]);
    }

    #[test]
    fn block_comments_are_nested() {
        assert_eq!(tokens("a /* b /* c */ d */ e"), ["a", "e"]);
        assert_eq!(tokens("a /*/ b */ c /**/ d /***/ e"), ["a", "c", "d", "e"]);
        assert_eq!(tokens("a /* é * / /**/ */ e"), ["a", "e"]);
    }

    #[test]
    fn groups_end_at_their_own_bracket() {
        let tokens = tokens("f(a, (b), {c}) d");
        assert_eq!(tokens[after_group(&tokens, 1)], "d");
    }
}
