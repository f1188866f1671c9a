//! What the user has chosen and sees: a state that keys change.
//!
//! In: snapshots and keys. Out: what to do next ([`Action`]), and what `view` draws. Invariants: nothing here
//! waits, reads the machine or writes to the terminal; the selection stays on what it was put on while that is
//! there.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::column::{SORTS, Sort};
use crate::derive::{Row, Subject};
use crate::order;
use crate::run::arrange;
use crate::session::{By, Snapshot};

/// Intervals that + and - step through.
const INTERVALS_MS: [u64; 8] = [250, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];

/// What the command line chose.
#[derive(Debug, Clone)]
pub struct Choices {
    /// The order of rows.
    pub sort: Sort,
    /// Turned round.
    pub reverse: bool,
    /// Text that rows must hold.
    pub filter: String,
    /// What rows stand for.
    pub by: By,
    /// Time between two looks.
    pub interval: Duration,
    /// Instructions are sampled.
    pub has_mix: bool,
    /// Colours are wanted.
    pub has_colour: bool,
}

/// What lies over the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    /// Nothing.
    None,
    /// Keys and columns.
    Help,
    /// Everything about the selected row.
    Detail,
}

/// What the loop has to do after a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Draw again.
    Draw,
    /// Rows stand for something else now: look again.
    Look,
    /// Sampling was switched.
    Mix,
    /// Stop as a shell's job does.
    Suspend,
    /// Leave.
    Quit,
    /// Nothing.
    None,
}

/// The state.
#[derive(Debug)]
pub struct App {
    /// What the user has chosen.
    pub choices: Choices,
    /// What lies over the table.
    pub overlay: Overlay,
    /// First line of an overlay that is shown.
    pub scroll: u16,
    /// The filter is being typed.
    pub typing: bool,
    /// No more looks until the user goes on.
    pub paused: bool,
    /// The last snapshot, its rows taken out.
    pub snapshot: Snapshot,
    /// Rows in order.
    rows: Vec<Row>,
    /// Places in `rows` of those that are shown.
    shown: Vec<usize>,
    selected: usize,
    selection: Option<Subject>,
    /// Paths of groups whose children are hidden.
    pub folded: HashSet<Rc<str>>,
    /// First row on the screen.
    pub top: usize,
    /// Rows that the screen has, as of the last drawing.
    pub page: usize,
}

impl App {
    /// Before the first look.
    pub fn new(choices: Choices) -> Self {
        Self {
            choices,
            overlay: Overlay::None,
            scroll: 0,
            typing: false,
            paused: false,
            snapshot: Snapshot::default(),
            rows: Vec::new(),
            shown: Vec::new(),
            selected: 0,
            selection: None,
            folded: HashSet::new(),
            top: 0,
            page: 10,
        }
    }

    /// Takes what was seen.
    pub fn see(&mut self, mut snapshot: Snapshot) {
        self.rows = arrange(&mut snapshot, self.choices.sort, self.choices.reverse);
        self.snapshot = snapshot;
        self.choose();
    }

    /// Rows that are shown, in order.
    pub fn shown(&self) -> impl ExactSizeIterator<Item = &Row> {
        self.shown.iter().map(|place| &self.rows[*place])
    }

    /// The place of the selected row among those shown.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// The selected row.
    pub fn selected_row(&self) -> Option<&Row> {
        self.shown
            .get(self.selected)
            .map(|place| &self.rows[*place])
    }

    /// The process of the selected row.
    pub fn selected_pid(&self) -> Option<u32> {
        match self.selected_row()?.subject {
            Subject::Task(id) => Some(id.pid),
            Subject::Group(_) => None,
        }
    }

    /// Rows there are, shown or not.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Brings the rows into the order that is chosen now.
    fn arrange_again(&mut self) {
        let mut snapshot = Snapshot {
            rows: std::mem::take(&mut self.rows),
            by: self.snapshot.by,
            ..Snapshot::default()
        };
        self.rows = arrange(&mut snapshot, self.choices.sort, self.choices.reverse);
        self.choose();
    }

    /// Finds out which rows are shown, and where the selected one is now.
    fn choose(&mut self) {
        let filter = self.choices.filter.as_str();
        let is_folded = |row: &Row| match &row.subject {
            Subject::Group(path) => crate::sample::ancestors(path)
                .skip(1)
                .any(|above| self.folded.contains(above)),
            Subject::Task(_) => false,
        };
        self.shown = (0..self.rows.len())
            .filter(|place| {
                let row = &self.rows[*place];
                (filter.is_empty() || order::matches(row, filter)) && !is_folded(row)
            })
            .collect();
        let place = self.selection.as_ref().and_then(|subject| {
            self.shown
                .iter()
                .position(|place| self.rows[*place].subject == *subject)
        });
        self.select(place.unwrap_or(self.selected));
    }

    fn select(&mut self, place: usize) {
        self.selected = place.min(self.shown.len().saturating_sub(1));
        let subject = self.selected_row().map(|row| row.subject.clone());
        // At the top of the table the selection is a place, so that the busiest stays selected.
        self.selection = if self.selected == 0 { None } else { subject };
        self.top = self.top.min(self.selected);
        if self.selected >= self.top + self.page {
            self.top = self.selected + 1 - self.page.max(1);
        }
    }

    /// The screen has so many rows for the table.
    pub fn set_page(&mut self, rows: usize) {
        self.page = rows.max(1);
        self.select(self.selected);
    }

    /// Takes a key.
    pub fn key(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c' | 'd') => Action::Quit,
                KeyCode::Char('z') => Action::Suspend,
                KeyCode::Char('l') => Action::Draw,
                _ => Action::None,
            };
        }
        if self.typing {
            return self.type_filter(key.code);
        }
        if self.overlay != Overlay::None {
            return self.overlay_key(key.code);
        }
        self.table_key(key.code)
    }

    fn type_filter(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.choices.filter.clear();
            }
            KeyCode::Backspace => {
                self.choices.filter.pop();
            }
            KeyCode::Char(letter) if !letter.is_control() && self.choices.filter.len() < 200 => {
                self.choices.filter.push(letter);
            }
            _ => return Action::None,
        }
        self.choose();
        Action::Draw
    }

    fn overlay_key(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::Char('h' | '?') if self.overlay == Overlay::Detail => self.open(Overlay::Help),
            _ => self.open(Overlay::None),
        }
        Action::Draw
    }

    fn open(&mut self, overlay: Overlay) {
        self.overlay = overlay;
        self.scroll = 0;
    }

    fn table_key(&mut self, code: KeyCode) -> Action {
        match code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.open(Overlay::Help),
            KeyCode::Enter => self.open(Overlay::Detail),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Esc => {
                self.choices.filter.clear();
                self.choose();
            }
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Char('p') => return self.set_by(By::Process),
            KeyCode::Char('t') => return self.set_by(By::Thread),
            KeyCode::Char('g') => return self.set_by(By::Cgroup),
            KeyCode::Char('m') => {
                self.choices.has_mix = !self.choices.has_mix;
                return Action::Mix;
            }
            KeyCode::Char('R') => {
                self.choices.reverse = !self.choices.reverse;
                self.arrange_again();
            }
            KeyCode::Char('+' | '-') => self.step_interval(code == KeyCode::Char('+')),
            KeyCode::Char('<' | '>') => self.step_sort(code == KeyCode::Char('>')),
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected + 1),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(self.page)),
            KeyCode::PageDown => self.select(self.selected + self.page),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX),
            KeyCode::Left | KeyCode::Right => self.fold(code == KeyCode::Left),
            KeyCode::Char(letter) => {
                let Some(sort) = SORTS.iter().find(|sort| sort.2 == letter) else {
                    return Action::None;
                };
                self.choices.sort = sort.0;
                self.arrange_again();
            }
            _ => return Action::None,
        }
        Action::Draw
    }

    fn set_by(&mut self, by: By) -> Action {
        if self.choices.by == by {
            return Action::None;
        }
        self.choices.by = by;
        self.selection = None;
        self.selected = 0;
        self.top = 0;
        Action::Look
    }

    fn step_interval(&mut self, longer: bool) {
        let now = self.choices.interval.as_millis() as u64;
        let mut steps = INTERVALS_MS.iter();
        let next = if longer {
            steps.find(|step| **step > now)
        } else {
            steps.rfind(|step| **step < now)
        };
        if let Some(next) = next {
            self.choices.interval = Duration::from_millis(*next);
        }
    }

    fn step_sort(&mut self, forward: bool) {
        let step = if forward { 1 } else { SORTS.len() - 1 };
        self.choices.sort = SORTS[(self.choices.sort as usize + step) % SORTS.len()].0;
        self.arrange_again();
    }

    /// Hides or shows what is below the selected control group.
    fn fold(&mut self, hide: bool) {
        let Some(Subject::Group(path)) = self.selected_row().map(|row| row.subject.clone()) else {
            return;
        };
        if hide {
            self.folded.insert(path);
        } else {
            self.folded.remove(&path);
        }
        self.choose();
    }
}

#[cfg(test)]
mod tests;
