// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Reads the variables of a template as Python's json.loads does: order kept, the last of equal
//! keys wins, integers exact up to 128 bits.

use indexmap::IndexMap;
use minijinja::value::Value;

use crate::objects::Dict;

const MAX_DEPTH: usize = 200;

/// The variables; the error says what is wrong and at which byte.
pub fn read(text: &str) -> Result<IndexMap<String, Value>, String> {
    let mut reader = Reader { text, at: 0, depth: 0, parts: 0 };
    reader.space();
    if reader.peek() != Some(b'{') {
        return Err("the context must be a JSON object".to_string());
    }
    let map = reader.object().map_err(|e| format!("the context, byte {}: {e}", reader.at))?;
    reader.space();
    if reader.at != text.len() {
        return Err(format!("the context, byte {}: text after the object", reader.at));
    }
    Ok(map)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// How many values were read.
    parts: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> Result<(), String> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(format!("expected '{}'", byte as char))
    }

    fn word(&mut self, word: &str) -> bool {
        let found = self.text[self.at..].starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn enter(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        Ok(())
    }

    fn object(&mut self) -> Result<IndexMap<String, Value>, String> {
        self.enter()?;
        self.eat(b'{')?;
        let mut map = IndexMap::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
        } else {
            loop {
                self.space();
                let key = self.string()?;
                self.space();
                self.eat(b':')?;
                let value = self.value()?;
                map.insert(key, value);
                self.space();
                if self.peek() == Some(b',') {
                    self.at += 1;
                    continue;
                }
                self.eat(b'}')?;
                break;
            }
        }
        self.depth -= 1;
        Ok(map)
    }

    fn array(&mut self) -> Result<Vec<Value>, String> {
        self.enter()?;
        self.eat(b'[')?;
        let mut list = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
        } else {
            loop {
                list.push(self.value()?);
                self.space();
                if self.peek() == Some(b',') {
                    self.at += 1;
                    continue;
                }
                self.eat(b']')?;
                break;
            }
        }
        self.depth -= 1;
        Ok(list)
    }

    fn value(&mut self) -> Result<Value, String> {
        self.space();
        self.parts += 1;
        match self.peek() {
            Some(b'{') => {
                let before = self.parts;
                let entries = self.object()?;
                Ok(Value::from_object(Dict::new(entries, self.parts - before)))
            }
            Some(b'[') => Ok(Value::from(self.array()?)),
            Some(b'"') => Ok(Value::from(self.string()?)),
            _ if self.word("true") => Ok(Value::from(true)),
            _ if self.word("false") => Ok(Value::from(false)),
            _ if self.word("null") => Ok(Value::from(())),
            _ if self.word("NaN") => Ok(Value::from(f64::NAN)),
            _ if self.word("Infinity") => Ok(Value::from(f64::INFINITY)),
            _ if self.word("-Infinity") => Ok(Value::from(f64::NEG_INFINITY)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            None => Err("the text ends too early".to_string()),
            _ => Err("expected a value".to_string()),
        }
    }

    fn digits(&mut self) -> Result<usize, String> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err("expected a digit".to_string());
        }
        Ok(self.at - start)
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let zero = self.peek() == Some(b'0');
        if self.digits()? > 1 && zero {
            return Err("a number starts with 0".to_string());
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            integer = false;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = &self.text[start..self.at];
        if !integer {
            return text.parse::<f64>().map(Value::from).map_err(|e| e.to_string());
        }
        let value: i128 =
            text.parse().map_err(|_| "an integer has more than 128 bits".to_string())?;
        Ok(i64::try_from(value).map_or_else(|_| Value::from(value), Value::from))
    }

    fn unit(&mut self) -> Result<u32, String> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let unit = digits
            .filter(|d| d.iter().all(u8::is_ascii_hexdigit))
            .and_then(|d| u32::from_str_radix(std::str::from_utf8(d).ok()?, 16).ok())
            .ok_or("\\u needs four hexadecimal digits")?;
        self.at += 4;
        Ok(unit)
    }

    /// A character written as \u: a surrogate without its partner becomes U+FFFD.
    fn escaped(&mut self) -> Result<char, String> {
        let first = self.unit()?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with("\\u") {
            let before = self.at;
            self.at += 2;
            let second = self.unit()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            self.at = before;
        }
        Ok(char::from_u32(first).unwrap_or('\u{fffd}'))
    }

    fn string(&mut self) -> Result<String, String> {
        self.eat(b'"')?;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest
                .find(|c: char| c == '"' || c == '\\' || (c as u32) < 0x20)
                .ok_or("a string does not end")?;
            out.push_str(&rest[..plain]);
            self.at += plain;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let escape = self.peek().ok_or("a string does not end")?;
                    self.at += 1;
                    out.push(match escape {
                        b'"' => '"',
                        b'\\' => '\\',
                        b'/' => '/',
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'n' => '\n',
                        b'r' => '\r',
                        b't' => '\t',
                        b'u' => self.escaped()?,
                        _ => {
                            self.at -= 1;
                            return Err("a wrong escape".to_string());
                        }
                    });
                }
                _ => return Err("a control character in a string".to_string()),
            }
        }
    }
}
