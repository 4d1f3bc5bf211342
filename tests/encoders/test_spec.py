"""Specs: reading, canonical form, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slotrag import UsageError
from slotrag.encoders.spec import EncoderSpec

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,8}", fullmatch=True)
keys = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
texts = st.text(alphabet=st.sampled_from(list("ab1@:,=()\\/ .-\n가\t")), max_size=12) | st.text(max_size=8)


def spec_strings(values):
    """Specs whose values are drawn from `values`, as objects."""
    return st.builds(
        lambda name, backbone, parameters: EncoderSpec(name, backbone, tuple(parameters.items())),
        names,
        st.none() | texts.filter(bool),
        st.dictionaries(keys, values, max_size=4),
    )


specs = spec_strings(texts | spec_strings(texts | spec_strings(texts).map(str)).map(str))


@given(specs)
def test_parsing_the_canonical_form_gives_the_same_spec(spec):
    assert EncoderSpec.parse(str(spec)) == spec


@given(specs)
def test_canonical_form_is_a_fixed_point(spec):
    assert str(EncoderSpec.parse(str(spec))) == str(spec)


@given(st.text(alphabet=st.sampled_from(list("mean@:,=()\\ x1")), max_size=20))
def test_any_text_is_a_spec_or_a_usage_error(text):
    try:
        spec = EncoderSpec.parse(text)
    except UsageError:
        return
    assert EncoderSpec.parse(str(spec)) == spec


@given(spec_strings(texts), st.randoms(use_true_random=False))
def test_order_of_parameters_does_not_matter(spec, random):
    shuffled = list(spec.parameters)
    random.shuffle(shuffled)
    assert EncoderSpec(spec.name, spec.backbone, tuple(shuffled)) == spec


@pytest.mark.parametrize(
    ("text", "name", "backbone", "parameters"),
    [
        ("mean", "mean", None, {}),
        ("tp@smollm2-135m:exit=3", "tp", "smollm2-135m", {"exit": "3"}),
        ("st@BAAI/bge-m3", "st", "BAAI/bge-m3", {}),
        ("ilse:graph=cayley", "ilse", None, {"graph": "cayley"}),
        ("mean@(/data/a:b (1), c):layer=2", "mean", "/data/a:b (1), c", {"layer": "2"}),
        (
            "geneol:m=4,encoder=(mean@minilm-l6),generator=smollm2-135m",
            "geneol",
            None,
            {"m": "4", "encoder": "mean@minilm-l6", "generator": "smollm2-135m"},
        ),
        ("a:x=(b:y=(c:z=(1,2)),w=3)", "a", None, {"x": "b:y=(c:z=(1,2)),w=3"}),
        ("mean:query_prefix=query: ", "mean", None, {"query_prefix": "query:"}),
        ("mean:query_prefix=(query: )", "mean", None, {"query_prefix": "query: "}),
        ("mean:query_prefix=()", "mean", None, {"query_prefix": ""}),
        (r"mean:query_prefix=(smile :\))", "mean", None, {"query_prefix": "smile :)"}),
        (
            "  mean @ minilm-l6 : layer = 3 , dtype = bfloat16 ",
            "mean",
            "minilm-l6",
            {"layer": "3", "dtype": "bfloat16"},
        ),
    ],
)
def test_reading(text, name, backbone, parameters):
    spec = EncoderSpec.parse(text)
    assert (spec.name, spec.backbone, dict(spec.parameters)) == (name, backbone, parameters)


def test_nested_specs_are_read_in_turn():
    outer = EncoderSpec.parse("a:x=(b:y=(c:z=(1,2)),w=3)")
    inner = EncoderSpec.parse(dict(outer.parameters)["x"])
    assert dict(inner.parameters) == {"y": "c:z=(1,2)", "w": "3"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "@minilm-l6",
        "mean@",
        "mean:",
        "mean:layer",
        "mean:=3",
        "mean:layer=1,layer=2",
        "mean:layer=1,",
        "mean:layer=(1",
        "mean:layer=1)",
        "mean:layer=(1)2",
        "mean:layer=a(1)",
        "mean@C:\\models",
        "me an",
        "mean\n",
        "한글",
    ],
)
def test_refused(text):
    if text == "mean\n":  # outer white space is not part of a name
        assert EncoderSpec.parse(text).name == "mean"
        return
    with pytest.raises(UsageError) as caught:
        EncoderSpec.parse(text)
    assert "\n" not in str(caught.value).strip()


def reader(text):
    return EncoderSpec.parse(text).reader()


def test_unknown_parameter_names_the_near_one():
    parameters = reader("mean:layr=3")
    parameters.integer("layer", -1)
    parameters.text("dtype", "float32")
    with pytest.raises(UsageError, match=r"'layr'.*did you mean 'layer'.*dtype, layer"):
        parameters.finish()


@pytest.mark.parametrize("value", ["three", "1.5", "", "9", "-9"])
def test_whole_numbers_out_of_range_are_refused(value):
    with pytest.raises(UsageError, match="layer"):
        reader(f"mean:layer=({value})").integer("layer", -1, least=-3, most=3)


@pytest.mark.parametrize("value", ["nan", "inf", "x", "2", "-0.5"])
def test_numbers_out_of_range_are_refused(value):
    with pytest.raises(UsageError, match="tau"):
        reader(f"glot:tau={value}").number("tau", 0.3, least=0, most=1)


def test_typed_values():
    parameters = reader("x:a=3,b=0.25,c=yes,d=cayley")
    assert parameters.integer("a", 1) == 3
    assert parameters.number("b", 1.0) == 0.25
    assert parameters.flag("c", False) is True
    assert parameters.choice("d", "set", ["set", "cayley"]) == "cayley"
    assert parameters.optional_text("e") is None
    parameters.finish()


def test_wrong_choice_and_flag_are_refused():
    with pytest.raises(UsageError, match="set, cayley"):
        reader("x:d=ring").choice("d", "set", ["set", "cayley"])
    with pytest.raises(UsageError, match="true or false"):
        reader("x:c=maybe").flag("c", False)
