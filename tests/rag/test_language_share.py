from dataclasses import replace

import pytest
from libraries import open_library, write
from slotrag.rag.language_share import main_language, multilingual_notice

KOREAN = {f"{n}.txt": f"도서관은 아침 아홉 시에 연다. 회원 {n}명은 책을 다섯 권까지 빌릴 수 있다." for n in range(6)}
ENGLISH = {f"en{n}.txt": f"The library opens at nine and lends {n} books to each of its members." for n in range(4)}


@pytest.fixture
def collection(tmp_path, hashing_encoder):
    def make(files):
        with open_library(tmp_path / "library") as library:
            library.index([write(tmp_path / "docs", files)])
            record = library._catalog.collection()
            return record, main_language(library._catalog, record)

    return make


def test_a_mostly_korean_folder_proposes_the_multilingual_backbone(collection):
    record, language = collection(KOREAN | ENGLISH)
    assert language == "ko"
    (notice,) = multilingual_notice(replace(record, encoder="mean@minilm-l6"), language)
    assert "Korean" in notice and "slotrag rebuild --collection default --encoder mean@e5-small" in notice
    assert multilingual_notice(replace(record, encoder="mean@e5-small"), language) == []
    assert multilingual_notice(record, language) == []


def test_an_english_folder_proposes_nothing(collection):
    record, language = collection(ENGLISH)
    assert language == "en" and multilingual_notice(replace(record, encoder="mean@minilm-l6"), language) == []


def test_an_empty_collection_has_no_language(collection):
    record, language = collection({})
    assert language == "" and multilingual_notice(replace(record, encoder="mean@minilm-l6"), language) == []
