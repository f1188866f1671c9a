//! Keys.

use super::*;
use crate::testing::{FakeCounters, Machine};

fn choices() -> Choices {
    Choices {
        sort: Sort::Cpu,
        reverse: false,
        filter: String::new(),
        by: By::Process,
        interval: Duration::from_secs(1),
        has_mix: true,
        has_colour: false,
    }
}

fn app() -> App {
    let machine = Machine::new();
    for pid in 20..40 {
        machine.process(pid, "worker", 0, 0);
    }
    let mut session = machine.session(By::Process, FakeCounters::default());
    session.look();
    machine.pass(100);
    let mut app = App::new(choices());
    app.set_page(5);
    app.see(session.look());
    app
}

fn press(app: &mut App, keys: &str) -> Action {
    let mut last = Action::None;
    for letter in keys.chars() {
        let code = match letter {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '\u{8}' => KeyCode::Backspace,
            letter => KeyCode::Char(letter),
        };
        last = app.key(KeyEvent::from(code));
    }
    last
}

fn pids(app: &App) -> Vec<u32> {
    app.shown()
        .map(|row| match row.subject {
            Subject::Task(id) => id.pid,
            Subject::Group(_) => 0,
        })
        .collect()
}

#[test]
fn every_sort_order_has_its_key() {
    let mut app = app();
    for (sort, _, key) in SORTS {
        assert_eq!(press(&mut app, &key.to_string()), Action::Draw);
        assert_eq!(app.choices.sort, sort);
    }
    press(&mut app, "c>");
    assert_eq!(app.choices.sort, Sort::Ipc);
    press(&mut app, "<<");
    assert_eq!(app.choices.sort, Sort::Vector);
    press(&mut app, "cR");
    assert_eq!(pids(&app).last(), Some(&7));
}

#[test]
fn a_filter_is_typed_kept_and_dropped() {
    let mut app = app();
    press(&mut app, "/apq\u{8}i");
    assert!(app.typing, "q is a letter here");
    assert_eq!(pids(&app), [7]);
    press(&mut app, "\n");
    assert!(!app.typing);
    assert_eq!(pids(&app), [7]);
    press(&mut app, "\u{1b}");
    assert_eq!(pids(&app).len(), 22);
    press(&mut app, "/nobody");
    assert_eq!(pids(&app).len(), 0);
    assert_eq!(app.selected_pid(), None);
}

#[test]
fn the_selection_stays_on_its_row_and_on_the_screen() {
    let mut app = app();
    assert_eq!(app.selected_pid(), Some(7));
    press(&mut app, "jjjjjjj");
    let chosen = app.selected_pid();
    assert!(app.top > 0 && app.selected() < app.top + app.page);
    press(&mut app, "R");
    assert_eq!(app.selected_pid(), chosen);
    assert!((app.top..app.top + app.page).contains(&app.selected()));
    app.key(KeyEvent::from(KeyCode::End));
    assert_eq!(app.selected(), 21);
    app.key(KeyEvent::from(KeyCode::Home));
    assert_eq!((app.selected(), app.top), (0, 0));
}

#[test]
fn keys_give_the_loop_its_actions() {
    let mut app = app();
    assert_eq!(press(&mut app, "g"), Action::Look);
    assert_eq!(press(&mut app, "g"), Action::None);
    assert_eq!(press(&mut app, "m"), Action::Mix);
    assert!(!app.choices.has_mix);
    assert_eq!(press(&mut app, "x"), Action::None);
    assert_eq!(press(&mut app, "h"), Action::Draw);
    assert_eq!(app.overlay, Overlay::Help);
    assert_eq!(press(&mut app, "\u{1b}"), Action::Draw);
    assert_eq!(app.overlay, Overlay::None);
    assert_eq!(press(&mut app, "q"), Action::Quit);
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.key(control), Action::Quit);
    press(&mut app, "+");
    assert_eq!(app.choices.interval, Duration::from_secs(2));
    press(&mut app, "---");
    assert_eq!(app.choices.interval, Duration::from_millis(250));
    press(&mut app, "-----");
    assert_eq!(app.choices.interval, Duration::from_millis(250));
}

#[test]
fn what_is_below_a_group_can_be_hidden() {
    let machine = Machine::new();
    let mut session = machine.session(By::Cgroup, FakeCounters::default());
    session.look();
    machine.pass(100);
    let mut app = App::new(choices());
    app.see(session.look());
    assert_eq!(app.shown().len(), 4);
    press(&mut app, "j");
    app.key(KeyEvent::from(KeyCode::Left));
    assert_eq!(app.shown().len(), 2, "the root and /apps");
    app.key(KeyEvent::from(KeyCode::Right));
    assert_eq!(app.shown().len(), 4);
}
