//! Header and binary interface, compared with the accepted ones.

use std::collections::BTreeSet;
use std::env;
use std::fmt::Write;
use std::fs;
use std::process::Command;

use crate::built::{Built, project};

/// Files of the interface, in the order of the header.
const SOURCES: [&str; 8] = [
    "code",
    "failure",
    "client",
    "copy",
    "files",
    "stream",
    "packing",
    "reservation",
];

/// Returns the header that the sources generate.
fn header() -> String {
    let config = cbindgen::Config::from_file(project().join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for name in SOURCES {
        builder = builder.with_src(project().join(format!("src/interface/{name}.rs")));
    }
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

/// Compares a generated file with the accepted one, or replaces it.
#[expect(clippy::disallowed_methods, reason = "the developer accepts by it")]
fn compare(name: &str, made: &str) {
    let path = project().join(name);
    if env::var("LIGHTHAUL_ACCEPT").is_ok_and(|what| what == "interface") {
        fs::write(&path, made).unwrap();
    }
    let accepted = fs::read_to_string(&path).unwrap_or_default();
    let difference = difference(&accepted, made);
    assert!(
        difference.is_empty(),
        "{name} differs from the sources; accept it with LIGHTHAUL_ACCEPT=interface:\n{difference}"
    );
}

fn difference(before: &str, after: &str) -> String {
    let lines = |text| str::lines(text).collect::<BTreeSet<_>>();
    let (gone, new) = (lines(before), lines(after));
    let mut shown = String::new();
    for line in gone.difference(&new) {
        writeln!(shown, "- {line}").unwrap();
    }
    for line in new.difference(&gone) {
        writeln!(shown, "+ {line}").unwrap();
    }
    if shown.is_empty() && before != after {
        shown.push_str("the order of lines\n");
    }
    shown
}

/// Returns the declarations of functions, each in one line.
fn functions(header: &str) -> Vec<String> {
    let code: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with("//") && !line.starts_with('#'))
        .collect();
    let code = code.join(" ");
    let parts = code.split(';').map(|part| {
        let words: Vec<&str> = part.split_whitespace().collect();
        words.join(" ").replace("( ", "(")
    });
    let declared = parts.filter_map(|part| {
        // the first one follows the brace of extern "C"
        let part = part.rsplit("{ ").next()?.to_owned();
        let is_function = part.contains(" lh_") || part.contains("*lh_");
        (is_function && part.ends_with(')') && !part.starts_with("typedef")).then_some(part)
    });
    declared.collect()
}

fn name(function: &str) -> &str {
    let (before, _) = function.split_once('(').unwrap();
    before.rsplit([' ', '*']).next().unwrap()
}

/// Returns the fields of all structures, as pairs of structure and field.
fn fields(header: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    for part in header.split("typedef struct {").skip(1) {
        let (body, rest) = part.split_once('}').unwrap();
        let structure = rest.split(';').next().unwrap().trim();
        let lines = body.lines().filter(|line| !line.trim().starts_with("//"));
        for field in lines.filter_map(|line| line.trim().strip_suffix(';')) {
            let field = field.rsplit([' ', '*']).next().unwrap();
            fields.push((structure.to_owned(), field.to_owned()));
        }
    }
    fields
}

/// Returns a program that prints the layouts of structures and the values of constants.
fn probe(header: &str) -> String {
    let mut program = "#include <stdio.h>\n#include \"lighthaul.h\"\nint main(void) {\n".to_owned();
    let mut known = BTreeSet::new();
    for (structure, field) in fields(header) {
        if known.insert(structure.clone()) {
            writeln!(
                program,
                "printf(\"struct {structure}: %zu bytes\\n\", sizeof({structure}));"
            )
            .unwrap();
        }
        writeln!(
            program,
            "printf(\"{structure}.{field}: %zu bytes at %zu\\n\", sizeof((({structure} *)0)->{field}), \
             offsetof({structure}, {field}));"
        )
        .unwrap();
    }
    let constants = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define LH_"));
    for constant in constants {
        let name = constant.split(' ').next().unwrap();
        writeln!(program, "printf(\"LH_{name}: %d\\n\", LH_{name});").unwrap();
    }
    program + "return 0;\n}\n"
}

/// Returns the functions that the shared library exports.
fn exported(built: &Built) -> Vec<String> {
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(built.at("liblighthaul.so"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

#[test]
fn header_is_that_of_the_sources() {
    compare("include/lighthaul.h", &header());
}

#[test]
fn symbols_and_layouts_are_the_accepted_ones() {
    let built = Built::new("abi");
    let header = header();
    let functions = functions(&header);
    let mut declared: Vec<&str> = functions.iter().map(|function| name(function)).collect();
    declared.sort_unstable();
    assert_eq!(
        exported(&built),
        declared,
        "exported and declared functions"
    );
    fs::write(built.at("lighthaul.h"), &header).unwrap();
    fs::write(built.at("probe.c"), probe(&header)).unwrap();
    let include = format!("-I{}", built.at("").display());
    let program = built.compile(&built.at("probe.c"), "probe", &[&include]);
    let output = built.command(&program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut abi = "# Binary interface on 64-bit Linux: functions, layouts of structures, values of constants.\n".to_owned();
    for function in &functions {
        writeln!(abi, "{function}").unwrap();
    }
    abi += &String::from_utf8(output.stdout).unwrap();
    compare("abi.txt", &abi);
}

#[test]
fn functions_and_fields_of_a_header_are_found() {
    let header = "extern \"C\" {\n// Says (so).\nint lh_a(int b,\n     int c);\nconst char *lh_d(void);\n}\n\
                  typedef struct {\n  // Kept.\n  size_t size;\n  const char *key;\n} lh_s;\n";
    let found = functions(header);
    assert_eq!(found, ["int lh_a(int b, int c)", "const char *lh_d(void)"]);
    assert_eq!(name(&found[1]), "lh_d");
    let fields = fields(header);
    let fields: Vec<(&str, &str)> = fields.iter().map(|(s, f)| (&**s, &**f)).collect();
    assert_eq!(fields, [("lh_s", "size"), ("lh_s", "key")]);
}
