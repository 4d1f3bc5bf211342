"""Reading HTML: main text, headings, lists, tables, code, encodings."""

from __future__ import annotations

from pathlib import Path

import pytest
from slotrag.rag.documents import NoText, ReadError
from slotrag.rag.readers import html, read

PAGE = """<!DOCTYPE html><html><head><title>The house</title><style>p {color: red}</style></head><body>
<nav><a href="/">Home page link</a></nav><script>var hidden = 1;</script>
<h1>House</h1><p>The boiler is <b>serviced</b>
every year.</p><h2>Costs</h2><ul><li>Water</li><li>Power</li></ul>
<table><tr><th>Item</th><th>Price</th></tr><tr><td>Water</td><td>20</td></tr></table>
<pre>def cost():
    return 20</pre></body></html>"""


def write(folder: Path, data: str | bytes, name: str = "page.html") -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_main_text_with_its_blocks(tmp_path: Path) -> None:
    document = read(write(tmp_path, PAGE))
    parts = {(block.kind, document.text[block.start : block.end]): block for block in document.blocks}
    assert document.title == "The house"
    assert parts["heading", "House"].level == 1
    assert parts["heading", "Costs"].heading_path == "House > Costs"
    assert parts["paragraph", "The boiler is serviced every year."].heading_path == "House"
    assert ("code", "def cost():\n    return 20") in parts
    assert any(kind == "list" and "Water" in text for kind, text in parts)
    assert any(kind == "table" and "Water" in text and "20" in text for kind, text in parts)
    for left_out in ("Home page link", "hidden", "color"):
        assert left_out not in document.text


def test_the_declared_encoding_is_used(tmp_path: Path) -> None:
    page = '<html><head><meta charset="euc-kr"></head><body><p>보일러 점검</p></body></html>'
    assert "보일러 점검" in read(write(tmp_path, page.encode("cp949"))).text


def test_html_under_another_suffix_is_read_as_html(tmp_path: Path) -> None:
    assert "<p>" not in read(write(tmp_path, PAGE, "page.txt")).text


def test_a_page_of_scripts_alone_has_no_text(tmp_path: Path) -> None:
    with pytest.raises(NoText):
        read(write(tmp_path, "<!doctype html><html><body><script>run()</script></body></html>"))


def test_deep_nesting_is_survived(tmp_path: Path) -> None:
    deep = "<!doctype html><html><body><p>Before.</p>" + "<div>" * 20_000 + "</body></html>"
    assert "Before." in read(write(tmp_path, deep)).text


FURNITURE = """<!doctype html><html><body><header>{top}<p>Sign in here</p></header>{body}
<aside><p>Read also this</p></aside><footer><p>All rights reserved</p></footer></body></html>"""


@pytest.mark.parametrize(
    "body",
    [
        "<section><p>The boiler hums.</p></section>",
        "<article><header><p>By Kim</p></header><p>The boiler hums.</p><aside>A note</aside></article>",
        "<main><header><p>By Kim</p></header><p>The boiler hums.</p><aside>A note</aside></main>",
        '<div role="main"><header><p>By Kim</p></header><p>The boiler hums.</p><aside>A note</aside></div>',
    ],
)
def test_headers_footers_and_asides_of_the_page_are_left_out_and_those_of_an_article_kept(
    tmp_path: Path, body: str
) -> None:
    text = read(write(tmp_path, FURNITURE.format(top="", body=body))).text
    assert "boiler hums" in text and ("By Kim" in text and "A note" in text) == ("By Kim" in body)
    for left_out in ("Sign in", "Read also", "rights"):
        assert left_out not in text


@pytest.mark.parametrize("body", ["<p>The boiler hums.</p>", "<main><p>The boiler hums.</p></main>"])
def test_the_only_h1_is_kept_though_it_stands_in_the_pages_header(tmp_path: Path, body: str) -> None:
    document = read(write(tmp_path, FURNITURE.format(top="<h1>Boilers</h1>", body=body)))
    assert document.text == "Boilers\n\nThe boiler hums.\n"
    assert document.blocks[-1].heading_path == "Boilers"


def test_the_pages_header_is_read_where_there_is_nothing_else(tmp_path: Path) -> None:
    assert "Sign in here" in read(write(tmp_path, FURNITURE.format(top="", body=""))).text


@pytest.mark.parametrize("end", ["</body></html>", "</body>", "</html>", "</BODY >\n</HTML>"])
def test_text_after_the_end_of_the_page_is_read(tmp_path: Path, end: str) -> None:
    text = read(write(tmp_path, f"<html><body><p>Before.</p>{end}\nAfter. <p>And more.</p>")).text
    assert text == "Before.\n\nAfter.\n\nAnd more.\n"


@pytest.mark.parametrize("tag", ["nav", "aside", "footer", "header", "select", "button", "noscript", "iframe", "svg"])
def test_an_element_that_is_never_closed_takes_nothing_along(tmp_path: Path, tag: str) -> None:
    page = f"<html><body><{tag}>Closed.</{tag}><p>Before.</p><{tag} class=x>Menu<p>The boiler is old.</p></body></html>"
    text = read(write(tmp_path, page)).text
    assert "Before." in text and "The boiler is old." in text
    assert "Closed." not in text


def test_a_tag_in_a_comment_or_a_script_closes_and_opens_nothing(tmp_path: Path) -> None:
    page = "<html><body><script>x = '<nav>'</script><!-- <nav> --><nav>Menu</nav><p>The boiler.</p></body></html>"
    assert read(write(tmp_path, page)).text == "The boiler.\n"


@pytest.mark.parametrize(("start", "what"), [("<script>", "<script>"), ("<!--", "comment"), ("<style>", "<style>")])
def test_what_an_unclosed_script_or_comment_hides_is_said(tmp_path: Path, start: str, what: str) -> None:
    document = read(write(tmp_path, f"<html><body><p>Before.</p>\n{start} never\n<p>After.</p>"))
    assert document.partial
    assert document.notes == [f"nothing after line 2 was read: its {what} is never closed"]


def test_an_unclosed_title_is_the_reason_of_a_page_without_text(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="<title> is never closed"):
        read(write(tmp_path, "<html><head><title>The house <body><p>The boiler.</p></body></html>"))


def test_readings_and_formulas_are_parted_from_the_words_beside_them(tmp_path: Path) -> None:
    page = (
        "<html><body><p>A <ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby><math><mfrac><mn>1</mn><mn>2</mn></mfrac>"
        "<mo>=</mo><msup><mi>x</mi><mn>2</mn></msup></math>and</p></body></html>"
    )
    assert read(write(tmp_path, page)).text == "A 漢字(かんじ) 1/2=x^2 and\n"


def test_a_page_of_too_many_tags_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAXIMUM_TAGS", 1000)
    with pytest.raises(ReadError, match="tags: split the page"):
        read(write(tmp_path, "<html><body>" + "<p>x" * 1001))
