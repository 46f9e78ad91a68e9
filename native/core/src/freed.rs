//! Which entries a group has stopped needing, for whoever trims what no group needs: he looked at all of them once.

use crate::id::Id;

/// More are not kept: who did not ask for so long looks at all of them again.
const MAX_FREED: usize = 1 << 16;

/// The IDs that were pending and are not any more, since they were last asked for.
#[derive(Debug, Clone, Default)]
pub struct Freed {
    /// None: nobody has asked yet, or what was freed is not known one by one.
    ids: Option<Vec<Id>>,
}

impl Freed {
    pub fn note(&mut self, id: Id) {
        let Some(ids) = &mut self.ids else { return };
        if ids.len() < MAX_FREED {
            ids.push(id);
        } else {
            self.ids = None;
        }
    }

    /// Any entry may have been freed: a group is gone, or IDs begin anew.
    pub fn note_any(&mut self) {
        self.ids = None;
    }

    /// Those since the last call; None where that may be any.
    pub fn take(&mut self) -> Option<Vec<Id>> {
        self.ids.replace(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_is_given_once_and_too_much_of_it_is_any() {
        let mut freed = Freed::default();
        freed.note(Id::new(1, 0));
        assert_eq!(freed.take(), None, "nobody had asked");
        freed.note(Id::new(2, 0));
        assert_eq!(freed.take(), Some(vec![Id::new(2, 0)]));
        assert_eq!(freed.take(), Some(vec![]));
        freed.note_any();
        freed.note(Id::new(3, 0));
        assert_eq!(freed.take(), None);
        (0..=MAX_FREED as u64).for_each(|seq| freed.note(Id::new(4, seq)));
        assert_eq!(freed.take(), None);
    }
}
