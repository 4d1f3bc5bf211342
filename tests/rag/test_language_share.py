from dataclasses import replace

import pytest
from libraries import open_library, write
from slotrag.rag.language_share import main_language, multilingual_notice, question_notice

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


@pytest.mark.parametrize(
    "encoder",
    ["mean@minilm-l6", "prompteol@smollm2-135m:layer=-2", "geneol:encoder=(mean@minilm-l6),generator=smollm2-135m"],
)
@pytest.mark.parametrize("question", ["도서관은 언제 여나요?", "FAISS 색인은 어디에 있나요?", "図書館はいつ開きますか"])
def test_a_question_that_the_encoder_does_not_read_is_said_with_the_remedy(collection, encoder, question):
    record = replace(collection(ENGLISH)[0], encoder=encoder)
    (notice,) = question_notice([record], question)
    assert "slotrag rebuild --collection default --encoder mean@e5-small" in notice
    other = replace(record, name="my notes")
    (notice,) = question_notice([replace(record, encoder="mean@e5-small"), other, record], question)
    assert "--collection 'my notes'" in notice and "as well as default" in notice


@pytest.mark.parametrize(
    ("encoder", "question"),
    [
        ("mean@minilm-l6", "When does the library open?"),
        ("mean@minilm-l6", "Wann wurde der Vertrag unterzeichnet?"),
        ("mean@minilm-l6", "42 ?!"),
        ("mean@e5-small", "도서관은 언제 여나요?"),
        ("st@someone/model", "도서관은 언제 여나요?"),
        ("hashing", "도서관은 언제 여나요?"),
    ],
)
def test_nothing_is_said_where_it_is_read_or_not_known(collection, encoder, question):
    assert question_notice([replace(collection(ENGLISH)[0], encoder=encoder)], question) == []


@pytest.mark.parametrize("ask", [False, True])
def test_searching_and_asking_say_it_once(tmp_path, hashing_encoder, ask):
    with open_library(tmp_path / "library", encoder=f"{hashing_encoder}@minilm-l6") as library:
        library.index([write(tmp_path / "docs", ENGLISH)])
        assert library.search("도서관", mode="lexical").notices == []
        say = library.answer if ask else library.search
        (notice,) = say("도서관은 언제 여나요?").notices
        assert "mean@e5-small" in notice and say("도서관은 어디인가요?").notices == []
