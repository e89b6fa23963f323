//! Virtual environments in a cache folder, one per framework and interpreter.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use fd_lock::RwLock;

use crate::steps::{Error, Steps};

const PYTHONS: [&str; 3] = ["python3.11", "python3.12", "python3.10"];
/// What the tests and checks of the Python package need.
const DEV: [&str; 5] = [
    "maturin>=1.9,<2",
    "mypy>=1.15",
    "numpy",
    "pytest>=8",
    "ruff>=0.11",
];
/// Says that an environment is whole, and with which requirements.
const STAMP: &str = "mockspore-requirements.txt";

/// Whether the real framework has wheels, and glibc's account, for this platform.
pub(crate) fn has_mindspore_wheels() -> bool {
    cfg!(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))
}

/// Where the environments live and which interpreter makes them.
#[derive(Debug)]
pub(crate) struct Environments {
    cache: PathBuf,
    python: PathBuf,
    /// Such as `py3.11`.
    tag: String,
}

impl Environments {
    /// Chooses folder and interpreter.
    pub(crate) fn new(cache: Option<&Path>, python: Option<&Path>) -> Result<Self, Error> {
        let cache = match cache {
            Some(cache) => cache.to_owned(),
            None => default_cache()?,
        };
        let candidates: Vec<PathBuf> = match python {
            Some(python) => vec![python.to_owned()],
            None => PYTHONS.iter().map(PathBuf::from).collect(),
        };
        let found = candidates
            .iter()
            .find_map(|python| Some((python, tag_of(python)?)));
        let (python, tag) = found.ok_or_else(|| {
            let names: Vec<_> = candidates
                .iter()
                .map(|python| python.display().to_string())
                .collect();
            let names = names.join(", ");
            Error::Wrong(format!(
                "no usable interpreter among {names}: install one, or name it with --python"
            ))
        })?;
        Ok(Self {
            cache,
            python: python.clone(),
            tag,
        })
    }

    /// The lock that a run holds to its end: the environments are shared, and
    /// another run would swap the extension under its tests.
    pub(crate) fn lock(&self) -> Result<RwLock<File>, Error> {
        fs::create_dir_all(&self.cache).map_err(file(&self.cache))?;
        let path = self.cache.join("lock");
        File::create(&path).map(RwLock::new).map_err(file(&path))
    }

    /// Says what the environments need before they are made.
    pub(crate) fn announce(&self) {
        println!(
            "virtual environments: {} with {} ({})\n\
             the first time they take about 3 GiB of disk and, by the network, 2 to 10 minutes;\n\
             a build from nothing takes about 6 minutes on 2 cores, real MindSpore about 2",
            self.cache.display(),
            self.python.display(),
            self.tag
        );
    }

    /// The environment of tests and checks, without the framework.
    pub(crate) fn dev(&self) -> Result<PathBuf, Error> {
        let needs: Vec<String> = DEV.iter().map(ToString::to_string).collect();
        self.environment(&format!("dev-{}", self.tag), &needs)
    }

    /// The environment with a release of the framework.
    pub(crate) fn mindspore(&self, version: &str) -> Result<PathBuf, Error> {
        let needs = [
            format!("mindspore=={version}"),
            "numpy<2".to_owned(),
            "pytest>=8".to_owned(),
        ];
        self.environment(&format!("mindspore-{version}-{}", self.tag), &needs)
    }

    /// Makes an environment, or finds it made; its interpreter.
    fn environment(&self, name: &str, needs: &[String]) -> Result<PathBuf, Error> {
        let folder = self.cache.join(name);
        let python = folder.join("bin/python");
        let stamp = folder.join(STAMP);
        let wanted = needs.join("\n");
        if fs::read_to_string(&stamp).is_ok_and(|made| made == wanted) && python.is_file() {
            return Ok(python);
        }
        println!(
            "\n=== making {} with {}",
            folder.display(),
            needs.join(", ")
        );
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(file(&folder))?;
        }
        succeed(
            "venv",
            Command::new(&self.python).args(["-m", "venv"]).arg(&folder),
        )?;
        let mut pip = Command::new(&python);
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]);
        succeed("pip install", pip.args(needs))?;
        fs::write(&stamp, wanted).map_err(file(&stamp))?;
        Ok(python)
    }
}

/// Builds the extension's wheel with the tools of the `dev` environment.
pub(crate) fn wheel(steps: &mut Steps, dev: &Path) -> Result<PathBuf, Error> {
    let target = steps.root().join("target-py");
    let folder = target.join("dist");
    if folder.is_dir() {
        fs::remove_dir_all(&folder).map_err(file(&folder))?;
    }
    let mut build = steps.python(
        dev,
        &["-m", "maturin", "build", "--release", "--quiet", "--out"],
    );
    build.arg(&folder).env("CARGO_TARGET_DIR", &target);
    steps.run("the extension", &mut build)?;
    let mut wheels = fs::read_dir(&folder).map_err(file(&folder))?;
    let first = wheels.next().and_then(Result::ok).map(|entry| entry.path());
    first.ok_or_else(|| Error::Wrong("maturin built no wheel".to_owned()))
}

/// Puts the extension's wheel into an environment.
pub(crate) fn install(steps: &mut Steps, python: &Path, wheel: &Path) -> Result<(), Error> {
    let mut pip = steps.python(
        python,
        &[
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--force-reinstall",
        ],
    );
    steps.run("the extension into its environment", pip.arg(wheel))
}

fn default_cache() -> Result<PathBuf, Error> {
    let folder = |name: &str| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    folder("MOCKSPORE_CACHE")
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("mockspore")))
        .or_else(|| Some(folder("HOME")?.join(".cache/mockspore")))
        .ok_or_else(|| Error::Wrong("no cache folder: name one with --cache".to_owned()))
}

/// `py3.11` for an interpreter that runs, `None` for one that does not.
fn tag_of(python: &Path) -> Option<String> {
    let code = "import sys; print('py%d.%d' % sys.version_info[:2])";
    let output = Command::new(python).args(["-c", code]).output().ok()?;
    let tag = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    output.status.success().then_some(tag)
}

fn succeed(step: &str, command: &mut Command) -> Result<(), Error> {
    let step = step.to_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::Failed { step, status }),
        Err(source) => Err(Error::Start { step, source }),
    }
}

fn file(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    |source| Error::File { path, source }
}
