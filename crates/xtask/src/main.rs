//! Tests and checks of the whole project.
fn main() {}
