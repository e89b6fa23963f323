//! glibc's account sees what malloc hands out. The system's allocator, alone.

use mockspore_growth::probe::malloc;

#[test]
fn a_block_moves_the_bytes_in_use_by_its_size_and_back() {
    let before = malloc::in_use().expect("this is glibc");
    let block = vec![1_u8; 1 << 20];
    let held = malloc::in_use().expect("this is glibc");
    let size = block.len() as u64;
    assert!(held >= before + size);
    drop(block);
    // The harness's own thread may hold a little more by now.
    let after = malloc::in_use().expect("this is glibc");
    assert!(after <= held - size + 4096, "{before} {held} {after}");
}
