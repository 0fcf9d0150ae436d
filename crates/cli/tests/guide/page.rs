//! Blocks of a page: those that run, and the lines of those that do not.

use std::fs;

use crate::project;

/// The blocks of a page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Blocks that run, in their order.
    pub(crate) blocks: Vec<Block>,
    /// Lines of blocks that do not run, with their numbers.
    pub(crate) not_run: Vec<(usize, String)>,
}

/// A shell block with its expectations.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of its first command.
    pub(crate) line: usize,
    /// The host whose shell runs it.
    pub(crate) host: String,
    /// True for a command that runs until the page ends.
    pub(crate) is_service: bool,
    /// The exit status that it ends with.
    pub(crate) status: i32,
    /// The commands.
    pub(crate) text: String,
    /// The lines that it prints.
    pub(crate) output: Vec<String>,
}

/// Reads the blocks of the page at `path`.
pub(crate) fn read(path: &str) -> Page {
    let text = fs::read_to_string(project().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    parse(&text).unwrap_or_else(|why| panic!("{path}:{why}"))
}

/// Finds the blocks of a page. The error names the malformed line.
fn parse(text: &str) -> Result<Page, String> {
    let mut page = Page::default();
    let mut lines = text.lines().zip(1..).peekable();
    let mut has_reason = false;
    while let Some((line, number)) = lines.next() {
        let (info, end) = if let Some(info) = line.trim().strip_prefix("```") {
            (info, "```")
        } else if let Some(info) = hidden(line) {
            (info, "-->")
        } else {
            if !line.trim().is_empty() {
                has_reason = line.starts_with("<!-- not run: ");
            }
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(line, _)| line.get(indent..).unwrap_or(""))
            .take_while(|line| line.trim() != end)
            .collect();
        let wrong = |why: &str| Err(format!("{number}: {why}"));
        match info.split(' ').next() {
            Some("python") => {
                let program = ["python3 - <<'PYTHON'", &body.join("\n"), "PYTHON"];
                page.blocks.push(Block::new("sh", number + 1, &program)?);
            }
            Some("sh") => page.blocks.push(Block::new(info, number + 1, &body)?),
            Some("output") => match page.blocks.last_mut() {
                Some(block) if block.output.is_empty() => {
                    block.output = body.into_iter().map(str::to_owned).collect();
                }
                _ => return wrong("output of no shell block"),
            },
            Some("console") if !has_reason => {
                return wrong("console without a comment <!-- not run: REASON --> before it");
            }
            Some("console") => {
                let lines = body.into_iter().map(str::to_owned);
                page.not_run.extend((number + 1..).zip(lines));
            }
            Some("" | "bash" | "shell") => {
                return wrong("say sh, output, console or the language of the block");
            }
            _ => {}
        }
        has_reason = false;
    }
    Ok(page)
}

/// Prefix of a comment that is a block which readers do not see.
fn hidden(line: &str) -> Option<&str> {
    let info = line.strip_prefix("<!-- ")?;
    ["sh", "output"]
        .contains(&info.split(' ').next()?)
        .then_some(info)
}

impl Block {
    fn new(info: &str, line: usize, body: &[&str]) -> Result<Self, String> {
        let mut block = Self {
            line,
            host: "here".to_owned(),
            is_service: false,
            status: 0,
            text: body.join("\n"),
            output: Vec::new(),
        };
        for word in info.split(' ').skip(1) {
            match word.split_once('=') {
                Some(("status", number)) => {
                    let wrong = |e| format!("{line}: status {number}: {e}");
                    block.status = number.parse().map_err(wrong)?;
                }
                None if word == "service" => block.is_service = true,
                None => word.clone_into(&mut block.host),
                Some(_) => return Err(format!("{line}: unknown word {word}")),
            }
        }
        Ok(block)
    }
}

#[test]
fn blocks_are_read_with_host_status_and_output() {
    let text = "# A\n\n```sh far status=3\nfalse\n```\n\n```output\nno\n```\n<!-- sh\ntrue\n-->\n<!-- output\nyes\n-->\n\
                1. x\n   ```sh far service\n   serve\n   ```\n";
    let blocks = parse(text).unwrap().blocks;
    let seen: Vec<_> = blocks
        .iter()
        .map(|block| {
            (
                block.line,
                block.host.as_str(),
                block.status,
                block.text.as_str(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (4, "far", 3, "false"),
            (11, "here", 0, "true"),
            (18, "far", 0, "serve")
        ]
    );
    assert_eq!(blocks[0].output, ["no"]);
    assert_eq!(blocks[1].output, ["yes"]);
    assert!(blocks[2].is_service && !blocks[0].is_service);
}

#[test]
fn blocks_that_are_not_run_need_a_reason() {
    assert!(parse("```console\nmake install\n```\n").is_err());
    let page = parse("<!-- not run: it installs -->\n```console\nmake install\n```\n").unwrap();
    assert_eq!(page.not_run, [(3, "make install".to_owned())]);
    assert!(parse("```\nmake\n```\n").is_err());
    assert!(parse("```output\nno\n```\n").is_err());
}
