// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! What every entry shares: status codes, caught panics, threads with a deep stack.

use std::os::raw::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use crate::buf::{store, HbBuf};

pub const OK: c_int = 0;
pub const RAISED: c_int = 1;
pub const SYNTAX: c_int = 2;
pub const RUNTIME: c_int = 3;
pub const LIMIT: c_int = 4;
pub const NO_RESOURCE: c_int = 8;
pub const BAD_CONTEXT: c_int = 5;
pub const BAD_ARGUMENT: c_int = 6;
pub const UNSUPPORTED: c_int = 7;
pub const PANIC: c_int = 9;

/// Values nested by a template recurse when they are compared, printed and dropped. What the fuel
/// allows fits this stack. Only touched pages take memory.
pub const DEEP_STACK: usize = 256 << 20;

#[derive(Debug)]
pub struct Fail {
    pub status: c_int,
    pub message: String,
}

impl Fail {
    pub fn new(status: c_int, message: impl Into<String>) -> Fail {
        Fail { status, message: message.into() }
    }

    pub fn with_status(self, status: c_int) -> Fail {
        Fail { status, ..self }
    }
}

fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|s| s.to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string())
}

/// Panics are reported as a status, so the default hook must not print them.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

pub fn caught<T>(f: impl FnOnce() -> Result<T, Fail>) -> Result<T, Fail> {
    silence_panics();
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(payload) => {
            let text = panic_text(&*payload);
            // Dropping a payload may itself panic.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            Err(Fail::new(PANIC, format!("a library failed inside: {text}")))
        }
    }
}

/// Runs f on a thread with a deep stack.
pub fn deep<T: Send>(f: impl FnOnce() -> Result<T, Fail> + Send) -> Result<T, Fail> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(DEEP_STACK);
        match thread.spawn_scoped(scope, || caught(f)) {
            Ok(handle) => {
                handle.join().unwrap_or_else(|_| Err(Fail::new(PANIC, "a library failed inside")))
            }
            Err(e) => Err(Fail::new(
                NO_RESOURCE,
                format!("the system refuses a thread with {} MB of stack: {e}", DEEP_STACK >> 20),
            )),
        }
    })
}

/// The end of every entry: the status, with the message in `err`.
///
/// # Safety
/// `err` is null or points to a valid HbBuf.
pub unsafe fn finish(err: *mut HbBuf, result: Result<(), Fail>) -> c_int {
    match result {
        Ok(()) => OK,
        Err(fail) => {
            store(err, fail.message.into_bytes());
            fail.status
        }
    }
}
