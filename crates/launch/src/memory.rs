//! Which NUMA nodes memory comes from.

use std::io;

/// Memory comes from the given nodes and no others (set_mempolicy(2)).
const MPOL_BIND: libc::c_long = 2;
/// Flag of get_mempolicy(2): the nodes that the process may use at all.
const MPOL_F_MEMS_ALLOWED: libc::c_ulong = 1 << 2;
/// More nodes than any Linux supports (MAX_NUMNODES is at most 1024).
const MOST_NODES: usize = 1 << 12;
const WORDS: usize = MOST_NODES / 64;

/// Binds memory that the calling thread allocates from now on, and that of programs it starts, to `nodes`.
///
/// The policy passes on to children and through exec. Memory that is there already stays where it is.
pub fn bind_memory(nodes: &[usize]) -> io::Result<()> {
    let mut mask = [0u64; WORDS];
    for node in nodes {
        let word = mask
            .get_mut(node / 64)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        *word |= 1 << (node % 64);
    }
    // The kernel reads one bit less than it is given.
    let bits = MOST_NODES + 1;
    // SAFETY: the pointer and the length describe `mask`, which outlives the call.
    let status = unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_BIND, mask.as_ptr(), bits) };
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The nodes whose memory the calling thread may use, in ascending order.
pub fn allowed_memory_nodes() -> io::Result<Vec<usize>> {
    let mut mask = [0u64; WORDS];
    // SAFETY: the pointer and the length describe `mask`; neither a mode nor an address is asked for.
    let status = unsafe {
        libc::syscall(
            libc::SYS_get_mempolicy,
            std::ptr::null_mut::<libc::c_int>(),
            mask.as_mut_ptr(),
            MOST_NODES,
            std::ptr::null_mut::<libc::c_void>(),
            MPOL_F_MEMS_ALLOWED,
        )
    };
    if status != 0 {
        return Err(io::Error::last_os_error());
    }
    let nodes = (0..MOST_NODES).filter(|node| mask[node / 64] >> (node % 64) & 1 == 1);
    Ok(nodes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        // In a thread of its own: a policy that was taken by mistake would end with it.
        std::thread::spawn(|| {
            let error = bind_memory(&[1000]).expect_err("no machine has node 1000");
            let refusals = [libc::EINVAL, libc::EPERM, libc::ENOSYS];
            assert!(
                refusals.contains(&error.raw_os_error().unwrap_or(0)),
                "{error}"
            );
            assert!(bind_memory(&[MOST_NODES]).is_err());
        })
        .join()
        .expect("no panic");
    }
}
