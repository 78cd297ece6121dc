// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Memory that crosses the C ABI.

/// A byte buffer whose memory belongs to this crate's allocator.
#[repr(C)]
pub struct HbBuf {
    data: *mut u8,
    size: usize,
    cap: usize,
}

impl HbBuf {
    /// Takes over what the buffer holds and leaves it empty.
    fn take(&mut self) -> Vec<u8> {
        let (data, size, cap) = (self.data, self.size, self.cap);
        self.data = std::ptr::null_mut();
        self.size = 0;
        self.cap = 0;
        if data.is_null() || cap == 0 {
            return Vec::new();
        }
        // SAFETY: a non-empty buffer was filled by `set`, so it is a Vec taken apart.
        unsafe { Vec::from_raw_parts(data, size, cap) }
    }

    pub fn set(&mut self, bytes: Vec<u8>) {
        drop(self.take());
        let mut bytes = std::mem::ManuallyDrop::new(bytes);
        self.data = bytes.as_mut_ptr();
        self.size = bytes.len();
        self.cap = bytes.capacity();
    }
}

/// Writes to the caller's buffer if there is one.
///
/// # Safety
/// `out` is null or points to a valid HbBuf that nobody else uses now.
pub unsafe fn store(out: *mut HbBuf, bytes: Vec<u8>) {
    if let Some(buf) = out.as_mut() {
        buf.set(bytes);
    }
}

/// The caller's bytes. An empty slice may come with any pointer.
///
/// # Safety
/// `data` points to `size` readable elements that outlive the result, or `size` is zero.
pub unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if data.is_null() || size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

/// # Safety
/// `buf` is null or points to a valid HbBuf.
#[no_mangle]
pub unsafe extern "C" fn hb_buf_free(buf: *mut HbBuf) {
    if let Some(buf) = buf.as_mut() {
        drop(buf.take());
    }
}
