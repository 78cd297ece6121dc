// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Tests: grammars that a stranger may send, made to take long. What is given up runs on and counts
//! for the whole process, so tools/cargo_test runs these in one of their own.

use std::time::Instant;

use crate::grammar::Kind;
use crate::matcher::compile;
use crate::vocab::tests::byte_vocab;

const MAX: usize = 1 << 20;

type Case = (&'static str, Kind, String);

fn list(n: usize, one: impl Fn(usize) -> String) -> String {
    (0..n).map(one).collect::<Vec<_>>().join(",")
}

fn lines(n: usize, one: impl Fn(usize) -> String) -> String {
    (0..n).map(one).collect::<Vec<_>>().join("\n")
}

fn regexes() -> Vec<Case> {
    let words = (0..60_000).map(|i| format!("{i:x}z")).collect::<Vec<_>>().join("|");
    [
        ("repetition of repetition", "((a{1,1000}){1,1000}){1,1000}".to_string()),
        ("a longer one", "(((a{1,9999}b?){1,9999}c?){1,9999}d?){1,9999}".to_string()),
        ("a long counted class", r"(\p{L}|\p{N}\w{0,500}){1,4000}x".to_string()),
        ("counted ends", "(.*a.{300}|.*b.{301}|.*c.{302}){3}".to_string()),
        ("a large automaton", "(a|b)*a(a|b){400}(c|a)*a(a|b){400}".to_string()),
        ("many alternatives", words),
        ("1 MiB of classes", r"\p{L}\w".repeat(MAX / 7)),
        ("1 MiB of optional letters", "a?".repeat(MAX / 2)),
    ]
    .map(|(name, text)| (name, Kind::Regex, text))
    .into()
}

fn larks() -> Vec<Case> {
    let not = "A: /(a|b){0,200}/ & /(.*a.{90})+/ & ~/(?s:.*)b(a|b){80}a(?s:.*)/";
    let rules = lines(30_000, |i| format!("r{i}: \"a\" r{} | \"b\"", i + 1));
    let names = (0..4000).map(|i| format!("T{i}")).collect::<Vec<_>>().join(" | ");
    let terminals = lines(4000, |i| format!("T{i}: /[a-z]{{1,{}}}x{i}/", i + 1));
    let counts = "start: a{1,1000}\na: b{1,1000}\nb: c{1,1000}\nc: \"x\" | \"xx\" | ";
    let big = "start: a{999999999}\na: \"x\"{1,999999999}";
    [
        ("both and not", format!("start: A\n{not}")),
        ("nested counts of rules", counts.to_string()),
        ("big counts of rules", big.to_string()),
        ("an ambiguous one", "start: x\nx: x x x | \"a\" | \"aa\" |".to_string()),
        ("many rules", format!("start: r0\n{rules}\nr30000: \"c\"\n")),
        ("many terminals", format!("start: ({names})*\n{terminals}\n")),
    ]
    .map(|(name, text)| (name, Kind::Lark, text))
    .into()
}

/// Two ways to the next one at each of 40 levels.
fn doubled(word: &str) -> String {
    let levels = list(40, |i| {
        let next = format!("{{\"$ref\":\"#/$defs/d{}\"}}", i + 1);
        format!("\"d{i}\":{{\"{word}\":[{next},{next}]}}")
    });
    let last = r#""d40":{"type":"object","properties":{"a":{"type":"string"}}}"#;
    format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{levels},{last}}}}}"##)
}

fn nested(depth: usize) -> String {
    format!("{}true{}", r#"{"items":"#.repeat(depth), "}".repeat(depth))
}

fn schemas() -> Vec<Case> {
    let cycle =
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##;
    let own = r##"{"allOf":[{"$ref":"#"},{"$ref":"#"}],"properties":{"a":{"$ref":"#"}}}"##;
    let words = list(40_000, |i| format!("\"{}\"", format!("{i:x}-").repeat(4)));
    let pairs = list(24, |i| format!(r#"{{"anyOf":[{{"minLength":{i}}},{{"pattern":"a{i}"}}]}}"#));
    let keys = list(5000, |i| format!(r#""k{i}":{{"type":"string","maxLength":{i}}}"#));
    let patterns = list(900, |i| {
        let text = format!(r#"{{"type":"string","pattern":"(a|b){{{i}}}"}}"#);
        format!(r#""k{i}":{{"anyOf":[{text},{{"type":"number","multipleOf":0.01}}]}}"#)
    });
    let key_patterns = list(400, |i| format!(r#""^k{i}(a|b)*$":{{"type":"integer"}}"#));
    let consts = list(3000, |i| format!(r#"{{"const":"v{i}"}}"#));
    let apart = list(300, |i| format!(r#"{{"type":"string","pattern":"^x{i}[ab]{{0,50}}$"}}"#));
    [
        ("a cycle of $ref", cycle.to_string()),
        ("a $ref to itself", own.to_string()),
        ("doubled allOf", doubled("allOf")),
        ("doubled anyOf", doubled("anyOf")),
        ("doubled oneOf", doubled("oneOf")),
        ("nested schemas", nested(100)),
        ("schemas nested too deep", nested(20_000)),
        ("a huge enum", format!(r#"{{"enum":[{words}]}}"#)),
        ("an enum of 1 MiB", format!(r#"{{"enum":["{}"]}}"#, "a".repeat(MAX - 20))),
        ("a product of anyOf", format!(r#"{{"type":"string","allOf":[{pairs}]}}"#)),
        ("many properties", format!(r#"{{"properties":{{{keys}}}}}"#)),
        ("many patterns", format!(r#"{{"properties":{{{patterns}}}}}"#)),
        ("patterns of keys", format!(r#"{{"patternProperties":{{{key_patterns}}}}}"#)),
        ("oneOf of constants", format!(r#"{{"oneOf":[{consts}]}}"#)),
        ("oneOf of patterns", format!(r#"{{"oneOf":[{apart}]}}"#)),
        ("huge counts", r#"{"minItems":4000000000,"items":{"minLength":4000000000}}"#.into()),
        ("huge numbers of keys", r#"{"minProperties":3000,"maxProperties":4000000}"#.into()),
        ("odd multiples", r#"{"allOf":[{"multipleOf":0.000001},{"multipleOf":0.7}]}"#.into()),
        ("a large odd multiple", r#"{"type":"integer","multipleOf":1000003}"#.into()),
        ("bounds of many digits", r#"{"minimum":-1.7e308,"maximum":1.23456789e300}"#.into()),
        ("nested patterns", r#"{"pattern":"^(((a{1,200}){1,200}){1,200}|[^x]{3,900})$"}"#.into()),
    ]
    .map(|(name, text)| (name, Kind::JsonSchema, text))
    .into()
}

/// A server compiles what its clients send: each grammar is answered, with a matcher or an error.
/// The bound is the limit of 2 s, with room for a busy machine.
fn answers_in_time(cases: Vec<Case>) {
    let vocab = byte_vocab(&[]);
    let mut slow = Vec::new();
    for (name, kind, text) in cases {
        let begin = Instant::now();
        let made = compile(vocab.clone(), kind as i32, text.as_bytes());
        let seconds = begin.elapsed().as_secs_f64();
        let words = made.map_or_else(|fail| fail.message, |_| "a matcher".to_string());
        println!("{seconds:6.3} s {name}: {}", words.chars().take(100).collect::<String>());
        if seconds > 20.0 {
            slow.push(name);
        }
    }
    assert!(slow.is_empty(), "{slow:?}");
}

#[test]
fn answers_hostile_regular_expressions_in_time() {
    answers_in_time(regexes());
}

#[test]
fn answers_hostile_lark_grammars_in_time() {
    answers_in_time(larks());
}

#[test]
fn answers_hostile_schemas_in_time() {
    answers_in_time(schemas());
}
