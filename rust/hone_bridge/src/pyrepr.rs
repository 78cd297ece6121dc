// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! str() and repr() of values as Python prints them.

use minijinja::value::{ObjectRepr, Value, ValueKind};
use minijinja::{Error, State};

use crate::args::limit_error;
use crate::objects::{BoundMethod, View};

/// How much text may still be made. A small value can print as a huge text when it holds another
/// one many times.
pub struct Budget(u64);

impl Budget {
    /// What the fuel that is left pays for; the engine charges for the text once it exists.
    pub fn of(state: &State) -> Budget {
        let fuel = state.fuel_levels().map_or(u64::MAX, |(_, remaining)| remaining);
        Budget(fuel.saturating_mul(4).saturating_add(64))
    }

    pub fn spend(&mut self, amount: usize) -> Result<(), Error> {
        match self.0.checked_sub(amount as u64) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(limit_error()),
        }
    }
}

/// The name of the type in Python.
pub fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Bytes => "bytes",
        ValueKind::Seq if value.is_tuple() => "tuple",
        ValueKind::Seq => "list",
        ValueKind::Map => "dict",
        ValueKind::Iterable => match value.downcast_object_ref::<View>() {
            Some(view) => view.type_name(),
            None => "generator",
        },
        _ => "object",
    }
}

/// repr(float): the shortest digits that read back, with an exponent outside 1e-4 .. 1e16.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_string();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.to_string();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Whether repr() shows a character as it is.
pub fn printable(c: char) -> bool {
    if c == ' ' || c.is_ascii_graphic() {
        return true;
    }
    if c.is_ascii() {
        return false;
    }
    // The standard library escapes what is not printable, and combining marks that stand first.
    let text: String = ['a', c].iter().collect();
    text.escape_debug().count() == 2
}

pub fn string(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if printable(c) => out.push(c),
            c => {
                let code = c as u32;
                out.push_str(&match code {
                    0..=0xff => format!("\\x{code:02x}"),
                    0x100..=0xffff => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                });
            }
        }
    }
    out.push(quote);
}

fn items(
    out: &mut String,
    open: &str,
    close: &str,
    values: impl Iterator<Item = Value>,
    budget: &mut Budget,
) -> Result<usize, Error> {
    out.push_str(open);
    let mut count = 0;
    for value in values {
        budget.spend(2)?;
        if count > 0 {
            out.push_str(", ");
        }
        repr(&value, out, budget)?;
        count += 1;
    }
    if count == 1 && open == "(" {
        out.push(',');
    }
    out.push_str(close);
    Ok(count)
}

fn object(value: &Value, out: &mut String, budget: &mut Budget) -> Result<(), Error> {
    let Some(object) = value.as_object() else { return Ok(()) };
    match object.repr() {
        ObjectRepr::Map => {
            out.push('{');
            for (at, (key, item)) in object.try_iter_pairs().into_iter().flatten().enumerate() {
                budget.spend(4)?;
                if at > 0 {
                    out.push_str(", ");
                }
                repr(&key, out, budget)?;
                out.push_str(": ");
                repr(&item, out, budget)?;
            }
            out.push('}');
        }
        ObjectRepr::Seq => {
            let (open, close) = if value.is_tuple() { ("(", ")") } else { ("[", "]") };
            items(out, open, close, object.try_iter().into_iter().flatten(), budget)?;
        }
        ObjectRepr::Iterable if value.downcast_object_ref::<View>().is_some() => {
            out.push_str(type_name(value));
            items(out, "([", "])", object.try_iter().into_iter().flatten(), budget)?;
        }
        ObjectRepr::Iterable if object.enumerator_len().is_some() => {
            items(out, "[", "]", object.try_iter().into_iter().flatten(), budget)?;
        }
        _ => match value.downcast_object_ref::<BoundMethod>() {
            Some(method) => out.push_str(&method.describe()),
            None => out.push_str(&value.to_string()),
        },
    }
    Ok(())
}

/// repr(value).
pub fn repr(value: &Value, out: &mut String, budget: &mut Budget) -> Result<(), Error> {
    let before = out.len();
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::String => string(value.as_str().unwrap_or_default(), out),
        ValueKind::Number if !value.is_integer() => {
            out.push_str(&float(f64::try_from(value.clone()).unwrap_or(f64::NAN)))
        }
        ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::Bytes => {
            out.push_str(&value.to_string())
        }
        // The parts of a container pay for themselves.
        _ => return object(value, out, budget),
    }
    budget.spend(out.len() - before)
}

/// str(value). Undefined prints as nothing.
pub fn text(value: &Value, budget: &mut Budget) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_string());
    }
    let mut out = String::new();
    if !value.is_undefined() {
        repr(value, &mut out, budget)?;
    }
    Ok(out)
}
