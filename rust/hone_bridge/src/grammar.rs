// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! A grammar's text: which kinds there are, what is refused before it is compiled, and what the
//! library's errors mean.

use std::os::raw::{c_char, c_int};

use llguidance::api::{GrammarInit, ParserLimits, TopLevelGrammar};
use llguidance::{regex_to_lark, Logger};
use serde_json::{json, Value};

use crate::buf::{slice, HbBuf};
use crate::deadline::{deep_within, COMPILE_TIME};
use crate::guard::{finish, Fail, BAD_ARGUMENT, LIMIT, PANIC, SYNTAX, UNSUPPORTED};

const MAX_TEXT: usize = 1 << 20;
/// The parser of Lark recurses once for each bracket.
const MAX_NESTING: usize = 1000;
/// The time to compare them grows with the square.
const MAX_PATTERNS: usize = 64;
const MAX_MESSAGE: usize = 2000;
/// What may stand between two JSON tokens: a space or two, a tab, or one line break with its
/// indent. Without a bound a weak model may write white space for ever.
const WHITE_SPACE: &str = r"( {1,2}|\t|\r?\n[ \t]{0,40})";

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    JsonSchema,
    JsonObject,
    Regex,
    Lark,
}

impl Kind {
    pub fn of(number: c_int) -> Result<Kind, Fail> {
        match number {
            0 => Ok(Kind::JsonSchema),
            1 => Ok(Kind::JsonObject),
            2 => Ok(Kind::Regex),
            3 => Ok(Kind::Lark),
            _ => Err(Fail::new(BAD_ARGUMENT, format!("grammar kind {number}, expected 0 to 3"))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::JsonSchema => "the JSON schema",
            Kind::JsonObject => "the JSON grammar",
            Kind::Regex => "the regular expression",
            Kind::Lark => "the Lark grammar",
        }
    }
}

/// Bounds of one grammar and of one mask. A mask takes at most some 20 ms, a grammar some 100 MB.
pub fn limits() -> ParserLimits {
    ParserLimits {
        max_lexer_states: 50_000,
        max_grammar_size: 200_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

/// Most brackets that are open at the same time.
fn nesting(text: &str) -> usize {
    let (mut depth, mut most) = (0usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

/// The whole text must match, so anchors at its ends say nothing new.
fn without_anchors(pattern: &str) -> &str {
    let pattern = pattern.strip_prefix('^').unwrap_or(pattern);
    match pattern.strip_suffix('$') {
        Some(rest) if rest.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 0 => rest,
        _ => pattern,
    }
}

fn schema(text: &str) -> Result<Value, Fail> {
    let value: Value = serde_json::from_str(text).map_err(|e| Fail::new(SYNTAX, e.to_string()))?;
    let mut value = match value {
        Value::Bool(true) => json!({}),
        Value::Bool(false) => return Err(Fail::new(SYNTAX, "false allows no value")),
        value => value,
    };
    let Some(object) = value.as_object_mut() else {
        return Err(Fail::new(SYNTAX, "found a value that is not an object, expected an object"));
    };
    let patterns: usize = object.values().map(count_patterns).sum::<usize>()
        + object.get("patternProperties").and_then(Value::as_object).map_or(0, |p| p.len());
    if patterns > MAX_PATTERNS {
        let message = format!("it has {patterns} patternProperties, the limit is {MAX_PATTERNS}");
        return Err(Fail::new(LIMIT, message));
    }
    let options = object.entry("x-guidance").or_insert_with(|| json!({}));
    if let Some(options) = options.as_object_mut() {
        if !options.contains_key("whitespace_flexible") {
            options.entry("whitespace_pattern").or_insert_with(|| WHITE_SPACE.into());
        }
    }
    Ok(value)
}

/// Refuses a text that is too long, before anybody copies it.
pub fn check_size(kind: Kind, text: &[u8]) -> Result<(), Fail> {
    if text.len() > MAX_TEXT {
        let message = format!("it has {} bytes, the limit is {MAX_TEXT}", text.len());
        return Err(named(kind, Fail::new(LIMIT, message)));
    }
    Ok(())
}

/// Compiles on a thread of its own; LIMIT if it takes too long.
pub fn in_time<T: Send + 'static>(
    kind: Kind,
    f: impl FnOnce() -> Result<T, Fail> + Send + 'static,
) -> Result<T, Fail> {
    deep_within(COMPILE_TIME, f).map_err(|fail| match fail.status {
        LIMIT if !fail.message.starts_with(kind.name()) => named(kind, fail),
        _ => fail,
    })
}

/// The keys of all patternProperties of a schema. Each is compared with each.
fn count_patterns(schema: &Value) -> usize {
    match schema {
        Value::Array(items) => items.iter().map(count_patterns).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| {
                let own = value.as_object().filter(|_| key == "patternProperties");
                own.map_or(0, |patterns| patterns.len()) + count_patterns(value)
            })
            .sum(),
        _ => 0,
    }
}

fn read(kind: Kind, text: &[u8]) -> Result<TopLevelGrammar, Fail> {
    let text = std::str::from_utf8(text)
        .map_err(|e| Fail::new(SYNTAX, format!("byte {} is not UTF-8", e.valid_up_to())))?;
    if matches!(kind, Kind::Regex | Kind::Lark) && nesting(text) > MAX_NESTING {
        let message = format!("it opens more than {MAX_NESTING} brackets inside each other");
        return Err(Fail::new(LIMIT, message));
    }
    Ok(match kind {
        Kind::JsonSchema => TopLevelGrammar::from_json_schema(schema(text)?),
        Kind::JsonObject => TopLevelGrammar::from_json_schema(schema(r#"{"type":"object"}"#)?),
        Kind::Regex => {
            let pattern = regex_to_lark(without_anchors(text), "");
            TopLevelGrammar::from_lark(format!("start: /{pattern}/"))
        }
        Kind::Lark => {
            if text.trim().is_empty() {
                return Err(Fail::new(SYNTAX, "it is empty"));
            }
            TopLevelGrammar::from_lark(text.to_string())
        }
    })
}

fn named(kind: Kind, fail: Fail) -> Fail {
    Fail::new(fail.status, format!("{}: {}", kind.name(), fail.message))
}

/// A grammar that may be compiled. The error names the kind.
pub fn source(kind: Kind, text: &[u8]) -> Result<TopLevelGrammar, Fail> {
    read(kind, text).map_err(|fail| named(kind, fail))
}

/// What a text says that has no effect here.
pub fn ignored(kind: Kind, text: &[u8]) -> Option<String> {
    let squeezed: Vec<u8> = text.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    let found = squeezed.windows(13).any(|w| w == b"[temperature=" || w == b",temperature=");
    (kind == Kind::Lark && found)
        .then(|| "the Lark grammar: temperature has no effect; the sampler's counts".to_string())
}

fn status_of(message: &str) -> c_int {
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["too large", "too big", "too complex", "too many", "limit", "fuel", "exceeded"]) {
        LIMIT
    } else if has(&["not supported", "nsupported", "nimplemented", "are supported"]) {
        UNSUPPORTED
    } else {
        SYNTAX
    }
}

/// An error of the library as one line.
pub fn describe(error: &str) -> Fail {
    let text = error.split("\n<").next().unwrap_or(error);
    let mut message = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !message.is_empty() {
            message.push_str(" | ");
        }
        message.push_str(line);
    }
    if message.contains("missing special token prefix") {
        return Fail::new(SYNTAX, "it names a special token, but the vocabulary has none");
    }
    if message.contains("without 'referencing' feature") {
        let reference = message.split("ref '").nth(1).unwrap_or("").trim_end_matches('\'');
        let words = "a $ref must point into the schema itself (#/...); nothing is downloaded";
        return Fail::new(UNSUPPORTED, format!("$ref {reference:?}: {words}"));
    }
    let mut end = message.len().min(MAX_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message.truncate(end);
    if message.contains("u16::MAX") {
        return Fail::new(LIMIT, "it has too many rules");
    }
    match message.strip_prefix("panic: ") {
        Some(words) => Fail::new(PANIC, format!("a library failed inside: {words}")),
        None => Fail::new(status_of(&message), message),
    }
}

pub fn compile_error(kind: Kind, error: &str) -> Fail {
    named(kind, describe(error))
}

/// Everything that can be said about a grammar without a vocabulary.
fn check(kind: Kind, text: &[u8]) -> Result<(), Fail> {
    check_size(kind, text)?;
    let text = text.to_vec();
    in_time(kind, move || {
        let init = GrammarInit::Serialized(source(kind, &text)?);
        init.to_cgrammar(None, &mut Logger::new(0, 0), limits(), vec![])
            .map(drop)
            .map_err(|e| compile_error(kind, &format!("{e:#}")))
    })
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_grammar_check(
    kind: c_int,
    text: *const c_char,
    size: usize,
    err: *mut HbBuf,
) -> c_int {
    let text = slice(text.cast::<u8>(), size);
    finish(err, Kind::of(kind).and_then(|kind| check(kind, text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(kind: Kind, text: &str) -> Fail {
        let result = check(kind, text.as_bytes());
        result.expect_err(&format!("accepted: {}", &text[..text.len().min(80)]))
    }

    #[test]
    fn accepts_what_is_well_formed() {
        for (kind, text) in [
            (Kind::JsonSchema, "true"),
            (Kind::JsonSchema, r#"{"type":"string","pattern":"^\\d{4}$"}"#),
            (Kind::JsonSchema, r##"{"$ref":"#/$defs/x","$defs":{"x":{"enum":[1,"a"]}}}"##),
            (Kind::JsonObject, ""),
            (Kind::Regex, r"^a/b\d+$"),
            (Kind::Lark, "start: \"a\" b\nb: /[0-9]+/"),
            (Kind::Lark, "start: <|tool|> \"a\""),
        ] {
            let result = check(kind, text.as_bytes());
            assert!(result.is_ok(), "{text}: {result:?}");
        }
    }

    #[test]
    fn refuses_with_the_kind_and_the_reason() {
        for (kind, text, words) in [
            (Kind::JsonSchema, "{", "the JSON schema: EOF"),
            (Kind::JsonSchema, "5", "expected an object"),
            (Kind::JsonSchema, "false", "allows no value"),
            (Kind::JsonSchema, r#"{"type":"xml"}"#, "xml"),
            (Kind::JsonSchema, r#"{"$ref":"https://x.example/s.json"}"#, "nothing is downloaded"),
            (Kind::JsonSchema, r##"{"$ref":"#/$defs/none"}"##, "not found"),
            (Kind::JsonSchema, r#"{"type":"string","pattern":"("}"#, "unclosed"),
            (Kind::Regex, "(a", "unclosed"),
            (Kind::Regex, r"(?=a)b", "look-"),
            (Kind::Lark, "start: nothing", "nothing"),
            (Kind::Lark, "start: \"a", "the Lark grammar"),
            (Kind::Lark, " \n", "it is empty"),
        ] {
            let fail = refused(kind, text);
            assert!(fail.message.starts_with(kind.name()), "{}", fail.message);
            assert!(fail.message.contains(words), "{text}: {}", fail.message);
            assert!(!fail.message.contains('\n'), "{}", fail.message);
        }
    }

    #[test]
    fn bounds_size_depth_and_work() {
        let deep_schema = format!("{}1{}", r#"{"not":"#.repeat(100_000), "}".repeat(100_000));
        refused(Kind::JsonSchema, &deep_schema);
        let nested = format!("start: {}\"a\"{}", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(refused(Kind::Lark, &nested).status, LIMIT);
        assert_eq!(refused(Kind::Regex, &"(".repeat(5000)).status, LIMIT);
        assert_eq!(refused(Kind::Regex, &"a".repeat(MAX_TEXT + 1)).status, LIMIT);
        assert_eq!(refused(Kind::JsonSchema, &" ".repeat(MAX_TEXT + 1)).status, LIMIT);
        let many: Vec<String> = (0..60_000).map(|i| format!("{{\"const\":{i}}}")).collect();
        refused(Kind::JsonSchema, &format!("{{\"anyOf\":[{}]}}", many.join(",")));
    }

    #[test]
    fn drops_only_anchors_at_the_ends() {
        assert_eq!(without_anchors("^a$"), "a");
        assert_eq!(without_anchors(r"a\$"), r"a\$");
        assert_eq!(without_anchors(r"a\\$"), r"a\\");
    }

    #[test]
    fn says_what_it_ignores() {
        assert!(ignored(Kind::Lark, b"start[ temperature = 0.5 ]: /a/").is_some());
        assert!(ignored(Kind::Lark, b"start: \"temperature\"").is_none());
    }
}
