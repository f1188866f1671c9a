//! Counters that one thread writes and any thread reads.
//!
//! Invariant: only the owner adds, so that adding needs no locked instruction; readers may be a moment late.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident,)*) => {
        /// What a fast thread counts.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Counter { $($(#[$doc])* $variant,)* }
        /// How many kinds are counted.
        pub const COUNT: usize = [$(Counter::$variant),*].len();

        impl Counter {
            /// All kinds, in order.
            pub const ALL: [Self; COUNT] = [$(Self::$variant),*];
        }
    };
}

counters! {
    /// Commands answered.
    Requests,
    /// Keys answered from the cache.
    FastRequests,
    /// Keys that went through a slow thread.
    SlowRequests,
    /// Keys asked for by get, gets, gat, gats.
    Gets,
    /// Keys found.
    GetHits,
    /// Keys not found.
    GetMisses,
    /// Storage commands.
    Sets,
    /// flush_all commands.
    Flushes,
    /// touch, gat and gats keys.
    Touches,
    /// Of them found.
    TouchHits,
    /// Of them not found.
    TouchMisses,
    /// delete found its key.
    DeleteHits,
    /// delete did not.
    DeleteMisses,
    /// incr found its key.
    IncrHits,
    /// incr did not.
    IncrMisses,
    /// decr found its key.
    DecrHits,
    /// decr did not.
    DecrMisses,
    /// cas with the right id.
    CasHits,
    /// cas of a missing key.
    CasMisses,
    /// cas with a wrong id.
    CasBadValues,
    /// Commands answered with an error line.
    Errors,
    /// Values refused for their size.
    TooLarge,
    /// Bytes from clients.
    BytesRead,
    /// Bytes to clients.
    BytesWritten,
}

/// A thread's counters, on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Counters([AtomicU64; COUNT]);

impl Default for Counters {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Counters {
    /// Adds `amount`; for the owner only.
    #[inline]
    pub fn add(&self, counter: Counter, amount: u64) {
        let cell = &self.0[counter as usize];
        cell.store(cell.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    /// The count now.
    #[inline]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Relaxed)
    }
}
