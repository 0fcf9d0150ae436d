//! Rule: a struct with many fields gives a reason for not being split.

use crate::fault::Fault;
use crate::sources::Sources;

/// Finds structs with more than 12 fields and no comment `// fields: REASON` above them.
pub(crate) fn check(sources: &Sources) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in sources.ending(".rs") {
        let is_test = file.path.contains("/tests/") || file.name() == "tests.rs";
        if is_test {
            continue;
        }
        let lines: Vec<&str> = file.lines().map(|(_, line)| line).collect();
        for (at, line) in lines.iter().enumerate() {
            let Some(name) = struct_name(line) else {
                continue;
            };
            let fields = count_fields(line, &lines[at + 1..]);
            if fields > FIELDS_MAX && !has_reason(&lines[..at]) {
                let text = format!(
                    "{name} has {fields} fields: split it, or say why not in a line `{REASON}...` above it"
                );
                faults.push(Fault::new(format!("{}:{}", file.path, at + 1), text));
            }
        }
    }
    faults
}

/// Returns the name of the struct that begins in `line`.
fn struct_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    let name = rest.trim_start().strip_prefix("struct ")?;
    let name = name
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()?;
    line.ends_with('{').then_some(name)
}

/// Counts the fields of a formatted struct: its lines with one more level of indentation.
fn count_fields(head: &str, body: &[&str]) -> usize {
    let level = indentation(head);
    body.iter()
        .take_while(|line| indentation(line) > level || line.trim().is_empty())
        .filter(|line| indentation(line) == level + 4 && is_field(line))
        .count()
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn is_field(line: &str) -> bool {
    let line = line.trim_start();
    !line.starts_with(['/', '#', '}', '>', ')', ']']) && line.contains(": ")
}

/// Reports whether the comments and attributes at the end of `above` give a reason.
fn has_reason(above: &[&str]) -> bool {
    above
        .iter()
        .rev()
        .map(|line| line.trim())
        .take_while(|line| !line.is_empty() && *line != "}")
        .any(|line| {
            line.strip_prefix(REASON)
                .is_some_and(|reason| !reason.trim().is_empty())
        })
}

const FIELDS_MAX: usize = 12;
const REASON: &str = "// fields: ";

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(above: &str, fields: usize) -> usize {
        let fields: Vec<String> = (0..fields)
            .map(|nth| format!("    /// Says: more.\n    #[serde(default)]\n    pub a{nth}: Vec<\n        u8,\n    >,\n"))
            .collect();
        let text = format!("{above}pub(crate) struct A<B> {{\n{}}}\n", fields.concat());
        check(&Sources::of(&[("a.rs", &text)])).len()
    }

    #[test]
    fn struct_with_many_fields_needs_a_reason() {
        assert_eq!(faults("", 12), 0);
        assert_eq!(faults("", 13), 1);
        assert_eq!(faults("// fields: \n", 13), 1);
        assert_eq!(faults("// fields: elsewhere\n\n", 13), 1);
        assert_eq!(
            faults("// fields: one for each option\n#[derive(Debug)]\n", 13),
            0
        );
    }
}
