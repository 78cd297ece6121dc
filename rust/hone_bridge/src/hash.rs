// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! SHA-256.

use sha2::{Digest, Sha256};
use std::os::raw::c_void;

use crate::buf::slice;

pub struct HbSha256(Sha256);

#[no_mangle]
pub extern "C" fn hb_sha256_new() -> *mut HbSha256 {
    Box::into_raw(Box::new(HbSha256(Sha256::new())))
}

/// # Safety
/// `state` comes from hb_sha256_new; `data` points to `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn hb_sha256_update(state: *mut HbSha256, data: *const c_void, size: usize) {
    if let Some(state) = state.as_mut() {
        state.0.update(slice(data.cast::<u8>(), size));
    }
}

/// # Safety
/// `state` comes from hb_sha256_new; `digest` has room for 32 bytes.
#[no_mangle]
pub unsafe extern "C" fn hb_sha256_finish(state: *mut HbSha256, digest: *mut u8) {
    if let Some(state) = state.as_mut() {
        let bytes = state.0.finalize_reset();
        if !digest.is_null() {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), digest, bytes.len());
        }
    }
}

/// # Safety
/// `state` is null or comes from hb_sha256_new and is not used again.
#[no_mangle]
pub unsafe extern "C" fn hb_sha256_free(state: *mut HbSha256) {
    if !state.is_null() {
        drop(Box::from_raw(state));
    }
}
