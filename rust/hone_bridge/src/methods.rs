// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Methods of dicts, lists and tuples, and the way to those of strings.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use crate::args::{type_error, Args};
use crate::harden::pay;
use crate::objects::View;
use crate::order::{equal, Work};
use crate::pyrepr::type_name;
use crate::strmethods;

pub const DICT_METHODS: [&str; 11] = [
    "clear",
    "copy",
    "fromkeys",
    "get",
    "items",
    "keys",
    "pop",
    "popitem",
    "setdefault",
    "update",
    "values",
];
/// What the immutable sandbox of Transformers forbids.
const DICT_MUTATORS: [&str; 5] = ["clear", "pop", "popitem", "setdefault", "update"];
const LIST_MUTATORS: [&str; 8] =
    ["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"];

/// value.name(args); UnknownMethod if there is no such method.
pub fn call(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    for argument in args {
        pay(state, argument)?;
    }
    match value.kind() {
        ValueKind::String => strmethods::call(state, value, name, args),
        ValueKind::Map => dict(value, name, args),
        ValueKind::Seq => list(state, value, name, args),
        ValueKind::Number if name == "is_integer" => {
            Args::bind(name, args, &[])?;
            let number = f64::try_from(value.clone()).unwrap_or(f64::NAN);
            Ok(Value::from(number.is_finite() && number.trunc() == number))
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn unsafe_method(value: &Value, name: &str) -> Error {
    type_error(format!("access to attribute '{name}' of '{}' object is unsafe.", type_name(value)))
}

fn pairs(value: &Value) -> Vec<(Value, Value)> {
    let pairs = value.as_object().and_then(|o| o.try_iter_pairs());
    pairs.into_iter().flatten().collect()
}

fn view(name: &'static str, values: Vec<Value>) -> Result<Value, Error> {
    Ok(Value::from_object(View { name, values }))
}

fn dict(value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if DICT_MUTATORS.contains(&name) {
        return Err(unsafe_method(value, name));
    }
    match name {
        "items" => {
            Args::bind(name, args, &[])?;
            let tuple = |(k, v): (Value, Value)| Value::from(minijinja::value::Tuple::from([k, v]));
            view("dict_items", pairs(value).into_iter().map(tuple).collect())
        }
        "keys" => {
            Args::bind(name, args, &[])?;
            view("dict_keys", pairs(value).into_iter().map(|p| p.0).collect())
        }
        "values" => {
            Args::bind(name, args, &[])?;
            view("dict_values", pairs(value).into_iter().map(|p| p.1).collect())
        }
        "get" => {
            let args = Args::bind(name, args, &["key", "default"])?;
            let key = args.need(0)?;
            if matches!(key.kind(), ValueKind::Seq | ValueKind::Map) && !key.is_tuple() {
                return Err(type_error(format!("unhashable type: '{}'", type_name(key))));
            }
            let found = value.get_item(key)?;
            if !found.is_undefined() {
                return Ok(found);
            }
            Ok(args.get(1).cloned().unwrap_or_else(|| Value::from(())))
        }
        "copy" => {
            Args::bind(name, args, &[])?;
            Ok(value.clone())
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn list(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if !value.is_tuple() && LIST_MUTATORS.contains(&name) {
        return Err(unsafe_method(value, name));
    }
    match name {
        "copy" if !value.is_tuple() => {
            Args::bind(name, args, &[])?;
            Ok(value.clone())
        }
        "index" | "count" => {
            let args = Args::bind(name, args, &["value", "start", "stop"])?;
            let wanted = args.need(0)?;
            let items: Vec<Value> = value.try_iter()?.collect();
            let (start, stop) = strmethods::bounds(&args, items.len())?;
            let mut work = Work::of(state);
            let mut count = 0;
            for (at, item) in items.iter().enumerate().take(stop).skip(start) {
                if equal(item, wanted, &mut work)? {
                    if name == "index" {
                        return Ok(Value::from(at));
                    }
                    count += 1;
                }
            }
            if name == "index" {
                return Err(type_error("value is not in list"));
            }
            Ok(Value::from(count))
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}
