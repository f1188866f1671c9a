//! Draws the state: a pure function of it and of the size of the screen.
//!
//! Not here: keys, what is read.

mod overlay;
mod table;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::app::{App, Overlay};
use crate::{format, text};

/// Rows of the table below which notes have to give way.
const FEWEST_ROWS: u16 = 6;
/// Notes that are shown at most.
const MOST_NOTES: u16 = 4;

/// Colours, or none where NO_COLOR is set; words repeat what a colour shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    has_colour: bool,
}

impl Palette {
    fn coloured(self, colour: Color) -> Style {
        if self.has_colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    pub(crate) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(crate) fn title(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    pub(crate) fn busy(self) -> Style {
        self.coloured(Color::Yellow)
    }

    pub(crate) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(crate) fn note(self) -> Style {
        self.coloured(Color::Cyan)
    }
}

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    let palette = Palette {
        has_colour: app.choices.has_colour,
    };
    let notes = note_lines(app, area);
    let [head, body, foot, keys] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(1),
        Constraint::Length(notes.len() as u16),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(frame, head, app, palette);
    table::draw(frame, body, app, palette);
    for (place, note) in foot.rows().zip(notes) {
        let note = format::cut(&note, usize::from(place.width));
        frame.render_widget(Line::styled(note, palette.note()), place);
    }
    draw_keys(frame, keys, app, palette);
    match app.overlay {
        Overlay::None => {}
        Overlay::Help => overlay::help(frame, body, app, palette),
        Overlay::Detail => overlay::detail(frame, body, app, palette),
    }
}

/// As many notes as leave room for the table; the number of the others is shown.
fn note_lines(app: &App, area: Rect) -> Vec<String> {
    let notes = &app.snapshot.notes;
    let room = area.height.saturating_sub(4 + FEWEST_ROWS).min(MOST_NOTES);
    let room = usize::from(room);
    if notes.len() <= room {
        return notes.clone();
    }
    let Some(kept) = room.checked_sub(1) else {
        return Vec::new();
    };
    let mut lines = notes[..kept].to_vec();
    lines.push(format!("{} more reasons: h shows them", notes.len() - kept));
    lines
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, app: &App, palette: Palette) {
    let mut rows = area.rows();
    if let Some(place) = rows.next() {
        let line = Line::from(vec![
            Span::styled("steelyard top  ", palette.title()),
            Span::raw(text::machine_line(&app.snapshot)),
        ]);
        frame.render_widget(line, place);
    }
    if let Some(place) = rows.next() {
        let mut spans = vec![Span::raw(text::counts_line(&app.snapshot))];
        if app.choices.reverse {
            spans.push(Span::raw("  reversed"));
        }
        if app.typing {
            spans.push(Span::styled(
                format!("  filter: {}_", app.choices.filter),
                palette.title(),
            ));
        } else if !app.choices.filter.is_empty() {
            spans.push(Span::styled(
                format!("  filter: {}", app.choices.filter),
                palette.title(),
            ));
        }
        if app.paused {
            spans.push(Span::styled("  paused", palette.title()));
        }
        frame.render_widget(Line::from(spans), place);
    }
}

fn draw_keys(frame: &mut Frame<'_>, area: Rect, app: &App, palette: Palette) {
    let cost = match app.snapshot.own_cpus {
        Some(cpus) => format!("top itself {} % of one CPU", format::percent(cpus)),
        None => String::new(),
    };
    let keys = if app.typing {
        "type text; Enter sets the filter, Esc clears it"
    } else {
        "h help  q quit  / filter  Enter detail  p t g rows"
    };
    let room = usize::from(area.width).saturating_sub(cost.len() + 1);
    let keys = format::cut(keys, room);
    let gap = usize::from(area.width).saturating_sub(keys.len() + cost.len());
    let line = format!("{keys}{}{cost}", " ".repeat(gap));
    frame.render_widget(Line::styled(line, palette.faint()), area);
}

#[cfg(test)]
mod tests;
