"""Settings: which layer wins, what is refused, and what writing leaves alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag import UsageError
from slotrag.rag import settings
from slotrag.rag.settings import Settings


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "deep" / "config.toml"
    monkeypatch.setenv("SLOTRAG_CONFIG", str(file))
    return file


def test_defaults_hold_where_nothing_is_said(config: Path) -> None:
    loaded = settings.load()
    assert loaded == Settings()
    assert set(settings.origins(loaded).values()) == {"default"}


def test_option_goes_before_environment_before_file_before_default(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.parent.mkdir()
    config.write_text('k = 7\nmode = "dense"\nmax_tokens = 10\n', encoding="utf-8")
    monkeypatch.setenv("SLOTRAG_MODE", "lexical")
    monkeypatch.setenv("SLOTRAG_MAX_TOKENS", "20")
    loaded = settings.load({"max_tokens": 30, "device": None})
    assert (loaded.k, loaded.mode, loaded.max_tokens, loaded.device) == (7, "lexical", 30, "auto")
    origins = settings.origins(loaded)
    assert [origins[name] for name in ("k", "mode", "max_tokens", "device")] == [
        "config.toml",
        "environment",
        "option",
        "default",
    ]


def test_a_value_equal_to_the_default_still_has_its_origin(config: Path) -> None:
    assert settings.origins(settings.load({"k": Settings().k}))["k"] == "option"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("k", 0),
        ("k", "five"),
        ("k", 2.5),
        ("k", True),
        ("mode", "fuzzy"),
        ("diversity", "nan"),
        ("diversity", 1.1),
        ("max_tokens", -1),
        ("offline", "perhaps"),
        ("encoder", "  "),
        ("device", 3),
        ("topk", 5),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(config: Path, name: str, value: object) -> None:
    with pytest.raises(UsageError, match=name):
        settings.load({name: value})  # type: ignore[dict-item]


def test_a_misspelt_name_in_the_file_is_refused_with_the_near_one(config: Path) -> None:
    config.parent.mkdir()
    config.write_text("max_token = 5\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"max_tokens.*config\.toml"):
        settings.load()


def test_what_is_wrong_in_the_environment_names_the_variable(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTRAG_THREADS", "many")
    with pytest.raises(UsageError, match="SLOTRAG_THREADS"):
        settings.load()


@pytest.mark.parametrize("content", [b"k = ", b"\xff\xfe", b"k = 1\nk = 2\n"])
def test_a_file_that_is_no_toml_is_refused_by_its_path(config: Path, content: bytes) -> None:
    config.parent.mkdir()
    config.write_bytes(content)
    with pytest.raises(UsageError, match=str(config)):
        settings.load()
    with pytest.raises(UsageError, match=str(config)):
        settings.write("k", 3)
    assert config.read_bytes() == content


def test_writing_keeps_comments_and_order(config: Path) -> None:
    config.parent.mkdir()
    config.write_text('# mine\nmode = "dense"  # exact\nk = 3\n', encoding="utf-8")
    settings.write("k", "9")
    settings.write("offline", "yes")
    assert config.read_text(encoding="utf-8") == '# mine\nmode = "dense"  # exact\nk = 9\noffline = true\n'
    assert settings.load().offline is True


def test_writing_makes_the_folder_and_leaves_nothing_else(config: Path) -> None:
    assert settings.write("decoder", "qwen2.5-0.5b") == config
    assert [path.name for path in config.parent.iterdir()] == ["config.toml"]
    assert settings.load().decoder == "qwen2.5-0.5b"


def test_a_wrong_value_is_not_written(config: Path) -> None:
    with pytest.raises(UsageError):
        settings.write("k", "0")
    assert not config.exists()


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize("name", ["k", "diversity"])
def test_a_number_of_hundreds_of_digits_is_refused(config: Path, name: str, digits: int) -> None:
    config.parent.mkdir()
    config.write_text(f"{name} = {'9' * digits}\n", encoding="utf-8")
    with pytest.raises(UsageError, match=str(config)):
        settings.load()


@pytest.mark.parametrize("line", ["topk = 3", "max_tokens = 0"])
def test_a_file_with_another_fault_is_not_written(config: Path, line: str) -> None:
    config.parent.mkdir()
    config.write_text(line, encoding="utf-8")
    with pytest.raises(UsageError, match=str(config)):
        settings.write("k", 3)
    assert config.read_text(encoding="utf-8") == line


def test_a_wrong_value_in_the_file_can_be_put_right(config: Path) -> None:
    config.parent.mkdir()
    config.write_text("k = 0\n", encoding="utf-8")
    settings.write("k", 3)
    assert settings.load().k == 3


def test_misspelt_variables_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLOTRAG_DECODR", "x")
    assert "SLOTRAG_DECODR" in settings.unknown_variables()
    assert "SLOTRAG_LIBRARY" not in settings.unknown_variables()


@given(
    st.sampled_from([name for name in settings.names() if isinstance(getattr(Settings(), name), int)]),
    st.integers(0, 3000),
)
def test_a_number_and_its_text_mean_the_same(name: str, number: int) -> None:
    def outcome(value: object) -> object:
        try:
            return getattr(settings.load({name: value}), name)  # type: ignore[dict-item]
        except UsageError:
            return UsageError

    if isinstance(getattr(Settings(), name), bool):
        number = number % 2
    assert outcome(number) == outcome(str(number))


def test_every_setting_says_what_it_is() -> None:
    import ast
    import inspect
    import textwrap

    tree = ast.parse(textwrap.dedent(inspect.getsource(Settings))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for field, following in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and not str(ast.unparse(field.target)).startswith("_"):
            assert isinstance(following, ast.Expr), ast.unparse(field)


def test_library_folder_is_the_option_then_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slotrag.rag.locations import library_folder

    monkeypatch.setenv("SLOTRAG_LIBRARY", str(tmp_path / "by-variable"))
    assert library_folder(tmp_path / "by-option") == tmp_path / "by-option"
    assert library_folder() == tmp_path / "by-variable"
    monkeypatch.setenv("SLOTRAG_LIBRARY", "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert library_folder().is_relative_to(tmp_path)
    assert library_folder("~/notes") == tmp_path / "notes"


@pytest.mark.parametrize("named", ["~nobody-of-that-name/x", "a\0b"])
def test_a_path_that_is_none_is_refused(named: str) -> None:
    from slotrag.rag.locations import library_folder

    with pytest.raises(UsageError):
        library_folder(named)


def test_a_folder_in_place_of_the_file_is_refused(config: Path) -> None:
    config.mkdir(parents=True)
    with pytest.raises(UsageError, match=os.fspath(config)):
        settings.load()
