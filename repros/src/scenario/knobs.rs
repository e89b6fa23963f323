//! Knobs: what can be set, and to what.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::scenario::{Arm, Scenario};

/// Knob values as a run uses them.
#[derive(Debug, Clone, PartialEq)]
pub struct Knobs(Map<String, Value>);

impl Knobs {
    /// An integer knob.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// A choice knob.
    pub fn choice(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// The knobs of a result row.
    pub fn from_row(values: &Map<String, Value>) -> Self {
        Self(values.clone())
    }

    /// All values, for the result row.
    pub fn to_map(&self) -> Map<String, Value> {
        self.0.clone()
    }
}

impl Scenario {
    /// An arm's knobs: defaults, then the arm's own, then `set`.
    ///
    /// # Errors
    /// [`Error::Unknown`] or [`Error::Knob`] for a knob or value that is not to be had.
    pub fn knobs(&self, arm: &Arm, set: &[(String, String)]) -> Result<Knobs, Error> {
        let mut values = Map::new();
        for (name, knob) in &self.knobs {
            let default = knob.get("default").cloned().unwrap_or_default();
            values.insert(name.clone(), default);
        }
        for (name, value) in &arm.knobs {
            values.insert(name.clone(), self.knob_value(name, value.clone())?);
        }
        for (name, text) in set {
            let of_arms = self
                .knobs
                .get(name)
                .is_some_and(|knob| knob.get("arm_only").is_some());
            if arm.knobs.contains_key(name) || of_arms {
                return Err(Error::Knob {
                    knob: name.clone(),
                    value: text.clone(),
                    allowed: format!(
                        "arm '{}' sets it itself, choose another with --arm",
                        arm.name
                    ),
                });
            }
            let value = match text.parse::<u64>() {
                Ok(number) => number.into(),
                Err(_) => Value::from(text.as_str()),
            };
            let value = self.knob_value(name, value)?;
            values.insert(name.clone(), value);
        }
        Ok(Knobs(values))
    }

    pub(super) fn knob_value(&self, name: &str, value: Value) -> Result<Value, Error> {
        let knob = self.knobs.get(name);
        let knob =
            knob.ok_or_else(|| Error::unknown("knob", name, self.knobs.keys().map(|k| &**k)))?;
        let choices = knob.get("choices").and_then(Value::as_array);
        let (fits, allowed) = if let Some(choices) = choices {
            let names: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
            (
                choices.contains(&value),
                format!("it is one of {}", names.join(", ")),
            )
        } else {
            let limit = |key| knob.get(key).and_then(Value::as_u64).unwrap_or_default();
            let (min, max) = (limit("min"), limit("max"));
            let fits = value
                .as_u64()
                .is_some_and(|number| (min..=max).contains(&number));
            (fits, format!("it is a whole number from {min} to {max}"))
        };
        if fits {
            return Ok(value);
        }
        Err(Error::Knob {
            knob: name.to_owned(),
            value: value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned),
            allowed,
        })
    }
}
