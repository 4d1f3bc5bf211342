"""A plain reference for `slotrag eval retrieval`: sentence-transformers and bm25s, exact search, nothing of slotrag.

Dense is every document whole (title, space, text; cut at the model's limit) by sentence-transformers and one matrix
product; lexical is bm25s with its English stop words and PyStemmer's English stemmer; hybrid is their reciprocal rank
fusion with constant 60. Run it as

    python tests/benchmarks/reference_retrieval.py --model FOLDER DATASET... [--query-prefix P --passage-prefix P]

where FOLDER is a model that sentence-transformers loads and each DATASET is a BEIR-style folder (`beir_folders.py`).
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

DEPTH = 100
RRF_CONSTANT = 60


def read(dataset: Path) -> tuple[dict[str, str], dict[str, str], dict[str, dict[str, int]]]:
    """Documents, judged queries and their gains."""
    documents, queries = {}, {}
    for line in (dataset / "corpus.jsonl").read_text(encoding="utf-8").splitlines():
        value = json.loads(line)
        documents[value["_id"]] = f"{value.get('title', '')} {value['text']}".strip()
    gains: dict[str, dict[str, int]] = {}
    for line in (dataset / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, gain = line.split("\t")
        gains.setdefault(query, {})[document] = int(gain)
    for line in (dataset / "queries.jsonl").read_text(encoding="utf-8").splitlines():
        value = json.loads(line)
        if value["_id"] in gains:
            queries[value["_id"]] = value["text"]
    return documents, queries, gains


def dense_ranking(
    model_folder: Path, documents: list[str], queries: list[str], query_prefix: str, passage_prefix: str
) -> np.ndarray:
    """Positions of the best `DEPTH` documents of each query by cosine."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(model_folder), device="cpu")
    encode = {"normalize_embeddings": True, "batch_size": 32, "show_progress_bar": False}
    document_vectors = model.encode([passage_prefix + text for text in documents], **encode)
    query_vectors = model.encode([query_prefix + text for text in queries], **encode)
    return np.argsort(-(query_vectors @ document_vectors.T), axis=1, kind="stable")[:, :DEPTH]


def lexical_ranking(documents: list[str], queries: list[str]) -> np.ndarray:
    """Positions of the best `DEPTH` documents of each query by BM25."""
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    index = bm25s.BM25()
    index.index(bm25s.tokenize(documents, stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False)
    tokens = bm25s.tokenize(queries, stopwords="en", stemmer=stemmer, show_progress=False)
    positions, _ = index.retrieve(tokens, k=min(DEPTH, len(documents)), show_progress=False)
    return np.asarray(positions)


def fused_ranking(rankings: list[np.ndarray], documents: int) -> np.ndarray:
    """Reciprocal rank fusion of rankings of equal shape."""
    scores = np.zeros((len(rankings[0]), documents))
    for ranking in rankings:
        for row, positions in enumerate(ranking):
            scores[row, positions] += 1 / (RRF_CONSTANT + 1 + np.arange(len(positions)))
    return np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]


def measure(ranking: np.ndarray, names: list[str], queries: list[str], gains: dict[str, dict[str, int]]) -> dict:
    """nDCG@10 with linear gain, recall and MRR@10; the rank stands for the score, so that nothing ties."""
    import ir_measures
    from ir_measures import RR, R, nDCG

    run = {
        query: {names[position]: float(-rank) for rank, position in enumerate(positions)}
        for query, positions in zip(queries, ranking.tolist(), strict=True)
    }
    measures = [nDCG @ 10, R @ 1, R @ 5, R @ 10, R @ 100, RR @ 10]
    return {str(name): round(value, 4) for name, value in ir_measures.calc_aggregate(measures, gains, run).items()}


def main() -> None:
    """Read the command line, print one line of JSON for each dataset and mode."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", type=Path, nargs="+")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--query-prefix", default="")
    parser.add_argument("--passage-prefix", default="")
    parser.add_argument("--save", type=Path, help="write the rankings of each dataset and mode to this folder")
    arguments = parser.parse_args()
    for dataset in arguments.datasets:
        started = time.perf_counter()
        documents, queries, gains = read(dataset)
        texts, questions = list(documents.values()), list(queries.values())
        dense = dense_ranking(arguments.model, texts, questions, arguments.query_prefix, arguments.passage_prefix)
        lexical = lexical_ranking(texts, questions)
        rankings = {"dense": dense, "lexical": lexical, "hybrid": fused_ranking([dense, lexical], len(texts))}
        for mode, ranking in rankings.items():
            scores = measure(ranking, list(documents), list(queries), gains)
            print(json.dumps({"dataset": dataset.name, "mode": mode, **scores}), flush=True)
            if arguments.save:
                arguments.save.mkdir(parents=True, exist_ok=True)
                np.save(arguments.save / f"{dataset.name}-{mode}.npy", ranking)
        print(json.dumps({"dataset": dataset.name, "seconds": round(time.perf_counter() - started, 1)}), flush=True)


if __name__ == "__main__":
    main()
