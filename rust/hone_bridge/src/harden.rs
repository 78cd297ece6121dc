// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Bounds on values. A list that holds another list twice, sixty times over, is small in memory but
//! endless to print or to compare, and a namespace can hold itself. So the compiled template is
//! given checks: of what it builds, and of what it compares. They count the parts of a value, pay
//! for them with fuel, and refuse what is too large, too deep, or holds a namespace.

use std::collections::HashSet;

use minijinja::machinery::{Instruction, Instructions};
use minijinja::value::{ObjectRepr, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State};

use crate::args::{limit_error, to_int, type_error, Args};
use crate::objects::Dict;
use crate::printf::{printf, to_big_int, to_float};
use crate::pyrepr::type_name;

const MAX_PARTS: usize = 500_000;
const MAX_DEPTH: usize = 1000;
/// Parts that one unit of fuel pays for.
const PARTS_PER_FUEL: usize = 4;

const CHECK: &str = "__check";
const STORE: &str = "__store";
const REMAINDER: &str = "__remainder";
/// Asks the engine to look the filter up each time.
const NO_CACHE: u8 = u8::MAX;
/// Filters whose result has no more parts than what they are given.
const PLAIN_FILTERS: [&str; 16] = [
    "d",
    "default",
    "first",
    "float",
    "int",
    "last",
    "length",
    "list",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "sort",
    "tojson",
    "trim",
];

struct Walk {
    parts: usize,
}

impl Walk {
    fn add(&mut self, parts: usize) -> Result<(), Error> {
        self.parts = self.parts.saturating_add(parts);
        if self.parts > MAX_PARTS {
            return Err(limit_error());
        }
        Ok(())
    }

    fn visit(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        self.add(1)?;
        let Some(object) = value.as_object() else { return Ok(()) };
        if depth > MAX_DEPTH {
            return Err(limit_error());
        }
        if let Some(dict) = object.downcast_ref::<Dict>() {
            return self.add(dict.parts());
        }
        match object.repr() {
            ObjectRepr::Map => {
                if depth > 0 && is_namespace(value) {
                    return Err(type_error("a namespace inside another value is not supported"));
                }
                for (key, item) in object.try_iter_pairs().into_iter().flatten() {
                    self.visit(&key, depth + 1)?;
                    self.visit(&item, depth + 1)?;
                }
            }
            ObjectRepr::Seq | ObjectRepr::Iterable => {
                for item in object.try_iter().into_iter().flatten() {
                    self.visit(&item, depth + 1)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|o| o.type_name().ends_with("::Namespace"))
}

/// Pays for the parts of a value, or refuses it.
pub fn pay(state: &State, value: &Value) -> Result<(), Error> {
    if value.as_object().is_none() {
        return Ok(());
    }
    let mut walk = Walk { parts: 0 };
    walk.visit(value, 0)?;
    state.consume_fuel((walk.parts / PARTS_PER_FUEL) as u64)
}

/// Python's %, for text and for numbers.
fn remainder(state: &State, values: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("%", values, &["left", "right"])?;
    let (left, right) = (args.need(0)?, args.need(1)?);
    if left.kind() == ValueKind::String {
        pay(state, right)?;
        return printf(state, left.as_str().unwrap_or_default(), right).map(Value::from);
    }
    if let (Some(a), Some(b)) = (to_int(left), to_int(right)) {
        if b == 0 {
            return Err(type_error("integer modulo by zero"));
        }
        // Python gives the sign of the divisor.
        let rest = i128::from(a) % i128::from(b);
        let wrong_sign = rest != 0 && (rest < 0) != (b < 0);
        let rest = if wrong_sign { rest + i128::from(b) } else { rest };
        return Ok(Value::from(rest as i64));
    }
    if let (Some(a), Some(b)) = (to_big_int(left), to_big_int(right)) {
        let rest = a.checked_rem(b).ok_or_else(|| type_error("integer modulo by zero"))?;
        let wrong_sign = rest != 0 && (rest < 0) != (b < 0);
        return Ok(Value::from(if wrong_sign { rest + b } else { rest }));
    }
    match (to_float(left), to_float(right)) {
        (Some(_), Some(0.0)) => Err(type_error("float modulo by zero")),
        (Some(a), Some(b)) => {
            let rest = a % b;
            if rest == 0.0 {
                return Ok(Value::from(0f64.copysign(b)));
            }
            let wrong_sign = (rest < 0.0) != (b < 0.0);
            Ok(Value::from(if wrong_sign { rest + b } else { rest }))
        }
        _ => Err(type_error(format!(
            "unsupported operand type(s) for %: '{}' and '{}'",
            type_name(left),
            type_name(right)
        ))),
    }
}

pub fn install(env: &mut Environment) {
    env.add_filter(CHECK, |state: &mut State<'_, '_>, value: Value| -> Result<Value, Error> {
        pay(state, &value)?;
        Ok(value)
    });
    env.add_filter(STORE, |state: &mut State<'_, '_>, value: Value| -> Result<Value, Error> {
        if is_namespace(&value) {
            return Err(type_error("a namespace inside another namespace is not supported"));
        }
        pay(state, &value)?;
        Ok(value)
    });
    env.add_filter(
        REMAINDER,
        |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| -> Result<Value, Error> {
            remainder(state, &args.into_values())
        },
    );
}

fn filter<'a>(name: &'static str, arguments: u16) -> Instruction<'a> {
    Instruction::ApplyFilter(name, Some(arguments), NO_CACHE)
}

/// What is put before and after an instruction. `literal`: the value on top is one.
fn around<'a>(
    instruction: &Instruction<'a>,
    literal: bool,
) -> (Vec<Instruction<'a>>, Vec<Instruction<'a>>) {
    let none = Vec::new;
    let check = || filter(CHECK, 1);
    match instruction {
        // loop.changed compares.
        Instruction::CallMethod("changed", _) => (vec![check()], vec![check()]),
        Instruction::BuildList(_)
        | Instruction::BuildTuple(_)
        | Instruction::BuildMap(_)
        | Instruction::Add
        | Instruction::Mul
        | Instruction::CallFunction(..)
        | Instruction::CallMethod(..)
        | Instruction::CallObject(_) => (none(), vec![check()]),
        Instruction::ApplyFilter(name, ..) if !PLAIN_FILTERS.contains(name) => {
            (none(), vec![check()])
        }
        Instruction::Eq
        | Instruction::Ne
        | Instruction::Gt
        | Instruction::Gte
        | Instruction::Lt
        | Instruction::Lte
        | Instruction::In
        | Instruction::StringConcat
        | Instruction::CompareAndPreserve(_) => {
            let mut before = if literal { none() } else { vec![check()] };
            before.extend([Instruction::Swap, check(), Instruction::Swap]);
            (before, none())
        }
        Instruction::GetItem if !literal => (vec![check()], none()),
        Instruction::SetAttr(_) => {
            (vec![Instruction::Swap, filter(STORE, 1), Instruction::Swap], none())
        }
        _ => (none(), none()),
    }
}

/// The place that an instruction may jump to, or where the body of a macro starts.
fn target<'i>(instruction: &'i mut Instruction<'_>) -> Option<&'i mut u32> {
    match instruction {
        Instruction::Jump(target)
        | Instruction::JumpIfFalse(target)
        | Instruction::JumpIfFalseOrPop(target)
        | Instruction::JumpIfTrueOrPop(target)
        | Instruction::Iterate(target)
        | Instruction::BuildMacro(_, target, _) => Some(target),
        _ => None,
    }
}

/// The same instructions with the checks, and with % replaced.
pub fn harden<'a>(plain: &Instructions<'a>) -> Instructions<'a> {
    let list: Vec<&Instruction<'a>> = (0..).map_while(|i| plain.get(i)).collect();
    let targets: HashSet<u32> =
        list.iter().filter_map(|i| target(&mut (*i).clone()).copied()).collect();
    let mut out = Instructions::new(plain.name(), plain.source());
    let mut moved = Vec::with_capacity(list.len() + 1);
    let mut next = 0;
    for (at, instruction) in (0u32..).zip(&list) {
        moved.push(next);
        // Another path may bring another value.
        let literal = !targets.contains(&at)
            && at > 0
            && matches!(plain.get(at - 1), Some(Instruction::LoadConst(_)));
        let (before, after) = around(instruction, literal);
        let middle = match instruction {
            Instruction::Rem => filter(REMAINDER, 2),
            other => (*other).clone(),
        };
        for new in before.into_iter().chain([middle]).chain(after) {
            let added = match (plain.get_span(at), plain.get_line(at)) {
                (Some(span), _) => out.add_with_span(new, span),
                (None, Some(line)) => {
                    out.add_with_line(new, u16::try_from(line).unwrap_or(u16::MAX))
                }
                (None, None) => out.add(new),
            };
            next = added + 1;
        }
    }
    moved.push(next);
    for at in 0..next {
        if let Some(target) = out.get_mut(at).and_then(target) {
            *target = moved.get(*target as usize).copied().unwrap_or(*target);
        }
    }
    out
}
