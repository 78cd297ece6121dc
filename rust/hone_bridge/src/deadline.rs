// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! Work that a stranger's text asks for, with a limit of time: nobody waits longer for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{sync_channel, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::guard::{caught, Fail, DEEP_STACK, LIMIT, NO_RESOURCE, PANIC};

/// Usual grammars take milliseconds.
pub const COMPILE_TIME: Duration = Duration::from_secs(2);

/// Nothing stops a thread from outside, so one that is given up runs to its end, which other limits
/// bound. No new work begins while so many do.
const MAX_GIVEN_UP: usize = 8;
static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);

#[derive(PartialEq)]
enum State {
    Running,
    Done,
    GivenUp,
}

/// As guard::deep, but LIMIT if f has not ended after that time.
pub fn deep_within<T: Send + 'static>(
    time: Duration,
    f: impl FnOnce() -> Result<T, Fail> + Send + 'static,
) -> Result<T, Fail> {
    deep_within_of(&GIVEN_UP, time, f)
}

/// given_up counts those that are given up and still run.
fn deep_within_of<T: Send + 'static>(
    given_up: &'static AtomicUsize,
    time: Duration,
    f: impl FnOnce() -> Result<T, Fail> + Send + 'static,
) -> Result<T, Fail> {
    if given_up.load(Ordering::SeqCst) >= MAX_GIVEN_UP {
        let message = format!("{MAX_GIVEN_UP} others that take too long are still being compiled");
        return Err(Fail::new(LIMIT, message));
    }
    let (send, receive) = sync_channel(1);
    let state = Arc::new(Mutex::new(State::Running));
    let of_thread = state.clone();
    let work = move || {
        let result = caught(f);
        let mut state = of_thread.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::GivenUp {
            given_up.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        *state = State::Done;
        let _ = send.send(result);
    };
    std::thread::Builder::new().stack_size(DEEP_STACK).spawn(work).map_err(|e| {
        let stack = DEEP_STACK >> 20;
        Fail::new(NO_RESOURCE, format!("the system refuses a thread with {stack} MB of stack: {e}"))
    })?;
    let broken = || Fail::new(PANIC, "a library failed inside");
    match receive.recv_timeout(time) {
        Ok(result) => result,
        Err(RecvTimeoutError::Disconnected) => Err(broken()),
        Err(RecvTimeoutError::Timeout) => {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if *state == State::Done {
                return receive.try_recv().unwrap_or_else(|_| Err(broken()));
            }
            *state = State::GivenUp;
            given_up.fetch_add(1, Ordering::SeqCst);
            let seconds = time.as_secs_f64();
            Err(Fail::new(LIMIT, format!("it takes more than {seconds} s to compile")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn gives_what_the_work_gives() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let time = Duration::from_secs(60);
        assert_eq!(deep_within_of(&COUNT, time, || Ok(7)).unwrap(), 7);
        let no = || Err::<(), _>(Fail::new(LIMIT, "no"));
        let fail = deep_within_of(&COUNT, time, no).unwrap_err();
        assert_eq!((fail.status, fail.message.as_str()), (LIMIT, "no"));
        let fail = deep_within_of::<()>(&COUNT, time, || panic!("oh")).unwrap_err();
        assert_eq!(fail.status, PANIC);
    }

    #[test]
    fn does_not_wait_longer_and_counts_what_still_runs() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (end, ends) = sync_channel::<()>(1);
        let begin = Instant::now();
        let fail = deep_within_of(&COUNT, Duration::from_millis(20), move || {
            let _ = ends.recv();
            Ok(())
        });
        assert_eq!(fail.unwrap_err().status, LIMIT);
        assert!(begin.elapsed() < Duration::from_secs(60));
        assert_eq!(COUNT.load(Ordering::SeqCst), 1);
        drop(end);
        for _ in 0..6000 {
            if COUNT.load(Ordering::SeqCst) == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the thread that was given up has not ended");
    }

    #[test]
    fn begins_nothing_while_too_many_are_given_up() {
        static COUNT: AtomicUsize = AtomicUsize::new(MAX_GIVEN_UP);
        let fail = deep_within_of(&COUNT, Duration::from_secs(60), || Ok(7)).unwrap_err();
        assert_eq!(fail.status, LIMIT);
        COUNT.fetch_sub(1, Ordering::SeqCst);
        assert_eq!(deep_within_of(&COUNT, Duration::from_secs(60), || Ok(7)).unwrap(), 7);
    }
}
