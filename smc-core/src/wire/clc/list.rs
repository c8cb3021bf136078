//! A short list in a fixed array.

/// Up to `N` entries; those not used are the default, so that equality is that of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List<T, const N: usize> {
    entries: [T; N],
    len: u8,
}

impl<T: Copy + Default, const N: usize> List<T, N> {
    /// No entries.
    pub fn new() -> Self {
        Self { entries: [T::default(); N], len: 0 }
    }

    /// The given entries; `None` if there are more than `N`.
    pub fn of(entries: &[T]) -> Option<Self> {
        let mut list = Self::new();
        entries.iter().try_for_each(|entry| list.push(*entry))?;
        Some(list)
    }

    /// Adds an entry at the end; `None` if the list is full.
    pub fn push(&mut self, entry: T) -> Option<()> {
        let next = self.len.checked_add(1)?;
        *self.entries.get_mut(usize::from(self.len))? = entry;
        self.len = next;
        Some(())
    }

    /// The entries.
    pub fn as_slice(&self) -> &[T] {
        self.entries.get(..usize::from(self.len)).unwrap_or_default()
    }

    /// How many there are.
    pub const fn count(&self) -> u8 {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<T: Copy + Default, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::List;

    #[test]
    fn a_list_takes_as_many_as_it_holds() {
        let mut list = List::<u16, 2>::of(&[7]).unwrap();
        assert_eq!(list.push(8), Some(()));
        assert_eq!(list.push(9), None);
        assert_eq!(list.as_slice(), [7, 8]);
        assert_eq!(list.count(), 2);
        assert_eq!(List::<u16, 2>::of(&[1, 2, 3]), None);
        assert!(List::<u16, 2>::new().is_empty());
    }
}
