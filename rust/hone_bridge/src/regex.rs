// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Regular expressions that search in linear time.

use std::os::raw::{c_char, c_int};

use crate::buf::{slice, HbBuf};
use crate::guard::{caught, finish, Fail, BAD_ARGUMENT, LIMIT, SYNTAX};

const MAX_PATTERN: usize = 4096;
/// Of the compiled program, so that a{1000}{1000} is refused.
const MAX_PROGRAM: usize = 4 << 20;

pub struct HbRegex(regex::Regex);

fn compile(pattern: &[u8]) -> Result<HbRegex, Fail> {
    if pattern.len() > MAX_PATTERN {
        return Err(Fail::new(
            LIMIT,
            format!("the pattern has {} bytes, the limit is {MAX_PATTERN}", pattern.len()),
        ));
    }
    let pattern = std::str::from_utf8(pattern)
        .map_err(|e| Fail::new(BAD_ARGUMENT, format!("byte {} is not UTF-8", e.valid_up_to())))?;
    regex::RegexBuilder::new(pattern).size_limit(MAX_PROGRAM).build().map(HbRegex).map_err(|e| {
        match e {
            regex::Error::CompiledTooBig(_) => Fail::new(LIMIT, "the pattern is too large"),
            other => {
                // The last line says what is wrong; those before it draw where.
                let text = other.to_string();
                let line = text.lines().last().unwrap_or("it is malformed");
                Fail::new(SYNTAX, line.strip_prefix("error: ").unwrap_or(line))
            }
        }
    })
}

/// # Safety
/// `pattern` points to `size` bytes; `out` and `err` are null or valid.
#[no_mangle]
pub unsafe extern "C" fn hb_regex_new(
    pattern: *const c_char,
    size: usize,
    out: *mut *mut HbRegex,
    err: *mut HbBuf,
) -> c_int {
    let pattern = slice(pattern.cast::<u8>(), size);
    let result = caught(|| {
        if out.is_null() {
            return Err(Fail::new(BAD_ARGUMENT, "out is null"));
        }
        compile(pattern)
    });
    finish(err, result.map(|regex| *out = Box::into_raw(Box::new(regex))))
}

/// # Safety
/// `regex` comes from hb_regex_new; `text` points to `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn hb_regex_search(
    regex: *const HbRegex,
    text: *const c_char,
    size: usize,
) -> c_int {
    let (Some(regex), Ok(text)) =
        (regex.as_ref(), std::str::from_utf8(slice(text.cast::<u8>(), size)))
    else {
        return -1;
    };
    c_int::from(regex.0.is_match(text))
}

/// # Safety
/// `regex` is null or comes from hb_regex_new and is not used again.
#[no_mangle]
pub unsafe extern "C" fn hb_regex_free(regex: *mut HbRegex) {
    if !regex.is_null() {
        drop(Box::from_raw(regex));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_anywhere_in_the_text() {
        let regex = compile(b"layers_[0-3]/.*q_proj").ok().unwrap();
        assert!(regex.0.is_match("model/layers_2/attn/q_proj;1"));
        assert!(!regex.0.is_match("model/layers_4/attn/q_proj;1"));
    }

    #[test]
    fn refuses_what_could_take_forever_or_fill_memory() {
        assert_eq!(compile(b"(?=a)").err().unwrap().status, SYNTAX);
        assert_eq!(compile(b"(a").err().unwrap().status, SYNTAX);
        assert_eq!(compile(b"(a{1000}){1000}").err().unwrap().status, LIMIT);
        assert_eq!(compile(&[b'a'; 5000]).err().unwrap().status, LIMIT);
        // Exponential for an engine that backtracks.
        let regex = compile(b"(a+)+$").ok().unwrap();
        assert!(!regex.0.is_match(&("a".repeat(50_000) + "b")));
    }
}
