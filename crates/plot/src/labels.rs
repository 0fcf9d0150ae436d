//! Labels beside the ends of curves: places that do not overlap.

/// Label beside a curve: its preferred position, and its height.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LabelPosition {
    /// Vertical position of the curve's end.
    pub(crate) at: f32,
    /// Height of the label.
    pub(crate) height: f32,
}

/// Returns the middle of each label, as near to its preferred position as other labels and `top` and `bottom` allow.
///
/// Labels keep the order of their wishes. Neighbors that would overlap form a block around their mean wish.
pub(crate) fn spread(wishes: &[LabelPosition], (top, bottom): (f32, f32)) -> Vec<f32> {
    let mut order: Vec<usize> = (0..wishes.len()).collect();
    order.sort_by(|one, other| wishes[*one].at.total_cmp(&wishes[*other].at));
    // block: labels, their height, and the sum of the tops that they wish for the block
    let mut blocks: Vec<(Vec<usize>, f32, f32)> = Vec::new();
    for nth in order {
        let LabelPosition { at, height } = wishes[nth];
        let mut block = (vec![nth], height, at - height / 2.0);
        while let Some(above) = blocks.pop() {
            let end = above.2 / above.0.len() as f32 + above.1;
            if end <= block.2 / block.0.len() as f32 {
                blocks.push(above);
                break;
            }
            let sum = above.2 + block.2 - above.1 * block.0.len() as f32;
            block = ([above.0, block.0].concat(), above.1 + block.1, sum);
        }
        blocks.push(block);
    }
    let mut places = vec![0.0; wishes.len()];
    let mut floor = bottom;
    let mut tops: Vec<(Vec<usize>, f32)> = Vec::new();
    for (labels, height, sum) in blocks.into_iter().rev() {
        let start = (sum / labels.len() as f32).min(floor - height);
        floor = start;
        tops.push((labels, start));
    }
    let mut ceiling = top;
    for (labels, start) in tops.into_iter().rev() {
        let mut next = start.max(ceiling);
        for nth in labels {
            places[nth] = next + wishes[nth].height / 2.0;
            next += wishes[nth].height;
        }
        ceiling = next;
    }
    places
}

/// Breaks a text into lines of at most `most` pixels, whose widths `width` measures. A number stays with its unit.
pub(crate) fn wrap(text: &str, most: f32, width: impl Fn(&str) -> f32) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut() {
            Some(last) if last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            Some(_) | None => words.push(word.to_owned()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for word in &words {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}")) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.clone()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wishes(places: &[f32]) -> Vec<LabelPosition> {
        let wish = |at: &f32| LabelPosition {
            at: *at,
            height: 20.0,
        };
        places.iter().map(wish).collect()
    }

    #[test]
    fn labels_with_enough_space_stay_at_their_curves() {
        let places = spread(&wishes(&[80.0, 30.0]), (0.0, 200.0));
        assert_eq!(places, [80.0, 30.0]);
    }

    #[test]
    fn labels_of_equal_curves_spread_around_the_curves() {
        let places = spread(&wishes(&[100.0, 100.0, 100.0]), (0.0, 200.0));
        assert_eq!(places, [80.0, 100.0, 120.0]);
    }

    #[test]
    fn labels_never_overlap() {
        for seed in 0..200_u32 {
            let at = |nth: u32| ((seed * 37 + nth * nth * 61) % 197) as f32;
            let wishes = wishes(&(0..8).map(at).collect::<Vec<_>>());
            let mut places = spread(&wishes, (0.0, 200.0));
            assert!(places.iter().all(|at| (10.0..=190.001).contains(at)));
            places.sort_by(f32::total_cmp);
            assert!(places.windows(2).all(|two| two[1] - two[0] > 19.99));
        }
    }

    #[test]
    fn text_is_wrapped_at_spaces() {
        let lines = wrap("one two three", 7.0, |text| text.len() as f32);
        assert_eq!(lines, ["one two", "three"]);
        let lines = wrap("one 5 MB", 7.0, |text| text.len() as f32);
        assert_eq!(lines, ["one", "5 MB"]);
    }
}
