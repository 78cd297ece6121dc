// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Comparison as Python does it, with a bound on the work: a small value can hold another one many
//! times, so comparing two of them may take for ever.

use std::cmp::Ordering;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use crate::args::{limit_error, type_error};
use crate::pyrepr::type_name;

pub struct Work(u64);

impl Work {
    pub fn of(state: &State) -> Work {
        Work(state.fuel_levels().map_or(u64::MAX, |(_, remaining)| remaining))
    }

    fn step(&mut self, amount: usize) -> Result<(), Error> {
        match self.0.checked_sub(1 + amount as u64) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(limit_error()),
        }
    }
}

fn numeric(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
}

fn items(value: &Value) -> Vec<Value> {
    value.try_iter().into_iter().flatten().collect()
}

pub fn equal(a: &Value, b: &Value, work: &mut Work) -> Result<bool, Error> {
    work.step(0)?;
    match (a.kind(), b.kind()) {
        (ValueKind::Seq, ValueKind::Seq) => {
            if a.is_tuple() != b.is_tuple() || a.len() != b.len() {
                return Ok(false);
            }
            work.step(a.len().unwrap_or(0))?;
            for (x, y) in items(a).iter().zip(items(b).iter()) {
                if !equal(x, y, work)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (ValueKind::Map, ValueKind::Map) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            work.step(a.len().unwrap_or(0))?;
            for key in items(a) {
                let (x, y) = (a.get_item(&key)?, b.get_item(&key)?);
                if y.is_undefined() != x.is_undefined() || !equal(&x, &y, work)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (ValueKind::Seq | ValueKind::Map, _) | (_, ValueKind::Seq | ValueKind::Map) => Ok(false),
        _ => Ok(a == b),
    }
}

/// a < b and so on; a TypeError for what Python does not order.
pub fn compare(a: &Value, b: &Value, work: &mut Work) -> Result<Ordering, Error> {
    work.step(0)?;
    if numeric(a) && numeric(b) {
        return Ok(a.cmp(b));
    }
    match (a.kind(), b.kind()) {
        (ValueKind::String, ValueKind::String) => Ok(a.as_str().cmp(&b.as_str())),
        (ValueKind::Seq, ValueKind::Seq) if a.is_tuple() == b.is_tuple() => {
            work.step(a.len().unwrap_or(0) + b.len().unwrap_or(0))?;
            let (a, b) = (items(a), items(b));
            for (x, y) in a.iter().zip(b.iter()) {
                if !equal(x, y, work)? {
                    return compare(x, y, work);
                }
            }
            Ok(a.len().cmp(&b.len()))
        }
        _ => Err(type_error(format!(
            "'<' not supported between instances of '{}' and '{}'",
            type_name(a),
            type_name(b)
        ))),
    }
}

/// Sorts stably by key. With reverse, equal elements keep their order, as in Python.
pub fn sort_by_key(
    list: Vec<(Value, Value)>,
    reverse: bool,
    work: &mut Work,
) -> Result<Vec<(Value, Value)>, Error> {
    let mut failed = None;
    let mut list = list;
    list.sort_by(|a, b| {
        if failed.is_some() {
            return Ordering::Equal;
        }
        let (x, y) = if reverse { (&b.0, &a.0) } else { (&a.0, &b.0) };
        compare(x, y, work).unwrap_or_else(|e| {
            failed = Some(e);
            Ordering::Equal
        })
    });
    match failed {
        Some(error) => Err(error),
        None => Ok(list),
    }
}
