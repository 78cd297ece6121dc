// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Ids to text, token by token: how the decoder of a tokenizer maps pieces to bytes, and streams
//! that never split a UTF-8 sequence.

use serde_json::Value as Json;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::Tokenizer;

/// What the decoder of a file does, as far as it can be done piece by piece.
#[derive(Debug, Clone)]
pub enum Kind {
    /// The 256-character map of GPT-2.
    ByteLevel,
    /// Text replacements, `<0xNN>` bytes, then up to `strip` leading characters dropped.
    Replacing { replaces: Vec<(String, String)>, byte_fallback: bool, strip: Option<(char, usize)> },
    /// Metaspace: the mark becomes a space, or nothing in the first token.
    Metaspace { mark: char, drop_first: bool },
    /// No decoder: tokens joined by spaces.
    Joined,
    /// Anything else: decode a window again and again.
    Other,
}

impl Kind {
    pub fn of(tokenizer: &Tokenizer) -> Kind {
        let Some(decoder) = tokenizer.get_decoder() else { return Kind::Joined };
        if let DecoderWrapper::ByteLevel(_) = decoder {
            return Kind::ByteLevel;
        }
        serde_json::to_value(decoder).ok().and_then(|json| Kind::read(&json)).unwrap_or(Kind::Other)
    }

    fn read(json: &Json) -> Option<Kind> {
        match json["type"].as_str()? {
            "Metaspace" => Some(Kind::Metaspace {
                mark: json["replacement"].as_str()?.chars().next()?,
                drop_first: json["prepend_scheme"] != "never",
            }),
            "Sequence" => Kind::read_sequence(json["decoders"].as_array()?),
            _ => None,
        }
    }

    /// Replace..., ByteFallback?, Fuse?, Strip?: what SentencePiece models carry.
    fn read_sequence(decoders: &[Json]) -> Option<Kind> {
        if let [one] = decoders {
            if one["type"] == "ByteLevel" {
                return Some(Kind::ByteLevel);
            }
        }
        let mut replaces = Vec::new();
        let mut byte_fallback = false;
        let mut fused = false;
        let mut strip = None;
        for decoder in decoders {
            match decoder["type"].as_str()? {
                "Replace" if !byte_fallback && !fused => replaces.push((
                    decoder["pattern"]["String"].as_str()?.to_string(),
                    decoder["content"].as_str()?.to_string(),
                )),
                "ByteFallback" if !byte_fallback && !fused => byte_fallback = true,
                "Fuse" if !fused => fused = true,
                "Strip" if fused && strip.is_none() && decoder["stop"] == 0 => {
                    let start = usize::try_from(decoder["start"].as_u64()?).ok()?;
                    strip = Some((decoder["content"].as_str()?.chars().next()?, start));
                }
                _ => return None,
            }
        }
        if replaces.iter().any(|(from, _)| from.is_empty()) {
            return None;
        }
        Some(Kind::Replacing { replaces, byte_fallback, strip })
    }

    /// The bytes that a piece stands for.
    pub fn bytes(&self, piece: &str) -> Vec<u8> {
        match self {
            Kind::ByteLevel => byte_level(piece),
            Kind::Replacing { replaces, byte_fallback, .. } => {
                let mut text = piece.to_string();
                for (from, to) in replaces {
                    text = text.replace(from.as_str(), to);
                }
                match fallback_byte(&text) {
                    Some(byte) if *byte_fallback => vec![byte],
                    _ => text.into_bytes(),
                }
            }
            Kind::Metaspace { mark, .. } => piece.replace(*mark, " ").into_bytes(),
            Kind::Joined | Kind::Other => piece.as_bytes().to_vec(),
        }
    }
}

/// A piece with a character outside the map stands for its own UTF-8.
fn byte_level(piece: &str) -> Vec<u8> {
    let mapped: Option<Vec<u8>> = piece.chars().map(byte_of_char).collect();
    mapped.unwrap_or_else(|| piece.as_bytes().to_vec())
}

/// The inverse of GPT-2's map: printable bytes stand for themselves, the other 68 follow from 256.
fn byte_of_char(c: char) -> Option<u8> {
    let code = c as u32;
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8),
        0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

fn fallback_byte(piece: &str) -> Option<u8> {
    let hex = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() != 2 {
        return None;
    }
    u8::from_str_radix(hex, 16).ok()
}

/// Text that comes out as ids go in.
pub struct Stream {
    skip_special: bool,
    state: State,
}

enum State {
    Bytes { held: Vec<u8>, seen: usize, strip_left: usize },
    Window { ids: Vec<u32>, prefix: String, prefix_index: usize },
}

impl Stream {
    pub fn new(kind: &Kind, skip_special: bool) -> Stream {
        let state = match kind {
            Kind::Other => {
                State::Window { ids: Vec::new(), prefix: String::new(), prefix_index: 0 }
            }
            Kind::Replacing { strip: Some((_, count)), .. } => {
                State::Bytes { held: Vec::new(), seen: 0, strip_left: *count }
            }
            _ => State::Bytes { held: Vec::new(), seen: 0, strip_left: 0 },
        };
        Stream { skip_special, state }
    }

    pub fn push(&mut self, tokenizer: &Tokenizer, kind: &Kind, id: u32) -> Result<String, String> {
        let skip_special = self.skip_special;
        match &mut self.state {
            State::Window { ids, prefix, prefix_index } => tokenizers::step_decode_stream(
                tokenizer,
                vec![id],
                skip_special,
                ids,
                prefix,
                prefix_index,
            )
            .map(Option::unwrap_or_default)
            .map_err(|e| e.to_string()),
            State::Bytes { held, seen, strip_left } => {
                let added = tokenizer.get_added_vocabulary();
                let piece = match tokenizer.id_to_token(id) {
                    Some(piece) if !skip_special || !added.is_special_token(&piece) => piece,
                    _ => return Ok(String::new()),
                };
                match kind {
                    Kind::Metaspace { mark, drop_first: true } if *seen == 0 => {
                        held.extend(piece.replace(*mark, "").bytes())
                    }
                    Kind::Joined if *seen > 0 => {
                        held.push(b' ');
                        held.extend(piece.bytes());
                    }
                    _ => held.extend(kind.bytes(&piece)),
                }
                *seen += 1;
                let text = take_valid(held);
                Ok(strip_start(kind, strip_left, text))
            }
        }
    }

    pub fn finish(&mut self, tokenizer: &Tokenizer, kind: &Kind) -> Result<String, String> {
        match &mut self.state {
            State::Window { ids, prefix, .. } => {
                let text = tokenizer.decode(ids, self.skip_special).map_err(|e| e.to_string())?;
                let rest = text.strip_prefix(prefix.as_str()).unwrap_or_default().to_string();
                ids.clear();
                prefix.clear();
                Ok(rest)
            }
            State::Bytes { held, strip_left, .. } => {
                let text = String::from_utf8_lossy(held).into_owned();
                held.clear();
                Ok(strip_start(kind, strip_left, text))
            }
        }
    }
}

fn strip_start(kind: &Kind, left: &mut usize, text: String) -> String {
    let Kind::Replacing { strip: Some((mark, _)), .. } = kind else { return text };
    let mut rest = text.as_str();
    while *left > 0 && !rest.is_empty() {
        match rest.strip_prefix(*mark) {
            Some(shorter) => {
                rest = shorter;
                *left -= 1;
            }
            None => *left = 0,
        }
    }
    rest.to_string()
}

/// Moves everything out of `held` that is decided: valid text, and U+FFFD for bytes that no later
/// byte can complete. At most three bytes stay.
fn take_valid(held: &mut Vec<u8>) -> String {
    let mut text = String::new();
    let mut start = 0;
    loop {
        match std::str::from_utf8(&held[start..]) {
            Ok(valid) => {
                text.push_str(valid);
                start = held.len();
                break;
            }
            Err(e) => {
                let end = start + e.valid_up_to();
                text.push_str(&String::from_utf8_lossy(&held[start..end]));
                match e.error_len() {
                    Some(bad) => {
                        text.push('\u{fffd}');
                        start = end + bad;
                    }
                    None => {
                        start = end;
                        break;
                    }
                }
            }
        }
    }
    held.drain(..start);
    text
}
