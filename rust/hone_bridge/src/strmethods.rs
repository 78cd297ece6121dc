// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Methods of str.

use minijinja::formatting::FormatStyle;
use minijinja::value::{Tuple, Value};
use minijinja::{Error, ErrorKind, State};

use crate::args::{limit_error, type_error, width, Args};
use crate::pyrepr::type_name;

/// What Python counts as white space.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Where str.splitlines ends a line.
fn is_line_end(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// The first of ten decimal digits in each script (Unicode 15).
const DIGIT_ZEROS: [u32; 66] = [
    0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66,
    0xde6, 0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90,
    0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10,
    0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650,
    0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50,
    0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
];
/// Digits that are not decimal: superscripts, circled digits and so on.
const OTHER_DIGITS: [(u32, u32); 20] = [
    (0xb2, 0xb3),
    (0xb9, 0xb9),
    (0x1369, 0x1371),
    (0x19da, 0x19da),
    (0x2070, 0x2070),
    (0x2074, 0x2079),
    (0x2080, 0x2089),
    (0x2460, 0x2468),
    (0x2474, 0x247c),
    (0x2488, 0x2490),
    (0x24ea, 0x24ea),
    (0x24f5, 0x24fd),
    (0x24ff, 0x24ff),
    (0x2776, 0x277e),
    (0x2780, 0x2788),
    (0x278a, 0x2792),
    (0x10a40, 0x10a43),
    (0x10e60, 0x10e68),
    (0x11052, 0x1105a),
    (0x1f100, 0x1f10a),
];

fn is_decimal(c: char) -> bool {
    let code = c as u32;
    DIGIT_ZEROS.iter().any(|zero| (*zero..zero + 10).contains(&code))
}

fn is_digit(c: char) -> bool {
    is_decimal(c) || OTHER_DIGITS.iter().any(|(a, b)| (*a..=*b).contains(&(c as u32)))
}

pub fn call(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let text = value.as_str().unwrap_or_default();
    match name {
        "strip" | "lstrip" | "rstrip" => strip(text, name, args),
        "split" | "rsplit" => split(text, name, args),
        "splitlines" => split_lines(text, args),
        "startswith" | "endswith" => affix(text, name, args),
        "find" | "rfind" | "index" | "rindex" | "count" => find(text, name, args),
        "replace" => replace(state, text, args),
        "join" => join(state, text, args),
        "partition" | "rpartition" => partition(text, name, args),
        "removeprefix" | "removesuffix" => {
            let args = Args::bind(name, args, &["affix"])?;
            let affix = args.text(0)?;
            let cut = if name == "removeprefix" {
                text.strip_prefix(affix)
            } else {
                text.strip_suffix(affix)
            };
            Ok(Value::from(cut.unwrap_or(text)))
        }
        "ljust" | "rjust" | "center" | "zfill" => pad(text, name, args),
        "expandtabs" => expand_tabs(text, args),
        "format" => format(text, args),
        _ => {
            if let Some(changed) = change_case(text, name) {
                Args::bind(name, args, &[])?;
                return Ok(Value::from(changed));
            }
            if let Some(answer) = question(text, name) {
                Args::bind(name, args, &[])?;
                return Ok(Value::from(answer));
            }
            Err(Error::from(ErrorKind::UnknownMethod))
        }
    }
}

pub fn strip_with(text: &str, chars: Option<&str>, left: bool, right: bool) -> String {
    let drop = |c: char| chars.map_or(is_space(c), |set| set.contains(c));
    let mut rest = text;
    if left {
        rest = rest.trim_start_matches(drop);
    }
    if right {
        rest = rest.trim_end_matches(drop);
    }
    rest.to_string()
}

fn strip(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind(name, args, &["chars"])?;
    let chars = match args.given(0) {
        Some(_) => Some(args.text(0)?),
        None => None,
    };
    Ok(Value::from(strip_with(text, chars, name != "rstrip", name != "lstrip")))
}

fn split(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind(name, args, &["sep", "maxsplit"])?;
    let limit = usize::try_from(args.int_or(1, -1)?).unwrap_or(usize::MAX);
    let from_right = name == "rsplit";
    let parts: Vec<Value> = match args.given(0) {
        Some(_) => {
            let separator = args.text(0)?;
            if separator.is_empty() {
                return Err(type_error("empty separator"));
            }
            let most = limit.saturating_add(1);
            if from_right {
                let mut parts: Vec<Value> =
                    text.rsplitn(most, separator).map(Value::from).collect();
                parts.reverse();
                parts
            } else {
                text.splitn(most, separator).map(Value::from).collect()
            }
        }
        None => split_space(text, limit, from_right),
    };
    Ok(Value::from(parts))
}

fn split_space(text: &str, limit: usize, from_right: bool) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        rest = if from_right {
            rest.trim_end_matches(is_space)
        } else {
            rest.trim_start_matches(is_space)
        };
        if rest.is_empty() {
            break;
        }
        if parts.len() == limit {
            let last = if from_right { rest.trim_end_matches(is_space) } else { rest };
            parts.push(Value::from(last));
            break;
        }
        if from_right {
            let start = rest
                .rfind(is_space)
                .map_or(0, |at| at + rest[at..].chars().next().map_or(1, char::len_utf8));
            parts.push(Value::from(&rest[start..]));
            rest = &rest[..start];
        } else {
            let end = rest.find(is_space).unwrap_or(rest.len());
            parts.push(Value::from(&rest[..end]));
            rest = &rest[end..];
        }
    }
    if from_right {
        parts.reverse();
    }
    parts
}

fn split_lines(text: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("splitlines", args, &["keepends"])?;
    let keep = args.flag(0, false);
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_line_end) {
        let mark = if rest[at..].starts_with("\r\n") {
            2
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };
        lines.push(Value::from(&rest[..if keep { at + mark } else { at }]));
        rest = &rest[at + mark..];
    }
    if !rest.is_empty() {
        lines.push(Value::from(rest));
    }
    Ok(Value::from(lines))
}

/// The range of the arguments start and stop, which are the second and the third.
pub fn bounds(args: &Args, length: usize) -> Result<(usize, usize), Error> {
    let place = |at: usize, fallback: usize| -> Result<usize, Error> {
        if args.given(at).is_none() {
            return Ok(fallback);
        }
        let value = args.int(at)?;
        let from_end = if value < 0 { value.saturating_add(length as i64) } else { value };
        Ok(usize::try_from(from_end).unwrap_or(0).min(length))
    };
    Ok((place(1, 0)?, place(2, length)?))
}

/// The part of the text from start to stop, in characters, and the start; nothing if start lies
/// behind the text or behind stop.
fn part<'a>(text: &'a str, args: &Args) -> Result<Option<(&'a str, usize)>, Error> {
    if args.given(1).is_none() && args.given(2).is_none() {
        return Ok(Some((text, 0)));
    }
    let length = text.chars().count();
    if args.given(1).is_some() && args.int(1)? > length as i64 {
        return Ok(None);
    }
    let (start, stop) = bounds(args, length)?;
    if start > stop {
        return Ok(None);
    }
    let byte = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    Ok(Some((&text[byte(start)..byte(stop)], start)))
}

fn affix(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind(name, args, &["affix", "start", "end"])?;
    let affix = args.need(0)?;
    let options: Vec<Value> =
        if affix.is_tuple() { affix.try_iter()?.collect() } else { vec![affix.clone()] };
    let part = part(text, &args)?;
    for option in options {
        let wanted = option.as_str().ok_or_else(|| {
            type_error(format!(
                "{name} first arg must be str or a tuple of str, not {}",
                type_name(&option)
            ))
        })?;
        let found = part.is_some_and(|(part, _)| {
            if name == "startswith" {
                part.starts_with(wanted)
            } else {
                part.ends_with(wanted)
            }
        });
        if found {
            return Ok(Value::from(true));
        }
    }
    Ok(Value::from(false))
}

fn find(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind(name, args, &["sub", "start", "end"])?;
    let wanted = args.text(0)?;
    let part = part(text, &args)?;
    if name == "count" {
        let count = part.map_or(0, |(part, _)| part.matches(wanted).count());
        return Ok(Value::from(count));
    }
    let found = part.and_then(|(part, start)| {
        let byte = if name.starts_with('r') { part.rfind(wanted) } else { part.find(wanted) };
        byte.map(|at| start + part[..at].chars().count())
    });
    match found {
        Some(at) => Ok(Value::from(at)),
        None if name.ends_with("index") => Err(type_error("substring not found")),
        None => Ok(Value::from(-1)),
    }
}

/// Refuses a result that the fuel cannot pay for, before it is made.
fn afford(state: &State, bytes: usize) -> Result<(), Error> {
    let fuel = state.fuel_levels().map_or(u64::MAX, |(_, remaining)| remaining);
    if bytes as u64 / 64 > fuel {
        return Err(limit_error());
    }
    Ok(())
}

fn replace(state: &State, text: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("replace", args, &["old", "new", "count"])?;
    let (old, new) = (args.text(0)?, args.text(1)?);
    let count = usize::try_from(args.int_or(2, -1)?).unwrap_or(usize::MAX);
    let matches = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
    afford(state, text.len().saturating_add(matches.min(count).saturating_mul(new.len())))?;
    Ok(Value::from(text.replacen(old, new, count)))
}

fn join(state: &State, text: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("join", args, &["iterable"])?;
    let mut out = String::new();
    for (at, item) in args.need(0)?.try_iter()?.enumerate() {
        let item_text = item.as_str().ok_or_else(|| {
            type_error(format!(
                "sequence item {at}: expected str instance, {} found",
                type_name(&item)
            ))
        })?;
        afford(state, out.len() + text.len() + item_text.len())?;
        if at > 0 {
            out.push_str(text);
        }
        out.push_str(item_text);
    }
    Ok(Value::from(out))
}

fn partition(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind(name, args, &["sep"])?;
    let separator = args.text(0)?;
    if separator.is_empty() {
        return Err(type_error("empty separator"));
    }
    let last = name == "rpartition";
    let cut = if last { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match cut {
        Some((before, after)) => [before, separator, after],
        None if last => ["", "", text],
        None => [text, "", ""],
    };
    Ok(Value::from(Tuple::from(parts.map(Value::from))))
}

fn pad(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind(name, args, &["width", "fillchar"])?;
    let total = width(args.int(0)?)?;
    let fill = if name == "zfill" { "0" } else { args.text_or(1, " ")? };
    if fill.chars().count() != 1 {
        return Err(type_error("The fill character must be exactly one character long"));
    }
    let missing = total.saturating_sub(text.chars().count());
    Ok(Value::from(match name {
        "ljust" => format!("{text}{}", fill.repeat(missing)),
        "rjust" => format!("{}{text}", fill.repeat(missing)),
        "center" => {
            // Python puts the odd one to the left if the width is odd.
            let left = missing / 2 + (missing & total & 1);
            format!("{}{text}{}", fill.repeat(left), fill.repeat(missing - left))
        }
        _ => {
            let sign = usize::from(text.starts_with(['-', '+']));
            format!("{}{}{}", &text[..sign], "0".repeat(missing), &text[sign..])
        }
    }))
}

fn expand_tabs(text: &str, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("expandtabs", args, &["tabsize"])?;
    let size = width(args.int_or(0, 8)?)?.min(1024);
    let mut out = String::new();
    let mut column = 0;
    for c in text.chars() {
        match c {
            '\t' if size > 0 => {
                let spaces = size - column % size;
                out.push_str(&" ".repeat(spaces));
                column += spaces;
            }
            '\t' => {}
            '\n' | '\r' => {
                out.push(c);
                column = 0;
            }
            c => {
                out.push(c);
                column += 1;
            }
        }
    }
    Ok(Value::from(out))
}

/// The engine allocates what a width asks for before it looks at the fuel.
fn format(text: &str, args: &[Value]) -> Result<Value, Error> {
    let mut run = 0;
    for c in text.chars() {
        run = if c.is_ascii_digit() { run + 1 } else { 0 };
        if run >= 6 {
            return Err(limit_error());
        }
    }
    minijinja::formatting::format(FormatStyle::StrFormat, text, args).map(Value::from)
}

fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars.as_str().to_lowercase().chars()).collect(),
        None => String::new(),
    }
}

fn title(text: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in text.chars() {
        if inside {
            out.extend(c.to_lowercase());
        } else {
            out.extend(c.to_uppercase());
        }
        inside = is_cased(c);
    }
    out
}

fn is_cased(c: char) -> bool {
    c.is_uppercase() || c.is_lowercase() || matches!(c, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ')
}

fn change_case(text: &str, name: &str) -> Option<String> {
    Some(match name {
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        "casefold" => text.to_lowercase().replace('ß', "ss").replace('ς', "σ"),
        "capitalize" => capitalize(text),
        "title" => title(text),
        "swapcase" => text
            .chars()
            .flat_map(|c| -> Vec<char> {
                if c.is_uppercase() {
                    c.to_lowercase().collect()
                } else {
                    c.to_uppercase().collect()
                }
            })
            .collect(),
        _ => return None,
    })
}

fn is_title(text: &str) -> bool {
    let (mut seen, mut inside) = (false, false);
    for c in text.chars() {
        if c.is_uppercase() {
            if inside {
                return false;
            }
            (seen, inside) = (true, true);
        } else if c.is_lowercase() {
            if !inside {
                return false;
            }
        } else {
            inside = false;
        }
    }
    seen
}

fn question(text: &str, name: &str) -> Option<bool> {
    let all = |test: fn(char) -> bool| !text.is_empty() && text.chars().all(test);
    let cased = text.chars().any(is_cased);
    Some(match name {
        "isspace" => all(is_space),
        "isalpha" => all(char::is_alphabetic),
        "isdecimal" => all(is_decimal),
        "isdigit" => all(is_digit),
        "isnumeric" => all(char::is_numeric),
        "isalnum" => all(|c| c.is_alphabetic() || c.is_numeric()),
        "isascii" => text.is_ascii(),
        "islower" => cased && !text.chars().any(char::is_uppercase),
        "isupper" => cased && !text.chars().any(char::is_lowercase),
        "istitle" => is_title(text),
        "isprintable" => text.chars().all(crate::pyrepr::printable),
        "isidentifier" => {
            let starts = text.chars().next().is_some_and(|c| c == '_' || c.is_alphabetic());
            starts && text.chars().all(|c| c == '_' || c.is_alphanumeric())
        }
        _ => return None,
    })
}
