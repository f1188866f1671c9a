//! The loops of the bandwidth test, each over arrays of one thread, and the contents they must leave.
//!
//! The arrays hold u64 so that every result can be compared exactly. Copy and triad mix in a value that the
//! compiler cannot know: it would otherwise make a call to memcpy of a plain copy, and with it let the C library
//! choose between plain and non-temporal stores.

use std::hint::black_box;

/// What a loop does to the arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Sums `b`.
    Read,
    /// Stores to `a`.
    Write,
    /// Stores to `a` past the caches (x86-64 only).
    WriteNontemporal,
    /// `a = b`.
    Copy,
    /// `a = b + k c`.
    Triad,
}

impl Kernel {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [
        Self::Read,
        Self::Write,
        Self::WriteNontemporal,
        Self::Copy,
        Self::Triad,
    ];

    /// The word in the record.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteNontemporal => "write_nontemporal",
            Self::Copy => "copy",
            Self::Triad => "triad",
        }
    }

    /// Bytes that it asks to move for each byte of an array, as STREAM counts them: lines that a store brings
    /// into the cache first are not counted.
    pub(crate) fn bytes_per_byte(self) -> f64 {
        match self {
            Self::Read | Self::Write | Self::WriteNontemporal => 1.0,
            Self::Copy => 2.0,
            Self::Triad => 3.0,
        }
    }

    /// Whether this instruction set has it.
    pub(crate) fn is_supported(self) -> bool {
        self != Self::WriteNontemporal || cfg!(target_arch = "x86_64")
    }
}

/// The three arrays of one thread.
pub(crate) struct Arrays<'a> {
    pub(crate) a: &'a mut [u64],
    pub(crate) b: &'a mut [u64],
    pub(crate) c: &'a mut [u64],
}

const B_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 3;

fn b_at(index: usize) -> u64 {
    (index as u64).wrapping_mul(B_STEP)
}

fn c_at(index: usize) -> u64 {
    (index as u64) ^ 0x5555
}

fn mark_at(pass: u64) -> u64 {
    pass.wrapping_mul(B_STEP) | 1
}

impl Arrays<'_> {
    /// Gives the arrays the contents that the kernels start from; the first touch of their pages.
    pub(crate) fn fill(&mut self) {
        self.a.fill(0);
        for (index, (b, c)) in self.b.iter_mut().zip(self.c.iter_mut()).enumerate() {
            *b = b_at(index);
            *c = c_at(index);
        }
    }

    /// One pass of `kernel`. Returns the sum of what was read, 0 for kernels that write.
    pub(crate) fn pass(&mut self, kernel: Kernel, pass: u64) -> u64 {
        match kernel {
            Kernel::Read => sum(self.b),
            Kernel::Write => {
                store(self.a, mark_at(pass));
                0
            }
            Kernel::WriteNontemporal => {
                store_past_caches(self.a, mark_at(pass));
                0
            }
            Kernel::Copy => {
                copy(self.a, self.b, black_box(0));
                0
            }
            Kernel::Triad => {
                triad(self.a, self.b, self.c, black_box(FACTOR));
                0
            }
        }
    }

    /// Whether the arrays hold what `kernel` must have left after `pass`, and `read` is what it must have read.
    pub(crate) fn is_right(&self, kernel: Kernel, pass: u64, read: u64) -> bool {
        let all = |expected: &dyn Fn(usize) -> u64| {
            self.a
                .iter()
                .enumerate()
                .all(|(index, value)| *value == expected(index))
        };
        match kernel {
            Kernel::Read => {
                let expected =
                    (0..self.b.len()).fold(0u64, |sum, index| sum.wrapping_add(b_at(index)));
                expected == read
            }
            Kernel::Write | Kernel::WriteNontemporal => all(&|_| mark_at(pass)),
            Kernel::Copy => all(&b_at),
            Kernel::Triad => {
                all(&|index| b_at(index).wrapping_add(FACTOR.wrapping_mul(c_at(index))))
            }
        }
    }
}

#[inline(never)]
fn sum(from: &[u64]) -> u64 {
    // Independent partial sums, so that the loop waits for memory and not for additions.
    let mut parts = [0u64; 32];
    let chunks = from.chunks_exact(32);
    let rest = chunks
        .remainder()
        .iter()
        .fold(0u64, |sum, value| sum.wrapping_add(*value));
    for chunk in chunks {
        for (part, value) in parts.iter_mut().zip(chunk) {
            *part = part.wrapping_add(*value);
        }
    }
    black_box(parts.iter().fold(rest, |sum, part| sum.wrapping_add(*part)))
}

#[inline(never)]
fn store(to: &mut [u64], value: u64) {
    for place in to.iter_mut() {
        *place = value;
    }
    black_box(to);
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn store_past_caches(to: &mut [u64], value: u64) {
    use std::arch::x86_64::{__m128i, _mm_set1_epi64x, _mm_sfence, _mm_stream_si128};

    assert!(to.as_ptr().addr().is_multiple_of(16) && to.len().is_multiple_of(2));
    // SAFETY: SSE2 is part of x86-64; every store is 16 bytes, aligned, and inside `to`.
    unsafe {
        let value = _mm_set1_epi64x(value as i64);
        let base = to.as_mut_ptr().cast::<__m128i>();
        for index in 0..to.len() / 2 {
            _mm_stream_si128(base.add(index), value);
        }
        _mm_sfence();
    }
    black_box(to);
}

#[cfg(not(target_arch = "x86_64"))]
fn store_past_caches(_to: &mut [u64], _value: u64) {
    unreachable!("is_supported says so")
}

#[inline(never)]
fn copy(to: &mut [u64], from: &[u64], mask: u64) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from ^ mask;
    }
    black_box(to);
}

#[inline(never)]
fn triad(to: &mut [u64], left: &[u64], right: &[u64], factor: u64) {
    // The multiplication of a 64-bit vector is slow before AVX-512; additions and shifts keep the loop bound by
    // memory: factor x = x + (x << shift) for factors one above a power of two.
    let shift = (factor - 1).trailing_zeros();
    for ((to, left), right) in to.iter_mut().zip(left).zip(right) {
        *to = left.wrapping_add(*right).wrapping_add(*right << shift);
    }
    black_box(to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_leaves_what_it_must_and_a_changed_word_is_seen() {
        #[repr(align(64))]
        struct Aligned([u64; 1002]);
        let (mut a, mut b, mut c) = (Aligned([0; 1002]), Aligned([0; 1002]), Aligned([0; 1002]));
        let mut arrays = Arrays {
            a: &mut a.0,
            b: &mut b.0,
            c: &mut c.0,
        };
        arrays.fill();
        for kernel in Kernel::ALL
            .into_iter()
            .filter(|kernel| kernel.is_supported())
        {
            for pass in [1, 2] {
                let read = arrays.pass(kernel, pass);
                assert!(arrays.is_right(kernel, pass, read), "{kernel:?}");
                assert!(
                    kernel == Kernel::Read
                        || kernel == Kernel::Copy
                        || kernel == Kernel::Triad
                        || !arrays.is_right(kernel, pass + 1, read),
                    "{kernel:?}: each pass leaves its own mark"
                );
            }
            let read = arrays.pass(kernel, 3);
            arrays.a[777] ^= 1;
            assert_eq!(
                arrays.is_right(kernel, 3, read),
                kernel == Kernel::Read,
                "{kernel:?}"
            );
            assert!(kernel != Kernel::Read || !arrays.is_right(kernel, 3, read ^ 1));
        }
    }
}
