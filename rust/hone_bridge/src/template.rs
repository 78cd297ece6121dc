// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! The hb_template_* entries: an environment that renders as Transformers sets up jinja2.

use std::os::raw::{c_char, c_int};
use std::sync::Arc;

use minijinja::machinery::{eval, make_string_output, CompiledTemplate, TemplateConfig};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{escape_formatter, AutoEscape, Environment, Error, ErrorKind, Output, State};

use crate::buf::{slice, store, HbBuf};
use crate::builtins::{self, RAISED as RAISED_MARK};
use crate::context;
use crate::filters;
use crate::guard::{
    caught, deep, finish, Fail, BAD_ARGUMENT, BAD_CONTEXT, LIMIT, RAISED, RUNTIME, SYNTAX,
};
use crate::harden::{self, harden};
use crate::methods;
use crate::pyrepr::{self, Budget};
use crate::rewrite::rewrite;

const NAME: &str = "chat template";
const FUEL: u64 = 2_000_000;
const FUEL_PER_CONTEXT_BYTE: u64 = 16;
const MAX_OUTPUT: u64 = 64 << 20;
const MAX_SOURCE: u64 = 1 << 20;
const MAX_RECURSION: usize = 200;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct HbLimits {
    fuel: u64,
    max_output: u64,
    max_source: u64,
}

impl HbLimits {
    fn or_default(self) -> HbLimits {
        let pick = |value: u64, fallback: u64| if value == 0 { fallback } else { value };
        HbLimits {
            fuel: pick(self.fuel, FUEL),
            max_output: pick(self.max_output, MAX_OUTPUT),
            max_source: pick(self.max_source, MAX_SOURCE),
        }
    }
}

pub struct HbTemplate {
    source: String,
    limits: HbLimits,
}

fn print_value(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if !matches!(state.auto_escape(), AutoEscape::None) {
        return escape_formatter(out, state, value);
    }
    match value.as_str() {
        Some(text) => out.write_str(text)?,
        None => out.write_str(&pyrepr::text(value, &mut Budget::of(state))?)?,
    }
    Ok(())
}

fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(false)
        .build()
}

fn environment(fuel: u64, local_now: i64) -> Environment<'static> {
    let mut env = Environment::new();
    env.set_fuel(Some(fuel));
    env.set_formatter(print_value);
    env.set_recursion_limit(MAX_RECURSION);
    // Errors then name the expression that is undefined.
    env.set_debug(true);
    env.set_unknown_method_callback(|state, value, method, args| {
        methods::call(state, value, method, args)
    });
    filters::install(&mut env);
    builtins::install(&mut env, local_now);
    harden::install(&mut env);
    env
}

fn parse(source: &str) -> Result<CompiledTemplate<'_>, Error> {
    let config = TemplateConfig {
        syntax_config: syntax()?,
        default_auto_escape: Arc::new(|_| AutoEscape::None),
    };
    CompiledTemplate::new(NAME, source, &config)
}

fn compile(source: &[u8], limits: HbLimits) -> Result<HbTemplate, Fail> {
    if source.len() as u64 > limits.max_source {
        return Err(Fail::new(
            LIMIT,
            format!("{NAME}: {} bytes, the limit is {}", source.len(), limits.max_source),
        ));
    }
    let source = std::str::from_utf8(source)
        .map_err(|e| Fail::new(SYNTAX, format!("{NAME}: byte {} is not UTF-8", e.valid_up_to())))?;
    let source = rewrite(source).map_err(|e| Fail::new(LIMIT, format!("{NAME}, {e}")))?;
    parse(&source).map_err(|e| describe(&e, SYNTAX))?;
    Ok(HbTemplate { source, limits })
}

/// The words of raise_exception, if the error comes from there.
fn raised(error: &Error) -> Option<String> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(e) = next {
        let detail = e.downcast_ref::<Error>().and_then(Error::detail);
        if let Some(words) = detail.and_then(|d| d.strip_prefix(RAISED_MARK)) {
            return Some(words.to_string());
        }
        next = e.source();
    }
    None
}

/// An error of the engine as a status and one line of text.
fn describe(error: &Error, status: c_int) -> Fail {
    if let Some(words) = raised(error) {
        return Fail::new(RAISED, words);
    }
    let mut status = status;
    let mut parts = Vec::new();
    let mut line = None;
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(e) = next {
        let text = match e.downcast_ref::<Error>() {
            Some(e) => {
                // The innermost line is where it happened.
                line = e.line().or(line);
                match e.kind() {
                    ErrorKind::OutOfFuel => status = LIMIT,
                    ErrorKind::WriteFailure if status != SYNTAX => status = LIMIT,
                    _ => {}
                }
                match (e.kind(), e.detail()) {
                    (ErrorKind::OutOfFuel, _) => "it needs more steps than allowed".to_string(),
                    (ErrorKind::WriteFailure, _) => "it writes more than allowed".to_string(),
                    (_, Some(detail)) => detail.to_string(),
                    (kind, None) => kind.to_string(),
                }
            }
            None => e.to_string(),
        };
        if text.contains("recursion limit") {
            status = LIMIT;
        }
        parts.push(text.replace('`', "'").replace('\n', " "));
        next = e.source();
    }
    let place = line.map_or(String::new(), |line| format!(", line {line}"));
    Fail::new(status, format!("{NAME}{place}: {}", parts.join(": ")))
}

impl HbTemplate {
    fn render(&self, json: &[u8], local_now: i64) -> Result<Vec<u8>, Fail> {
        let json = std::str::from_utf8(json).map_err(|e| {
            Fail::new(BAD_CONTEXT, format!("the context: byte {} is not UTF-8", e.valid_up_to()))
        })?;
        let variables = context::read(json).map_err(|e| Fail::new(BAD_CONTEXT, e))?;
        let fuel = FUEL_PER_CONTEXT_BYTE.saturating_mul(json.len() as u64);
        let env = environment(self.limits.fuel.saturating_add(fuel), local_now);
        let compiled = parse(&self.source).map_err(|e| describe(&e, RUNTIME))?;
        let instructions = harden(&compiled.instructions);
        let blocks = compiled.blocks.iter().map(|(name, block)| (*name, harden(block))).collect();
        let mut text = String::with_capacity(compiled.buffer_size_hint);
        let result = eval(
            &env,
            &instructions,
            Value::from_pairs(variables),
            &blocks,
            &mut make_string_output(&mut text),
            AutoEscape::None,
        );
        result.map(drop).map_err(|e| describe(&e, RUNTIME))?;
        if text.len() as u64 > self.limits.max_output {
            let message = format!("{NAME}: it writes more than {} bytes", self.limits.max_output);
            return Err(Fail::new(LIMIT, message));
        }
        Ok(text.into_bytes())
    }
}

/// # Safety
/// Pointers are as the header says; `out` receives the handle.
#[no_mangle]
pub unsafe extern "C" fn hb_template_new(
    source: *const c_char,
    size: usize,
    limits: *const HbLimits,
    out: *mut *mut HbTemplate,
    err: *mut HbBuf,
) -> c_int {
    let zero = HbLimits { fuel: 0, max_output: 0, max_source: 0 };
    let limits = limits.as_ref().copied().unwrap_or(zero).or_default();
    let source = slice(source.cast::<u8>(), size);
    let result = deep(|| compile(source, limits)).and_then(|template| {
        let out = out.as_mut().ok_or_else(|| Fail::new(BAD_ARGUMENT, "out is null"))?;
        *out = Box::into_raw(Box::new(template));
        Ok(())
    });
    finish(err, result)
}

/// # Safety
/// `template` is null or a handle that is not used again.
#[no_mangle]
pub unsafe extern "C" fn hb_template_free(template: *mut HbTemplate) {
    if template.is_null() {
        return;
    }
    drop(Box::from_raw(template));
}

/// # Safety
/// Pointers are as the header says.
#[no_mangle]
pub unsafe extern "C" fn hb_template_render(
    template: *const HbTemplate,
    json: *const c_char,
    size: usize,
    local_now: i64,
    text: *mut HbBuf,
    err: *mut HbBuf,
) -> c_int {
    let json = slice(json.cast::<u8>(), size);
    let result = caught(|| {
        let template =
            template.as_ref().ok_or_else(|| Fail::new(BAD_ARGUMENT, "template is null"))?;
        deep(|| template.render(json, local_now))
    });
    finish(err, result.map(|bytes| store(text, bytes)))
}
