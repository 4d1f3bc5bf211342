import pytest
from slotrag import UsageError
from slotrag.rag.sources import inside, targets
from slotrag.storage.records import SourceRecord


def followed(number, path, include=(), exclude=(), hidden=False):
    return SourceRecord(number, 1, str(path), tuple(include), tuple(exclude), hidden)


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    (tmp_path / "a" / "b" / "file.txt").write_text("x")
    return tmp_path


def test_without_paths_everything_followed(tree):
    records = [followed(1, tree / "a", exclude=["x"]), followed(2, tree / "ab", hidden=True)]
    found = targets([], records)
    assert [(t.path, t.exclude, t.hidden, t.record) for t in found] == [
        (r.path, r.exclude, r.hidden, r) for r in records
    ]
    assert not any(t.changed for t in found)
    with pytest.raises(UsageError, match="--include"):
        targets([], records, include=["*.md"])


def test_a_new_path_with_its_rules(tree):
    (target,) = targets([tree / "a"], [], include=["*.md"])
    assert (target.path, target.include, target.record, target.below) == (str(tree / "a"), ("*.md",), None, None)
    assert target.changed


def test_a_followed_path_keeps_its_rules_unless_new_ones_are_given(tree):
    record = followed(1, tree / "a", exclude=["x"])
    (same,) = targets([tree / "a"], [record])
    assert same.exclude == ("x",) and not same.changed
    (other,) = targets([tree / "a"], [record], exclude=["y"])
    assert other.exclude == ("y",) and other.record is record and other.changed


def test_a_path_inside_is_a_part_of_the_nearest_source(tree):
    outer, inner = followed(1, tree / "a"), followed(2, tree / "a" / "b", exclude=["x"])
    (target,) = targets([tree / "a" / "b" / "file.txt"], [outer, inner])
    assert target.record is inner and target.below == str(tree / "a" / "b" / "file.txt")


def test_a_part_with_rules_of_its_own_is_a_source(tree):
    (target,) = targets([tree / "a" / "b"], [followed(1, tree / "a")], hidden=True)
    assert target.record is None and target.below is None and target.hidden


def test_an_outer_source_takes_in_inner_ones_without_rules(tree):
    plain, ruled, beside = (
        followed(1, tree / "a" / "b"),
        followed(2, tree / "a" / "c", exclude=["x"]),
        followed(3, tree / "ab"),
    )
    (target,) = targets([tree / "a"], [plain, ruled, beside])
    assert target.absorbed == (plain,)


def test_the_same_place_once(tree, monkeypatch):
    monkeypatch.chdir(tree)
    (tree / "link").symlink_to(tree / "a")
    assert len(targets(["a", tree / "a", "a/", "./a/../a", "link"], [])) == 1
    record = followed(1, tree / "a")
    whole = targets(["a", "a/b", "a/b/file.txt"], [record])
    assert [(t.path, t.below) for t in whole] == [(str(tree / "a"), None)]


@pytest.mark.parametrize("path", ["", "a\0b", "nothing/here"])
def test_what_is_no_path(tree, path, monkeypatch):
    monkeypatch.chdir(tree)
    with pytest.raises(UsageError):
        targets([path], [])


def test_what_is_neither_file_nor_folder(tree):
    with pytest.raises(UsageError, match="neither a file nor a folder"):
        targets(["/dev/null"], [])


@pytest.mark.parametrize("rules", [{"include": [""]}, {"exclude": ["*.md", " "]}])
def test_an_empty_pattern_is_refused(tree, rules):
    for paths in ([tree / "a"], []):
        with pytest.raises(UsageError, match="pattern"):
            targets(paths, [], **rules)


def test_a_deleted_file_of_a_followed_folder_is_a_part_of_it(tree):
    (target,) = targets([tree / "a" / "gone.txt"], [followed(1, tree / "a")])
    assert target.below == str(tree / "a" / "gone.txt")


def test_inside_is_by_whole_names():
    assert inside("/a/b", "/a") and inside("/a/b", "/") and not inside("/ab", "/a") and not inside("/a", "/a")
