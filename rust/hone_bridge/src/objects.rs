// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Values with a behaviour that the engine does not have: dicts, views of dicts, bound methods,
//! cycler and joiner.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::value::{DynObject, Enumerator, Object, ObjectExt, ObjectRepr, Value};
use minijinja::{Error, ErrorKind, State};

use crate::args::{type_error, Args};
use crate::methods;

/// A dict of the context. `d.items` is the method even if there is a key "items", as in jinja2;
/// `d['items']` is the entry.
#[derive(Debug)]
pub struct Dict {
    entries: IndexMap<String, Value>,
    parts: usize,
}

impl Dict {
    /// `parts`: how many values it holds, those inside others included.
    pub fn new(entries: IndexMap<String, Value>, parts: usize) -> Dict {
        Dict { entries, parts }
    }

    pub fn parts(&self) -> usize {
        self.parts
    }
}

impl Object for Dict {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.entries.get(key.as_str()?).cloned()
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        if methods::DICT_METHODS.contains(&key) {
            let this = Value::from_dyn_object(DynObject::new(self.clone()));
            return Some(Value::from_object(BoundMethod { this, name: key.to_string() }));
        }
        self.entries.get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_key_value_enumerator(|this| {
            Box::new(this.entries.iter().map(|(k, v)| (Value::from(k.as_str()), v.clone())))
        })
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// What d.items(), d.keys() and d.values() return.
#[derive(Debug)]
pub struct View {
    pub name: &'static str,
    pub values: Vec<Value>,
}

impl View {
    pub fn type_name(&self) -> &'static str {
        self.name
    }
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.mapped_rev_enumerator(|this| Box::new(this.values.iter().cloned()))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.values.len())
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?})", self.name, self.values)
    }
}

/// A method without its call, as in `{% set f = d.items %}`.
#[derive(Debug)]
pub struct BoundMethod {
    this: Value,
    name: String,
}

impl BoundMethod {
    pub fn describe(&self) -> String {
        format!("<built-in method {} of dict object>", self.name)
    }
}

impl Object for BoundMethod {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        methods::call(state, &self.this, &self.name, args)
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

/// cycler('a', 'b'): next(), reset(), current.
#[derive(Debug)]
pub struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

impl Cycler {
    pub fn create(items: &[Value]) -> Result<Value, Error> {
        if items.is_empty() {
            return Err(type_error("at least one item has to be provided"));
        }
        Ok(Value::from_object(Cycler { items: items.to_vec(), at: AtomicUsize::new(0) }))
    }

    fn current(&self) -> Value {
        self.items[self.at.load(Ordering::Relaxed) % self.items.len()].clone()
    }
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<Cycler object>")
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.current())
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        Args::bind(method, args, &[])?;
        match method {
            "next" => {
                let value = self.current();
                self.at.fetch_add(1, Ordering::Relaxed);
                Ok(value)
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// joiner(', '): nothing at the first call, the separator afterwards.
#[derive(Debug)]
pub struct Joiner {
    separator: Value,
    used: AtomicBool,
}

impl Joiner {
    pub fn create(args: &[Value]) -> Result<Value, Error> {
        let args = Args::bind("joiner", args, &["sep"])?;
        let separator = args.get(0).cloned().unwrap_or_else(|| Value::from(", "));
        Ok(Value::from_object(Joiner { separator, used: AtomicBool::new(false) }))
    }
}

impl Object for Joiner {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("<Joiner object>")
    }

    fn call(self: &Arc<Self>, _state: &mut State<'_, '_>, _args: &[Value]) -> Result<Value, Error> {
        if self.used.swap(true, Ordering::Relaxed) {
            Ok(self.separator.clone())
        } else {
            Ok(Value::from(""))
        }
    }
}
