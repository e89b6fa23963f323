//! Two arms: the difference of their slopes per call, and whether it matters.

use serde::{Deserialize, Serialize};

use crate::judge::{Slope, Verdict};
use crate::stats::mean_interval;

/// The difference of an arm and its control, with the verdict on it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Difference per call with its 95 % interval.
    pub per_call: Slope,
    /// GROWTH, PLATEAU or INCONCLUSIVE.
    pub verdict: Verdict,
}

/// Compares paired readings (one pair a round, or a window) of an arm and its
/// control, in the metric's unit per call.
///
/// PLATEAU if the whole interval lies within `tolerance` of 0, GROWTH if all
/// of it lies above, otherwise INCONCLUSIVE. `None` for fewer than two
/// pairs, or lists of different lengths.
pub fn difference(arm: &[f64], control: &[f64], tolerance: f64) -> Option<Difference> {
    if arm.len() != control.len() {
        return None;
    }
    let pairs: Vec<f64> = arm.iter().zip(control).map(|(a, c)| a - c).collect();
    let estimate = mean_interval(&pairs)?;
    let verdict = if estimate.lo > tolerance {
        Verdict::Growth
    } else if estimate.lo >= -tolerance && estimate.hi <= tolerance {
        Verdict::Plateau
    } else {
        Verdict::Inconclusive
    };
    Some(Difference {
        per_call: Slope {
            value: estimate.value,
            lo: estimate.lo,
            hi: estimate.hi,
        },
        verdict,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(arm: &[f64], control: &[f64]) -> Option<Verdict> {
        difference(arm, control, 9.6).map(|difference| difference.verdict)
    }

    #[test]
    fn a_difference_is_judged_by_its_whole_interval() {
        let control = [0.2, -0.3, 0.1];
        assert_eq!(
            verdict(&[105.0, 104.1, 106.2], &control),
            Some(Verdict::Growth)
        );
        assert_eq!(verdict(&[0.1, 0.4, -0.2], &control), Some(Verdict::Plateau));
        // Centred on 0, but too wide to show anything.
        assert_eq!(
            verdict(&[-40.0, 0.0, 40.0], &control),
            Some(Verdict::Inconclusive)
        );
        assert_eq!(verdict(&[105.0], &[0.0]), None);
        assert_eq!(verdict(&[105.0, 106.0], &control), None);
    }
}
