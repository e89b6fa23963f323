//! The few statistics that the judge needs.

/// 97.5 % quantiles of Student's t by degrees of freedom, from 1.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
const NORMAL_975: f64 = 1.96;
/// Autocorrelation beyond this would make an interval meaningless.
const MAX_AUTOCORRELATION: f64 = 0.9;

/// A value with its 95 % interval.
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) lo: f64,
    pub(crate) hi: f64,
}

/// Mean of independent values with Student's interval; `None` for fewer than 2.
pub(crate) fn mean_interval(values: &[f64]) -> Option<Estimate> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let t = T_975.get(n - 2).copied().unwrap_or(NORMAL_975);
    let half = t * (variance / n as f64).sqrt();
    Some(Estimate {
        value: mean,
        lo: mean - half,
        hi: mean + half,
    })
}

/// Theil-Sen slope per reading, with an interval from Kendall's variance that
/// is widened by the residuals' autocorrelation; `None` for fewer than 4.
pub(crate) fn theil_sen(values: &[f64]) -> Option<Estimate> {
    let n = values.len();
    if n < 4 {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate().skip(i + 1) {
            slopes.push((b - a) / (j - i) as f64);
        }
    }
    slopes.sort_by(f64::total_cmp);
    let slope = median(&slopes);
    let (n, count) = (n as f64, slopes.len() as f64);
    let kendall = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let rho = residual_autocorrelation(values, slope);
    let c = NORMAL_975 * kendall * ((1.0 + rho) / (1.0 - rho)).sqrt();
    let rank = |at: f64| slopes[(at.round().max(0.0) as usize).min(slopes.len() - 1)];
    Some(Estimate {
        value: slope,
        // The M-th smallest slope, counted from 1, and the (M + 1)-th largest.
        lo: rank(f64::midpoint(count, -c) - 1.0),
        hi: rank(f64::midpoint(count, c)),
    })
}

fn residual_autocorrelation(values: &[f64], slope: f64) -> f64 {
    let residuals: Vec<f64> = (0..)
        .zip(values)
        .map(|(i, v)| v - slope * f64::from(i))
        .collect();
    let mean = residuals.iter().sum::<f64>() / residuals.len() as f64;
    let variance: f64 = residuals.iter().map(|r| (r - mean).powi(2)).sum();
    let lagged: f64 = residuals
        .windows(2)
        .map(|w| (w[0] - mean) * (w[1] - mean))
        .sum();
    if variance > 0.0 {
        (lagged / variance).clamp(0.0, MAX_AUTOCORRELATION)
    } else {
        0.0
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    #[test]
    fn theil_sen_ignores_one_wild_reading() {
        let mut values: Vec<f64> = (0..20).map(|i| 3.0 * f64::from(i)).collect();
        values[4] = 1e9;
        let fit = theil_sen(&values).expect("20 readings");
        assert_relative_eq!(fit.value, 3.0);
    }

    #[test]
    fn the_interval_of_theil_sen_is_sens() {
        // Sen's own construction by hand: 10 readings, 45 slopes, and
        // C = 1.96 x sqrt(10 x 9 x 25 / 18) = 21.9: the 12th and the 34th slope.
        let values: Vec<f64> = (0..10_i32).map(|i| f64::from(i * i % 7)).collect();
        let mut slopes = Vec::new();
        for i in 0..10 {
            for j in i + 1..10 {
                slopes.push((values[j] - values[i]) / (j - i) as f64);
            }
        }
        slopes.sort_by(f64::total_cmp);
        let fit = theil_sen(&values).expect("10 readings");
        assert_relative_eq!(fit.lo, slopes[11]);
        assert_relative_eq!(fit.hi, slopes[33]);
    }

    #[test]
    fn mean_interval_is_students() {
        let fit = mean_interval(&[100.0, 104.0, 105.0]).expect("3 values");
        assert_relative_eq!(fit.value, 103.0);
        assert_relative_eq!(
            fit.hi - fit.value,
            4.303 * 7f64.sqrt() / 3f64.sqrt(),
            epsilon = 1e-9
        );
        assert!(mean_interval(&[1.0]).is_none());
    }
}
