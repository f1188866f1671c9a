//! Samples of idle CPUs, which a clock takes and cycles do not.
//!
//! A clock goes on while a CPU waits for work, and hits the idle loop; interrupts that are served from there
//! are work. A sample is idle when its innermost frame is where CPUs wait.

use crate::Profile;
use crate::names::KERNEL;
use crate::stacks::StackTable;

/// Functions of the kernel in which CPUs wait, without the suffixes of compilers.
const WAITS: [&str; 19] = [
    "acpi_idle_do_entry",
    "acpi_processor_ffh_cstate_enter",
    "acpi_safe_halt",
    "amd_e400_idle",
    "arch_cpu_idle",
    "cpu_do_idle",
    "cpu_idle_poll",
    "cpuidle_enter_state",
    "default_idle",
    "default_idle_call",
    "do_idle",
    "intel_idle",
    "intel_idle_ibrs",
    "intel_idle_irq",
    "mwait_idle",
    "mwait_idle_with_hints",
    "native_safe_halt",
    "poll_idle",
    "pv_native_safe_halt",
];

fn waits(name: &str) -> bool {
    let bare = name.split('.').next().unwrap_or(name);
    WAITS.binary_search(&bare).is_ok()
}

/// Takes the idle samples out of a profile, and notes how many they were.
pub fn leave_out(profile: &mut Profile) {
    let frames = profile.frames.frames();
    let is_idle = |numbers: &[u32]| {
        let [command, leaf, ..] = numbers else {
            return false;
        };
        let leaf = &frames[*leaf as usize];
        *frames[*command as usize].name == *"swapper"
            && *leaf.module == *KERNEL
            && waits(&leaf.name)
    };
    let mut kept = StackTable::default();
    let mut numbers = Vec::with_capacity(profile.stacks.len());
    let mut idle = 0;
    for stack in profile.stacks.iter() {
        if is_idle(stack.numbers) {
            idle += stack.count;
            numbers.push(None);
        } else {
            numbers.push(Some(kept.add(stack.numbers, stack.count, stack.weight)));
        }
    }
    if let Some(times) = &mut profile.times {
        times.renumber(|number| numbers[number as usize]);
    }
    profile.stacks = kept;
    profile.head.idle = Some(idle);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waiting_is_idle() {
        assert!(WAITS.is_sorted());
        let mut profile = Profile::default();
        let swapper = profile.frames.intern("swapper", "");
        let other = profile.frames.intern("prog", "");
        let halt = profile.frames.intern("pv_native_safe_halt", KERNEL);
        let entry = profile.frames.intern("cpuidle_enter_state.part.0", KERNEL);
        let receive = profile.frames.intern("net_rx_action", KERNEL);
        let user = profile.frames.intern("do_idle", "prog");
        for stack in [
            &[swapper, halt][..],
            &[swapper, entry, halt],
            &[swapper, receive, halt],
            &[other, user],
            &[swapper],
        ] {
            profile.add(stack, 1);
        }
        leave_out(&mut profile);
        assert_eq!(profile.head.idle, Some(2));
        assert_eq!(profile.stacks.samples(), 3);
    }
}
