"""The program that `hub` runs to fetch files: ``REPOSITORY CACHE FILE...``. It prints nothing unless it fails."""

from __future__ import annotations

import sys


def main(arguments: list[str]) -> None:
    """Fetch the named files of a repository's main revision into the hub cache."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    repository, cache, *names = arguments
    snapshot_download(repository, cache_dir=cache, allow_patterns=names)


if __name__ == "__main__":
    main(sys.argv[1:])
