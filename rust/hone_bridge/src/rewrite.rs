// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Changes a template, before it is compiled, where the engine's syntax is narrower than jinja2's:
//! the generation tag of Transformers, the newline after {% raw %}, and unary plus.

/// The longest tag of 74 model templates has 60 tokens. The engine's parser recurses, so a tag
/// must not be endless.
const MAX_TOKENS: usize = 4000;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Text,
    Name,
    Number,
    Symbol,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    kind: Kind,
    start: usize,
    end: usize,
}

struct Tag {
    tokens: Vec<Token>,
    /// Where the end mark starts, its '-' or '+' included, and where the tag ends.
    close: usize,
    end: usize,
}

/// The template with '\n' as its only line end, rewritten. The error is a limit.
pub fn rewrite(source: &str) -> Result<String, String> {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = String::with_capacity(source.len() + 64);
    let mut at = 0;
    while let Some(open) = find_open(&source, at) {
        out.push_str(&source[at..open]);
        if source[open..].starts_with("{#") {
            let Some(length) = source[open + 2..].find("#}") else {
                at = open;
                break;
            };
            at = open + 2 + length + 2;
            out.push_str(&source[open..at]);
            continue;
        }
        let is_block = source[open..].starts_with("{%");
        let Some(tag) = read_tag(&source, open, is_block)? else {
            at = open;
            break;
        };
        at = tag.end;
        let word = match tag.tokens.as_slice() {
            [one] if is_block => &source[one.start..one.end],
            _ => "",
        };
        match word {
            "generation" | "endgeneration" => {
                let word_at = tag.tokens[0];
                out.push_str(&source[open..word_at.start]);
                out.push_str(if word == "generation" { "with" } else { "endwith" });
                out.push_str(&source[word_at.end..at]);
            }
            "raw" => {
                out.push_str(&source[open..at]);
                // The engine drops a newline here, jinja2 keeps it.
                if !source[tag.close..].starts_with('-') && source[at..].starts_with('\n') {
                    out.push('\n');
                }
                let end = find_endraw(&source, at);
                out.push_str(&source[at..end]);
                at = end;
            }
            _ => {
                let writer = Writer { source: &source, tokens: &tag.tokens };
                let mut copied = open;
                for (number, token) in tag.tokens.iter().enumerate() {
                    if writer.is_unary_plus(number) {
                        out.push_str(&source[copied..token.start]);
                        copied = token.end;
                    }
                }
                out.push_str(&source[copied..at]);
            }
        }
    }
    out.push_str(&source[at..]);
    Ok(out)
}

fn find_open(source: &str, from: usize) -> Option<usize> {
    let bytes = source.as_bytes();
    (from..bytes.len().saturating_sub(1))
        .find(|i| bytes[*i] == b'{' && matches!(bytes[*i + 1], b'{' | b'%' | b'#'))
}

/// The tag that starts at `open`, or nothing if it has no end: the engine then reports it.
fn read_tag(source: &str, open: usize, is_block: bool) -> Result<Option<Tag>, String> {
    let bytes = source.as_bytes();
    let close_mark: &[u8] = if is_block { b"%}" } else { b"}}" };
    let mut tokens = Vec::new();
    let mut depth = 0i64;
    let mut at = open + 2;
    if matches!(bytes.get(at), Some(b'-' | b'+')) {
        at += 1;
    }
    while at < bytes.len() {
        if depth == 0 {
            if bytes[at..].starts_with(close_mark) {
                return Ok(Some(Tag { tokens, close: at, end: at + 2 }));
            }
            if matches!(bytes[at], b'-' | b'+') && bytes[at + 1..].starts_with(close_mark) {
                return Ok(Some(Tag { tokens, close: at, end: at + 3 }));
            }
        }
        let start = at;
        let kind = match bytes[at] {
            b' ' | b'\t' | b'\n' => {
                at += 1;
                continue;
            }
            quote @ (b'\'' | b'"') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                if at >= bytes.len() {
                    return Ok(None);
                }
                at += 1;
                Kind::Text
            }
            b'0'..=b'9' => {
                at += 1;
                while at < bytes.len() && is_number_part(bytes, at) {
                    at += 1;
                }
                Kind::Number
            }
            b if b == b'_' || b.is_ascii_alphabetic() || b >= 0x80 => {
                while at < bytes.len()
                    && (bytes[at] == b'_' || bytes[at].is_ascii_alphanumeric() || bytes[at] >= 0x80)
                {
                    at += 1;
                }
                Kind::Name
            }
            symbol => {
                match symbol {
                    b'(' | b'[' | b'{' => depth += 1,
                    b')' | b']' | b'}' => depth -= 1,
                    _ => {}
                }
                let double = matches!(bytes[at..], [b'*', b'*', ..] | [b'/', b'/', ..]);
                at += if double { 2 } else { 1 };
                Kind::Symbol
            }
        };
        tokens.push(Token { kind, start, end: at });
        if tokens.len() > MAX_TOKENS {
            let line = source[..open].matches('\n').count() + 1;
            return Err(format!("line {line}: a tag has more than {MAX_TOKENS} tokens"));
        }
    }
    Ok(None)
}

/// Digits, and the dot or exponent of a float: `1.5e-3`, but not the dots of `x[1].a`.
fn is_number_part(bytes: &[u8], at: usize) -> bool {
    match bytes[at] {
        b'_' => true,
        b if b.is_ascii_alphanumeric() => true,
        b'.' => bytes.get(at + 1).is_some_and(u8::is_ascii_digit),
        b'+' | b'-' => matches!(bytes[at - 1], b'e' | b'E'),
        _ => false,
    }
}

/// The end of the raw text that starts at `from`, its end tag included.
fn find_endraw(source: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(found) = source[at..].find("{%") {
        let inner = at + found + 2;
        let rest = source[inner..].trim_start_matches(['-', '+']).trim_start();
        if let Some(rest) = rest.strip_prefix("endraw") {
            let rest = rest.trim_start().trim_start_matches(['-', '+']);
            if rest.starts_with("%}") {
                return source.len() - rest.len() + 2;
            }
        }
        at = inner;
    }
    source.len()
}

struct Writer<'a> {
    source: &'a str,
    tokens: &'a [Token],
}

impl Writer<'_> {
    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |t| &self.source[t.start..t.end])
    }

    fn is(&self, at: usize, kind: Kind) -> bool {
        self.tokens.get(at).is_some_and(|t| t.kind == kind)
    }

    /// The engine has no unary plus.
    fn is_unary_plus(&self, at: usize) -> bool {
        const WORDS: [&str; 8] = ["and", "else", "if", "in", "is", "not", "or", "elif"];
        if self.text(at) != "+" {
            return false;
        }
        match at.checked_sub(1) {
            None => true,
            Some(before) if self.is(before, Kind::Symbol) => {
                !matches!(self.text(before), ")" | "]" | "}")
            }
            Some(before) => WORDS.contains(&self.text(before)),
        }
    }
}
