"""A small folder, ways to change it, and what a run counted."""

import shutil

from libraries import write

FILES = {
    "bridges.md": "# Bridges\n\nThe old bridge was built in 1873 by Anna Keller.\n\n## Repairs\n\nRepaired in 1950.\n",
    "penguins.txt": "Penguins live in the south and eat fish.\n",
    "metals/copper.txt": "Copper melts at 1085 degrees.\n\nIron melts at 1538 degrees.\n",
    "metals/tin.txt": "Tin melts at 232 degrees.\n",
}
QUERIES = ["old bridge repaired", "melts at degrees", "penguins fish south"]


def counts(report):
    return {
        name: getattr(report, name)
        for name in ("new", "updated", "unchanged", "removed", "renamed")
        if getattr(report, name)
    }


def edit(docs):
    (docs / "penguins.txt").write_text("Penguins live in the north now.\n\nThey eat krill.\n")


def shrink(docs):
    (docs / "metals/copper.txt").write_text("Copper melts at 1085 degrees.\n")


def empty(docs):
    (docs / "penguins.txt").write_text("")


def delete(docs):
    (docs / "penguins.txt").unlink()


def delete_everything(docs):
    shutil.rmtree(docs)
    docs.mkdir()


def add(docs):
    write(docs, {"new/zinc.txt": "Zinc melts at 420 degrees."})


def overwrite_by_another(docs):
    (docs / "metals/tin.txt").replace(docs / "penguins.txt")


def move_and_write_anew(docs):
    (docs / "penguins.txt").rename(docs / "birds.txt")
    (docs / "penguins.txt").write_text("Not about birds any more.")


def copy(docs):
    shutil.copy(docs / "penguins.txt", docs / "metals/penguins.txt")


def folder_in_place_of_file(docs):
    (docs / "penguins.txt").unlink()
    write(docs, {"penguins.txt/real.txt": "Penguins live in the south and eat fish.\n"})


def rename(docs):
    (docs / "penguins.txt").rename(docs / "birds.txt")
    return "penguins.txt"


def move(docs):
    (docs / "metals/tin.txt").rename(docs / "tin.txt")
    return "metals/tin.txt"


def rename_folder(docs):
    (docs / "metals").rename(docs / "elements")
    return "metals/*"
