//! Screens, as text.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;

use crate::Reason;
use crate::app::{App, Choices, Overlay};
use crate::column::{Column, SORTS, Sort};
use crate::mix::{Class, Counts};
use crate::session::By;
use crate::testing::{FakeCounters, Machine};

fn choices(by: By) -> Choices {
    Choices {
        sort: Sort::Cpu,
        reverse: false,
        filter: String::new(),
        by,
        interval: Duration::from_secs(1),
        has_mix: true,
        has_colour: false,
    }
}

fn app(by: By) -> App {
    let machine = Machine::new();
    let counters = FakeCounters {
        unavailable: Some(Reason::Fixed("no hardware counters here")),
        ..FakeCounters::default()
    };
    let mut session = machine.session(by, counters);
    session.look();
    machine.pass(150);
    let mut snapshot = session.look();
    let mut counts = Counts::default();
    counts.classes[Class::Avx as usize] = 75;
    counts.classes[Class::Scalar as usize] = 25;
    counts.kernel = 10;
    for row in &mut snapshot.rows {
        row.mix = Ok(counts);
        row.figures.set(Column::Vector, counts.vector_ratio());
    }
    let mut app = App::new(choices(by));
    app.see(snapshot);
    app
}

fn screen(app: &mut App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| super::draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[test]
fn processes_on_a_small_terminal() {
    let text = screen(&mut app(By::Process), 80, 24);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        &lines[..5],
        [
            "steelyard top  CPU 1.50 of 2 (1.50 user, 0.00 system)  load 0.50  mem 2.0G/8.0G",
            "2 processes, 2 threads  over 1.00 s  by process",
            "    PID   ▼CPU   SYS WAIT%  IPC  FLT/s READ/s WRIT/s    RSS  VEC% COMMAND",
            "      7   1.50  0.00  50.0    -    150      0      0   4.0M  75.0 api --port 80…",
            "      9   0.00  0.00     -    -      0      0      0   4.0M  75.0 batch?[31m --…",
        ]
    );
    assert!(
        lines[20].starts_with("IPC: no hardware counters here"),
        "{text}"
    );
    assert!(
        lines[21].starts_with("NUMA: the machine has one NUMA node"),
        "{text}"
    );
    assert!(lines[23].starts_with("h help  q quit"), "{text}");
    assert!(lines[23].ends_with("top itself 1.0 % of one CPU"), "{text}");
}

#[test]
fn a_wide_terminal_has_every_column() {
    let text = screen(&mut app(By::Process), 200, 50);
    let heading = text.lines().nth(2).unwrap();
    for about in &crate::column::COLUMNS {
        assert!(heading.contains(about.heading), "{heading}");
    }
    assert!(heading.contains("ISA") && heading.contains("USER"));
    let row = text.lines().nth(3).unwrap();
    assert!(
        row.contains("AVX/AVX2 75%") && row.contains(" web "),
        "{row}"
    );
    assert!(row.ends_with("api --port 8080"), "{row}");
}

#[test]
fn control_groups_are_a_tree() {
    let text = screen(&mut app(By::Cgroup), 80, 24);
    let names: Vec<&str> = text
        .lines()
        .skip(2)
        .take(5)
        .map(|line| line.get(60..).unwrap_or("").trim_end())
        .collect();
    assert!(names[0].ends_with("CGROUP"), "{text}");
    assert!(
        names[1].ends_with(" /") && names[2].ends_with("  apps"),
        "{text}"
    );
    assert!(
        names[3].ends_with("    7") && names[4].ends_with("    9"),
        "{text}"
    );
}

#[test]
fn every_size_can_be_drawn() {
    for by in [By::Process, By::Thread, By::Cgroup] {
        for overlay in [Overlay::None, Overlay::Help, Overlay::Detail] {
            let mut app = app(by);
            app.overlay = overlay;
            for (width, height) in [(1, 1), (2, 2), (10, 3), (30, 8), (80, 24), (400, 100)] {
                screen(&mut app, width, height);
            }
        }
    }
}

#[test]
fn details_tell_why_figures_are_missing_and_what_instructions_were() {
    let mut app = app(By::Process);
    app.overlay = Overlay::Detail;
    let text = screen(&mut app, 100, 60);
    for expected in [
        "7 api",
        "/bin/api --port 8080",
        "web (33)",
        "/apps/7",
        "no hardware counters here",
        "the machine has one NUMA node",
        "110 samples: 100 on instructions that were decoded, 10 in the kernel, 0 unknown",
        "AVX/AVX2          ███████████████·····  75.0 %  (65.7 to 82.5 %)",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn help_names_every_key_and_scrolls() {
    let mut app = app(By::Process);
    app.overlay = Overlay::Help;
    let text = screen(&mut app, 120, 70);
    for (_, name, key) in SORTS {
        assert!(text.contains(&format!("{key} {name}")), "{name}\n{text}");
    }
    app.scroll = 5;
    let small = screen(&mut app, 80, 24);
    assert!(
        small.contains("scroll") && !small.contains("Ctrl-C"),
        "{small}"
    );
    app.scroll = u16::MAX;
    screen(&mut app, 80, 24);
    assert!(
        app.scroll < 100,
        "no further than there is something to see"
    );
}

#[test]
fn a_filter_without_rows_says_so() {
    let mut app = app(By::Process);
    app.choices.filter = "nobody".to_owned();
    app.see(app.snapshot.clone());
    let text = screen(&mut app, 80, 24);
    assert!(text.contains("filter: nobody"), "{text}");
    assert!(text.contains("Esc clears the filter"), "{text}");
}

#[test]
fn without_colours_there_are_none() {
    for (has_colour, expected) in [(true, true), (false, false)] {
        let mut app = app(By::Process);
        app.choices.has_colour = has_colour;
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| super::draw(frame, &mut app)).unwrap();
        let coloured = terminal
            .backend()
            .buffer()
            .content
            .iter()
            .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(coloured, expected);
    }
}
