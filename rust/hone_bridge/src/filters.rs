// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Filters that the engine lacks, or whose arguments or results differ from jinja2's.

use std::collections::HashSet;

use minijinja::value::{Rest, Tuple, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State};

use crate::args::{to_int, type_error, Args};
use crate::json::{dumps, Style};
use crate::methods::DICT_METHODS;
use crate::objects::Dict;
use crate::order::{compare, sort_by_key, Work};
use crate::printf::{printf, to_big_int, to_float};
use crate::pyrepr::{self, Budget};
use crate::textfilters;

/// A filter as this crate writes them: the piped value comes first.
pub type Filter = fn(&State, &Value, &[Value]) -> Result<Value, Error>;

const FILTERS: [(&str, Filter); 18] = [
    ("attr", attr),
    ("default", default),
    ("d", default),
    ("dictsort", dictsort),
    ("float", float),
    ("format", format),
    ("int", int),
    ("items", items),
    ("join", join),
    ("max", max),
    ("min", min),
    ("pprint", pprint),
    ("sort", sort),
    ("string", string),
    ("tojson", tojson),
    ("unique", unique),
    ("list", list),
    ("sum", sum),
];

/// Filters of the engine that jinja2 does not have.
const FOREIGN: [&str; 5] = ["bool", "chain", "lines", "split", "zip"];

pub fn install(env: &mut Environment) {
    for name in FOREIGN {
        env.remove_filter(name);
    }
    for (name, filter) in FILTERS.iter().chain(textfilters::FILTERS.iter()) {
        let filter = *filter;
        env.add_filter(
            *name,
            move |state: &mut State<'_, '_>,
                  value: Value,
                  args: Rest<ValueOrKwargs>|
                  -> Result<Value, Error> {
                filter(state, &value, &args.into_values())
            },
        );
    }
}

/// The entry of a path such as "function.name" or "0".
fn attribute(value: &Value, path: &Value) -> Result<Value, Error> {
    let Some(text) = path.as_str() else { return value.get_item(path) };
    let mut found = value.clone();
    for part in text.split('.') {
        found = match part.parse::<i64>() {
            Ok(index) if !part.starts_with(['-', '+']) => found.get_item(&Value::from(index))?,
            _ => found.get_item(&Value::from(part))?,
        };
    }
    Ok(found)
}

/// What a value is sorted by: its attribute if one is named, without case if that does not count.
fn sort_key(value: &Value, path: Option<&Value>, case_sensitive: bool) -> Result<Value, Error> {
    let fold = |v: Value| match v.as_str() {
        Some(text) if !case_sensitive => Value::from(text.to_lowercase()),
        _ => v,
    };
    match path {
        None => Ok(fold(value.clone())),
        Some(path) => match path.as_str() {
            Some(text) if text.contains(',') => {
                let parts: Result<Vec<Value>, Error> =
                    text.split(',').map(|p| attribute(value, &Value::from(p)).map(fold)).collect();
                Ok(Value::from(parts?))
            }
            _ => attribute(value, path).map(fold),
        },
    }
}

fn elements(state: &State, value: &Value) -> Result<Vec<Value>, Error> {
    let mut list = Vec::new();
    for item in value.try_iter()?.checked() {
        state.consume_fuel(1)?;
        list.push(item?);
    }
    Ok(list)
}

/// The attribute and never the entry of a dict.
fn attr(_: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("attr", args, &["name"])?;
    let name = args.text(0)?;
    if value.downcast_object_ref::<Dict>().is_some() && !DICT_METHODS.contains(&name) {
        return Ok(Value::UNDEFINED);
    }
    value.get_attr(name)
}

fn defined(value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    Ok(())
}

fn default(_: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("default", args, &["default_value", "boolean"])?;
    if value.is_undefined() || (args.flag(1, false) && !value.is_true()) {
        return Ok(args.get(0).cloned().unwrap_or_else(|| Value::from("")));
    }
    Ok(value.clone())
}

fn list(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    Args::bind("list", args, &[])?;
    if value.is_none() {
        return Err(type_error("'NoneType' object is not iterable"));
    }
    elements(state, value).map(Value::from)
}

fn items(_: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    Args::bind("items", args, &[])?;
    if value.is_undefined() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    let object = value.as_object().filter(|_| value.kind() == ValueKind::Map);
    let pairs = object
        .and_then(|o| o.try_iter_pairs())
        .ok_or_else(|| type_error("Can only get item pairs from a mapping."))?;
    let tuples: Vec<Value> = pairs.map(|(k, v)| Value::from(Tuple::from([k, v]))).collect();
    Ok(Value::from(tuples))
}

fn sort(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("sort", args, &["reverse", "case_sensitive", "attribute"])?;
    let case_sensitive = args.flag(1, false);
    let mut keyed = Vec::new();
    for item in elements(state, value)? {
        keyed.push((sort_key(&item, args.given(2), case_sensitive)?, item));
    }
    let sorted = sort_by_key(keyed, args.flag(0, false), &mut Work::of(state))?;
    Ok(Value::from(sorted.into_iter().map(|pair| pair.1).collect::<Vec<_>>()))
}

fn dictsort(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("dictsort", args, &["case_sensitive", "by", "reverse"])?;
    let by = match args.text_or(1, "key")? {
        "key" => 0,
        "value" => 1,
        _ => return Err(type_error("You can only sort by either \"key\" or \"value\"")),
    };
    let mut keyed = Vec::new();
    for pair in elements(state, &items(state, value, &[])?)? {
        let part = pair.get_item_by_index(by)?;
        keyed.push((sort_key(&part, None, args.flag(0, false))?, pair));
    }
    let sorted = sort_by_key(keyed, args.flag(2, false), &mut Work::of(state))?;
    Ok(Value::from(sorted.into_iter().map(|pair| pair.1).collect::<Vec<_>>()))
}

fn unique(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("unique", args, &["case_sensitive", "attribute"])?;
    let mut budget = Budget::of(state);
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for item in elements(state, value)? {
        let key = sort_key(&item, args.given(1), args.flag(0, false))?;
        if matches!(key.kind(), ValueKind::Seq | ValueKind::Map) && !key.is_tuple() {
            return Err(type_error(format!("unhashable type: '{}'", pyrepr::type_name(&key))));
        }
        // Numbers are equal over types; everything else is told apart by its text.
        let number = matches!(key.kind(), ValueKind::Bool | ValueKind::Number);
        let text = match to_big_int(&key) {
            Some(whole) => whole.to_string(),
            None if number => match to_float(&key) {
                Some(v) if v.trunc() == v && v.abs() < 1e18 => (v as i128).to_string(),
                v => format!("{v:?}"),
            },
            None => {
                let mut text = String::new();
                pyrepr::repr(&key, &mut text, &mut budget)?;
                text
            }
        };
        if seen.insert(text) {
            kept.push(item);
        }
    }
    Ok(Value::from(kept))
}

fn extreme(state: &State, value: &Value, args: &[Value], largest: bool) -> Result<Value, Error> {
    let name = if largest { "max" } else { "min" };
    let args = Args::bind(name, args, &["case_sensitive", "attribute"])?;
    let mut work = Work::of(state);
    let mut best: Option<(Value, Value)> = None;
    for item in elements(state, value)? {
        let key = sort_key(&item, args.given(1), args.flag(0, false))?;
        let better = match &best {
            None => true,
            Some((top, _)) if largest => compare(top, &key, &mut work)?.is_lt(),
            Some((top, _)) => compare(&key, top, &mut work)?.is_lt(),
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map_or(Value::UNDEFINED, |(_, item)| item))
}

fn max(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    extreme(state, value, args, true)
}

fn min(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    extreme(state, value, args, false)
}

fn sum(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("sum", args, &["attribute", "start"])?;
    let mut whole = 0i128;
    let mut real = None;
    let start = args.get(1).cloned().unwrap_or_else(|| Value::from(0));
    let list = elements(state, value)?;
    for (at, item) in std::iter::once(&start).chain(list.iter()).enumerate() {
        let item = match args.given(0) {
            Some(path) if at > 0 => attribute(item, path)?,
            _ => item.clone(),
        };
        match (to_big_int(&item), to_float(&item)) {
            (Some(v), _) if real.is_none() => {
                whole = whole.checked_add(v).ok_or_else(|| type_error("the sum is too large"))?;
            }
            (_, Some(v)) => real = Some(real.unwrap_or(whole as f64) + v),
            _ => {
                return Err(type_error(format!(
                    "unsupported operand type(s) for +: 'int' and '{}'",
                    pyrepr::type_name(&item)
                )))
            }
        }
    }
    Ok(match real {
        Some(v) => Value::from(v),
        None => i64::try_from(whole).map_or_else(|_| Value::from(whole), Value::from),
    })
}

fn join(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("join", args, &["d", "attribute"])?;
    if value.is_none() {
        return Err(type_error("'NoneType' object is not iterable"));
    }
    let mut budget = Budget::of(state);
    let separator = match args.get(0) {
        Some(v) => pyrepr::text(v, &mut budget)?,
        None => String::new(),
    };
    let mut out = String::new();
    for (at, item) in elements(state, value)?.into_iter().enumerate() {
        let item = match args.given(1) {
            Some(path) => attribute(&item, path)?,
            None => item,
        };
        let text = pyrepr::text(&item, &mut budget)?;
        budget.spend(text.len() + separator.len())?;
        if at > 0 {
            out.push_str(&separator);
        }
        out.push_str(&text);
    }
    Ok(Value::from(out))
}

fn string(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    Args::bind("string", args, &[])?;
    if value.as_str().is_some() {
        return Ok(value.clone());
    }
    pyrepr::text(value, &mut Budget::of(state)).map(Value::from)
}

fn pprint(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    Args::bind("pprint", args, &[])?;
    let mut out = String::new();
    pyrepr::repr(value, &mut out, &mut Budget::of(state))?;
    Ok(Value::from(out))
}

fn format(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let format = pyrepr::text(value, &mut Budget::of(state))?;
    let (positional, keywords) = crate::args::split(args)?;
    let operand = match keywords {
        Some(_) if !positional.is_empty() => {
            return Err(type_error(
                "can't handle positional and keyword arguments at the same time",
            ))
        }
        Some(keywords) => Value::from(keywords),
        None => Value::from(Tuple::from(positional)),
    };
    printf(state, &format, &operand).map(Value::from)
}

fn tojson(state: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("tojson", args, &["ensure_ascii", "indent", "separators", "sort_keys"])?;
    let indent = match args.given(1) {
        None => None,
        Some(v) => Some(match (v.as_str(), to_int(v)) {
            (Some(text), _) => text.to_string(),
            (None, Some(count)) => " ".repeat(crate::args::width(count)?),
            _ => return Err(type_error("indent must be an integer or a string")),
        }),
    };
    let (item_separator, key_separator) = match args.given(2) {
        None if indent.is_some() => (",".to_string(), ": ".to_string()),
        None => (", ".to_string(), ": ".to_string()),
        Some(pair) => {
            let parts: Vec<Value> = pair.try_iter()?.collect();
            match parts.as_slice() {
                [a, b] if a.as_str().is_some() && b.as_str().is_some() => {
                    (a.to_string(), b.to_string())
                }
                _ => return Err(type_error("separators must be two strings")),
            }
        }
    };
    let style = Style {
        ascii: args.flag(0, false),
        indent,
        item_separator,
        key_separator,
        sort_keys: args.flag(3, false),
    };
    dumps(value, &style, &mut Budget::of(state)).map(Value::from)
}

/// A number as Python's int() reads it; nothing for a ValueError.
fn parse_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim_matches(crate::strmethods::is_space).to_lowercase();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(&text)),
    };
    let prefix = [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .find(|(p, b)| digits.starts_with(p) && (base == *b || base == 0));
    let (digits, base) = match prefix {
        Some((p, b)) => (digits[p.len()..].trim_start_matches('_'), b),
        None => (digits, if base == 0 { 10 } else { base }),
    };
    if !(2..=36).contains(&base) || digits.contains("__") || digits.ends_with('_') {
        return None;
    }
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    i128::from_str_radix(&digits.replace('_', ""), base).ok().map(|v| sign * v)
}

/// A number as Python's float() reads it.
fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim_matches(crate::strmethods::is_space);
    if text.contains("__") || text.starts_with('_') || text.ends_with('_') {
        return None;
    }
    text.replace('_', "").parse().ok()
}

fn int(_: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("int", args, &["default", "base"])?;
    defined(value)?;
    let base = u32::try_from(args.int_or(1, 10)?).unwrap_or(1);
    let truncated = |v: f64| (v.is_finite() && v.abs() < 1e38).then_some(v.trunc() as i128);
    let number = match value.as_str() {
        Some(text) => parse_int(text, base).or_else(|| parse_float(text).and_then(truncated)),
        None => to_big_int(value).or_else(|| to_float(value).and_then(truncated)),
    };
    Ok(match number {
        Some(v) => i64::try_from(v).map_or_else(|_| Value::from(v), Value::from),
        None => args.get(0).cloned().unwrap_or_else(|| Value::from(0)),
    })
}

fn float(_: &State, value: &Value, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("float", args, &["default"])?;
    defined(value)?;
    let number = match value.as_str() {
        Some(text) => parse_float(text),
        None => to_float(value),
    };
    Ok(match number {
        Some(v) => Value::from(v),
        None => args.get(0).cloned().unwrap_or_else(|| Value::from(0.0)),
    })
}
