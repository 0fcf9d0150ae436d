//! Comparison of the output of a block with its page.

/// Returns the first line of `page` that is not among `printed` in this order.
pub(crate) fn missing<'a>(page: &'a [String], printed: &[String]) -> Option<&'a str> {
    let mut printed = printed.iter();
    page.iter()
        .map(|line| line.trim())
        .filter(|line| !line.is_empty() && *line != ANY)
        .find(|line| !printed.any(|other| matches(line, other)))
}

/// Returns true if `printed` is the output on `page`, apart from numbers and the text that `…` stands for.
fn matches(page: &str, printed: &str) -> bool {
    let (page, printed) = (plain(page), plain(printed));
    let mut pieces = page.split(ANY);
    let Some(mut rest) = printed.strip_prefix(pieces.next().unwrap_or("")) else {
        return false;
    };
    let mut pieces: Vec<&str> = pieces.collect();
    let Some(last) = pieces.pop() else {
        return rest.is_empty();
    };
    for piece in pieces {
        let Some((_, behind)) = rest.split_once(piece) else {
            return false;
        };
        rest = behind;
    }
    rest.ends_with(last)
}

/// The line with single spaces, each number a 0, and no colors.
fn plain(line: &str) -> String {
    let mut plain = String::new();
    for word in line.split_whitespace() {
        plain.push_str(if plain.is_empty() { "" } else { " " });
        let mut is_number = false;
        for (at, letter) in word.char_indices() {
            let goes_on = is_number && letter == '.' && at + 1 < word.len();
            if letter.is_ascii_digit() || goes_on {
                plain.push_str(if is_number { "" } else { "0" });
                is_number = true;
            } else {
                plain.push(letter);
                is_number = false;
            }
        }
    }
    plain
}

const ANY: &str = "…";

#[test]
fn expected_output_may_differ_in_numbers_only() {
    assert!(matches(
        "3 files, 1.25 MB in 0.31 s.",
        " 12 files, 9 MB  in 1 s."
    ));
    assert!(!matches("3 files", "3 folders"));
    assert!(matches("key sha256:…", "key sha256:abc def"));
    assert!(matches("… of … s", "a of b of c s") && !matches("a … s", "a"));
}

#[test]
fn expected_lines_must_be_in_order() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(missing(&lines("a\n…\nc"), &lines("a\nb\nc")), None);
    assert_eq!(missing(&lines("c\na"), &lines("a\nb\nc")), Some("a"));
}
