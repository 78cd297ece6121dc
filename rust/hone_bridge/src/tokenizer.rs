// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! The hb_tokenizer_* and hb_stream_* entries.

use std::collections::HashMap;
use std::os::raw::{c_char, c_int, c_void};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use tokenizers::models::ModelWrapper;
use tokenizers::Tokenizer;

use crate::buf::{slice, store, HbBuf};
use crate::decode::{Kind, Stream};
use crate::guard::{caught, deep, finish, Fail, BAD_ARGUMENT, RUNTIME, SYNTAX, UNSUPPORTED};

const ADD_SPECIAL: u32 = 1;
const PLAIN_SPECIAL: u32 = 2;
/// Ids are signed 32-bit on the other side.
const MAX_ID: u32 = i32::MAX as u32;
/// The split patterns of a hostile file are slow, so the text is bounded.
const MAX_TEXT: usize = 64 << 20;

pub(crate) struct Inner {
    tokenizer: Tokenizer,
    /// The same, reading special tokens in a text as plain text. Made when first asked for.
    plain: OnceLock<Tokenizer>,
    kind: Kind,
    size: u32,
}

pub struct HbTokenizer(Arc<Inner>);

impl HbTokenizer {
    pub(crate) fn share(&self) -> Arc<Inner> {
        self.0.clone()
    }
}

pub struct HbStream {
    inner: Arc<Inner>,
    stream: Stream,
}

fn utf8<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, Fail> {
    std::str::from_utf8(bytes).map_err(|e| {
        Fail::new(BAD_ARGUMENT, format!("{what} is not UTF-8: byte {} is wrong", e.valid_up_to()))
    })
}

/// The ids that an added token has in the file, which the library may silently change.
#[derive(serde::Deserialize)]
struct AddedIds {
    #[serde(default)]
    added_tokens: Vec<AddedId>,
}

#[derive(serde::Deserialize)]
struct AddedId {
    id: u64,
    content: String,
}

fn check_added_ids(json: &str, tokenizer: &Tokenizer) -> Result<(), Fail> {
    let file: AddedIds = serde_json::from_str(json)
        .map_err(|e| Fail::new(SYNTAX, format!("tokenizer.json: added_tokens: {e}")))?;
    for token in file.added_tokens {
        let Some(id) = tokenizer.token_to_id(&token.content) else { continue };
        if u64::from(id) != token.id {
            return Err(Fail::new(
                SYNTAX,
                format!(
                    "tokenizer.json: added token {:?} has id {} but the vocabulary gives it {id}",
                    token.content, token.id
                ),
            ));
        }
    }
    Ok(())
}

/// Every id fits 31 bits and names one piece. Returns the largest id + 1.
fn check_ids(tokenizer: &Tokenizer) -> Result<u32, Fail> {
    let mut by_id: HashMap<u32, String> = HashMap::new();
    let mut size = 0;
    for (piece, id) in tokenizer.get_vocab(true) {
        if id >= MAX_ID {
            return Err(Fail::new(
                SYNTAX,
                format!(
                    "tokenizer.json: piece {piece:?} has id {id}, the largest allowed is {}",
                    MAX_ID - 1
                ),
            ));
        }
        size = size.max(id + 1);
        if let Some(other) = by_id.insert(id, piece) {
            let piece = &by_id[&id];
            let (a, b) = if *piece < other { (piece, &other) } else { (&other, piece) };
            return Err(Fail::new(
                SYNTAX,
                format!("tokenizer.json: pieces {a:?} and {b:?} both have id {id}"),
            ));
        }
    }
    Ok(size)
}

/// Models whose pieces can be turned back into the text they came from.
fn check_model(tokenizer: &Tokenizer) -> Result<(), Fail> {
    match tokenizer.get_model() {
        ModelWrapper::WordPiece(_) => Err(Fail::new(
            UNSUPPORTED,
            "tokenizer.json: model.type: found WordPiece, expected BPE, Unigram or WordLevel",
        )),
        _ => Ok(()),
    }
}

/// The library does not say where in the file the fault is.
fn load_error(e: &str) -> Fail {
    let field = if e.contains("out of vocabulary") { "model.merges: " } else { "" };
    Fail::new(SYNTAX, format!("tokenizer.json: {field}{e}"))
}

fn load(json: &[u8]) -> Result<Inner, Fail> {
    let json = std::str::from_utf8(json).map_err(|e| {
        Fail::new(SYNTAX, format!("tokenizer.json: byte {} is not UTF-8", e.valid_up_to()))
    })?;
    let mut tokenizer = Tokenizer::from_str(json).map_err(|e| load_error(&e.to_string()))?;
    check_model(&tokenizer)?;
    check_added_ids(json, &tokenizer)?;
    let size = check_ids(&tokenizer)?;
    tokenizer.with_padding(None);
    tokenizer
        .with_truncation(None)
        .map_err(|e| Fail::new(SYNTAX, format!("tokenizer.json: truncation: {e}")))?;
    let kind = Kind::of(&tokenizer);
    Ok(Inner { tokenizer, plain: OnceLock::new(), kind, size })
}

impl Inner {
    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The piece of an id, and whether it is a special token.
    pub(crate) fn find_piece(&self, id: u32) -> Option<(String, bool)> {
        let piece = self.tokenizer.id_to_token(id)?;
        let special = self.tokenizer.get_added_vocabulary().is_special_token(&piece);
        Some((piece, special))
    }

    /// The ids of a text in which special tokens are plain text.
    pub(crate) fn plain_ids(&self, text: &str) -> Option<Vec<u32>> {
        let encoding = self.plain_tokenizer().encode_fast(text, false).ok()?;
        Some(encoding.get_ids().to_vec())
    }

    fn plain_tokenizer(&self) -> &Tokenizer {
        self.plain.get_or_init(|| {
            let mut plain = self.tokenizer.clone();
            plain.set_encode_special_tokens(true);
            plain
        })
    }

    fn encode(&self, text: &[u8], flags: u32) -> Result<Vec<u8>, Fail> {
        if text.len() > MAX_TEXT {
            return Err(Fail::new(
                BAD_ARGUMENT,
                format!("the text has {} bytes, the limit is {MAX_TEXT}", text.len()),
            ));
        }
        let text = utf8(text, "the text")?;
        let tokenizer =
            if flags & PLAIN_SPECIAL != 0 { self.plain_tokenizer() } else { &self.tokenizer };
        let encoding = tokenizer
            .encode_fast(text, flags & ADD_SPECIAL != 0)
            .map_err(|e| Fail::new(RUNTIME, format!("cannot tokenize: {e}")))?;
        Ok(encoding.get_ids().iter().flat_map(|id| id.to_ne_bytes()).collect())
    }

    fn piece(&self, id: u32) -> Result<String, Fail> {
        self.tokenizer.id_to_token(id).ok_or_else(|| {
            Fail::new(
                BAD_ARGUMENT,
                format!("no piece has id {id}; the largest id is {}", i64::from(self.size) - 1),
            )
        })
    }

    fn added(&self) -> Vec<u8> {
        let mut tokens: Vec<_> = self.tokenizer.get_added_tokens_decoder().into_iter().collect();
        tokens.sort_by_key(|(id, _)| *id);
        let list: Vec<_> = tokens
            .into_iter()
            .map(
                |(id, t)| serde_json::json!({"id": id, "content": t.content, "special": t.special}),
            )
            .collect();
        serde_json::Value::Array(list).to_string().into_bytes()
    }
}

/// # Safety
/// Pointers are as the header says; `out` receives the handle.
#[no_mangle]
pub unsafe extern "C" fn hb_tokenizer_new(
    json: *const c_void,
    size: usize,
    out: *mut *mut HbTokenizer,
    err: *mut HbBuf,
) -> c_int {
    let json = slice(json.cast::<u8>(), size);
    let result = deep(|| load(json)).and_then(|inner| {
        let out = out.as_mut().ok_or_else(|| Fail::new(BAD_ARGUMENT, "out is null"))?;
        *out = Box::into_raw(Box::new(HbTokenizer(Arc::new(inner))));
        Ok(())
    });
    finish(err, result)
}

/// # Safety
/// `tokenizer` is null or a handle that is not used again.
#[no_mangle]
pub unsafe extern "C" fn hb_tokenizer_free(tokenizer: *mut HbTokenizer) {
    if !tokenizer.is_null() {
        let handle = Box::from_raw(tokenizer);
        let _ = caught(move || {
            drop(handle);
            Ok(())
        });
    }
}

/// Runs f on the handle and stores what it returns.
unsafe fn answer(
    tokenizer: *const HbTokenizer,
    out: *mut HbBuf,
    err: *mut HbBuf,
    f: impl FnOnce(&Inner) -> Result<Vec<u8>, Fail>,
) -> c_int {
    let result = caught(|| {
        let handle =
            tokenizer.as_ref().ok_or_else(|| Fail::new(BAD_ARGUMENT, "tokenizer is null"))?;
        f(&handle.0)
    });
    finish(err, result.map(|bytes| store(out, bytes)))
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_tokenizer_encode(
    tokenizer: *const HbTokenizer,
    text: *const c_char,
    size: usize,
    flags: u32,
    ids: *mut HbBuf,
    err: *mut HbBuf,
) -> c_int {
    answer(tokenizer, ids, err, |t| t.encode(slice(text.cast::<u8>(), size), flags))
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_tokenizer_decode(
    tokenizer: *const HbTokenizer,
    ids: *const u32,
    count: usize,
    skip_special: c_int,
    text: *mut HbBuf,
    err: *mut HbBuf,
) -> c_int {
    answer(tokenizer, text, err, |t| {
        t.tokenizer
            .decode(slice(ids, count), skip_special != 0)
            .map(String::into_bytes)
            .map_err(|e| Fail::new(RUNTIME, format!("cannot decode: {e}")))
    })
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_tokenizer_piece(
    tokenizer: *const HbTokenizer,
    id: u32,
    piece: *mut HbBuf,
    err: *mut HbBuf,
) -> c_int {
    answer(tokenizer, piece, err, |t| t.piece(id).map(String::into_bytes))
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_tokenizer_token_bytes(
    tokenizer: *const HbTokenizer,
    id: u32,
    bytes: *mut HbBuf,
    err: *mut HbBuf,
) -> c_int {
    answer(tokenizer, bytes, err, |t| t.piece(id).map(|piece| t.kind.bytes(&piece)))
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_tokenizer_id(
    tokenizer: *const HbTokenizer,
    piece: *const c_char,
    size: usize,
) -> i64 {
    let found = caught(|| {
        let piece = utf8(slice(piece.cast::<u8>(), size), "the piece")?;
        Ok(tokenizer.as_ref().and_then(|t| t.0.tokenizer.token_to_id(piece)))
    });
    found.ok().flatten().map_or(-1, i64::from)
}

/// # Safety
/// `tokenizer` is null or a live handle.
#[no_mangle]
pub unsafe extern "C" fn hb_tokenizer_size(tokenizer: *const HbTokenizer) -> u32 {
    tokenizer.as_ref().map_or(0, |t| t.0.size)
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_tokenizer_added(
    tokenizer: *const HbTokenizer,
    json: *mut HbBuf,
    err: *mut HbBuf,
) -> c_int {
    answer(tokenizer, json, err, |t| Ok(t.added()))
}

/// # Safety
/// `tokenizer` is a live handle.
#[no_mangle]
pub unsafe extern "C" fn hb_stream_new(
    tokenizer: *const HbTokenizer,
    skip_special: c_int,
) -> *mut HbStream {
    match tokenizer.as_ref() {
        None => std::ptr::null_mut(),
        Some(t) => Box::into_raw(Box::new(HbStream {
            inner: t.0.clone(),
            stream: Stream::new(&t.0.kind, skip_special != 0),
        })),
    }
}

/// # Safety
/// `stream` is null or a handle that is not used again.
#[no_mangle]
pub unsafe extern "C" fn hb_stream_free(stream: *mut HbStream) {
    if !stream.is_null() {
        drop(Box::from_raw(stream));
    }
}

unsafe fn stream_answer(
    stream: *mut HbStream,
    out: *mut HbBuf,
    err: *mut HbBuf,
    f: impl FnOnce(&mut HbStream) -> Result<String, String>,
) -> c_int {
    let result = caught(|| {
        let stream = stream.as_mut().ok_or_else(|| Fail::new(BAD_ARGUMENT, "stream is null"))?;
        f(stream).map_err(|e| Fail::new(RUNTIME, format!("cannot decode: {e}")))
    });
    finish(err, result.map(|text| store(out, text.into_bytes())))
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_stream_push(
    stream: *mut HbStream,
    id: u32,
    text: *mut HbBuf,
    err: *mut HbBuf,
) -> c_int {
    stream_answer(stream, text, err, |s| s.stream.push(&s.inner.tokenizer, &s.inner.kind, id))
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_stream_finish(
    stream: *mut HbStream,
    text: *mut HbBuf,
    err: *mut HbBuf,
) -> c_int {
    stream_answer(stream, text, err, |s| s.stream.finish(&s.inner.tokenizer, &s.inner.kind))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn inner(json: &str) -> Arc<Inner> {
        Arc::new(load(json.as_bytes()).unwrap())
    }
}
