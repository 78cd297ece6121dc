// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Tests and functions that differ from the engine's own, and those of Transformers.

use std::cmp::Ordering;

use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State};

use crate::args::{type_error, Args};
use crate::objects::{Cycler, Joiner, View};
use crate::order::{compare, equal, Work};
use crate::pyrepr::{self, Budget};
use crate::strftime;

/// Marks the text of raise_exception inside an error of the engine.
pub const RAISED: &str = "\u{1}raised\u{1}";

fn is_sequence(value: Value) -> bool {
    match value.kind() {
        ValueKind::String | ValueKind::Bytes | ValueKind::Seq | ValueKind::Map => true,
        ValueKind::Undefined => true,
        // A range has items by number, a view of a dict has not.
        ValueKind::Iterable => {
            value.downcast_object_ref::<View>().is_none() && value.len().is_some()
        }
        _ => false,
    }
}

fn is_iterable(value: Value) -> bool {
    !matches!(
        value.kind(),
        ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::Plain
    )
}

fn is_callable(value: Value) -> bool {
    match value.kind() {
        ValueKind::Undefined => true,
        ValueKind::Plain => value.downcast_object_ref::<Cycler>().is_none(),
        _ => false,
    }
}

fn is_number(value: Value) -> bool {
    matches!(value.kind(), ValueKind::Bool | ValueKind::Number)
}

fn raise_exception(state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let values = args.into_values();
    let args = Args::bind("raise_exception", &values, &["message"])?;
    let text = pyrepr::text(args.need(0)?, &mut Budget::of(state))?;
    Err(Error::new(ErrorKind::InvalidOperation, format!("{RAISED}{text}")))
}

/// dict(mapping or pairs, **more).
fn dict(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let values = args.into_values();
    let (positional, keywords) = crate::args::split(&values)?;
    let mut pairs: Vec<(Value, Value)> = Vec::new();
    match positional {
        [] => {}
        [source] if source.kind() == ValueKind::Map => {
            pairs.extend(source.as_object().and_then(|o| o.try_iter_pairs()).into_iter().flatten())
        }
        [source] => {
            for item in source.try_iter()? {
                if item.len() != Some(2) {
                    return Err(type_error("dict() needs a mapping or pairs"));
                }
                pairs.push((item.get_item_by_index(0)?, item.get_item_by_index(1)?));
            }
        }
        _ => return Err(type_error("dict expected at most 1 argument")),
    }
    if let Some(keywords) = keywords {
        let names: Vec<String> = keywords.args().map(str::to_string).collect();
        for name in names {
            pairs.push((Value::from(name.as_str()), keywords.get::<Value>(&name)?));
        }
    }
    Ok(Value::from_pairs(pairs))
}

fn test_equal(state: &mut State<'_, '_>, a: Value, b: Value) -> Result<bool, Error> {
    equal(&a, &b, &mut Work::of(state))
}

fn test_in(state: &mut State<'_, '_>, item: Value, all: Value) -> Result<bool, Error> {
    if let (Some(part), Some(text)) = (item.as_str(), all.as_str()) {
        return Ok(text.contains(part));
    }
    let mut work = Work::of(state);
    for other in all.try_iter()? {
        if equal(&item, &other, &mut work)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn install_comparisons(env: &mut Environment) {
    for name in ["eq", "equalto", "=="] {
        env.add_test(name, test_equal);
    }
    for name in ["ne", "!="] {
        env.add_test(
            name,
            |state: &mut State<'_, '_>, a: Value, b: Value| -> Result<bool, Error> {
                test_equal(state, a, b).map(|same| !same)
            },
        );
    }
    type Order = (&'static [&'static str], fn(Ordering) -> bool);
    let orders: [Order; 4] = [
        (&["lt", "lessthan", "<"], Ordering::is_lt),
        (&["le", "<="], Ordering::is_le),
        (&["gt", "greaterthan", ">"], Ordering::is_gt),
        (&["ge", ">="], Ordering::is_ge),
    ];
    for (names, holds) in orders {
        for name in names {
            env.add_test(
                *name,
                move |state: &mut State<'_, '_>, a: Value, b: Value| -> Result<bool, Error> {
                    compare(&a, &b, &mut Work::of(state)).map(holds)
                },
            );
        }
    }
    env.add_test("in", test_in);
}

pub fn install(env: &mut Environment, local_now: i64) {
    // Tests of the engine that jinja2 does not have.
    for name in ["endingwith", "int", "safe", "startingwith"] {
        env.remove_test(name);
    }
    install_comparisons(env);
    env.add_test("sequence", is_sequence);
    env.add_test("iterable", is_iterable);
    env.add_test("callable", is_callable);
    env.add_test("number", is_number);
    env.remove_global("debug");
    env.add_function("raise_exception", raise_exception);
    env.add_function("dict", dict);
    env.add_function("cycler", |items: Rest<Value>| Cycler::create(&items));
    env.add_function("joiner", |args: Rest<ValueOrKwargs>| Joiner::create(&args.into_values()));
    env.add_function("strftime_now", move |args: Rest<ValueOrKwargs>| -> Result<Value, Error> {
        let values = args.into_values();
        let args = Args::bind("strftime_now", &values, &["format"])?;
        Ok(Value::from(strftime::format(local_now, args.text(0)?)))
    });
}
