"""Citations: ours, sentence by sentence; unknown, unsupported and coinciding sources."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag.encoders.registry import create
from slotrag.rag.citations import UNSUPPORTED, Source, cite, unsupported
from slotrag.rag.sentences import sentences


@pytest.fixture(scope="module")
def encoder(hashing_encoder):
    return create(hashing_encoder)


def source(encoder, number, text):
    vectors = encoder.encode_documents([text[a:b] for a, b in sentences(text)])
    return Source(number, text, np.asarray(vectors))


@pytest.fixture(scope="module")
def sources(encoder):
    return [
        source(encoder, 1, "The museum was built in 1887 by Anna Kern. It stands on a hill."),
        source(encoder, 2, "The library holds 40,000 books and was moved in 1950."),
        source(encoder, 4, "도서관은 월요일에 쉽니다."),
    ]


def test_every_sentence_gets_its_source(encoder, sources):
    cited = cite("The museum was built in 1887. The library holds 40,000 books.", sources, encoder)
    assert cited.text == "The museum was built in 1887. [1] The library holds 40,000 books. [2]"
    assert (cited.numbers, cited.supported, cited.total) == ([1, 2], 2, 2)


def test_the_models_own_marks_count_only_where_they_agree(encoder, sources):
    cited = cite("The museum was built in 1887 [2]. The library holds 40,000 books [2][9]. So [7].", sources, encoder)
    assert cited.text == "The museum was built in 1887. [1] The library holds 40,000 books. [2] So."
    both = [sources[0], source(encoder, 3, "Anna Kern built the museum in 1887.")]
    assert cite("The museum was built in 1887 [3].", both, encoder).text.endswith("[1][3]")


@pytest.mark.parametrize(
    "claim",
    [
        "The museum was built in 1901.",
        "Penguins breed on the southern coast.",
        "The library holds 41,000 books.",
    ],
)
def test_unsupported_sentences_are_marked(encoder, sources, claim):
    cited = cite(f"{claim} [1] The library was moved in 1950.", sources, encoder)
    assert cited.text == f"{claim} {UNSUPPORTED} The library was moved in 1950. [2]"
    assert cited.numbers == [2]


def test_korean_particles_do_not_hide_support(encoder, sources):
    assert cite("월요일은 도서관이 쉽니다.", sources, encoder).numbers == [4]


def test_coinciding_sources_keep_their_numbers(encoder, sources):
    twice = [sources[0], Source(1, sources[0].text, sources[0].vectors), sources[1]]
    assert cite("The library was moved in 1950.", twice, encoder).text.endswith("[2]")
    assert cite("The museum was built in 1887.", twice, encoder).text.endswith("1887. [1]")


def test_brackets_that_are_no_marks_stay(encoder, sources):
    text = "The library [built of stone] holds 40,000 books, see a[i] and [x]."
    assert cite(text, sources, encoder).text.startswith(text)


def test_empty_answer_and_no_sources(encoder, sources):
    assert cite("", sources, encoder).text == ""
    alone = cite("The museum was built in 1887. [1]", [], encoder)
    assert (alone.text, alone.numbers) == (f"The museum was built in 1887. {UNSUPPORTED}", [])


@given(st.text(alphabet=st.sampled_from("museum 1887[].,1249 \n도서관"), max_size=80))
def test_only_listed_numbers_are_ever_shown(encoder, sources, text):
    cited = cite(text, sources, encoder)
    shown = {int(number) for number in re.findall(r"\[\s*(\d{1,4})\s*\]", cited.text)}
    assert shown <= {1, 2, 4}
    assert set(cited.numbers) <= {1, 2, 4}


GIT = "You can delete a branch with `git branch -d NAME`. A branch that is not merged is kept. The hall is open daily."


@pytest.mark.parametrize(
    "claim",
    [
        "You can delete a branch by using the `delete_branch` function.",
        "You can delete a branch with git branch --force.",
        "Kern can delete a branch with Anna Weil.",
        "```python\ndef delete(branch):\n    return git(branch)\n```",
        "- delete branch; git = branch(name, x)",
        "A branch that is merged is kept.",
        "The hall is not open daily.",
        "The hall isn't open daily.",
        "The hall can never be open daily.",
    ],
)
def test_what_does_not_stand_in_the_source_gets_no_number(encoder, claim):
    there = [source(encoder, 1, GIT)]
    cited = cite(claim, there, encoder)
    assert (cited.numbers, cited.supported) == ([], 0)
    assert cited.text == f"{claim}{chr(10) if claim.startswith('```') else ' '}{UNSUPPORTED}"
    assert unsupported(f"The hall is open. [1] {cited.text}" if "```" not in claim else cited.text) == [claim]


@pytest.mark.parametrize(
    "claim",
    [
        "You can delete a branch with `git branch -d NAME`.",
        "```\ngit branch -d NAME\n```",
        "A branch that is not merged is kept.",
        "The hall is open daily.",
    ],
)
def test_what_stands_in_the_source_is_cited(encoder, claim):
    cited = cite(claim, [source(encoder, 1, GIT)], encoder)
    assert cited.numbers == [1]
    assert cited.claims == [(claim, 1)]
