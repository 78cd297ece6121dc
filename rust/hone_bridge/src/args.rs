// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Positional and keyword arguments, bound to names as Python binds them.

use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};

pub fn type_error(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, text.into())
}

pub fn limit_error() -> Error {
    Error::from(ErrorKind::OutOfFuel)
}

/// The arguments of one call, in the order of the declared names.
pub struct Args {
    function: String,
    names: Vec<&'static str>,
    values: Vec<Option<Value>>,
}

/// Splits a keyword argument bundle off the end.
pub fn split(values: &[Value]) -> Result<(&[Value], Option<Kwargs>), Error> {
    match values.split_last() {
        Some((last, rest)) if last.is_kwargs() => Ok((rest, Some(Kwargs::try_from(last.clone())?))),
        _ => Ok((values, None)),
    }
}

impl Args {
    pub fn bind(function: &str, values: &[Value], names: &[&'static str]) -> Result<Args, Error> {
        let (positional, keywords) = split(values)?;
        if positional.len() > names.len() {
            return Err(type_error(format!(
                "{function}() takes at most {} arguments ({} given)",
                names.len(),
                positional.len()
            )));
        }
        let mut bound: Vec<Option<Value>> = positional.iter().cloned().map(Some).collect();
        bound.resize(names.len(), None);
        if let Some(keywords) = keywords {
            let given: Vec<String> = keywords.args().map(str::to_string).collect();
            for key in given {
                let Some(at) = names.iter().position(|n| *n == key) else {
                    return Err(type_error(format!(
                        "{function}() got an unexpected keyword argument '{key}'"
                    )));
                };
                if bound[at].is_some() {
                    return Err(type_error(format!(
                        "{function}() got multiple values for argument '{key}'"
                    )));
                }
                bound[at] = Some(keywords.get::<Value>(&key)?);
            }
        }
        Ok(Args { function: function.to_string(), names: names.to_vec(), values: bound })
    }

    pub fn get(&self, at: usize) -> Option<&Value> {
        self.values[at].as_ref()
    }

    /// As get, but None counts as not given.
    pub fn given(&self, at: usize) -> Option<&Value> {
        self.get(at).filter(|v| !v.is_none())
    }

    pub fn need(&self, at: usize) -> Result<&Value, Error> {
        self.get(at).ok_or_else(|| {
            type_error(format!(
                "{}() missing required argument: '{}'",
                self.function, self.names[at]
            ))
        })
    }

    pub fn text(&self, at: usize) -> Result<&str, Error> {
        let value = self.need(at)?;
        value.as_str().ok_or_else(|| self.wrong(at, "a string", value))
    }

    pub fn text_or<'a>(&'a self, at: usize, fallback: &'a str) -> Result<&'a str, Error> {
        match self.get(at) {
            None => Ok(fallback),
            Some(_) => self.text(at),
        }
    }

    pub fn int(&self, at: usize) -> Result<i64, Error> {
        let value = self.need(at)?;
        to_int(value).ok_or_else(|| self.wrong(at, "an integer", value))
    }

    pub fn int_or(&self, at: usize, fallback: i64) -> Result<i64, Error> {
        match self.get(at) {
            None => Ok(fallback),
            Some(_) => self.int(at),
        }
    }

    pub fn flag(&self, at: usize, fallback: bool) -> bool {
        self.get(at).map_or(fallback, Value::is_true)
    }

    fn wrong(&self, at: usize, expected: &str, found: &Value) -> Error {
        type_error(format!(
            "{}() argument '{}' must be {expected}, not {}",
            self.function,
            self.names[at],
            crate::pyrepr::type_name(found)
        ))
    }
}

pub fn to_int(value: &Value) -> Option<i64> {
    use minijinja::value::ValueKind;
    match value.kind() {
        ValueKind::Bool => Some(i64::from(value.is_true())),
        ValueKind::Number if value.is_integer() => value.as_i64(),
        _ => None,
    }
}

/// Keeps the padding and repetition that a template asks for within what may be allocated.
pub fn width(value: i64) -> Result<usize, Error> {
    const MAX_WIDTH: i64 = 1 << 20;
    if value > MAX_WIDTH {
        return Err(limit_error());
    }
    Ok(usize::try_from(value).unwrap_or(0))
}
