//! Lists of names in messages.

use std::fmt::Display;

/// Returns the first few items, and the number of further items; "none" for an empty list.
pub(super) fn listing<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let mut items = items.into_iter();
    let shown: Vec<String> = items
        .by_ref()
        .take(SHOWN_MAX)
        .map(|item| item.to_string())
        .collect();
    match items.count() {
        _ if shown.is_empty() => "none".to_owned(),
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Maximum number of items that a message lists.
const SHOWN_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::listing;

    #[test]
    fn list_names_eight_items_and_the_number_of_further_items() {
        assert_eq!(listing(0..0), "none");
        assert_eq!(listing(0..8), "0, 1, 2, 3, 4, 5, 6, 7");
        assert_eq!(listing(0..10), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }
}
