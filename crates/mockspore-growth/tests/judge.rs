//! The judge on synthetic and on published series.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mockspore_growth::judge::{Cap, exact, noisy};
use mockspore_growth::{Judgement, Series, Shape, Verdict};
use proptest::prelude::*;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

fn series(values: Vec<f64>) -> Series {
    let steps = (1..=values.len() as u64).map(|index| 10 * index).collect();
    Series::new("synthetic".to_owned(), steps, values).unwrap()
}

fn of(count: u32, value: impl Fn(f64) -> f64) -> Series {
    series((0..count).map(|index| value(f64::from(index))).collect())
}

fn judged(judgement: &Judgement) -> (Verdict, Option<Shape>) {
    (judgement.verdict, judgement.shape)
}

#[test]
fn exact_series_are_named_by_what_they_do() {
    let flat = exact(&of(20, |_| 5.0), None);
    assert_eq!(judged(&flat), (Verdict::Plateau, Some(Shape::Flat)));
    assert_eq!(flat.bound, Some(5.0));
    let linear = exact(&of(20, |i| 64.0 * i), None);
    assert_eq!(judged(&linear), (Verdict::Growth, Some(Shape::Linear)));
    assert_eq!(linear.slope.map(|slope| slope.value), Some(6.4));
    let ratchet = exact(&of(40, |i| (i / 4.0).floor()), None);
    assert_eq!(judged(&ratchet), (Verdict::Growth, Some(Shape::Ratchet)));
    let warm = exact(&of(20, |i| i.min(6.0)), None);
    assert_eq!(judged(&warm), (Verdict::Plateau, Some(Shape::WarmUp)));
    let saw = exact(&of(40, |i| i % 5.0), None);
    assert_eq!(judged(&saw), (Verdict::Plateau, Some(Shape::SawTooth)));
    let root = exact(&of(40, |i| (1000.0 * i).sqrt().floor()), None);
    assert_eq!(judged(&root), (Verdict::Growth, Some(Shape::Decelerating)));
}

#[test]
fn one_jump_is_a_plateau_only_if_the_last_quarter_shows_it() {
    for at in 1..20 {
        let jump = exact(
            &of(20, |i| if i >= f64::from(at) { 1.0 } else { 0.0 }),
            None,
        );
        // Later, the last quarter is all that stands on the new level.
        let shown = at <= 10;
        let expected = if shown {
            Verdict::Plateau
        } else {
            Verdict::Inconclusive
        };
        assert_eq!(jump.verdict, expected, "jump at {at}");
    }
    let half_way = exact(&of(20, |i| if i >= 12.0 { 1.0 } else { 0.0 }), None);
    assert_eq!(half_way.shape, Some(Shape::OneJump));
}

#[test]
fn too_few_readings_or_an_uncovered_cap_do_not_decide() {
    let short = exact(&of(7, |i| i), None);
    assert_eq!((short.verdict, short.shape), (Verdict::Inconclusive, None));
    assert_eq!(short.evidence["needed"], 8);
    let cap = Cap {
        bound: 100.0,
        uncovered: Some("5,000 of 20,000 entries".to_owned()),
    };
    let capped = exact(&of(20, |i| i), Some(&cap));
    assert_eq!(capped.verdict, Verdict::Inconclusive);
    assert_eq!(capped.evidence["cap"], "5,000 of 20,000 entries");
}

#[test]
fn a_covered_cap_decides_by_its_bound_however_the_readings_meet_the_teeth() {
    // A period of 49 steps read every 5: the floors that are read creep up.
    let tooth = |step: f64| step * 5.0 % 49.0;
    let cap = |bound| Cap {
        bound,
        uncovered: None,
    };
    let within = exact(&of(60, tooth), Some(&cap(49.0)));
    assert_eq!(within.verdict, Verdict::Plateau);
    assert_eq!(within.shape, Some(Shape::SawTooth));
    assert!(within.evidence["falls"].as_u64() > Some(2));
    let passed = exact(&of(60, tooth), Some(&cap(40.0)));
    assert_eq!(passed.verdict, Verdict::Growth);
    // A straight line below the bound shows no cap at work.
    assert_eq!(
        exact(&of(60, |i| i), Some(&cap(90.0))).verdict,
        Verdict::Growth
    );
}

#[test]
fn an_irregular_or_unreadable_grid_is_refused() {
    let new = |steps: &[u64], values: &[f64]| {
        Series::new("m".to_owned(), steps.to_vec(), values.to_vec())
    };
    let message = |steps: &[u64], values: &[f64]| new(steps, values).unwrap_err().to_string();
    assert_eq!(
        message(&[1, 2, 4], &[0.0; 3]),
        "m: the grid is irregular between steps 2 and 4"
    );
    assert_eq!(
        message(&[1, 1], &[0.0; 2]),
        "m: the grid is irregular between steps 1 and 1"
    );
    assert_eq!(message(&[1, 2], &[0.0]), "m: 2 steps for 1 readings");
    assert_eq!(
        message(&[1, 2], &[0.0, f64::NAN]),
        "m: the reading at step 2 is no number"
    );
}

/// AR(1) noise on 4 KiB pages, as anonymous memory has it.
fn anon(seed: u64, sigma: f64, trend: impl Fn(f64) -> f64) -> Series {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut noise = 0.0;
    let values = (0..80).map(|index| {
        let uniform: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        noise = 0.5 * noise + sigma * uniform;
        ((trend(f64::from(index)) + noise) / 4096.0).round() * 4096.0
    });
    series(values.collect())
}

#[test]
fn noisy_growth_is_found_and_noise_is_not_called_growth() {
    let tolerance = 100.0;
    for seed in 0..50 {
        let steep = noisy(&anon(seed, 40e3, |i| 1.4e6 * i), tolerance);
        assert_eq!(steep.verdict, Verdict::Growth, "seed {seed}");
        let flat = noisy(&anon(seed, 40e3, |_| 0.0), tolerance);
        assert_ne!(flat.verdict, Verdict::Growth, "seed {seed}");
        let saw = noisy(&anon(seed, 4e3, |i| 1e5 * (i % 8.0)), tolerance);
        assert_ne!(saw.verdict, Verdict::Growth, "seed {seed}");
        let warm = noisy(&anon(seed, 40e3, |i| -8e6 * (-i / 4.0).exp()), tolerance);
        assert_ne!(warm.verdict, Verdict::Growth, "seed {seed}");
    }
}

#[test]
fn a_plateau_must_be_shown() {
    // The same flat series: shown against a wide tolerance, open against a tight one.
    let flat = anon(3, 40e3, |_| 0.0);
    assert_eq!(noisy(&flat, 2000.0).verdict, Verdict::Plateau);
    let open = noisy(&flat, 0.1);
    assert_eq!(open.verdict, Verdict::Inconclusive);
    assert!(open.evidence["further_steps"].as_u64() > Some(0));
    assert_eq!(noisy(&of(19, |_| 0.0), 1.0).verdict, Verdict::Inconclusive);
}

#[test]
fn no_published_series_is_judged_against_its_class() {
    let text = include_str!("data/growth_series.json");
    let published: Vec<Value> = serde_json::from_str(text).unwrap();
    let mut decided = 0;
    for one in &published {
        let (id, class) = (
            one["id"].as_str().unwrap(),
            one["expected"].as_str().unwrap(),
        );
        let numbers = |key: &str| -> Vec<f64> {
            one[key]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_f64)
                .collect()
        };
        let (x, y) = (numbers("x"), numbers("y"));
        let steps: Vec<u64> = x.iter().map(|&step| step as u64).collect();
        // Sorted, delta or irregular series are no readings over time.
        let Ok(series) = Series::new(id.to_owned(), steps, y) else {
            continue;
        };
        let judgement = noisy(&series, 0.0);
        if series.len() < 20 {
            // Too short for any window: never a claim, in either direction.
            assert_eq!(judgement.verdict, Verdict::Inconclusive, "{id}");
            continue;
        }
        decided += 1;
        match class {
            leak if leak.starts_with("LEAK") => {
                assert_ne!(judgement.verdict, Verdict::Plateau, "{id}");
            }
            flat if flat.starts_with("FLAT") || flat.starts_with("BOUNDED") => {
                assert_ne!(judgement.verdict, Verdict::Growth, "{id}");
            }
            _ => {}
        }
    }
    assert!(decided > 0, "no published series reaches the rule");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(proptest::test_runner::FileFailurePersistence::Direct(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../proptest-regressions/mockspore-growth/judge.txt"
        )))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_constant_offset_or_a_scale_does_not_change_an_exact_verdict(
        values in prop::collection::vec(0_i32..50, 8..40),
        offset in -1000_i32..1000,
        scale in 1_i32..100,
    ) {
        let floats = |change: &dyn Fn(i32) -> i32| values.iter().map(|&v| f64::from(change(v))).collect();
        let plain = exact(&series(floats(&|v| v)), None);
        let moved = exact(&series(floats(&|v| scale * v + offset)), None);
        prop_assert_eq!(judged(&plain), judged(&moved));
    }

    #[test]
    fn growth_is_never_claimed_for_a_series_that_ends_at_its_floor(
        values in prop::collection::vec(0_i32..50, 8..40),
    ) {
        let mut values: Vec<f64> = values.into_iter().map(f64::from).collect();
        values.push(0.0);
        prop_assert_ne!(exact(&series(values), None).verdict, Verdict::Growth);
    }
}
