// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! The hb_matcher_* entries: a grammar with the text that it has seen so far.

use std::os::raw::{c_char, c_int};
use std::sync::Arc;

use llguidance::api::StopReason;
use llguidance::TokenParser;

use crate::buf::{slice, store, HbBuf};
use crate::grammar::{self, Kind};
use crate::guard::{caught, finish, Fail, BAD_ARGUMENT, RUNTIME, SYNTAX, UNSUPPORTED};
use crate::vocab::{has_bit, HbVocab, Vocab};

const MAY_END: u32 = 1;
const ENDED: u32 = 2;
const FAILED: u32 = 4;

/// What an accepted token did to the parser.
#[derive(Clone, Copy, PartialEq)]
enum Taken {
    Parsed,
    /// An end token after the parser had ended by itself.
    Nothing,
    /// An end token inside the grammar, which cannot be taken back.
    Final,
}

/// A matcher, or why there is none, after COMPILE_TIME at most.
pub fn compile(vocab: Arc<Vocab>, kind: c_int, text: &[u8]) -> Result<HbMatcher, Fail> {
    let kind = Kind::of(kind)?;
    grammar::check_size(kind, text)?;
    let text = text.to_vec();
    grammar::in_time(kind, move || HbMatcher::new(vocab, kind, &text))
}

pub struct HbMatcher {
    parser: TokenParser,
    vocab: Arc<Vocab>,
    taken: Vec<Taken>,
    /// Of the state that the parser is in, if somebody asked.
    mask: Option<Vec<u32>>,
    /// Why nothing works any more.
    failed: Option<(c_int, String)>,
    warnings: Vec<String>,
}

impl HbMatcher {
    fn new(vocab: Arc<Vocab>, kind: Kind, text: &[u8]) -> Result<HbMatcher, Fail> {
        let source = grammar::source(kind, text)?;
        let mut parser = vocab
            .factory
            .create_parser(source)
            .map_err(|e| grammar::compile_error(kind, &format!("{e:#}")))?;
        parser.start_without_prompt();
        let mut warnings = parser.grammar_warnings();
        warnings.extend(grammar::ignored(kind, text));
        let mut matcher =
            HbMatcher { parser, vocab, taken: Vec::new(), mask: None, failed: None, warnings };
        // A grammar that allows nothing at all is found now, not in the middle of an answer.
        let begin = matcher.check_end().and_then(|()| matcher.allowed().map(drop));
        begin.map_err(|fail| {
            let status = if fail.status == RUNTIME { SYNTAX } else { fail.status };
            grammar::compile_error(kind, &fail.message).with_status(status)
        })?;
        Ok(matcher)
    }

    fn fail(&mut self, error: &str) -> Fail {
        let described = grammar::describe(error);
        let status = if described.status == SYNTAX { RUNTIME } else { described.status };
        self.failed = Some((status, described.message.clone()));
        described.with_status(status)
    }

    fn check_end(&mut self) -> Result<(), Fail> {
        match self.parser.check_stop() {
            Ok(_) => Ok(()),
            Err(e) => Err(self.fail(&format!("{e:#}"))),
        }
    }

    fn ended(&self) -> bool {
        let reason = self.parser.stop_reason();
        reason != StopReason::NotStopped && reason.is_ok()
    }

    fn compute_mask(&mut self) -> Result<Vec<u32>, Fail> {
        if self.ended() {
            return Ok(self.vocab.ends.clone());
        }
        let allowed = match self.parser.compute_mask() {
            Ok(allowed) => allowed,
            Err(_) if self.parser.stop_reason() == StopReason::NoExtensionBias => {
                if self.parser.is_accepting() {
                    return Ok(self.vocab.ends.clone());
                }
                return Err(self.fail("no token of the vocabulary can follow"));
            }
            Err(e) => return Err(self.fail(&format!("{e:#}"))),
        };
        let words: Vec<u32> = allowed
            .as_slice()
            .iter()
            .zip(&self.vocab.usable)
            .map(|(allowed, usable)| allowed & usable)
            .collect();
        if words.iter().all(|word| *word == 0) && !self.parser.is_accepting() {
            return Err(self.fail("no token that may be chosen can follow"));
        }
        Ok(words)
    }

    fn allowed(&mut self) -> Result<&[u32], Fail> {
        let words = match self.mask.take() {
            Some(words) => words,
            None => self.compute_mask()?,
        };
        Ok(self.mask.insert(words))
    }

    fn check_alive(&self) -> Result<(), Fail> {
        match &self.failed {
            None => Ok(()),
            Some((status, message)) => Err(Fail::new(*status, message.clone())),
        }
    }

    /// Whether the grammar takes this token now. Also true for other ways to write a forced text
    /// than the one that the mask shows.
    fn takes(&mut self, id: u32) -> Result<bool, Fail> {
        if !has_bit(&self.vocab.usable, id) {
            return Ok(false);
        }
        if self.ended() {
            return Ok(has_bit(&self.vocab.ends, id));
        }
        match self.parser.validate_tokens_raw(&[id]) {
            Ok(0) => Ok(has_bit(self.allowed()?, id)),
            Ok(_) => Ok(true),
            Err(e) => Err(self.fail(&format!("{e:#}"))),
        }
    }

    fn accept(&mut self, id: u32) -> Result<(), Fail> {
        if !self.takes(id)? {
            let token = self.parser.token_env.tok_trie().token_dbg(id);
            let message = format!("the grammar does not allow token {id} {token} here");
            return Err(Fail::new(BAD_ARGUMENT, message));
        }
        if self.ended() {
            self.taken.push(Taken::Nothing);
            return Ok(());
        }
        self.mask = None;
        let before = self.parser.num_tokens();
        match self.parser.consume_token(id) {
            Ok(0) => {}
            Ok(_) => return Err(self.fail("the grammar wants to go back")),
            Err(e) => return Err(self.fail(&format!("{e:#}"))),
        }
        let parsed = self.parser.num_tokens() == before + 1;
        self.taken.push(if parsed { Taken::Parsed } else { Taken::Final });
        self.check_end()
    }

    fn check(&mut self, ids: &[u32]) -> Result<usize, Fail> {
        let usable = ids.iter().take_while(|id| has_bit(&self.vocab.usable, **id)).count();
        if usable == 0 {
            return Ok(0);
        }
        if self.ended() {
            return Ok(usize::from(has_bit(&self.vocab.ends, ids[0])));
        }
        let result = self.parser.validate_tokens_raw(&ids[..usable]);
        result.map_err(|e| self.fail(&format!("{e:#}")))
    }

    fn rollback(&mut self, count: usize) -> Result<(), Fail> {
        let Some(keep) = self.taken.len().checked_sub(count) else {
            let message = format!("cannot take back {count} tokens of {}", self.taken.len());
            return Err(Fail::new(BAD_ARGUMENT, message));
        };
        let back = &self.taken[keep..];
        if back.contains(&Taken::Final) {
            let message = "an end token inside the grammar cannot be taken back";
            return Err(Fail::new(UNSUPPORTED, message));
        }
        let parsed = back.iter().filter(|taken| **taken == Taken::Parsed).count();
        self.mask = None;
        if let Err(e) = self.parser.rollback(parsed) {
            return Err(self.fail(&format!("{e:#}")));
        }
        self.taken.truncate(keep);
        Ok(())
    }

    fn forced(&mut self) -> Vec<u32> {
        if self.ended() {
            return Vec::new();
        }
        let mut ids = self.parser.compute_ff_tokens();
        let usable = ids.iter().take_while(|id| has_bit(&self.vocab.usable, **id)).count();
        ids.truncate(usable);
        ids
    }

    fn state(&mut self) -> u32 {
        if self.failed.is_some() {
            return FAILED;
        }
        let may_end = if self.parser.is_accepting() { MAY_END } else { 0 };
        may_end | if self.ended() { ENDED } else { 0 }
    }

    fn copy(&self) -> HbMatcher {
        HbMatcher {
            // The automaton that all matchers of a grammar could share would let one of them run
            // into the limits of another, on another thread.
            parser: self.parser.deep_clone(),
            vocab: self.vocab.clone(),
            taken: self.taken.clone(),
            mask: self.mask.clone(),
            failed: self.failed.clone(),
            warnings: self.warnings.clone(),
        }
    }
}

fn native_bytes(ids: &[u32]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_ne_bytes()).collect()
}

/// Runs f on a live matcher. What panics is dead afterwards.
unsafe fn on<T>(
    matcher: *mut HbMatcher,
    f: impl FnOnce(&mut HbMatcher) -> Result<T, Fail>,
) -> Result<T, Fail> {
    let Some(matcher) = matcher.as_mut() else {
        return Err(Fail::new(BAD_ARGUMENT, "matcher is null"));
    };
    matcher.check_alive()?;
    let result = caught(|| f(&mut *matcher));
    if let Err(fail) = &result {
        if fail.status == crate::guard::PANIC {
            matcher.failed = Some((fail.status, fail.message.clone()));
        }
    }
    result
}

/// # Safety
/// Pointers are as the header says; `out` receives the handle.
#[no_mangle]
pub unsafe extern "C" fn hb_matcher_new(
    vocab: *const HbVocab,
    kind: c_int,
    text: *const c_char,
    size: usize,
    out: *mut *mut HbMatcher,
    err: *mut HbBuf,
) -> c_int {
    let text = slice(text.cast::<u8>(), size);
    let result = match (vocab.as_ref(), out.as_mut()) {
        (Some(vocab), Some(out)) => compile(vocab.0.clone(), kind, text)
            .map(|matcher| *out = Box::into_raw(Box::new(matcher))),
        _ => Err(Fail::new(BAD_ARGUMENT, "vocab or out is null")),
    };
    finish(err, result)
}

/// # Safety
/// `matcher` is null or a live handle that nobody uses now.
#[no_mangle]
pub unsafe extern "C" fn hb_matcher_clone(
    matcher: *const HbMatcher,
    out: *mut *mut HbMatcher,
    err: *mut HbBuf,
) -> c_int {
    let result = match (matcher.as_ref(), out.as_mut()) {
        (Some(matcher), Some(out)) => {
            caught(|| Ok(matcher.copy())).map(|matcher| *out = Box::into_raw(Box::new(matcher)))
        }
        _ => Err(Fail::new(BAD_ARGUMENT, "matcher or out is null")),
    };
    finish(err, result)
}

/// # Safety
/// `matcher` is null or a handle that is not used again.
#[no_mangle]
pub unsafe extern "C" fn hb_matcher_free(matcher: *mut HbMatcher) {
    if !matcher.is_null() {
        let handle = Box::from_raw(matcher);
        let _ = caught(move || {
            drop(handle);
            Ok(())
        });
    }
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_matcher_mask(
    matcher: *mut HbMatcher,
    words: *mut u32,
    n_words: usize,
    err: *mut HbBuf,
) -> c_int {
    let result = on(matcher, |m| {
        let allowed = m.allowed()?;
        if words.is_null() || n_words != allowed.len() {
            let message = format!("room for {n_words} words, expected {}", allowed.len());
            return Err(Fail::new(BAD_ARGUMENT, message));
        }
        std::slice::from_raw_parts_mut(words, n_words).copy_from_slice(allowed);
        Ok(())
    });
    finish(err, result)
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_matcher_accept(
    matcher: *mut HbMatcher,
    ids: *const u32,
    count: usize,
    err: *mut HbBuf,
) -> c_int {
    let ids = slice(ids, count);
    finish(err, on(matcher, |m| ids.iter().try_for_each(|id| m.accept(*id))))
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_matcher_check(
    matcher: *mut HbMatcher,
    ids: *const u32,
    count: usize,
) -> i64 {
    let ids = slice(ids, count);
    on(matcher, |m| m.check(ids)).map_or(-1, |passed| passed as i64)
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_matcher_rollback(
    matcher: *mut HbMatcher,
    count: usize,
    err: *mut HbBuf,
) -> c_int {
    finish(err, on(matcher, |m| m.rollback(count)))
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_matcher_forced(
    matcher: *mut HbMatcher,
    ids: *mut HbBuf,
    err: *mut HbBuf,
) -> c_int {
    let result = on(matcher, |m| Ok(m.forced()));
    finish(err, result.map(|forced| store(ids, native_bytes(&forced))))
}

/// # Safety
/// `matcher` is null or a live handle that nobody uses now.
#[no_mangle]
pub unsafe extern "C" fn hb_matcher_state(matcher: *mut HbMatcher) -> u32 {
    on(matcher, |m| Ok(m.state())).unwrap_or(FAILED)
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_matcher_warnings(
    matcher: *const HbMatcher,
    lines: *mut HbBuf,
    err: *mut HbBuf,
) -> c_int {
    let result = match matcher.as_ref() {
        Some(matcher) => Ok(matcher.warnings.iter().map(|w| w.replace('\n', " ")).collect()),
        None => Err(Fail::new(BAD_ARGUMENT, "matcher is null")),
    };
    finish(err, result.map(|all: Vec<String>| store(lines, all.join("\n").into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::{deep, LIMIT};
    use crate::vocab::tests::byte_vocab;

    const END: u32 = 259;

    fn matcher(kind: Kind, text: &str) -> HbMatcher {
        HbMatcher::new(byte_vocab(&[]), kind, text.as_bytes()).unwrap()
    }

    fn refusal(blocked: &[u32], kind: Kind, text: &str) -> Fail {
        deep(|| HbMatcher::new(byte_vocab(blocked), kind, text.as_bytes()).map(drop)).unwrap_err()
    }

    fn type_in(matcher: &mut HbMatcher, text: &[u8]) -> Result<(), Fail> {
        text.iter().try_for_each(|byte| matcher.accept(u32::from(*byte)))
    }

    /// Whether the whole text is in the language, byte by byte, with every mask on the way.
    fn matches(matcher: &HbMatcher, text: &[u8]) -> bool {
        let mut copy = matcher.copy();
        for byte in text {
            let mask = copy.allowed().unwrap().to_vec();
            if copy.forced().is_empty() {
                assert_eq!(has_bit(&mask, u32::from(*byte)), copy.takes((*byte).into()).unwrap());
            }
            if copy.accept(u32::from(*byte)).is_err() {
                return false;
            }
        }
        copy.state() & MAY_END != 0
    }

    #[test]
    fn follows_a_schema() {
        let m = matcher(
            Kind::JsonSchema,
            r#"{"type":"object","properties":{"a":{"type":"integer"},
                "b":{"enum":["x","é"]}},"required":["a","b"],"additionalProperties":false}"#,
        );
        assert!(matches(&m, br#"{"a":-12,"b":"x"}"#));
        assert!(matches(&m, "{\n    \"a\": 0,\n    \"b\": \"é\"\n}".as_bytes()));
        for wrong in [
            r#"{"a":1.5,"b":"x"}"#,
            r#"{"a":1}"#,
            r#"{"a":1,"b":"y"}"#,
            r#"{"a":1,"b":"x","c":2}"#,
            r#" {"a":1,"b":"x"}"#,
            r#"{"a":   1,"b":"x"}"#,
            r#"{"a":1,"b":"x""#,
        ] {
            assert!(!matches(&m, wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn ends_only_where_the_grammar_may_end() {
        let mut m = matcher(Kind::Regex, "a+b?");
        assert_eq!(m.state(), 0);
        assert!(!has_bit(m.allowed().unwrap(), END));
        assert!(m.accept(END).is_err());
        m.accept(97).unwrap();
        assert_eq!(m.state(), MAY_END);
        assert!(has_bit(m.allowed().unwrap(), END) && has_bit(m.allowed().unwrap(), 97));
        m.accept(256).unwrap(); // "ab": nothing can follow
        assert_eq!(m.state(), MAY_END | ENDED);
        let ends = m.vocab.ends.clone();
        assert_eq!(m.allowed().unwrap(), ends);
        assert!(m.accept(97).is_err());
        m.accept(END).unwrap();
        m.rollback(2).unwrap();
        assert_eq!(m.state(), MAY_END);
        m.accept(END).unwrap();
        assert_eq!(m.state(), MAY_END | ENDED);
        m.rollback(2).unwrap();
        assert_eq!(m.state(), 0);
        assert!(m.rollback(1).is_err());
    }

    #[test]
    fn never_allows_blocked_ids_and_rows_without_a_token() {
        let vocab = byte_vocab(&[98, 256]);
        let text = b"start: /[a-z\\x80-\\u{10ffff}]{1,9}/ | <[0-299]>";
        let mut m = HbMatcher::new(vocab, Kind::Lark, text).unwrap();
        for id in [98, 256, 255, 261, 299] {
            assert!(!has_bit(m.allowed().unwrap(), id), "{id}");
            assert!(m.accept(id).is_err(), "{id}");
        }
        assert!(has_bit(m.allowed().unwrap(), 97) && has_bit(m.allowed().unwrap(), 260));
        assert!(m.accept(u32::MAX).is_err());
        m.accept(97).unwrap();
    }

    #[test]
    fn forces_what_has_one_way_only() {
        let mut m = matcher(Kind::Lark, "start: \"{\\\"ab\\\":\" /[0-9]+/");
        assert_eq!(m.forced(), [257, 256, 258]);
        let mask = m.allowed().unwrap().to_vec();
        assert_eq!(mask.iter().map(|word| word.count_ones()).sum::<u32>(), 1);
        assert!(has_bit(&mask, 257));
        // Written in another way it is the same text.
        type_in(&mut m, b"{\"ab\":4").unwrap();
        assert!(m.forced().is_empty());
        assert_eq!(m.state(), MAY_END);
    }

    #[test]
    fn special_tokens_are_no_text() {
        let mut m = matcher(Kind::Regex, "[<>a-z|]{1,20}");
        assert!(!has_bit(m.allowed().unwrap(), 260));
        assert!(type_in(&mut m, b"<|tool|>").is_ok());
        let mut m = matcher(Kind::Lark, "start: <|tool|> \"x\"");
        assert!(m.accept(60).is_err());
        m.accept(260).unwrap();
        m.accept(120).unwrap();
        assert_eq!(m.state(), MAY_END | ENDED);
        assert!(refusal(&[], Kind::Lark, "start: <|none|>").message.contains("<|none|>"));
    }

    #[test]
    fn copies_go_their_own_way() {
        let mut m = matcher(Kind::Regex, "a(b|c)d");
        m.accept(97).unwrap();
        let mut copy = m.copy();
        type_in(&mut copy, b"cd").unwrap();
        type_in(&mut m, b"b").unwrap();
        assert_eq!(copy.state(), MAY_END | ENDED);
        assert_eq!(m.state(), 0);
        assert_eq!(m.check(&[100, 100]).unwrap(), 1);
        type_in(&mut m, b"d").unwrap();
    }

    #[test]
    fn refuses_at_once_what_can_never_begin() {
        let fail = refusal(&[98, 256], Kind::Regex, "b");
        assert!(fail.message.contains("no token"), "{}", fail.message);
        assert_eq!(fail.status, SYNTAX);
        refusal(&[], Kind::Regex, "[^\\x00-\\u{10ffff}]");
        refusal(&[], Kind::JsonSchema, r#"{"allOf":[{"type":"string"},{"type":"null"}]}"#);
    }

    #[test]
    fn masks_of_heavy_grammars_are_bounded() {
        for text in [
            "start: (\"a\" | \"a\" \"a\")*",
            "start: x\nx: x x | \"a\" | \"b\" |",
            "start: /(a|b)*a(a|b){12}/",
            "start: /(a{1,999}){1,999}/",
        ] {
            let Ok(mut m) = HbMatcher::new(byte_vocab(&[]), Kind::Lark, text.as_bytes()) else {
                continue;
            };
            for _ in 0..300 {
                if m.check_alive().is_err() || m.accept(97).is_err() {
                    break;
                }
                let _ = m.allowed();
            }
            if let Some((status, message)) = &m.failed {
                assert!([LIMIT, RUNTIME].contains(status), "{text}: {message}");
            }
        }
    }

    #[test]
    fn says_what_has_no_effect() {
        let m = matcher(Kind::Lark, "start: x\nx[temperature=0.5]: /a+/");
        assert!(m.warnings.iter().any(|w| w.contains("temperature")), "{:?}", m.warnings);
    }
}
