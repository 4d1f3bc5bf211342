"""Numbered post-processings in the catalog: one transaction, numbers never again, gone with their collection."""

import pytest
from library_parts import FINGERPRINT, new_collection
from slotrag.storage import Catalog
from slotrag.storage.errors import UnknownCollection
from slotrag.storage.records import NewPostprocessing, PostprocessingRecord

MEAN = NewPostprocessing("mean", "collection", 150, b"mean statistics")
TOP = NewPostprocessing("top=3", "encoder", 1000, b"top statistics")


def set_next(catalog, collection_id, new, level=None):
    return catalog.set_postprocessing(collection_id, catalog.next_postprocessing(collection_id), new, noise_level=level)


def test_setting_changes_number_and_level_together(catalog, collection):
    assert (collection.postprocessing, catalog.next_postprocessing(collection.id)) == (0, 1)
    changed = set_next(catalog, collection.id, MEAN, 0.5)
    assert (changed.postprocessing, changed.noise_level, changed.state) == (1, 0.5, collection.state)
    assert catalog.collection() == changed
    assert catalog.postprocessing(collection.id, 1) == PostprocessingRecord(
        1, "mean", "collection", 150, MEAN.statistics
    )
    assert catalog.postprocessing(collection.id, 2) is None and catalog.postprocessing(collection.id + 1, 1) is None


def test_numbers_are_never_given_again(catalog, collection):
    given = []
    for new in (MEAN, TOP, None, MEAN, None, None, TOP, MEAN):
        if new is None:
            assert catalog.set_postprocessing(collection.id, 0, None, noise_level=None).postprocessing == 0
        else:
            given.append(set_next(catalog, collection.id, new).postprocessing)
    assert given == sorted(set(given)) and catalog.next_postprocessing(collection.id) == given[-1] + 1


def test_the_setting_before_is_kept_and_older_ones_are_not(catalog, collection):
    for new in (MEAN, TOP, MEAN):
        set_next(catalog, collection.id, new)
    assert catalog.postprocessing(collection.id, 1) is None
    before = catalog.postprocessing(collection.id, 2)
    assert before is not None and before.statistics == TOP.statistics
    assert catalog.postprocessing(collection.id, 3).statistics == MEAN.statistics


@pytest.mark.parametrize("number, new", [(1, TOP), (0, TOP), (2, None), (-1, TOP)])
def test_a_number_that_does_not_fit_changes_nothing(catalog, collection, number, new):
    before = set_next(catalog, collection.id, MEAN, 0.5)
    with pytest.raises(ValueError, match="number"):
        catalog.set_postprocessing(collection.id, number, new, noise_level=0.9)
    assert catalog.collection() == before and catalog.postprocessing(collection.id, 2) is None


def test_a_new_collection_may_have_one_from_the_start(catalog):
    made = catalog.create_collection(
        "new", encoder="mean", fingerprint=FINGERPRINT, dimension=8, splitting={}, postprocessing=TOP
    )
    assert made.postprocessing == 1 and catalog.postprocessing(made.id, 1).origin == "encoder"


def test_they_go_with_their_collection(catalog, collection):
    set_next(catalog, collection.id, MEAN)
    other = new_collection(catalog, "other")
    set_next(catalog, other.id, TOP)
    catalog.replace_collection(collection.id, other.id)
    assert catalog.postprocessing(collection.id, 1) is None
    assert catalog.postprocessing(other.id, 1).statistics == TOP.statistics
    catalog.remove_collection(other.id)
    assert catalog.postprocessing(other.id, 1) is None and catalog.integrity_check(full=True) == []


def test_no_collection(catalog):
    with pytest.raises(UnknownCollection):
        catalog.next_postprocessing(5)


def test_removed_statistics_are_erased_from_the_file(tmp_path):
    with Catalog.open(tmp_path) as catalog:
        made = new_collection(catalog)
        set_next(catalog, made.id, MEAN)
        catalog.remove_collection(made.id)
        catalog.prune_vectors()
    assert MEAN.statistics not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
