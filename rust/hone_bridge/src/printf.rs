// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! `'...' % values` of Python, and the number formats that str.format shares with it.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use crate::args::{limit_error, to_int, type_error, width};
use crate::pyrepr::{self, type_name, Budget};

const MAX_PRECISION: usize = 1000;

#[derive(Default, Clone)]
pub struct Spec {
    pub left: bool,
    pub zero: bool,
    pub alternate: bool,
    pub sign: Option<char>,
    pub width: usize,
    pub precision: Option<usize>,
}

pub fn precision(value: i64) -> Result<usize, Error> {
    let value = usize::try_from(value).unwrap_or(0);
    if value > MAX_PRECISION {
        return Err(limit_error());
    }
    Ok(value)
}

/// Text of a float for the letters e, f and g in either case.
pub fn float(value: f64, letter: char, precision: Option<usize>, alternate: bool) -> String {
    let text = if !value.is_finite() {
        pyrepr::float(value)
    } else {
        let precision = precision.unwrap_or(6);
        match letter.to_ascii_lowercase() {
            'f' => fixed(value, precision, alternate),
            'e' => exponent(value, precision, alternate),
            _ => general(value, precision.max(1), alternate),
        }
    };
    if letter.is_ascii_uppercase() {
        text.to_uppercase()
    } else {
        text
    }
}

fn fixed(value: f64, precision: usize, alternate: bool) -> String {
    let mut text = format!("{value:.precision$}");
    if alternate && precision == 0 {
        text.push('.');
    }
    text
}

fn exponent(value: f64, precision: usize, alternate: bool) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let dot = if alternate && precision == 0 { "." } else { "" };
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}{dot}e{sign}{:02}", power.abs())
}

fn general(value: f64, precision: usize, alternate: bool) -> String {
    let scientific = exponent(value, precision - 1, alternate);
    let power: i64 =
        scientific.rsplit_once('e').and_then(|(_, p)| p.parse().ok()).unwrap_or_default();
    let shorten = |text: &str| {
        if alternate || !text.contains('.') {
            text.to_string()
        } else {
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        }
    };
    if (-4..precision as i64).contains(&power) {
        let decimals = (precision as i64 - 1 - power).max(0) as usize;
        return shorten(&fixed(value, decimals, alternate));
    }
    match scientific.split_once('e') {
        Some((digits, power)) => format!("{}e{power}", shorten(digits)),
        None => scientific,
    }
}

/// Sign, padding and zeros around the digits of a number.
fn place_number(digits: &str, spec: &Spec) -> String {
    let (negative, digits) = match digits.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, digits),
    };
    let sign =
        if negative { "-".to_string() } else { spec.sign.map(String::from).unwrap_or_default() };
    let length = sign.len() + digits.chars().count();
    let missing = spec.width.saturating_sub(length);
    if spec.left {
        format!("{sign}{digits}{}", " ".repeat(missing))
    } else if spec.zero {
        format!("{sign}{}{digits}", "0".repeat(missing))
    } else {
        format!("{}{sign}{digits}", " ".repeat(missing))
    }
}

fn place_text(text: &str, spec: &Spec) -> String {
    let cut: String = match spec.precision {
        Some(count) => text.chars().take(count).collect(),
        None => text.to_string(),
    };
    let missing = " ".repeat(spec.width.saturating_sub(cut.chars().count()));
    if spec.left {
        cut + &missing
    } else {
        missing + &cut
    }
}

pub fn to_float(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value.clone())
            .ok()
            .or_else(|| i128::try_from(value.clone()).ok().map(|v| v as f64)),
        _ => None,
    }
}

/// An integer of any size that the engine has.
pub fn to_big_int(value: &Value) -> Option<i128> {
    match to_int(value) {
        Some(v) => Some(i128::from(v)),
        None if value.is_integer() => i128::try_from(value.clone()).ok(),
        None => None,
    }
}

fn convert(value: &Value, letter: char, spec: &Spec, budget: &mut Budget) -> Result<String, Error> {
    let wrong = |need: &str| {
        type_error(format!("%{letter} format: {need} is required, not {}", type_name(value)))
    };
    Ok(match letter {
        's' => place_text(&pyrepr::text(value, budget)?, spec),
        'r' | 'a' => {
            let mut text = String::new();
            pyrepr::repr(value, &mut text, budget)?;
            place_text(&text, spec)
        }
        'c' => match (value.as_str(), to_int(value)) {
            (Some(text), _) if text.chars().count() == 1 => place_text(text, spec),
            (_, Some(code)) => {
                let c = u32::try_from(code).ok().and_then(char::from_u32);
                let c = c.ok_or_else(|| type_error("%c arg not in range(0x110000)"))?;
                place_text(&c.to_string(), spec)
            }
            _ => return Err(wrong("an int or a single character")),
        },
        'd' | 'i' | 'u' => {
            let number = match to_big_int(value) {
                Some(v) => v,
                None => to_float(value).ok_or_else(|| wrong("a real number"))?.trunc() as i128,
            };
            let mut digits = number.to_string();
            if let Some(count) = spec.precision {
                let sign = usize::from(number < 0);
                let missing = (count + sign).saturating_sub(digits.len());
                digits.insert_str(sign, &"0".repeat(missing));
            }
            place_number(&digits, spec)
        }
        'x' | 'X' | 'o' => {
            let number = to_big_int(value).ok_or_else(|| wrong("an integer"))?;
            let sign = if number < 0 { "-" } else { "" };
            let size = number.unsigned_abs();
            let (prefix, digits) = match letter {
                'o' => ("0o", format!("{size:o}")),
                'x' => ("0x", format!("{size:x}")),
                _ => ("0X", format!("{size:X}")),
            };
            let prefix = if spec.alternate { prefix } else { "" };
            place_number(&format!("{sign}{prefix}{digits}"), spec)
        }
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
            let number = to_float(value).ok_or_else(|| wrong("a real number"))?;
            place_number(&float(number, letter, spec.precision, spec.alternate), spec)
        }
        _ => return Err(type_error(format!("unsupported format character '{letter}'"))),
    })
}

struct Source<'a> {
    values: Vec<Value>,
    next: usize,
    whole: &'a Value,
}

impl Source<'_> {
    fn take(&mut self) -> Result<Value, Error> {
        let value = self.values.get(self.next).cloned();
        self.next += 1;
        value.ok_or_else(|| type_error("not enough arguments for format string"))
    }

    fn number(&mut self, chars: &mut std::iter::Peekable<std::str::Chars>) -> Result<i64, Error> {
        if chars.next_if_eq(&'*').is_some() {
            let value = self.take()?;
            return to_int(&value).ok_or_else(|| type_error("* wants int"));
        }
        let mut number = 0i64;
        while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
            chars.next();
            number = number.saturating_mul(10).saturating_add(i64::from(digit));
        }
        Ok(number)
    }
}

/// `format % value`.
pub fn printf(state: &State, format: &str, value: &Value) -> Result<String, Error> {
    let mut budget = Budget::of(state);
    let tuple = value.is_tuple();
    let values = if tuple { value.try_iter()?.collect() } else { vec![value.clone()] };
    let mut source = Source { values, next: 0, whole: value };
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        budget.spend(1)?;
        let mut named = None;
        if chars.next_if_eq(&'(').is_some() {
            let name: String = chars.by_ref().take_while(|c| *c != ')').collect();
            if source.whole.kind() != ValueKind::Map {
                return Err(type_error("format requires a mapping"));
            }
            let found = source.whole.get_item(&Value::from(name.as_str()))?;
            if found.is_undefined() {
                return Err(type_error(format!("KeyError: '{name}'")));
            }
            named = Some(found);
        }
        let mut spec = Spec::default();
        while let Some(flag) = chars.next_if(|c| "-+ #0".contains(*c)) {
            match flag {
                '-' => spec.left = true,
                '0' => spec.zero = true,
                '#' => spec.alternate = true,
                '+' => spec.sign = Some('+'),
                _ => spec.sign = spec.sign.or(Some(' ')),
            }
        }
        let wide = source.number(&mut chars)?;
        spec.left |= wide < 0;
        spec.width = width(wide.saturating_abs())?;
        if chars.next_if_eq(&'.').is_some() {
            spec.precision = Some(precision(source.number(&mut chars)?)?);
        }
        while chars.next_if(|c| "hlL".contains(*c)).is_some() {}
        let letter = chars.next().ok_or_else(|| type_error("incomplete format"))?;
        if letter == '%' {
            out.push('%');
            continue;
        }
        let value = match named {
            Some(value) => value,
            None => source.take()?,
        };
        budget.spend(spec.width)?;
        let text = convert(&value, letter, &spec, &mut budget)?;
        out.push_str(&text);
    }
    let mapping = matches!(value.kind(), ValueKind::Map | ValueKind::Seq) && !tuple;
    if source.next < source.values.len() && !mapping {
        return Err(type_error("not all arguments converted during string formatting"));
    }
    Ok(out)
}
