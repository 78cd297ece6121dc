// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Tokenizers, chat templates and grammars behind a C ABI. include/hone_bridge.h is the contract.

mod args;
mod buf;
mod builtins;
mod context;
mod deadline;
mod decode;
mod filters;
mod grammar;
mod guard;
mod harden;
mod hash;
#[cfg(test)]
mod hostile;
mod json;
mod matcher;
mod methods;
mod objects;
mod order;
mod printf;
mod pyrepr;
mod regex;
mod rewrite;
mod strftime;
mod strmethods;
mod template;
mod textfilters;
mod tokenizer;
mod vocab;

/// Equals HB_ABI_VERSION of the header.
const ABI_VERSION: u32 = 2;

#[no_mangle]
pub extern "C" fn hb_abi_version() -> u32 {
    ABI_VERSION
}
