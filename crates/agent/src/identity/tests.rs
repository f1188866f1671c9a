use std::fs;
use std::path::Path;

use super::*;

const MOUNTS_1: &str = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                        cgroup /sys/fs/cgroup/cpuacct cgroup rw,cpuacct 0 0\n";
const MOUNTS_2: &str = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";

struct Host {
    folder: tempfile::TempDir,
    mount: &'static str,
}

impl Host {
    fn new(mounts: &str, mount: &'static str) -> Self {
        let host = Self {
            folder: tempfile::tempdir().unwrap(),
            mount,
        };
        host.write("proc/mounts", mounts);
        host
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn group(&self, path: &str, pids: &str) {
        self.write(&format!("{}{path}/cgroup.procs", self.mount), pids);
    }

    fn process(&self, pid: u32, command: &str, environment: &str) {
        self.write(&format!("proc/{pid}/comm"), &format!("{command}\n"));
        self.write(&format!("proc/{pid}/environ"), environment);
    }

    fn finder(&self, most: usize) -> Finder {
        let tree = Tree::new(self.folder.path());
        let hierarchies = Hierarchies::of(&tree);
        Finder::new(&tree, hierarchies, Rules::new(&[], true).unwrap(), most)
    }
}

fn names(scan: &TaskScan) -> Vec<&str> {
    scan.tasks.iter().map(|task| task.task.as_str()).collect()
}

#[test]
fn tasks_of_both_versions() {
    for (mounts, mount) in [
        (MOUNTS_1, "sys/fs/cgroup/cpuacct"),
        (MOUNTS_2, "sys/fs/cgroup"),
    ] {
        let host = Host::new(mounts, mount);
        host.process(7, "nginx", "A=1\0STEELYARD_JOB=front\0");
        host.group("", "1\n");
        host.group("/system.slice", "");
        host.group("/system.slice/nginx.service", "7\n8\n");
        host.group("/system.slice/nginx.service/inner.service", "9\n");
        host.group("/system.slice/empty.service", "");
        host.group(
            "/user.slice/user-0.slice/user@0.service/app.slice/tool.service",
            "12\n",
        );
        let mut finder = host.finder(100);
        let found = finder.look();
        assert_eq!(names(&found), ["nginx.service", "tool.service"]);
        assert_eq!(found.tasks[0].job, "front");
        assert_eq!(found.tasks[0].cgroup, "/system.slice/nginx.service");
        // A group that gets its first process becomes a task; one that goes is none any longer.
        host.group("/system.slice/empty.service", "20\n");
        let gone = Path::new(mount).join("system.slice/nginx.service");
        fs::remove_dir_all(host.folder.path().join(gone)).unwrap();
        assert_eq!(names(&finder.look()), ["empty.service", "tool.service"]);
    }
}

#[test]
fn names_are_unique_and_tasks_bounded() {
    let host = Host::new(MOUNTS_2, "sys/fs/cgroup");
    for user in 0..3 {
        let path = format!("/user.slice/user-{user}.slice/user@{user}.service/same.service");
        host.group(&path, "5\n");
    }
    let found = host.finder(2).look();
    assert_eq!(found.too_many, 1);
    assert_eq!(
        names(&found),
        [
            "same.service",
            "same.service@/user.slice/user-1.slice/user@1.service/same.service"
        ]
    );
}

#[test]
fn a_machine_without_groups_has_no_tasks() {
    let host = Host::new("tmpfs /tmp tmpfs rw 0 0\n", "sys/fs/cgroup");
    assert!(host.finder(10).look().tasks.is_empty());
}
