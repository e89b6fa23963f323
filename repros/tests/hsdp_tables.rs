//! The unit tables that the script reads are those that the mock runs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use repros::hsdp_step::unit_table;
use repros::registry::Entry;
use serde_json::Value;

fn integer(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[test]
fn the_tables_of_the_file_are_the_presets() {
    let scenario = Entry::find("hsdp_step").unwrap().scenario(None).unwrap();
    let knob = &scenario.knobs["units"];
    let choices = knob["choices"].as_array().unwrap();
    assert!(choices.len() > 3);
    for choice in choices.iter().map(|choice| choice.as_str().unwrap()) {
        let (declared, table) = (&knob["tables"][choice], unit_table(choice));
        let groups = declared["groups"].as_array().unwrap().iter();
        let units = groups.flat_map(|group| {
            let units = group["units"].as_array().unwrap();
            std::iter::repeat_n(units, integer(&group["repeat"]) as usize).flatten()
        });
        let units: Vec<Vec<u64>> = units
            .map(|unit| unit.as_array().unwrap().iter().map(integer).collect())
            .collect();
        // In any order of layers: the sums and the sorts are what counts.
        let mut declared_units = units;
        let mut own: Vec<Vec<u64>> = table
            .units
            .iter()
            .map(|unit| {
                let gated = u64::from(unit.input_requires_grad);
                vec![
                    unit.outputs,
                    gated,
                    unit.sharded_params,
                    unit.replicate_params,
                ]
            })
            .collect();
        assert_eq!(declared_units.len(), own.len(), "{choice}");
        assert_eq!(declared_units.first(), own.first(), "{choice}");
        assert_eq!(declared_units.last(), own.last(), "{choice}");
        declared_units.sort();
        own.sort();
        assert_eq!(declared_units, own, "{choice}");
        assert_eq!(
            integer(&declared["aux_loss_scalers"]),
            table.aux_loss_scalers
        );
        assert_eq!(integer(&declared["chunk_losses"]), table.chunk_losses);
    }
}

#[test]
fn the_counts_of_the_file_are_those_of_the_tables() {
    let scenario = Entry::find("hsdp_step").unwrap().scenario(None).unwrap();
    let counts = &scenario.counts;
    for choice in ["seed301", "mf_2026_07", "mf_2_1_0", "four_units"] {
        let (table, of) = (unit_table(choice), |name: &str| counts[name].of[choice]);
        let step = table.step(1);
        assert_eq!(of("hooks"), step.hooks);
        assert_eq!(of("applies"), step.applies());
        assert_eq!(of("gathers"), step.all_gathers);
        // The mean of the loss and the norm of the gradients come to them.
        assert_eq!(
            of("reductions"),
            step.reduce_scatters + step.all_reduces + 2
        );
        assert_eq!(of("units"), table.units.len() as u64);
        assert_eq!(of("gated_units"), step.post_backward_functions);
    }
}
