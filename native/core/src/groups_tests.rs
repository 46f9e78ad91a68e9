#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
//! Numbers of groups and consumers, at their end.

use super::*;

const LAST: u32 = u32::MAX - 1;

fn create(groups: &mut Groups, group: u32, name: &[u8]) -> Result<()> {
    groups.apply(&Op::Create { group, name: name.to_vec(), last: Id::MIN, read: None }, 0)
}

fn consumer(groups: &mut Groups, consumer: u32, name: &[u8]) -> Result<()> {
    groups.apply(&Op::Consumer { group: 1, consumer, name: name.to_vec() }, 0)
}

#[test]
fn a_number_that_is_given_can_be_applied() {
    let mut groups = Groups::default();
    let first = groups.fresh_group().unwrap();
    create(&mut groups, first, b"first").unwrap();
    create(&mut groups, LAST - 1, b"one before the last").unwrap();
    let last = groups.fresh_group().unwrap();
    create(&mut groups, last, b"last").unwrap();
    assert_eq!(last, LAST);
    assert!(matches!(groups.fresh_group(), Err(Error::Limit { .. })));
}

#[test]
fn so_it_is_with_consumers() {
    let mut groups = Groups::default();
    create(&mut groups, 1, b"group").unwrap();
    consumer(&mut groups, LAST - 1, b"one before the last").unwrap();
    let last = groups.by_number[&1].fresh_consumer().unwrap();
    consumer(&mut groups, last, b"last").unwrap();
    assert!(matches!(groups.by_number[&1].fresh_consumer(), Err(Error::Limit { .. })));
}
