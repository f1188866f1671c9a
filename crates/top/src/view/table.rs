//! The table: columns as far as there is room, rows from the first on the screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Palette;
use crate::app::App;
use crate::column::{About, COLUMNS, Column};
use crate::derive::{Row, Subject};
use crate::format;
use crate::session::By;
use crate::text;

/// Cells that the command has at least.
const COMMAND: u16 = 14;
/// Cells of the foremost instruction set.
const ISA: u16 = 13;
/// Cells of a user's name.
const USER: u16 = 9;
/// CPUs from which on a row counts as busy.
const BUSY: f64 = 0.5;

/// Columns that there is room for.
struct Plan {
    figures: Vec<&'static About>,
    has_isa: bool,
    has_user: bool,
    command: usize,
}

impl Plan {
    fn new(width: u16, by: By) -> Self {
        let ids = match by {
            By::Process => 7,
            By::Thread => 15,
            By::Cgroup => 0,
        };
        let mut left = width.saturating_sub(ids + 1 + COMMAND);
        let mut ranked: Vec<&'static About> = COLUMNS.iter().collect();
        ranked.sort_by_key(|about| about.rank);
        let mut figures: Vec<&'static About> = Vec::new();
        let (mut has_isa, mut has_user) = (false, false);
        let take = |cells: u16, left: &mut u16| {
            let fits = *left > cells;
            if fits {
                *left -= cells + 1;
            }
            fits
        };
        for about in ranked {
            // The instruction set comes next to the share of vector instructions, the user after all figures.
            if about.rank == 7 && !has_isa {
                has_isa = take(ISA, &mut left);
            }
            if take(about.width, &mut left) {
                figures.push(about);
            }
        }
        if by != By::Cgroup {
            has_user = take(USER, &mut left);
        }
        figures.sort_by_key(|about| about.column as usize);
        Self {
            figures,
            has_isa,
            has_user,
            command: usize::from(COMMAND + left),
        }
    }
}

/// Draws the headings and the rows.
pub fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, palette: Palette) {
    app.set_page(usize::from(area.height.saturating_sub(1)));
    let plan = Plan::new(area.width, app.snapshot.by);
    let mut places = area.rows();
    if let Some(place) = places.next() {
        let heading = heading(&plan, app);
        frame.render_widget(Line::styled(heading, palette.heading()), place);
    }
    let selected = app.selected();
    let rows = app.shown().enumerate().skip(app.top);
    let mut empty = true;
    for (place, (at, row)) in places.zip(rows) {
        empty = false;
        let mut line = row_line(&plan, row, app, palette);
        if at == selected {
            line = line.style(palette.selected());
        }
        frame.render_widget(line, place);
    }
    if empty && area.height > 1 {
        let why = if app.choices.filter.is_empty() {
            "there is nothing to show".to_owned()
        } else {
            format!(
                "none of {} rows has this text: Esc clears the filter",
                app.row_count()
            )
        };
        let place = Rect {
            y: area.y + 1,
            height: 1,
            ..area
        };
        frame.render_widget(Line::raw(why), place);
    }
}

fn heading(plan: &Plan, app: &App) -> String {
    let mut line = match app.snapshot.by {
        By::Process => format!("{:>7}", "PID"),
        By::Thread => format!("{:>7} {:>7}", "PID", "TID"),
        By::Cgroup => String::new(),
    };
    let sorted = app.choices.sort.columns();
    for about in &plan.figures {
        let width = usize::from(about.width);
        // The mark takes the blank before the heading, so that nothing moves.
        let is_sorted = sorted.contains(&about.column);
        let text = if is_sorted {
            format!("▼{}", about.heading)
        } else {
            about.heading.to_owned()
        };
        let text = format!("{text:>width$}");
        if text.chars().count() <= width {
            line.push(' ');
        }
        line.push_str(&text);
    }
    if plan.has_isa {
        line.push_str(&format!(" {:<width$}", "ISA", width = usize::from(ISA)));
    }
    if plan.has_user {
        line.push_str(&format!(" {:<width$}", "USER", width = usize::from(USER)));
    }
    let name = match app.snapshot.by {
        By::Cgroup => "CGROUP",
        _ => "COMMAND",
    };
    line.push_str(&format!(" {name:<width$}", width = plan.command + 1));
    line
}

fn row_line(plan: &Plan, row: &Row, app: &App, palette: Palette) -> Line<'static> {
    let mut spans = Vec::new();
    match &row.subject {
        Subject::Task(id) => match id.tid {
            None => spans.push(Span::raw(format!("{:>7}", id.pid))),
            Some(tid) => spans.push(Span::raw(format!("{:>7} {tid:>7}", id.pid))),
        },
        Subject::Group(_) => {}
    }
    for about in &plan.figures {
        let figure = row.figures.get(about.column);
        let cell = format::figure(about, figure);
        let style = match figure {
            Err(_) => palette.faint(),
            Ok(0.0) => palette.faint(),
            Ok(cpus) if about.column == Column::Cpu && *cpus >= BUSY => palette.busy(),
            Ok(_) => Style::new(),
        };
        let width = usize::from(about.width);
        spans.push(Span::styled(format!(" {cell:>width$}"), style));
    }
    if plan.has_isa {
        let isa = text::isa(row);
        spans.push(Span::raw(pad(&isa, usize::from(ISA))));
    }
    if plan.has_user {
        let user = match (&row.who.user, row.who.uid) {
            (Some(user), _) => user.clone(),
            (None, Some(uid)) => uid.to_string(),
            (None, None) => format::MISSING.to_owned(),
        };
        spans.push(Span::raw(pad(&user, usize::from(USER))));
    }
    let name = match &row.subject {
        Subject::Group(path) => {
            let folded = if app.folded.contains(path) { "+" } else { "" };
            format!("{}{}{folded}", "  ".repeat(row.depth.min(20)), row.who.name)
        }
        Subject::Task(_) => text::command(row),
    };
    spans.push(Span::raw(pad(&name, plan.command)));
    Line::from(spans)
}

/// A blank and `text` in so many cells.
fn pad(text: &str, width: usize) -> String {
    let text = format::cut(text, width);
    let blanks = width.saturating_sub(Span::raw(text.as_str()).width());
    format!(" {text}{}", " ".repeat(blanks))
}
