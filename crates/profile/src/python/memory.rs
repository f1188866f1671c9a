//! Another process's memory, read without stopping it.

/// Reads memory.
pub trait Memory {
    /// Fills `bytes` from `address`; None when that cannot be read whole.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()>;

    /// The word `offset` bytes after `address`; None as well where memory ends before that.
    fn word(&self, address: u64, offset: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address.checked_add(offset)?, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }
}

/// The memory of a process.
#[derive(Debug, Clone, Copy)]
pub struct ProcessMemory {
    /// Its id.
    pub pid: u32,
}

impl Memory for ProcessMemory {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let local = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let remote = libc::iovec {
            iov_base: address as *mut libc::c_void,
            iov_len: bytes.len(),
        };
        // SAFETY: `local` is this buffer; the kernel checks the other process's addresses.
        let read = unsafe {
            libc::process_vm_readv(
                self.pid as libc::pid_t,
                &raw const local,
                1,
                &raw const remote,
                1,
                0,
            )
        };
        (usize::try_from(read) == Ok(bytes.len())).then_some(())
    }
}
