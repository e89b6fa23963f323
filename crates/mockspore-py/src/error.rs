//! Errors as Python exceptions, with the builtin type that `MindSpore` raises.

use mockspore::Error;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The exception for an error of the runtime; what caller code raised comes
/// back as it was.
pub(crate) fn raise(py: Python<'_>, error: Error) -> PyErr {
    let name = match error {
        Error::Raised(raised) => {
            return match raised.downcast::<PyErr>() {
                Ok(exception) => *exception,
                Err(other) => exception(py, "MockRuntimeError", other.to_string()),
            };
        }
        Error::Broadcast { .. }
        | Error::DataLength { .. }
        | Error::Rank { .. }
        | Error::HookShape { .. }
        | Error::SensShape { .. }
        | Error::SensCount { .. }
        | Error::SplitSizes { .. }
        | Error::Matmul { .. }
        | Error::RankTensors { .. }
        | Error::NoRank { .. }
        | Error::Stream { .. }
        | Error::GradPosition { .. } => "MockValueError",
        _ => "MockRuntimeError",
    };
    exception(py, name, error.to_string())
}

/// An exception of the package's own hierarchy.
pub(crate) fn exception(py: Python<'_>, name: &str, message: String) -> PyErr {
    let class = py
        .import("mockspore._errors")
        .and_then(|module| module.getattr(name))
        .and_then(|class| Ok(class.cast_into::<PyType>()?));
    match class {
        Ok(class) => PyErr::from_type(class, message),
        Err(error) => error,
    }
}

/// What Python code raised, on its way through the runtime.
pub(crate) fn raised(error: PyErr) -> Error {
    Error::Raised(Box::new(error))
}
