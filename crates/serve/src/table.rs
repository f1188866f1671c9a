//! A thread's connections by number. A number is never used twice: its upper half counts the uses of its place,
//! so that a late event for a closed connection finds nothing.

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    entry: Option<T>,
}

/// Entries by number.
#[derive(Debug)]
pub struct Table<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Table<T> {
    /// An empty one.
    pub fn new() -> Self {
        Self {
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Adds an entry and returns its number.
    pub fn add(&mut self, entry: T) -> u64 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                entry: None,
            });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[at as usize];
        place.entry = Some(entry);
        u64::from(place.generation) << 32 | u64::from(at)
    }

    /// The entry of `number` if it is still there.
    #[inline]
    pub fn get(&mut self, number: u64) -> Option<&mut T> {
        let place = self.places.get_mut(number as u32 as usize)?;
        if u64::from(place.generation) != number >> 32 {
            return None;
        }
        place.entry.as_mut()
    }

    /// All entries with their numbers.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &T)> {
        self.places.iter().enumerate().filter_map(|(at, place)| {
            let number = u64::from(place.generation) << 32 | at as u64;
            place.entry.as_ref().map(|entry| (number, entry))
        })
    }

    /// Removes an entry.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        self.get(number)?;
        let place = &mut self.places[number as u32 as usize];
        // 28 bits, so that numbers leave room for a caller's mark in the top four.
        place.generation = (place.generation + 1) & 0x0fff_ffff;
        self.free.push(number as u32);
        place.entry.take()
    }

    /// All numbers in use.
    pub fn numbers(&self) -> Vec<u64> {
        let used = self
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| place.entry.is_some());
        used.map(|(at, place)| u64::from(place.generation) << 32 | at as u64)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_numbers_find_nothing() {
        let mut table = Table::new();
        let first = table.add('a');
        let second = table.add('b');
        assert_eq!(table.remove(first), Some('a'));
        assert_eq!(table.remove(first), None);
        let third = table.add('c');
        assert_ne!(first, third);
        assert_eq!(table.get(first), None);
        assert_eq!(table.get(second), Some(&mut 'b'));
        assert_eq!(table.numbers().len(), 2);
    }
}
