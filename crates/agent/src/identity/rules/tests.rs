use super::*;

struct Fake {
    command: Option<&'static str>,
    variables: &'static [(&'static str, &'static str)],
}

impl Process for Fake {
    fn command(&mut self) -> Option<String> {
        self.command.map(str::to_owned)
    }

    fn variable(&mut self, name: &str) -> Option<String> {
        let found = self.variables.iter().find(|(known, _)| *known == name)?;
        Some(found.1.to_owned())
    }
}

const NOBODY: Fake = Fake {
    command: None,
    variables: &[],
};

const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn ask(path: &str, mut process: Fake) -> String {
    match Rules::new(&[], true).unwrap().ask(path, &mut process) {
        None => "-".to_owned(),
        Some(Answer::Ignore) => "ignore".to_owned(),
        Some(Answer::Descend) => "descend".to_owned(),
        Some(Answer::Task {
            job,
            task,
            job_class,
            rule,
            ..
        }) => format!("{job} {task} {} {rule}", job_class.name()),
    }
}

fn in_pod(hostname: &'static str) -> Fake {
    Fake {
        command: Some("java"),
        variables: match hostname {
            "web-7d9c6b8f5-x2x4z" => &[("HOSTNAME", "web-7d9c6b8f5-x2x4z")],
            "db-0" => &[("HOSTNAME", "db-0")],
            "node-exporter-b4x7k" => &[("HOSTNAME", "node-exporter-b4x7k")],
            _ => &[("HOSTNAME", "worker"), ("STEELYARD_JOB_CLASS", "batch")],
        },
    }
}

#[test]
fn every_layout_has_its_names() {
    let pod = "kubepods-burstable-pod1b2c3d4e_0000_1111_2222_333344445555.slice";
    let deep = format!("/kubepods.slice/kubepods-burstable.slice/{pod}/cri-containerd-{ID}.scope");
    let cases = [
        (
            deep.clone(),
            in_pod("web-7d9c6b8f5-x2x4z"),
            "web web-7d9c6b8f5-x2x4z/0123456789ab latency-sensitive kubernetes-systemd",
        ),
        (
            deep.clone(),
            in_pod("db-0"),
            "db db-0/0123456789ab latency-sensitive kubernetes-systemd",
        ),
        (
            deep.clone(),
            in_pod("node-exporter-b4x7k"),
            "node-exporter node-exporter-b4x7k/0123456789ab latency-sensitive kubernetes-systemd",
        ),
        (
            deep.clone(),
            in_pod(""),
            "worker worker/0123456789ab batch kubernetes-systemd",
        ),
        (
            deep.clone(),
            NOBODY,
            "pod-1b2c3d4e_0000_1111_2222_333344445555 pod-1b2c3d4e_0000_1111_2222_333344445555/0123456789ab latency-sensitive kubernetes-systemd-unnamed",
        ),
        (
            deep,
            Fake {
                command: Some("pause"),
                variables: &[],
            },
            "ignore",
        ),
        (
            format!("/kubepods/besteffort/pod1b2c-3d/{ID}"),
            Fake {
                command: Some("cat"),
                variables: &[],
            },
            "cat pod-1b2c-3d/0123456789ab best-effort kubernetes-cgroupfs-unnamed",
        ),
        (
            format!("/kubepods/pod1b2c-3d/{ID}"),
            Fake {
                command: Some("cat"),
                variables: &[],
            },
            "cat pod-1b2c-3d/0123456789ab latency-sensitive kubernetes-cgroupfs-unnamed",
        ),
        (
            format!("/system.slice/docker-{ID}.scope"),
            Fake {
                command: Some("redis-server"),
                variables: &[],
            },
            "redis-server docker-0123456789ab latency-sensitive container-scope",
        ),
        (
            format!("/docker/{ID}"),
            NOBODY,
            "docker-0123456789ab docker-0123456789ab latency-sensitive container-folder",
        ),
        (
            format!("/machine.slice/libpod-{ID}.scope"),
            NOBODY,
            "libpod-0123456789ab libpod-0123456789ab latency-sensitive container-scope",
        ),
        (
            format!("/machine.slice/libpod-conmon-{ID}.scope"),
            NOBODY,
            "ignore",
        ),
        (
            "/machine.slice/machine-qemu.scope".to_owned(),
            NOBODY,
            "qemu machine-qemu latency-sensitive machine",
        ),
        (
            "/system.slice/nginx.service".to_owned(),
            NOBODY,
            "nginx nginx.service latency-sensitive systemd-service",
        ),
        (
            "/system.slice/system-worker.slice/worker@3.service".to_owned(),
            NOBODY,
            "worker worker@3.service latency-sensitive systemd-service",
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service".to_owned(),
            NOBODY,
            "descend",
        ),
        (
            "/user.slice/user-1000.slice/session-4.scope".to_owned(),
            NOBODY,
            "session session-4 latency-sensitive session",
        ),
        (
            "/steelyard/batch/hog/hog-1".to_owned(),
            NOBODY,
            "hog hog-1 batch steelyard",
        ),
        ("/system.slice".to_owned(), NOBODY, "-"),
        ("/".to_owned(), NOBODY, "-"),
    ];
    for (path, process, wanted) in cases {
        assert_eq!(ask(&path, process), wanted, "{path}");
    }
}

#[test]
fn names_from_outside_are_kept_short_and_printable() {
    let answer = ask("/system.slice/evil\u{1b}[31m\nname.service", NOBODY);
    assert_eq!(
        answer,
        "evil\u{fffd}[31m\u{fffd}name evil\u{fffd}[31m\u{fffd}name.service latency-sensitive systemd-service"
    );
    let long = format!("/system.slice/{}.service", "x".repeat(5000));
    assert_eq!(ask(&long, NOBODY).split(' ').next().unwrap().len(), LONGEST);
}

#[test]
fn own_rules_are_asked_first_and_judged() {
    let rules = Rules::parse(
        "[[rule]]\nname = \"mine\"\npath = '^/mine/(?<job>[a-z]+)-(?<n>[0-9]+)$'\njob = \"${job}\"\n\
         task = \"${job}/${n}\"\njob_class = \"batch\"\nlabels = { build = \"${env.BUILD}\", n = \"${n}\" }\n",
    )
    .unwrap();
    let Some(Answer::Task { task, labels, .. }) = rules.ask("/mine/etl-7", &mut { NOBODY }) else {
        panic!("no task");
    };
    assert_eq!(task, "etl/7");
    assert_eq!(labels, Labels::from([("n".to_owned(), "7".to_owned())]));
    for (text, wanted) in [
        (
            "[[rule]]\nname = \"a\"\npath = '('\n",
            "rule \"a\": path is not a regular expression",
        ),
        (
            "[[rule]]\nname = \"a\"\npath = 'x'\n",
            "rule \"a\": job is missing",
        ),
        (
            "[[rule]]\nname = \"a\"\npath = 'x'\njob = \"${y}\"\ntask = \"t\"\njob_class = \"batch\"\n",
            "rule \"a\": job: ${y} in \"${y}\" is not a capture",
        ),
        (
            "[[rule]]\nname = \"a\"\npath = 'x'\njob = \"${y\"\ntask = \"t\"\njob_class = \"batch\"\n",
            "rule \"a\": job: \"${y\" has ${ without }",
        ),
        (
            "[[rule]]\nname = \"a\"\npath = 'x'\ncolour = 1\n",
            "unknown field `colour`",
        ),
    ] {
        let message = Rules::parse(text).unwrap_err();
        assert!(message.starts_with(wanted), "{message}");
    }
}

proptest::proptest! {
    #[test]
    fn no_path_makes_a_rule_panic_or_an_empty_name(path in "(/[ -~\\PC]{0,40}){0,5}") {
        let rules = Rules::new(&[], true).unwrap();
        if let Some(Answer::Task { job, task, .. }) = rules.ask(&path, &mut { NOBODY }) {
            proptest::prop_assert!(!job.is_empty() && !task.is_empty());
        }
    }
}
