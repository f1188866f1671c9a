use std::fs;

use super::*;
use crate::config::MachineLimits;
use crate::rows::Labels;
use crate::testing::tree;

#[test]
fn a_window_of_the_machine() {
    let (folder, tree) = tree(&[
        (
            "proc/stat",
            "cpu  100 0 50 900 7 1 2 3 0 0\ncpu0 1\ncpu1 1\nintr 1\n",
        ),
        (
            "proc/meminfo",
            "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 40 kB\n",
        ),
        (
            "proc/diskstats",
            " 8 0 sda 1 0 100 0 1 0 200 0 0 30 0\n 8 1 sda1 1 0 100 0 1 0 200 0 0 30 0\n",
        ),
        ("sys/block/sda/device/x", ""),
        (
            "proc/net/dev",
            "a |b\n  lo: 5 0 0 0 0 0 0 0 5\neth0: 100 0 0 0 0 0 0 0 50\nveth1: 9 0 0 0 0 0 0 0 9\n",
        ),
        ("sys/class/net/eth0/device/x", ""),
        ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "9000000\n"),
        (
            "sys/class/powercap/intel-rapl:0/max_energy_range_uj",
            "10000000\n",
        ),
        (
            "sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw",
            "150000000\n",
        ),
        // Neither parts, nor the whole board, nor the same counters once more.
        ("sys/class/powercap/intel-rapl:0:0/name", "dram\n"),
        ("sys/class/powercap/intel-rapl:0:0/energy_uj", "1\n"),
        ("sys/class/powercap/intel-rapl:1/name", "psys\n"),
        ("sys/class/powercap/intel-rapl:1/energy_uj", "1\n"),
        (
            "sys/class/powercap/intel-rapl:1/max_energy_range_uj",
            "10000000\n",
        ),
        (
            "sys/class/powercap/intel-rapl:1/constraint_0_power_limit_uw",
            "500000000\n",
        ),
        ("sys/class/powercap/intel-rapl-mmio:0/name", "package-0\n"),
        ("sys/class/powercap/intel-rapl-mmio:0/energy_uj", "1\n"),
        (
            "sys/class/powercap/intel-rapl-mmio:0/max_energy_range_uj",
            "10000000\n",
        ),
        (
            "sys/devices/system/cpu/cpu0/topology/physical_package_id",
            "0\n",
        ),
        ("sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
        (
            "sys/devices/system/cpu/cpu1/topology/physical_package_id",
            "0\n",
        ),
        ("sys/devices/system/cpu/cpu1/topology/core_id", "0\n"),
        (
            "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms",
            "10\n",
        ),
    ]);
    let machines = Machines::new(&tree);
    let then = machines.read(&|| 1_000_000_000);
    let write = |path: &str, text: &str| fs::write(folder.path().join(path), text).unwrap();
    write(
        "proc/stat",
        "cpu  300 0 150 1700 17 1 2 13 0 0\ncpu0 1\ncpu1 1\n",
    );
    write("proc/diskstats", " 8 0 sda 1 0 300 0 1 0 250 0 0 1030 0\n");
    write(
        "proc/net/dev",
        "eth0: 300 0 0 0 0 0 0 0 150\nveth1: 99 0 0 0 0 0 0 0 99\n",
    );
    write("sys/class/powercap/intel-rapl:0/energy_uj", "4000000\n");
    write("sys/class/powercap/intel-rapl:1/energy_uj", "9000000\n");
    write(
        "sys/class/powercap/intel-rapl-mmio:0/energy_uj",
        "5000000\n",
    );
    write(
        "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_total_time_ms",
        "260\n",
    );
    let now = machines.read(&|| 6_000_000_000);
    let counted = Counted {
        core_cycles: Some(9_000_000_000),
        ..Counted::default()
    };
    let sample = machines.sample(&then, &now, 77, &counted).unwrap();
    let tick_s = ns_per_clock_tick() as f64 / 1e9;
    assert_eq!((sample.window_start_unix_s, sample.window_s), (77, 5.0));
    assert_eq!(
        (sample.threads, sample.cores, sample.core_busy_s),
        (2, Some(1), None)
    );
    assert!((sample.cpu_s - 300.0 * tick_s).abs() < 1e-9);
    assert!((sample.io_wait_s.unwrap() - 10.0 * tick_s).abs() < 1e-9);
    assert!((sample.steal_s.unwrap() - 10.0 * tick_s).abs() < 1e-9);
    assert!((sample.frequency_hz.unwrap() - 9e9 / sample.cpu_s).abs() < 1.0);
    assert_eq!(
        (sample.disk_read_bytes, sample.disk_write_bytes),
        (Some(200 * 512), Some(50 * 512))
    );
    assert_eq!(sample.disk_busy_s, Some(1.0));
    assert_eq!(
        (sample.network_receive_bytes, sample.network_send_bytes),
        (Some(200), Some(100))
    );
    assert_eq!(
        (sample.power_w, sample.power_cap_w),
        (Some(1.0), Some(150.0))
    );
    assert_eq!(sample.throttled_s, Some(0.25));
    assert_eq!(sample.memory_used_bytes, Some(60 * 1024));
    assert_eq!(sample.memory_bandwidth_bytes_per_s, None);
}

#[test]
fn what_a_machine_is() {
    let (_folder, tree) = tree(&[
        (
            "proc/cpuinfo",
            "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R)  Xeon(R) @ 2.10GHz\n\nprocessor : 1\n",
        ),
        ("proc/meminfo", "MemTotal: 100 kB\n"),
        ("proc/sys/kernel/osrelease", "6.1.0\n"),
        (
            "sys/devices/system/cpu/cpu0/topology/physical_package_id",
            "0\n",
        ),
        ("sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
        (
            "sys/devices/system/cpu/cpu1/topology/physical_package_id",
            "1\n",
        ),
        ("sys/devices/system/cpu/cpu1/topology/core_id", "0\n"),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq",
            "3500000\n",
        ),
        ("sys/devices/system/node/node0/cpulist", "0\n"),
        ("sys/devices/system/node/node0/distance", "10 20\n"),
        ("sys/devices/system/node/node1/cpulist", "1\n"),
        ("sys/devices/system/node/node1/distance", "20 10\n"),
        ("sys/class/net/eth0/device/x", ""),
        ("sys/class/net/eth0/speed", "10000\n"),
        ("sys/class/net/veth0/speed", "10000\n"),
    ]);
    let topology = Topology::of(&tree);
    let labels = Labels::from([("rack".to_owned(), "7".to_owned())]);
    let machine = inventory(&tree, &topology, &MachineLimits::default(), &labels, 5);
    assert_eq!(platform_of(&tree), "Intel(R) Xeon(R) @ 2.10GHz");
    assert_eq!(machine.vendor.as_deref(), Some("GenuineIntel"));
    assert_eq!(
        (machine.sockets, machine.cores, machine.threads),
        (Some(2), Some(2), Some(2))
    );
    assert_eq!((machine.numa_nodes, machine.smt_on), (Some(2), Some(false)));
    assert_eq!(machine.node_distances, Some(vec![10.0, 20.0, 20.0, 10.0]));
    assert_eq!(
        (machine.nominal_frequency_hz, machine.max_frequency_hz),
        (Some(2.1e9), Some(3.5e9))
    );
    assert_eq!(machine.network_limit_bytes_per_s, Some(1.25e9));
    assert_eq!(
        (machine.memory_bytes, machine.kernel.as_deref()),
        (Some(102_400), Some("6.1.0"))
    );
    let (_empty, nothing) = crate::testing::tree(&[]);
    let machine = inventory(
        &nothing,
        &Topology::of(&nothing),
        &MachineLimits::default(),
        &Labels::new(),
        5,
    );
    assert_eq!(
        (machine.cores, machine.threads, machine.memory_bytes),
        (None, None, None)
    );
    assert_eq!(platform_of(&nothing), "unknown");
}
