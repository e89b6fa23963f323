//! Noisy metrics: three doubling windows, Theil-Sen, the trough line.

use crate::judge::{Judgement, Slope, Verdict};
use crate::series::Series;
use crate::stats::{Estimate, theil_sen};

/// Readings below which no window carries a slope.
const MIN_READINGS: usize = 20;
/// A last slope below this share of the earlier ones is slowing down.
const STEADY: f64 = 0.85;
/// The troughs must rise by this share of what the slope says.
const TROUGHS: f64 = 0.7;

/// Judges a noisy series against `tolerance`, the slope per step that is
/// small enough to be called none.
///
/// PLATEAU must be shown: the slope's upper end lies below the tolerance.
/// GROWTH: the lower end lies above it, the troughs rise with the slope, and
/// it does not slow down. Otherwise INCONCLUSIVE.
pub fn noisy(series: &Series, tolerance: f64) -> Judgement {
    let values = series.values();
    let n = values.len();
    let windows = [n / 20..n / 4, n / 4..n / 2, n / 2..n];
    let [first, second, last] = windows.map(|window| theil_sen(&values[window]));
    let (Some(first), Some(second), Some(last), true) = (first, second, last, n >= MIN_READINGS)
    else {
        return Judgement::new(Verdict::Inconclusive)
            .with("readings", n)
            .with("needed", MIN_READINGS);
    };
    let per_reading = tolerance * series.interval();
    let half = &values[n / 2..];
    let expected_rise = last.value * (half.len() - 1) as f64;
    let troughs_rise = trough_rise(half) >= TROUGHS * expected_rise;
    let steady = last.value >= STEADY * first.value.max(second.value);
    let verdict = if last.hi < per_reading {
        Verdict::Plateau
    } else if last.lo > per_reading && troughs_rise && steady {
        Verdict::Growth
    } else {
        Verdict::Inconclusive
    };
    let mut judgement = Judgement::new(verdict)
        .with("readings", n)
        .with("tolerance_per_step", tolerance)
        .with("troughs_rise", troughs_rise)
        .with("steady", steady);
    if verdict == Verdict::Inconclusive {
        judgement = judgement.with("further_steps", further_steps(series, &last, per_reading));
    }
    if verdict == Verdict::Plateau {
        judgement.bound = values.iter().copied().max_by(f64::total_cmp);
    }
    let interval = series.interval();
    judgement.slope = Some(Slope {
        value: last.value / interval,
        lo: last.lo / interval,
        hi: last.hi / interval,
    });
    judgement
}

/// How far the lowest value still to come rises over the window.
fn trough_rise(values: &[f64]) -> f64 {
    let lowest = values.iter().copied().min_by(f64::total_cmp);
    match (lowest, values.last()) {
        (Some(lowest), Some(last)) => last - lowest,
        _ => 0.0,
    }
}

/// Steps after which the interval would clear the tolerance, if the slope
/// stays: its width shrinks with the run's length to the power of 3/2.
fn further_steps(series: &Series, last: &Estimate, per_reading: f64) -> u64 {
    let half_width = (last.hi - last.lo) / 2.0;
    let distance = (last.value - per_reading).abs().max(half_width / 100.0);
    let factor = (half_width / distance).powf(2.0 / 3.0).max(1.0) * 1.2;
    let steps = series.len() as f64 * series.interval();
    (steps * (factor - 1.0)).ceil() as u64
}
