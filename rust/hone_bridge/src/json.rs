// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! json.dumps as Python writes it: the tojson filter.

use minijinja::value::{ObjectRepr, Value, ValueKind};
use minijinja::Error;

use crate::args::type_error;
use crate::pyrepr::{float, type_name, Budget};

pub struct Style {
    pub ascii: bool,
    pub indent: Option<String>,
    pub item_separator: String,
    pub key_separator: String,
    pub sort_keys: bool,
}

pub fn dumps(value: &Value, style: &Style, budget: &mut Budget) -> Result<String, Error> {
    let mut writer = Writer { out: String::new(), style, budget };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer<'a> {
    out: String,
    style: &'a Style,
    budget: &'a mut Budget,
}

impl Writer<'_> {
    fn put(&mut self, text: &str) -> Result<(), Error> {
        self.budget.spend(text.len())?;
        self.out.push_str(text);
        Ok(())
    }

    fn newline(&mut self, depth: usize) -> Result<(), Error> {
        let Some(indent) = &self.style.indent else { return Ok(()) };
        self.budget.spend(1 + indent.len() * depth)?;
        self.out.push('\n');
        for _ in 0..depth {
            self.out.push_str(indent);
        }
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), Error> {
        self.budget.spend(text.len() + 2)?;
        let out = &mut self.out;
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
                c if self.style.ascii && !(' '..='~').contains(&c) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
        Ok(())
    }

    fn number(value: &Value) -> String {
        if value.is_integer() {
            return value.to_string();
        }
        match f64::try_from(value.clone()) {
            Ok(v) if v.is_nan() => "NaN".to_string(),
            Ok(v) if v.is_infinite() && v > 0.0 => "Infinity".to_string(),
            Ok(v) if v.is_infinite() => "-Infinity".to_string(),
            Ok(v) => float(v),
            Err(_) => value.to_string(),
        }
    }

    fn key(value: &Value) -> Result<String, Error> {
        match value.kind() {
            ValueKind::String => Ok(value.as_str().unwrap_or_default().to_string()),
            ValueKind::Bool => Ok(if value.is_true() { "true" } else { "false" }.to_string()),
            ValueKind::None => Ok("null".to_string()),
            ValueKind::Number => Ok(Writer::number(value)),
            _ => Err(type_error(format!(
                "keys must be str, int, float, bool or None, not {}",
                type_name(value)
            ))),
        }
    }

    fn map(&mut self, mut pairs: Vec<(Value, Value)>, depth: usize) -> Result<(), Error> {
        if pairs.is_empty() {
            return self.put("{}");
        }
        if self.style.sort_keys {
            let kinds: Vec<_> = pairs.iter().map(|(key, _)| key.kind()).collect();
            if kinds.iter().any(|k| *k != kinds[0]) {
                return Err(type_error("'<' not supported between keys of different types"));
            }
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
        }
        self.put("{")?;
        for (at, (key, value)) in pairs.iter().enumerate() {
            if at > 0 {
                self.put(&self.style.item_separator)?;
            }
            self.newline(depth + 1)?;
            self.string(&Writer::key(key)?)?;
            self.put(&self.style.key_separator)?;
            self.value(value, depth + 1)?;
        }
        self.newline(depth)?;
        self.put("}")
    }

    fn list(&mut self, values: Vec<Value>, depth: usize) -> Result<(), Error> {
        if values.is_empty() {
            return self.put("[]");
        }
        self.put("[")?;
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.put(&self.style.item_separator)?;
            }
            self.newline(depth + 1)?;
            self.value(value, depth + 1)?;
        }
        self.newline(depth)?;
        self.put("]")
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.put("null"),
            ValueKind::Bool => self.put(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.put(&Writer::number(value)),
            ValueKind::String => self.string(value.as_str().unwrap_or_default()),
            _ => {
                let object = value.as_object();
                match object.map(|o| (o, o.repr())) {
                    Some((o, ObjectRepr::Map)) => {
                        self.map(o.try_iter_pairs().into_iter().flatten().collect(), depth)
                    }
                    Some((o, ObjectRepr::Seq | ObjectRepr::Iterable)) => {
                        self.list(o.try_iter().into_iter().flatten().collect(), depth)
                    }
                    _ => Err(type_error(format!(
                        "Object of type {} is not JSON serializable",
                        type_name(value)
                    ))),
                }
            }
        }
    }
}
