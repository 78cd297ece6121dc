// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Filters on text.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use crate::args::{to_int, type_error, width, Args};
use crate::filters::Filter;
use crate::pyrepr::{self, Budget};
use crate::strmethods::{self, strip_with};

pub const FILTERS: [(&str, Filter); 16] = [
    ("capitalize", capitalize),
    ("lower", lower),
    ("replace", replace),
    ("title", title),
    ("upper", upper),
    ("center", center),
    ("e", escape),
    ("escape", escape),
    ("forceescape", force_escape),
    ("indent", indent),
    ("striptags", striptags),
    ("trim", trim),
    ("truncate", truncate),
    ("urlencode", urlencode),
    ("wordcount", wordcount),
    ("round", round),
];

fn text_of(state: &State, value: &Value) -> Result<String, Error> {
    pyrepr::text(value, &mut Budget::of(state))
}

/// The entities of markupsafe.
pub fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}

fn escape(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value.clone());
    }
    force_escape(state, value, args)
}

fn force_escape(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    Args::bind("escape", args, &[])?;
    Ok(Value::from_safe_string(escape_text(&text_of(state, value)?)))
}

/// A method of str as a filter, on the text of any value.
fn as_method(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    strmethods::call(state, &Value::from(text_of(state, value)?), name, args)
}

fn capitalize(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    as_method(state, value, "capitalize", args)
}

fn lower(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    as_method(state, value, "lower", args)
}

fn upper(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    as_method(state, value, "upper", args)
}

fn replace(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("replace", args, &["old", "new", "count"])?;
    let mut plain = vec![
        Value::from(text_of(state, args.need(0)?)?),
        Value::from(text_of(state, args.need(1)?)?),
    ];
    plain.extend(args.given(2).cloned());
    as_method(state, value, "replace", &plain)
}

/// Upper case after a space, a hyphen or an opening bracket, lower case elsewhere.
fn title(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    Args::bind("title", args, &[])?;
    let mut out = String::new();
    let mut starts = true;
    for c in text_of(state, value)?.chars() {
        if starts {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        starts = strmethods::is_space(c) || "-([{<".contains(c);
    }
    Ok(Value::from(out))
}

fn center(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("center", args, &["width"])?;
    let text = Value::from(text_of(state, value)?);
    strmethods::call(state, &text, "center", &[Value::from(args.int_or(0, 80)?)])
}

fn trim(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("trim", args, &["chars"])?;
    let chars = match args.given(0) {
        Some(_) => Some(args.text(0)?),
        None => None,
    };
    Ok(Value::from(strip_with(&text_of(state, value)?, chars, true, true)))
}

fn indent(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("indent", args, &["width", "first", "blank"])?;
    let indention = match args.get(0) {
        None => "    ".to_string(),
        Some(v) => match (v.as_str(), to_int(v)) {
            (Some(text), _) => text.to_string(),
            (None, Some(count)) => " ".repeat(width(count)?),
            _ => return Err(type_error("indent width must be an integer or a string")),
        },
    };
    let mut budget = Budget::of(state);
    let text = Value::from(text_of(state, value)? + "\n");
    let lines = strmethods::call(state, &text, "splitlines", &[])?;
    let mut out = String::new();
    for (at, line) in lines.try_iter()?.enumerate() {
        let line = line.as_str().unwrap_or_default();
        budget.spend(line.len() + indention.len() + 1)?;
        if at > 0 {
            out.push('\n');
        }
        let wanted =
            if at == 0 { args.flag(1, false) } else { args.flag(2, false) || !line.is_empty() };
        if wanted {
            out.push_str(&indention);
        }
        out.push_str(line);
    }
    Ok(Value::from(out))
}

fn truncate(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("truncate", args, &["length", "killwords", "end", "leeway"])?;
    let length = args.int_or(0, 255)?;
    let end = args.text_or(2, "...")?;
    let leeway = match args.given(3) {
        Some(_) => args.int(3)?,
        None => 5,
    };
    let text = text_of(state, value)?;
    let end_length = end.chars().count() as i64;
    if length < end_length {
        return Err(type_error(format!("expected length >= {end_length}, got {length}")));
    }
    if leeway < 0 {
        return Err(type_error(format!("expected leeway >= 0, got {leeway}")));
    }
    if text.chars().count() as i64 <= length.saturating_add(leeway) {
        return Ok(Value::from(text));
    }
    let cut: String = text.chars().take((length - end_length) as usize).collect();
    let kept = if args.flag(1, false) {
        cut.as_str()
    } else {
        cut.rsplit_once(' ').map_or(cut.as_str(), |(before, _)| before)
    };
    Ok(Value::from(format!("{kept}{end}")))
}

fn wordcount(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    Args::bind("wordcount", args, &[])?;
    let text = text_of(state, value)?;
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    Ok(Value::from(words.filter(|w| !w.is_empty()).count()))
}

/// Drops comments and tags, joins white space, resolves the common entities.
fn striptags(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    Args::bind("striptags", args, &[])?;
    let text = text_of(state, value)?;
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(open) = rest.find('<') {
        let (end, mark) = if rest[open..].starts_with("<!--") {
            (rest[open..].find("-->"), 3)
        } else {
            (rest[open..].find('>'), 1)
        };
        let Some(end) = end else { break };
        out.push_str(&rest[..open]);
        rest = &rest[open + end + mark..];
    }
    out.push_str(rest);
    let words: Vec<&str> = out.split(strmethods::is_space).filter(|w| !w.is_empty()).collect();
    let mut joined = words.join(" ");
    for (entity, c) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#34;", "\""),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ] {
        joined = joined.replace(entity, c);
    }
    Ok(Value::from(joined))
}

fn quote(text: &str, in_query: bool, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                out.push(byte as char)
            }
            b'/' if !in_query => out.push('/'),
            b' ' if in_query => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

fn urlencode(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    Args::bind("urlencode", args, &[])?;
    let mut out = String::new();
    let pairs: Vec<(Value, Value)> = match value.kind() {
        ValueKind::Map => {
            value.as_object().and_then(|o| o.try_iter_pairs()).into_iter().flatten().collect()
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let mut pairs = Vec::new();
            for item in value.try_iter()? {
                pairs.push((item.get_item_by_index(0)?, item.get_item_by_index(1)?));
            }
            pairs
        }
        _ => {
            quote(&text_of(state, value)?, false, &mut out);
            return Ok(Value::from(out));
        }
    };
    for (at, (key, item)) in pairs.iter().enumerate() {
        if at > 0 {
            out.push('&');
        }
        quote(&text_of(state, key)?, true, &mut out);
        out.push('=');
        quote(&text_of(state, item)?, true, &mut out);
    }
    Ok(Value::from(out))
}

/// round(value, precision, method), on the decimal text as Python rounds.
fn round(_: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("round", args, &["precision", "method"])?;
    let precision = args.int_or(0, 0)?.clamp(-400, 400) as i32;
    let method = args.text_or(1, "common")?;
    if !["common", "ceil", "floor"].contains(&method) {
        return Err(type_error("method must be common, ceil or floor"));
    }
    let number = crate::printf::to_float(value)
        .ok_or_else(|| type_error(format!("cannot round {}", pyrepr::type_name(value))))?;
    if method != "common" {
        let scale = 10f64.powi(precision);
        let scaled = number * scale;
        let whole = if method == "ceil" { scaled.ceil() } else { scaled.floor() };
        return Ok(Value::from(whole / scale));
    }
    if value.is_integer() && precision >= 0 {
        return Ok(value.clone());
    }
    let rounded = if precision >= 0 {
        format!("{number:.width$}", width = precision as usize).parse().unwrap_or(number)
    } else {
        let scale = 10f64.powi(-precision);
        (number / scale).round_ties_even() * scale
    };
    if value.is_integer() {
        return Ok(Value::from(rounded as i64));
    }
    Ok(Value::from(rounded))
}
