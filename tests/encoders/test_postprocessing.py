"""Post-processing of vectors: the algebra of its steps, their texts, their bytes, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slotrag import SlotragError, UsageError
from slotrag.encoders.postprocessing import Postprocessing, StatisticsDamaged
from slotrag.encoders.postprocessing_fit import fit
from slotrag.encoders.postprocessing_steps import parse_steps, require_possible

WIDTH = 12
STEPS = ["mean", "top=2", "mean+top=3", "whiten=5", "mean+top=2+whiten=5", "mean+embedfilter=6+top=1", "embedfilter"]


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def raw(seed=0, rows=300, width=WIDTH):
    """Vectors as a language model gives them: a large common part, directions of very different spread."""
    random = np.random.default_rng(seed)
    return unit(random.standard_normal((rows, width)) * np.geomspace(1, 0.05, width) + random.standard_normal(width))


def unembedding(width=WIDTH):
    return np.random.default_rng(7).standard_normal((400, width)).astype(np.float32) * np.geomspace(5, 0.1, width)


def fitted(steps, vectors=None):
    return fit(steps, [raw() if vectors is None else vectors], unembedding=unembedding())


@given(st.integers(0, 50))
@settings(max_examples=15, deadline=None)
def test_mean_removal_leaves_no_mean(seed):
    vectors = raw(seed)
    done = fit("mean", [vectors])
    assert np.abs(done.transform(vectors).mean(axis=0)).max() < 1e-6
    expected = unit(vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64))
    np.testing.assert_allclose(done.apply(vectors), expected, atol=1e-5)


@pytest.mark.parametrize("steps, centre", [("top=3", False), ("mean+top=3", True)])
def test_top_directions_are_gone_and_the_others_untouched(steps, centre):
    """An independent reference: the singular value decomposition of the vectors themselves."""
    vectors = raw(1).astype(np.float64)
    moved = vectors - vectors.mean(axis=0) if centre else vectors
    axes = np.linalg.svd(moved, full_matrices=False)[2]
    left = fit(steps, [vectors]).transform(vectors)
    assert np.abs(left @ axes[:3].T).max() < 1e-6
    np.testing.assert_allclose(left @ axes[3:].T, moved @ axes[3:].T, atol=1e-6)


@pytest.mark.parametrize(
    "steps", ["whiten=12", "whiten=5", "mean+whiten=5", "mean+top=2+whiten=4", "embedfilter+whiten=3"]
)
def test_whitened_directions_vary_alike_and_independently(steps):
    vectors = raw(2)
    white = fitted(steps, vectors).transform(vectors).astype(np.float64)
    assert np.abs(white.mean(axis=0)).max() < 1e-4
    np.testing.assert_allclose(white.T @ white / len(white), np.eye(white.shape[1]), atol=1e-3)


def test_whitening_keeps_the_directions_that_vary_most():
    vectors = raw(3).astype(np.float64)
    moved = vectors - vectors.mean(axis=0)
    _, lengths, axes = np.linalg.svd(moved, full_matrices=False)
    expected = moved @ axes[:4].T / (lengths[:4] / np.sqrt(len(moved)))
    got = fit("whiten=4", [vectors]).transform(vectors)
    np.testing.assert_allclose(np.abs((got * expected).mean(axis=0)), 1, atol=1e-4)


@pytest.mark.parametrize("kept", [6, 5, 1, 12])
def test_embedfilter_keeps_the_middle_of_the_unembedding(kept):
    matrix = unembedding()
    axes = np.linalg.svd(matrix, full_matrices=False)[2]
    first = (WIDTH - kept) // 2
    middle = axes[first : first + kept]
    vectors = raw(4)
    done = fit(f"embedfilter={kept}", (), unembedding=matrix)
    assert done.dimension_out == kept and done.fitted_on == 0
    np.testing.assert_allclose(np.abs(done.transform(vectors)), np.abs(vectors @ middle.T), atol=1e-5)


def test_embedfilter_halves_by_default_and_reads_no_vectors():
    def unread():
        raise AssertionError("the vectors were read")
        yield

    assert fit("embedfilter", unread(), unembedding=unembedding()).dimension_out == WIDTH // 2


@pytest.mark.parametrize("steps", STEPS)
@given(cuts=st.lists(st.integers(0, 2500), max_size=6))
@settings(max_examples=8, deadline=None)
def test_chunks_do_not_change_a_bit(steps, cuts):
    vectors = raw(5, rows=2500)
    parts = np.split(vectors, sorted(cuts))
    assert fit(steps, parts, unembedding=unembedding()).to_bytes() == fitted(steps, vectors).to_bytes()


@pytest.mark.parametrize("steps", STEPS)
def test_another_order_moves_no_cosine(steps):
    vectors = raw(6, rows=1500)
    shuffled = np.random.default_rng(1).permutation(vectors)
    one, other = fitted(steps, vectors).apply(vectors[:40]), fitted(steps, shuffled).apply(vectors[:40])
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-4)


@pytest.mark.parametrize("steps", ["whiten=5", "mean+top=2", "mean"])
def test_a_rotated_space_has_the_same_cosines(steps):
    """What comes out depends on how vectors lie to each other, not on the axes they are written in."""
    vectors = raw(8).astype(np.float64)
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((WIDTH, WIDTH)))[0]
    one, other = fit(steps, [vectors]).apply(vectors), fit(steps, [vectors @ turn]).apply(vectors @ turn)
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=1e-3)


@pytest.mark.parametrize("steps", ["mean", "mean+top=2", "whiten=5"])
def test_fitting_again_to_what_came_out_changes_nothing(steps):
    """Idempotent before the rows are scaled: centred stays centred, white stays white."""
    once = fitted(steps).transform(raw())
    again = fit(steps.replace("+top=2", ""), [once]).transform(once)
    np.testing.assert_allclose(again @ again.T, once @ once.T, atol=1e-3 * np.abs(once @ once.T).max())


def test_removing_twice_what_is_gone_changes_nothing():
    done = fitted("top=3")
    once = done.transform(raw())
    np.testing.assert_allclose(done.transform(once), once, atol=1e-6)


@pytest.mark.parametrize("steps", STEPS)
def test_rows_are_unit_length_and_independent_of_each_other(steps):
    done = fitted(steps)
    vectors = raw(9)
    out = done.apply(vectors)
    assert out.dtype == np.float32 and out.shape == (len(vectors), done.dimension_out)
    np.testing.assert_allclose(np.linalg.norm(out, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(done.apply(vectors[17:18]), out[17:18], atol=1e-5)
    assert done.apply(vectors[:0]).shape == (0, done.dimension_out)


def test_a_row_of_which_nothing_is_left_is_like_nothing():
    same = np.repeat(raw(rows=1), 200, axis=0)
    assert not fit("mean", [same]).apply(same).any()


@pytest.mark.parametrize("steps", STEPS)
def test_bytes_give_the_same_back(steps):
    done = fitted(steps)
    back = Postprocessing.from_bytes(done.to_bytes())
    assert back == done and back.to_bytes() == done.to_bytes() and back.fingerprint == done.fingerprint
    assert (back.steps, back.fitted_on, back.dimension_in) == (steps, done.fitted_on, WIDTH)
    np.testing.assert_array_equal(back.apply(raw(10)), done.apply(raw(10)))
    assert fitted(steps, raw(11)) != done or steps == "embedfilter"


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_are_refused(data):
    whole = fitted("mean+top=3").to_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    for torn in (whole[:at], whole + b"\0" * (at + 1)):
        with pytest.raises(StatisticsDamaged):
            Postprocessing.from_bytes(torn)


def test_numbers_that_are_none_are_refused():
    bad = fitted("mean").to_bytes()[:-4] + np.float32(np.nan).tobytes()
    with pytest.raises(StatisticsDamaged, match="finite"):
        Postprocessing.from_bytes(bad)


@pytest.mark.parametrize(
    "text, canonical",
    [("none", "none"), (" Mean + TOP = 3 ", "mean+top=3"), ("embedfilter", "embedfilter"),
     ("whiten=0128", "whiten=128"), ("top=1+mean+embedfilter=4", "top=1+mean+embedfilter=4")],
)  # fmt: skip
def test_steps_are_read(text, canonical):
    assert str(parse_steps(text)) == canonical == str(parse_steps(canonical))


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "mean+", "+", "top", "top=", "top=0", "top=-1", "top=1.5", "top=²", "whiten", "mean=1",
     "mean+mean", "whiten=3+mean", "none+mean", "top=99999999999", "mean top=3"],
)  # fmt: skip
def test_steps_that_are_none_are_refused_in_one_sentence(text):
    with pytest.raises(UsageError) as caught:
        parse_steps(text)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


@pytest.mark.parametrize(
    "steps, rows, advice",
    [("whiten=13", 300, "whiten=12"), ("whiten=8", 8, "whiten=7"), ("top=12", 300, "top=11"),
     ("mean+top=2+whiten=11", 300, "whiten=10"), ("embedfilter=4+whiten=5", 300, "whiten=4"), ("top=9", 5, "top=4"),
     ("mean+whiten=1", 1, "leave")],
)  # fmt: skip
def test_more_directions_than_there_are_is_refused_with_what_would_do(steps, rows, advice):
    with pytest.raises(UsageError, match=advice):
        fitted(steps, raw(rows=rows))


def test_whitening_does_not_blow_up_rounding():
    """Stored in half precision, vectors of a plane vary a little in all directions."""
    flat = raw(12)
    flat[:, 4:] = 0
    stored = unit(flat).astype(np.float16)
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((WIDTH, WIDTH)))[0].astype(np.float32)
    assert fit("whiten=4", [stored]).dimension_out == 4
    with pytest.raises(UsageError, match="choose whiten="):
        fit("whiten=6", [stored])
    assert np.isfinite(fit("whiten=3", [(stored @ turn).astype(np.float16)]).apply(flat @ turn)).all()


@pytest.mark.parametrize("steps, dimension", [("whiten=13", 12), ("top=12", 12), ("embedfilter+whiten=7", 12)])
def test_what_no_vectors_would_allow_is_known_before(steps, dimension):
    with pytest.raises(UsageError):
        require_possible(parse_steps(steps), dimension)
    require_possible(parse_steps("mean+top=3+embedfilter=6+whiten=6"), dimension)


def test_what_is_needed_is_asked_for():
    with pytest.raises(UsageError, match="causal language model"):
        fit("embedfilter", [raw()])
    with pytest.raises(UsageError, match="no vectors"):
        fit("mean", [])
    with pytest.raises(UsageError, match="as wide as"):
        fit("mean+embedfilter", [raw()], unembedding=unembedding(8))
    with pytest.raises(SlotragError, match="not finite"):
        fit("mean", [np.full((3, 4), np.nan)])
    with pytest.raises(ValueError, match="shape"):
        fitted("mean").apply(np.zeros((2, 5)))
