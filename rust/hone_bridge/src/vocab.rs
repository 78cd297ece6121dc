// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! The hb_vocab_* entries: the tokens of a model as a grammar sees them.

use std::collections::HashSet;
use std::os::raw::c_int;
use std::sync::Arc;

use llguidance::toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv, INVALID_TOKEN};
use llguidance::ParserFactory;

use crate::buf::{slice, HbBuf};
use crate::decode::Kind;
use crate::grammar::limits;
use crate::guard::{caught, deep, finish, Fail, BAD_ARGUMENT, UNSUPPORTED};
use crate::tokenizer::{HbTokenizer, Inner};

/// The trie has 24 bits for an id and 10 for the length of a token.
const MAX_LOGITS: u32 = 1 << 22;
const MAX_TOKEN: usize = 1000;
/// Begins tokens that are no text. It begins no UTF-8 sequence.
const MARK: u8 = TokTrie::SPECIAL_TOKEN_MARKER;

struct Env {
    trie: TokTrie,
    tokenizer: Arc<Inner>,
    canonical: bool,
}

impl Env {
    /// Whether these are tokens that may be chosen and stand for this text.
    fn spells(&self, ids: &[TokenId], text: &[u8]) -> bool {
        let mut rest = text;
        for id in ids {
            let token = self.trie.token(*id);
            if token.is_empty() || !rest.starts_with(token) {
                return false;
            }
            rest = &rest[token.len()..];
        }
        rest.is_empty()
    }
}

impl TokenizerEnv for Env {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let end = match std::str::from_utf8(bytes) {
            Ok(_) => bytes.len(),
            Err(e) => e.valid_up_to(),
        };
        let (text, rest) = bytes.split_at(end);
        let ids = std::str::from_utf8(text).ok().and_then(|text| self.tokenizer.plain_ids(text));
        match ids {
            Some(mut ids) if self.spells(&ids, text) => {
                ids.extend(self.trie.greedy_tokenize(rest));
                ids
            }
            _ => self.trie.greedy_tokenize(bytes),
        }
    }

    fn tokenize_is_canonical(&self) -> bool {
        self.canonical
    }
}

pub struct Vocab {
    pub factory: ParserFactory,
    /// Bits of the ids that stand for something, and of those that end a text.
    pub usable: Vec<u32>,
    pub ends: Vec<u32>,
}

pub struct HbVocab(pub Arc<Vocab>);

pub fn has_bit(words: &[u32], id: u32) -> bool {
    words.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
}

fn bits(n_logits: u32, mut is_set: impl FnMut(u32) -> bool) -> Vec<u32> {
    let mut words = vec![0; n_logits.div_ceil(32) as usize];
    for id in (0..n_logits).filter(|id| is_set(*id)) {
        words[id as usize / 32] |= 1 << (id % 32);
    }
    words
}

/// What the trie holds for an id: its bytes, marked if they are no text; empty: never chosen.
fn word(tokenizer: &Inner, id: u32, is_end: bool) -> Vec<u8> {
    let Some((piece, special)) = tokenizer.find_piece(id) else { return Vec::new() };
    let bytes = if special || is_end {
        let mut marked = vec![MARK];
        marked.extend(piece.bytes());
        marked
    } else {
        tokenizer.kind().bytes(&piece)
    };
    let unmarked = bytes.first() == Some(&MARK) && !(special || is_end);
    if unmarked || bytes == [MARK] || bytes.len() > MAX_TOKEN {
        return Vec::new();
    }
    bytes
}

/// Forced text can be turned into tokens: the tokenizer works on bytes, and every byte of UTF-8 is
/// a token, so that there is always a way.
fn is_canonical(tokenizer: &Inner, trie: &TokTrie) -> bool {
    matches!(tokenizer.kind(), Kind::ByteLevel)
        && (0u8..=0xf4)
            .filter(|byte| !matches!(byte, 0xc0 | 0xc1))
            .all(|byte| trie.token_id_at_bytes(&[byte]).is_some())
}

fn make(
    tokenizer: Arc<Inner>,
    n_logits: u32,
    ends: &[u32],
    blocked: &[u32],
) -> Result<Vocab, Fail> {
    if n_logits == 0 || n_logits > MAX_LOGITS {
        let message = format!("{n_logits} logits, expected 1 to {MAX_LOGITS}");
        return Err(Fail::new(BAD_ARGUMENT, message));
    }
    if let Some(id) = ends.iter().find(|id| **id >= n_logits) {
        let message = format!("stop id {id} is outside the {n_logits} logits");
        return Err(Fail::new(BAD_ARGUMENT, message));
    }
    if matches!(tokenizer.kind(), Kind::Joined | Kind::Other) {
        return Err(Fail::new(
            UNSUPPORTED,
            "tokenizer.json: its decoder does not say which bytes a token stands for, \
             which grammars need",
        ));
    }
    let blocked: HashSet<u32> = blocked.iter().copied().collect();
    let mut seen = HashSet::new();
    let ends: Vec<u32> = ends
        .iter()
        .copied()
        .filter(|id| !blocked.contains(id) && tokenizer.find_piece(*id).is_some())
        .filter(|id| seen.insert(*id))
        .collect();
    let words: Vec<Vec<u8>> = (0..n_logits)
        .map(|id| match blocked.contains(&id) {
            true => Vec::new(),
            false => word(&tokenizer, id, seen.contains(&id)),
        })
        .collect();
    let usable = bits(n_logits, |id| !words[id as usize].is_empty());
    let end_bits = bits(n_logits, |id| seen.contains(&id));
    let first = ends.first().copied().unwrap_or(INVALID_TOKEN);
    let mut trie = TokTrie::from(&TokRxInfo::new(n_logits, first), &words);
    if !ends.is_empty() {
        trie = trie.with_eos_tokens(&ends);
    }
    let canonical = is_canonical(&tokenizer, &trie);
    let env: TokEnv = Arc::new(Env { trie, tokenizer, canonical });
    let mut factory = ParserFactory::new_simple(&env)
        .map_err(|e| Fail::new(UNSUPPORTED, format!("the vocabulary: {e}")))?;
    factory.quiet();
    *factory.limits_mut() = limits();
    Ok(Vocab { factory, usable, ends: end_bits })
}

/// # Safety
/// Pointers are as the header says; `out` receives the handle.
#[no_mangle]
pub unsafe extern "C" fn hb_vocab_new(
    tokenizer: *const HbTokenizer,
    n_logits: u32,
    ends: *const u32,
    n_ends: usize,
    blocked: *const u32,
    n_blocked: usize,
    out: *mut *mut HbVocab,
    err: *mut HbBuf,
) -> c_int {
    let ends = slice(ends, n_ends);
    let blocked = slice(blocked, n_blocked);
    let result = match (tokenizer.as_ref(), out.as_mut()) {
        (Some(tokenizer), Some(out)) => {
            let tokenizer = tokenizer.share();
            deep(|| make(tokenizer, n_logits, ends, blocked))
                .map(|vocab| *out = Box::into_raw(Box::new(HbVocab(Arc::new(vocab)))))
        }
        _ => Err(Fail::new(BAD_ARGUMENT, "tokenizer or out is null")),
    };
    finish(err, result)
}

/// # Safety
/// `vocab` is null or a handle that is not used again.
#[no_mangle]
pub unsafe extern "C" fn hb_vocab_free(vocab: *mut HbVocab) {
    if !vocab.is_null() {
        let handle = Box::from_raw(vocab);
        let _ = caught(move || {
            drop(handle);
            Ok(())
        });
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::tokenizer::tests::inner;

    /// The character that GPT-2's map has for a byte.
    fn mapped(byte: u8) -> char {
        let code = match byte {
            0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => u32::from(byte),
            0..=0x20 => 0x100 + u32::from(byte),
            0x7f..=0xa0 => 0x121 + u32::from(byte) - 0x7f,
            0xad => 0x143,
        };
        char::from_u32(code).unwrap()
    }

    /// 256 bytes, then `ab`, `{"`, `":`, the special `<|end|>` and `<|tool|>`.
    pub fn byte_tokenizer() -> Arc<Inner> {
        let mut vocab: serde_json::Map<String, serde_json::Value> =
            (0..=255u8).map(|b| (mapped(b).to_string(), b.into())).collect();
        for (piece, id) in [("ab", 256), ("{\"", 257), ("\":", 258)] {
            vocab.insert(piece.to_string(), id.into());
        }
        let special = |content: &str, id: u32| {
            serde_json::json!({"id": id, "content": content, "special": true, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false})
        };
        let byte_level = serde_json::json!({"type": "ByteLevel", "add_prefix_space": false,
            "trim_offsets": true, "use_regex": false});
        let file = serde_json::json!({
            "version": "1.0", "truncation": null, "padding": null,
            "added_tokens": [special("<|end|>", 259), special("<|tool|>", 260)],
            "normalizer": null, "pre_tokenizer": byte_level, "post_processor": null,
            "decoder": byte_level,
            "model": {"type": "BPE", "vocab": vocab,
                "merges": ["a b", "{ \"", "\" :"]},
        });
        inner(&file.to_string())
    }

    pub fn byte_vocab(blocked: &[u32]) -> Arc<Vocab> {
        Arc::new(make(byte_tokenizer(), 300, &[259], blocked).unwrap())
    }

    #[test]
    fn knows_which_ids_stand_for_something() {
        let vocab = byte_vocab(&[5]);
        assert!(has_bit(&vocab.usable, 256) && has_bit(&vocab.usable, 259));
        // Blocked, the byte of the mark, rows without a piece, ids beyond.
        for id in [5, 255, 261, 299, 300, 4000] {
            assert!(!has_bit(&vocab.usable, id), "{id}");
        }
        assert!(has_bit(&vocab.ends, 259) && !has_bit(&vocab.ends, 260));
    }

    #[test]
    fn forces_tokens_of_a_byte_tokenizer_only_where_each_byte_is_one() {
        assert!(byte_vocab(&[]).factory.tok_env().tokenize_is_canonical());
        assert!(!byte_vocab(&[b'q'.into()]).factory.tok_env().tokenize_is_canonical());
    }

    #[test]
    fn tokenizes_as_the_tokenizer_does_but_for_blocked_tokens() {
        let env = byte_vocab(&[]).factory.tok_env().clone();
        assert_eq!(env.tokenize_bytes(b"{\"ab"), [257, 256]);
        assert_eq!(env.tokenize_bytes(b"ab\xc3"), [256, 0xc3]);
        let env = byte_vocab(&[256]).factory.tok_env().clone();
        assert_eq!(env.tokenize_bytes(b"{\"ab"), [257, 97, 98]);
        // A text that spells a special token is text.
        assert_eq!(env.tokenize_bytes(b"<|end|>").len(), 7);
    }

    #[test]
    fn refuses_what_it_cannot_use() {
        let make = |n, ends: &[u32]| make(byte_tokenizer(), n, ends, &[]).err().unwrap();
        assert_eq!(make(0, &[]).status, BAD_ARGUMENT);
        assert_eq!(make(u32::MAX, &[]).status, BAD_ARGUMENT);
        assert!(make(100, &[259]).message.contains("stop id 259"));
    }
}
