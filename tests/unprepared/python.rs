//! pip, poetry and uv: archives of `PyPI` with their own tests.

use super::Case;

/// Where nothing tells pytest from unittest, the command asks the image.
const EITHER: &str = "if python -c 'import pytest' 2>/dev/null; then python -m pytest -q; else python -m unittest discover";
/// In the environment that uv and poetry make.
const IN_VENV: &str = "export PATH=\"$PWD/.venv/bin:$PATH\"; python -m pytest -q";

/// hatchling. Its CI runs `hatch`, which nothing here has: the check is by convention.
#[test]
fn sqlparse() {
    let case = Case {
        project: "sqlparse",
        image: Some("python"),
        setup: &["pip install -e (pyproject.toml)", "pytest is imported (tests/conftest.py)"],
        asked: &["/simple/hatchling/", "/simple/pytest/"],
        check: "python -m pytest -q",
        fixed: Some(("test_strip_comments_preserves_hint", 1)),
    };
    case.run();
}

#[test]
fn parse() {
    let case = Case {
        project: "parse",
        image: Some("python"),
        setup: &["pip install -e (pyproject.toml)", "pytest is imported (tests/test_parse.py)"],
        asked: &["/simple/setuptools/", "/simple/pytest/"],
        check: EITHER,
        fixed: Some(("test_hyphen_inside_field_name", 2)),
    };
    case.run();
}

#[test]
fn xmltodict() {
    let case = Case {
        project: "xmltodict",
        image: Some("python"),
        setup: &["pip install -e (setup.py)"],
        asked: &["/simple/setuptools/"],
        check: EITHER,
        fixed: Some(("test_keep_whitespace", 2)),
    };
    case.run();
}

#[test]
fn pathspec() {
    let case = Case {
        project: "pathspec",
        image: Some("python"),
        setup: &["pip install -e (pyproject.toml)"],
        asked: &["/simple/flit-core/"],
        check: EITHER,
        fixed: Some(("test_07_issue_74", 1)),
    };
    case.run();
}

#[test]
fn wsproto() {
    let case = Case {
        project: "wsproto",
        image: Some("python"),
        setup: &["pip install -e (setup.py)", "test dependencies (tox.ini)"],
        asked: &["/simple/h11/", "/simple/pytest-xdist/"],
        check: "python -m pytest -q",
        fixed: Some(("test_host_encoding", 4)),
    };
    case.run();
}

#[test]
fn python_dotenv() {
    let case = Case {
        project: "python-dotenv",
        image: Some("python"),
        setup: &["pip install -r (requirements.txt)", "pip install -e (setup.cfg)"],
        asked: &["/simple/ipython/"],
        check: "python -m pytest -q",
        fixed: Some(("test_zip_imports", 2)),
    };
    case.run();
}

#[test]
fn tinydb() {
    let case = Case {
        project: "tinydb",
        image: Some("python"),
        setup: &["pip install -e (pyproject.toml)", "pytest is imported (tests/conftest.py)"],
        asked: &["/simple/poetry-core/"],
        check: "python -m pytest -q",
        fixed: Some(("test_lru_cache_set_update", 1)),
    };
    case.run();
}

#[test]
fn tinydb_with_poetry() {
    let case = Case {
        project: "tinydb-poetry",
        image: Some("python"),
        setup: &["poetry (poetry.lock)"],
        asked: &["/simple/pytest/"],
        check: IN_VENV,
        fixed: Some(("test_lru_cache_set_update", 1)),
    };
    case.run();
}

#[test]
fn humanize_with_uv() {
    let case = Case {
        project: "humanize",
        image: Some("python"),
        setup: &["job test (.github/workflows/test.yml)", "uv (uv.lock)"],
        asked: &["/simple/uv/"],
        check: IN_VENV,
        fixed: Some(("test_naturalsize", 2)),
    };
    case.run();
}
