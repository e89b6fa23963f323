//! Exact counters: no statistics, the data decide.

use std::ops::Range;

use crate::judge::{Judgement, Shape, Slope, Verdict};
use crate::series::Series;

/// A bound that the runtime itself is declared to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct Cap {
    /// The highest reading that keeps within it.
    pub bound: f64,
    /// Why the run does not cover it, if it does not.
    pub uncovered: Option<String>,
}

/// Readings below which the last half shows nothing: two a quarter.
const MIN_READINGS: usize = 8;
/// Late slope over early slope below which growth counts as slowing.
const SLOWING: f64 = 0.5;

/// Judges a series of exact values.
///
/// The floors (smallest readings) of the four quarters of the run decide:
/// GROWTH if they rise through the whole last half. PLATEAU if the last
/// quarter's floor is not above the third's and no reading of it is above all
/// earlier ones. INCONCLUSIVE if only the last quarter rose, or if the run is
/// too short.
///
/// Where a cap is declared, the floors of a saw-tooth depend on where the
/// readings meet it, so the cap decides instead: INCONCLUSIVE if the run does
/// not cover it, GROWTH if a reading is above its bound, PLATEAU if the series
/// has fallen back at least twice and stays within.
pub fn exact(series: &Series, cap: Option<&Cap>) -> Judgement {
    let values = series.values();
    let n = values.len();
    let enough = n >= MIN_READINGS;
    let [_, q2, q3, q4] =
        [0, 1, 2, 3].map(|quarter| floor(values, quarter * n / 4..(quarter + 1) * n / 4));
    let late = 3 * n / 4;
    let record = ceiling(&values[late..])
        .total_cmp(&ceiling(&values[..late]))
        .is_gt();
    let falls = falls(series);
    let uncovered = cap.and_then(|cap| cap.uncovered.as_deref());
    let passed = |cap: &Cap| ceiling(values).total_cmp(&cap.bound).is_gt();
    let verdict = match (q3.total_cmp(&q2).is_gt(), q4.total_cmp(&q3).is_gt()) {
        _ if uncovered.is_some() || !enough => Verdict::Inconclusive,
        _ if cap.is_some_and(passed) => Verdict::Growth,
        _ if cap.is_some() && falls.len() > 1 => Verdict::Plateau,
        (true, true) => Verdict::Growth,
        (false, true) => Verdict::Inconclusive,
        (_, false) if record => Verdict::Inconclusive,
        (_, false) => Verdict::Plateau,
    };
    let mut judgement = Judgement::new(verdict).with("readings", n);
    if enough {
        judgement = judgement.with("quarter_floors", vec![q2, q3, q4]);
    } else {
        judgement = judgement.with("needed", MIN_READINGS);
    }
    if let [.., before, last] = falls[..] {
        let half = &values[n / 2..];
        let floor = floor(half, 0..half.len());
        judgement = judgement
            .with("falls", falls.len())
            .with("period", last - before)
            .with("floor", floor);
    }
    if let Some(cap) = cap {
        judgement = judgement.with("cap_bound", cap.bound);
    }
    if let Some(why) = uncovered {
        judgement = judgement.with("cap", why);
    }
    judgement.shape = enough.then(|| shape(values));
    judgement.slope = slope(series);
    if verdict == Verdict::Plateau {
        judgement.bound = Some(ceiling(values));
    }
    judgement
}

/// The steps after which the reading is below the one before.
fn falls(series: &Series) -> Vec<u64> {
    let pairs = series
        .values()
        .windows(2)
        .zip(series.steps().iter().skip(1));
    let falling = pairs.filter(|(pair, _)| pair[1] < pair[0]);
    falling.map(|(_, &step)| step).collect()
}

fn floor(values: &[f64], range: Range<usize>) -> f64 {
    let smallest = values[range].iter().copied().min_by(f64::total_cmp);
    smallest.unwrap_or(f64::NAN)
}

fn ceiling(values: &[f64]) -> f64 {
    let largest = values.iter().copied().max_by(f64::total_cmp);
    largest.unwrap_or(f64::NAN)
}

/// The slope over the last half, between the smallest and the largest one of
/// two neighbouring readings.
fn slope(series: &Series) -> Option<Slope> {
    let half = &series.values()[series.len() / 2..];
    let interval = series.interval();
    let steps = half.windows(2).map(|pair| (pair[1] - pair[0]) / interval);
    let lo = steps.clone().min_by(f64::total_cmp)?;
    let hi = steps.max_by(f64::total_cmp)?;
    let value = (half[half.len() - 1] - half[0]) / ((half.len() - 1) as f64 * interval);
    Some(Slope { value, lo, hi })
}

fn shape(values: &[f64]) -> Shape {
    let moves: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let rises = moves.iter().filter(|&&step| step > 0.0).count();
    let (early, late) = moves.split_at(moves.len() / 2);
    let sum = |moves: &[f64]| moves.iter().sum::<f64>();
    if moves.iter().any(|&step| step < 0.0) {
        Shape::SawTooth
    } else if rises == 0 {
        Shape::Flat
    } else if sum(late) == 0.0 {
        Shape::WarmUp
    } else if rises == 1 {
        Shape::OneJump
    } else if sum(late) / (late.len() as f64) < SLOWING * sum(early) / early.len() as f64 {
        Shape::Decelerating
    } else if rises == moves.len() {
        Shape::Linear
    } else {
        Shape::Ratchet
    }
}
