//! What serde cannot see in a `scenario.json`.

use crate::scenario::{Arm, SCHEMA_VERSION, Scenario};

/// What to look for in the file's text, and why it is wrong.
type Complaint = (String, String);

impl Scenario {
    /// Checks names, ranges and references.
    pub(super) fn check(&self, name: &str) -> Result<(), Complaint> {
        let fail = |needle: &str, why: String| Err((needle.to_owned(), why));
        if self.schema_version != SCHEMA_VERSION {
            return fail(
                "schema_version",
                format!("schema_version must be {SCHEMA_VERSION}"),
            );
        }
        if self.name != name {
            return fail("name", format!("the name must be its folder's, '{name}'"));
        }
        if self.plan.steps == 0 || self.plan.samples == 0 {
            return fail("plan", "steps and samples must be at least 1".to_owned());
        }
        if self.real.every == 0 || !self.real.steps.is_multiple_of(self.real.every) {
            return fail("every", "steps must be a multiple of every".to_owned());
        }
        let calls = self
            .knobs
            .get(&self.calls_per_step)
            .and_then(|knob| knob.get("max"));
        if calls.is_none() {
            return fail("calls_per_step", "it must name an integer knob".to_owned());
        }
        for (knob, spec) in &self.knobs {
            let default = spec.get("default").cloned().unwrap_or_default();
            if let Err(error) = self.knob_value(knob, default) {
                return fail(knob, error.to_string());
            }
        }
        for arm in &self.arms {
            self.check_arm(arm)?;
        }
        for wanted in [&self.real.control]
            .into_iter()
            .chain(self.releases.values())
        {
            if let Err(error) = self.arm(wanted) {
                return fail(wanted, error.to_string());
            }
        }
        Ok(())
    }

    fn check_arm(&self, arm: &Arm) -> Result<(), Complaint> {
        if let Err(error) = self.knobs(arm, &[]) {
            return Err((arm.name.clone(), format!("arm '{}': {error}", arm.name)));
        }
        if let Err(error) = self.policies(arm) {
            return Err((arm.name.clone(), format!("arm '{}': {error}", arm.name)));
        }
        let kept = arm
            .mock
            .keeps_per_call
            .keys()
            .chain(arm.mock.keeps_per_step.keys());
        for kind in kept {
            if !self.block_bytes.contains_key(kind) {
                let why = format!("arm '{}' keeps '{kind}', which block_bytes lacks", arm.name);
                return Err((kind.clone(), why));
            }
        }
        Ok(())
    }
}
