import pytest
from slotrag.rag.relevance import Judge, question_words


def judge(question, counts, noise=0.4, passages=1000):
    return Judge.of(question, noise_level=noise, counts=counts, passages=passages)


def test_above_the_noise_is_relevant_and_at_it_is_not():
    rules = judge("the", {})
    assert rules.relevant(0.41, "anything") and not rules.relevant(0.4, "anything")
    assert not rules.relevant(None, "anything")


def test_all_rare_words_make_a_passage_relevant():
    rules = judge("Who built the Kessock bridge in Inverness?", {"kessock": 2, "bridg": 300, "inver": 4, "built": 80})
    assert rules.relevant(0.1, "The Kessock crossing joins Inverness and the Black Isle.")
    assert not rules.relevant(0.1, "The bridge was built in Inverness.")


def test_an_unknown_word_is_rare_and_held_by_nothing():
    rules = judge("Zimbabwe copper", {"zimbabw": 0, "copper": 3})
    assert not rules.relevant(0.1, "Copper is mined here.")


def test_without_rare_words_only_the_cosine_counts():
    rules = judge("What is the bridge?", {"bridg": 300})
    assert not rules.relevant(0.1, "the bridge")


def test_without_a_noise_level_only_the_words_count():
    assert not judge("copper", {"copper": 300}, noise=None).relevant(0.99, "iron")
    assert judge("copper", {"copper": 3}, noise=None).relevant(None, "Copper melts.")


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("What does it do, and why?", []),
        ("Which ERROR-404 pages?", ["error", "404", "page"]),
        ("도서관에서 무엇을 하나요", ["도서"]),
        ("FAISS는 어디에 있나요?", ["faiss"]),
        ("東京タワーはどこですか", ["東京", "京タ", "タワ", "ワー"]),
    ],
)
def test_words_of_a_question(question, words):
    assert question_words(question) == words
